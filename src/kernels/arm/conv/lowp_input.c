/* Input side of the reduced-precision convolutions: tile grid, weight transform, and the fp32 input transform. */
#include "kernels/arm/conv/lowp.h"
#include "kernels/arm/two.h"

#include <string.h>

#define NEAR_2 (ZN_LOWP_NEAR * ZN_LOWP_NEAR)
#define FAR_2  (ZN_LOWP_FAR * ZN_LOWP_FAR)

static int round_up(int value, int unit) { return (value + unit - 1) / unit * unit; }

bool zn_lowp_supports(const zn_conv_shape *s)
{
    if (s->kh != 3 || s->kw != 3 || s->pad != 1 || s->cin % 16 || s->stride > 2 || (s->up2 && s->stride > 1))
        return false;
    /* with few outputs the input transform would not pay */
    return s->cout >= 16 && s->cin * (s->stride == 2 ? 4 : 1) <= ZN_LOWP_DEPTH;
}

zn_lowp_grid zn_lowp_grid_of(const zn_conv_shape *s, int points, int tiles)
{
    zn_lowp_grid g = { .points = points,
                       .step = s->up2 || s->stride == 2 ? points - 1 : points - 2,
                       .phases = s->up2 ? 4 : 1,
                       .parts = s->stride == 2 ? 4 : 1 };
    /* up2: tile t covers outputs 2 step t - 1 to 2 step (t + 1) - 2 */
    const int side = s->up2 ? 2 * g.step : g.step, before = s->up2;
    g.tall = (s->oh + before + side - 1) / side;
    g.wide = (s->ow + before + side - 1) / side;
    g.cols = g.phases * round_up(s->cout, 8);
    g.depth = g.parts * s->cin;
    g.tiles = (int64_t)s->n * g.tall * g.wide;
    const int64_t span = 2 * tiles, units = (g.tiles + span - 1) / span * 2; /* even, and of even size */
    g.unit = units ? (int)((g.tiles + 2 * units - 1) / (2 * units) * 2) : 2; /* a band may have no rows */
    return g;
}

static zn_lowp_place place_of(const zn_lowp_grid *g, int64_t tile)
{
    const int64_t each = (int64_t)g->tall * g->wide;
    const int in = (int)(tile % each), top = in / (2 * g->wide) * 2, rest = in % (2 * g->wide);
    const int rows = g->tall - top < 2 ? 1 : 2;
    return (zn_lowp_place){ .image = tile / each, .x = rest / rows, .y = top + rest % rows };
}

void zn_lowp_places(const zn_lowp_grid *g, int64_t first, int count, zn_lowp_place *p)
{
    for (int i = 0; i < count; i++)
        p[i] = place_of(g, first + i);
    if (count % 2)
        p[count] = p[count - 1];
}

int64_t zn_lowp_units(const zn_lowp_grid *g) { return (g->tiles + g->unit - 1) / g->unit; }
int zn_lowp_block(const zn_lowp_grid *g) { return g->phases == 4 ? 2 * g->step : g->step; }

int zn_lowp_chunk(const zn_lowp_grid *g, int col, int most)
{
    const int each = g->cols / g->phases, left = each - col % each;
    return left < most ? left : most;
}

/* Row p of G for `taps` weights: the value of polynomial g at point p of 8, divided by the product of the distances
 * between the points (and times 4 at +-1/2, see forward). */
static void evaluate(const double *g, int taps, double *u)
{
    static const double at[] = { 0, 1, -1, 2, -2, 0.5, -0.5 };
    static const double over[] = { 1, -4.5, -4.5, 90, 90, 45.0 / 128, 45.0 / 128 };
    enum { LAST = 7 };
    for (int p = 0; p < LAST; p++) {
        double sum = 0;
        for (int k = taps - 1; k >= 0; k--)
            sum = sum * at[p] + g[k];
        u[p] = sum / over[p];
    }
    u[LAST] = g[taps - 1];
}

/* The effective taps along one axis: for even and odd outputs of nearest x2 upsampling, for even and odd inputs of
 * stride 2, or the original three. */
static void fold(const zn_conv_shape *s, const double w[3], int parity, double g[3])
{
    g[0] = w[0], g[1] = w[1], g[2] = w[2];
    if (s->up2) {
        g[0] = parity ? w[0] + w[1] : w[0];
        g[1] = parity ? w[2] : w[1] + w[2];
    } else if (s->stride == 2) {
        g[0] = parity ? w[0] : 0;
        g[1] = parity ? w[2] : w[1];
    }
}

void zn_lowp_weights(const zn_conv_shape *s, const float *w, int channel, int column, float *u)
{
    enum { POINTS = 8 };
    const int each = round_up(s->cout, 8), out = column % each, in = channel % s->cin;
    const int phase = s->up2 ? column / each : channel / s->cin, taps = s->up2 || s->stride == 2 ? 2 : 3;
    memset(u, 0, POINTS * POINTS * sizeof *u);
    if (out >= s->cout)
        return;
    double rows[3][8], cols[8], g[3];
    for (int ky = 0; ky < 3; ky++) {
        double t[3];
        for (int kx = 0; kx < 3; kx++)
            t[kx] = (double)w[((int64_t)(ky * 3 + kx) * s->cin + in) * s->cout + out];
        fold(s, t, phase % 2, g);
        evaluate(g, taps, rows[ky]);
    }
    for (int j = 0; j < POINTS; j++) {
        fold(s, (double[3]){ rows[0][j], rows[1][j], rows[2][j] }, phase / 2, g);
        evaluate(g, taps, cols);
        for (int i = 0; i < POINTS; i++)
            u[j * POINTS + i] = (float)cols[i];
    }
}

typedef struct factors {
    float32x4_t eighth, quarter, half, nine_4, twenty_one_4; /* for 8 points */
    float32x4_t near, far, near_2, far_2, both;              /* for 6 points */
} factors;

ZN_INLINE factors factors_of(int points)
{
    if (points == 8)
        return (factors){ .eighth = two_factor(0.125f),
                          .quarter = two_factor(0.25f),
                          .half = two_factor(0.5f),
                          .nine_4 = two_factor(2.25f),
                          .twenty_one_4 = two_factor(5.25f) };
    return (factors){ .near = two_factor((float)ZN_LOWP_NEAR),
                      .far = two_factor((float)ZN_LOWP_FAR),
                      .near_2 = two_factor((float)NEAR_2),
                      .far_2 = two_factor((float)FAR_2),
                      .both = two_factor((float)(NEAR_2 + FAR_2)) };
}

/* B^T along one axis for 8 points, with rows 5 and 6 divided by 4: for eight vectors from x, `step` apart, and for
 * the eight vectors at distance `stride`. */
ZN_INLINE void forward8(factors k, const float *x, int64_t step, int64_t stride, two d[8])
{
    const two x2 = two_load(x + 2 * step, stride), x4 = two_load(x + 4 * step, stride),
              x6 = two_load(x + 6 * step, stride);
    const two e = two_sub(x2, x4), g = two_sub(x6, x4);
    const two x1 = two_load(x + step, stride), x3 = two_load(x + 3 * step, stride), x5 = two_load(x + 5 * step, stride);
    const two u = two_sub(x1, x3), w = two_sub(x5, x3);
    const two a1 = two_sub_times(two_add(e, g), x4, k.nine_4), b1 = two_sub_times(two_add(u, w), x3, k.nine_4);
    d[0] = two_sub_times(two_sub(two_load(x, stride), x6), e, k.twenty_one_4);
    d[7] = two_sub_times(two_sub(two_load(x + 7 * step, stride), x1), w, k.twenty_one_4);
    d[1] = two_add(a1, b1);
    d[2] = two_sub(a1, b1);
    const two h = two_times(u, k.half);
    const two a2 = two_add(g, two_times(e, k.quarter)), b2 = two_add(h, two_add(w, w));
    d[3] = two_add(a2, b2);
    d[4] = two_sub(a2, b2);
    const two a3 = two_add(e, two_times(g, k.quarter)), b3 = two_add_times(h, w, k.eighth);
    d[5] = two_add(a3, b3);
    d[6] = two_sub(a3, b3);
}

/* The same for 6 points. Sums and products are separate: a Neoverse-V1 does four of either per cycle, but only two
 * multiply-adds that do not continue a chain of multiply-adds. */
ZN_INLINE void forward6(factors k, const float *x, int64_t step, int64_t stride, two d[6])
{
    const two x2 = two_load(x + 2 * step, stride), x4 = two_load(x + 4 * step, stride);
    const two n2 = two_times(x2, k.near_2);
    const two even_near = two_sub(x4, two_times(x2, k.far_2)), even_far = two_sub(x4, n2);
    d[0] = two_sub(two_add(two_load(x, stride), even_near), n2);
    const two x1 = two_load(x + step, stride), x3 = two_load(x + 3 * step, stride);
    const two odd_near = two_times(two_sub(x3, two_times(x1, k.far_2)), k.near);
    const two odd_far = two_times(two_sub(x3, two_times(x1, k.near_2)), k.far);
    d[1] = two_add(even_near, odd_near);
    d[2] = two_sub(even_near, odd_near);
    d[3] = two_add(even_far, odd_far);
    d[4] = two_sub(even_far, odd_far);
    d[5] = two_sub(two_add(two_load(x + 5 * step, stride), x1), two_times(x3, k.both));
}

ZN_INLINE void forward(int points, factors k, const float *x, int64_t step, int64_t stride, two *d)
{
    if (points == 8)
        forward8(k, x, step, stride, d);
    else
        forward6(k, x, step, stride, d);
}

/* Channels processed at a time: a cache line of each pixel. */
enum { GROUP = 16 };

/* Along one row of pixels: t[GROUP / 4][points][4]. Stores are sequential (scattered ones cost twice as much).
 * Prefetches the next row, and into L2 what the next tile to the right will need from this row. */
ZN_INLINE void along(int points, const float *x, int64_t pixel, const float *next, float *t)
{
    for (int j = 0; j < points; j++)
        __builtin_prefetch(next + j * pixel);
    for (int j = points; j < 2 * points - 2; j++)
        __builtin_prefetch(x + j * pixel, 0, 2);
    const factors k = factors_of(points);
#pragma GCC unroll 2
    for (int c = 0; c < GROUP; c += 8) {
        two d[8];
        forward(points, k, x + c, pixel, 4, d);
        for (int j = 0; j < points; j++)
            two_store(t + c * points + j * 4, points * 4, d[j]);
    }
}

/* Along column j of eight rows from t, into v, with the largest magnitude of each frequency. */
ZN_INLINE void down(const float *t, int64_t depth, int j, float *v, float32x4_t top[8])
{
    const factors k = factors_of(8);
    for (int i = 0; i < 8; i++)
        top[i] = vdupq_n_f32(0);
    for (int64_t c = 0; c < depth / 4; c += 2) {
        two d[8];
        forward8(k, t + c * 32 + j * 4, ZN_LOWP_ROW(8, depth), 32, d);
        for (int i = 0; i < 8; i++) {
            two_store(v + c * ZN_LOWP_V_STRIDE + i * 4, ZN_LOWP_V_STRIDE, d[i]);
            top[i] = vmaxq_f32(top[i], vmaxq_f32(vabsq_f32(d[i].val[0]), vabsq_f32(d[i].val[1])));
        }
    }
}

/* Along column j of the six rows of two tiles, from t and from `second` rows after it. */
ZN_INLINE void down_bf16(const float *t, int64_t second, int64_t depth, int j, uint16_t *v, int64_t stride)
{
    const factors k = factors_of(6);
    for (int64_t c = 0; c < depth / 4; c++) {
        two d[6];
        forward6(k, t + c * 24 + j * 4, ZN_LOWP_ROW(6, depth), second * ZN_LOWP_ROW(6, depth), d);
        for (int i = 0; i < 6; i++) /* the high halves of all values */
            vst1q_u16(v + c * stride + i * 8,
                      vuzp2q_u16(vreinterpretq_u16_f32(d[i].val[0]), vreinterpretq_u16_f32(d[i].val[1])));
    }
}

/* The channels of the pixel that begins with value `at` of the map. */
static void copy_pixel(const zn_conv_args *a, int64_t at, float *to)
{
    const int64_t channels = a->s.cin;
    if (a->x_type == ZN_TYPE_F32) {
        memcpy(to, a->x + at, sizeof *to * (size_t)channels);
        return;
    }
    const uint16_t *x = (const uint16_t *)(const void *)a->x + at;
    for (int64_t c = 0; c < channels; c += 8) {
        const uint16x8_t v = vld1q_u16(x + c);
        vst1q_f32(to + c, vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(v), 16)));
        vst1q_f32(to + c + 4, vreinterpretq_f32_u32(vshll_high_n_u16(v, 16)));
    }
}

/* `count` pixels from (y, x), `by` apart: NULL if the row is outside the image, copied to `edge` if part of it is, or
 * if the map is bf16. */
static const float *row_at(const zn_conv_args *a, int64_t image, int y, int x0, int by, int count, float *edge)
{
    const zn_conv_shape *s = &a->s;
    const int64_t channels = s->cin, row = (image * s->h + y) * s->w * channels;
    if (y < 0 || y >= s->h)
        return NULL;
    if (a->x_type == ZN_TYPE_F32 && x0 >= 0 && x0 + (count - 1) * by < s->w)
        return a->x + row + x0 * channels;
    for (int j = 0; j < count; j++) {
        const int at = x0 + j * by;
        if (at >= 0 && at < s->w)
            copy_pixel(a, row + at * channels, edge + j * by * channels);
        else
            memset(edge + j * by * channels, 0, sizeof *edge * (size_t)channels);
    }
    return edge;
}

/* Transforms one row of one part of the input; NULL: outside the image. */
static void transform_row(int points, const float *x, const float *next, int64_t pixel, int64_t channels, float *t)
{
    if (!x)
        memset(t, 0, sizeof *t * (size_t)(channels * points));
    else if (points == 8)
        for (int64_t c = 0; c < channels; c += GROUP)
            along(8, x + c, pixel, next + c, t + c * 8);
    else if (pixel == 64) /* the width of all current models: strides become part of the instructions */
        for (int64_t c = 0; c < 64; c += GROUP)
            along(6, x + c, 64, next + c, t + c * 6);
    else
        for (int64_t c = 0; c < channels; c += GROUP)
            along(6, x + c, pixel, next + c, t + c * 6);
}

int zn_lowp_rows(const zn_conv_args *a, const zn_lowp_grid *g, const zn_lowp_place p[2], float *edge, float *t)
{
    const bool below = p[1].image == p[0].image && p[1].x == p[0].x && p[1].y == p[0].y + 1;
    const int second = below ? g->step : g->points, count = second + g->points, by = g->parts == 4 ? 2 : 1;
    const int64_t pixel = (int64_t)by * a->s.cin;
    for (int part = 0; part < g->parts; part++) {
        const float *row[16];
        for (int i = 0; i < count; i++) {
            const zn_lowp_place *q = &p[i >= second];
            const int y = q->y * g->step - 1 + (i >= second ? i - second : i), x = q->x * g->step - 1;
            row[i] = row_at(a, q->image, y * by + part / 2, x * by + part % 2, by, g->points, edge + i * 8 * pixel);
        }
        for (int i = 0; i < count; i++)
            transform_row(g->points, row[i], i + 1 < count && row[i + 1] ? row[i + 1] : row[i], pixel, a->s.cin,
                          t + i * ZN_LOWP_ROW(g->points, g->depth) + part * a->s.cin * g->points);
    }
    return second;
}

void zn_lowp_column(const zn_lowp_grid *g, const float *t, int second, int j, float *const v[2], float peak[2][8])
{
    for (int i = 0; i < 2; i++) {
        float32x4_t top[8];
        if (g->depth == 64) /* the width of all current models: loops of known length */
            down(t + i * second * ZN_LOWP_ROW(8, 64), 64, j, v[i], top);
        else
            down(t + i * second * ZN_LOWP_ROW(8, g->depth), g->depth, j, v[i], top);
        for (int f = 0; f < 8; f += 4)
            vst1q_f32(peak[i] + f, vpmaxq_f32(vpmaxq_f32(top[f], top[f + 1]), vpmaxq_f32(top[f + 2], top[f + 3])));
    }
}

void zn_lowp_column_bf16(const zn_lowp_grid *g, const float *t, int second, int j, uint16_t *v, int64_t stride)
{
    if (g->depth == 64)
        down_bf16(t, second, 64, j, v, stride);
    else
        down_bf16(t, second, g->depth, j, v, stride);
}
