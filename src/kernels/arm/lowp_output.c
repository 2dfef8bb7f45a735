/* Output side of the reduced-precision convolutions: the fp32 output transform with bias, residual and ReLU. */
#include "kernels/arm/lowp.h"
#include "kernels/arm/two.h"

#include <math.h>

enum { MAX_STEP = 7 };

typedef struct factors {
    float32x4_t quarter, half, four, sixteen, sixteenth;
} factors;

ZN_INLINE factors factors_of(void)
{
    return (factors){ .quarter = two_factor(0.25f),
                      .half = two_factor(0.5f),
                      .four = two_factor(4),
                      .sixteen = two_factor(16),
                      .sixteenth = two_factor(0.0625f) };
}

/* A^T along one axis: 8 products to 6 outputs, or 7 for two taps. The infinite point belongs to the last output. */
ZN_INLINE void backward(factors k, const two m[8], int step, two y[MAX_STEP])
{
    const two s1 = two_add(m[1], m[2]), d1 = two_sub(m[1], m[2]);
    const two s2 = two_add(m[3], m[4]), d2 = two_sub(m[3], m[4]);
    const two s3 = two_add(m[5], m[6]), d3 = two_sub(m[5], m[6]);
    const two twice = two_add(d2, d2), half = two_times(d3, k.half);
    y[0] = two_add(two_add(m[0], s1), two_add(s2, s3));
    y[1] = two_add(two_add(d1, twice), half);
    y[2] = two_add_times(two_add_times(s1, s2, k.four), s3, k.quarter);
    y[3] = two_add_times(two_add_times(d1, twice, k.four), half, k.quarter);
    y[4] = two_add_times(two_add_times(s1, s2, k.sixteen), s3, k.sixteenth);
    y[5] = two_add_times(two_add_times(d1, twice, k.sixteen), half, k.sixteenth);
    if (step == 6)
        y[5] = two_add(y[5], m[7]);
    else
        y[6] = two_add(two_add_times(two_add_times(s1, s2, vdupq_n_f32(64)), s3, vdupq_n_f32(0.015625f)), m[7]);
}

/* Where the outputs of one tile and one phase go: row k is there if bit k of rows is set, and so along the row. */
typedef struct place {
    int64_t first, row, pixel; /* into y and residual; first may lie outside */
    unsigned rows, pixels;     /* bits of the outputs that lie in the picture */
} place;

static unsigned inside(int first, int by, int step, int size)
{
    unsigned bits = 0;
    for (int k = 0; k < step; k++)
        bits |= (unsigned)(first + k * by >= 0 && first + k * by < size) << k;
    return bits;
}

static place place_of(const zn_conv_args *a, const zn_lowp_grid *g, int64_t tile, int phase, int channel)
{
    const zn_conv_shape *s = &a->s;
    const zn_lowp_place at = zn_lowp_place_of(g, tile);
    const int by = s->up2 ? 2 : 1;
    const int y0 = at.y * g->step * by - phase / 2, x0 = at.x * g->step * by - phase % 2;
    return (place){ .first = ((at.image * s->oh + y0) * s->ow + x0) * s->cout + channel,
                    .row = (int64_t)by * s->ow * s->cout,
                    .pixel = (int64_t)by * s->cout,
                    .rows = inside(y0, by, g->step, s->oh),
                    .pixels = inside(x0, by, g->step, s->ow) };
}

/* Four columns of one of the tiles. */
ZN_INLINE float32x4_t half(two v, int which)
{
    const float64x2_t x = vreinterpretq_f64_f32(v.val[0]), y = vreinterpretq_f64_f32(v.val[1]);
    return vreinterpretq_f32_f64(which ? vzip2q_f64(x, y) : vzip1q_f64(x, y));
}

/* Down column j, all columns of the product: t[q][j][k] from m[8j + i]. */
ZN_INLINE void down(factors f, const float *m, int ncols, int pairs, int j, const float32x4_t *bias, int step,
                    float32x4_t (*t)[8][MAX_STEP])
{
    for (int q = 0; q < pairs; q += 2) {
        two in[8], out[MAX_STEP];
        for (int i = 0; i < 8; i++)
            in[i] = two_load(m + (j * 8 + i) * (ncols * 2 + 4) + q * 4, 4);
        if (bias)
            in[1] = two_add(in[1], two_of(bias[q], bias[q + 1]));
        backward(f, in, step, out);
        for (int k = 0; k < step; k++)
            t[q][j][k] = out[k].val[0], t[q + 1][j][k] = out[k].val[1];
    }
}

/* Along output row k, four columns: out has two columns each of both tiles. */
ZN_INLINE void along(factors f, float32x4_t (*t)[8][MAX_STEP], int k, int step, two out[MAX_STEP])
{
    two in[8];
    for (int j = 0; j < 8; j++)
        in[j] = two_of(t[0][j][k], t[1][j][k]);
    backward(f, in, step, out);
}

/* Two whole tiles, channels a multiple of 4. */
ZN_INLINE void whole(const zn_conv_args *a, const place p[2], int channels, int step, bool add,
                     float32x4_t (*t)[8][MAX_STEP])
{
    const float32x4_t floor = vdupq_n_f32(a->relu ? 0 : -INFINITY); /* FMAX passes NaN on */
    const factors f = factors_of();
    for (int k = 0; k < step; k++)
        for (int c = 0; c < channels; c += 4) {
            two out[MAX_STEP];
            along(f, t + c / 2, k, step, out);
            for (int i = 0; i < 2; i++) {
                const int64_t at = p[i].first + k * p[i].row + c;
                for (int l = 0; l < step; l++) {
                    float32x4_t v = half(out[l], i);
                    if (add)
                        v = vaddq_f32(v, vld1q_f32(&a->residual[at + l * p[i].pixel]));
                    vst1q_f32(&a->y[at + l * p[i].pixel], vmaxq_f32(v, floor));
                }
            }
        }
}

/* Up to four channels of one pixel. */
static void few(const zn_conv_args *a, int64_t at, int channels, float32x4_t v)
{
    float out[4];
    vst1q_f32(out, v);
    for (int e = 0; e < channels; e++) {
        const float sum = out[e] + (a->residual ? a->residual[at + e] : 0);
        a->y[at + e] = a->relu && sum < 0 ? 0 : sum;
    }
}

/* Tiles that stick out of the picture, or channels that are no multiple of 4. */
ZN_INLINE void partly(const zn_conv_args *a, const place p[2], int channels, int step, float32x4_t (*t)[8][MAX_STEP])
{
    const float32x4_t floor = vdupq_n_f32(a->relu ? 0 : -INFINITY);
    const factors f = factors_of();
    for (int k = 0; k < step; k++)
        for (int c = 0; c < channels; c += 4) {
            two out[MAX_STEP];
            along(f, t + c / 2, k, step, out);
            for (int i = 0; i < 2; i++) {
                const unsigned pixels = p[i].rows >> k & 1 ? p[i].pixels : 0;
                const int64_t at = p[i].first + k * p[i].row + c;
                for (int l = 0; l < step; l++) {
                    if (!(pixels >> l & 1))
                        continue;
                    float32x4_t v = half(out[l], i);
                    if (channels - c < 4) {
                        few(a, at + l * p[i].pixel, channels - c, v);
                        continue;
                    }
                    if (a->residual)
                        v = vaddq_f32(v, vld1q_f32(&a->residual[at + l * p[i].pixel]));
                    vst1q_f32(&a->y[at + l * p[i].pixel], vmaxq_f32(v, floor));
                }
            }
        }
}

ZN_INLINE void transform(const zn_conv_args *a, const place p[2], const float *bias, int channels, int step, int ncols,
                         const float *m)
{
    /* A constant is its own transform at the point (1, 1), so bias goes in there. */
    float32x4_t t[ZN_LOWP_COLS / 2][8][MAX_STEP], b[ZN_LOWP_COLS / 2];
    const int pairs = (channels + 3) / 4 * 2;
    for (int q = 0; q < pairs; q++) {
        const float b0 = bias && 2 * q < channels ? bias[2 * q] : 0,
                    b1 = bias && 2 * q + 1 < channels ? bias[2 * q + 1] : 0;
        b[q] = (float32x4_t){ b0, b1, b0, b1 };
    }
    const factors f = factors_of();
    for (int j = 0; j < 8; j++)
        down(f, m, ncols, pairs, j, j == 1 ? b : NULL, step, t);
    const unsigned all = (1u << step) - 1;
    if ((p[0].rows & p[0].pixels & p[1].rows & p[1].pixels) != all || channels % 4)
        partly(a, p, channels, step, t);
    else if (a->residual)
        whole(a, p, channels, step, true, t);
    else
        whole(a, p, channels, step, false, t);
}

void zn_lowp_output(const zn_conv_args *a, const zn_lowp_grid *g, const int64_t tile[2], int col, int ncols,
                    const float *m)
{
    const int each = g->cols / g->phases;
    const int phase = col / each, channel = col % each;
    const int channels = a->s.cout - channel < ncols ? a->s.cout - channel : ncols;
    place p[2] = { place_of(a, g, tile[0], phase, channel), place_of(a, g, tile[1], phase, channel) };
    if (tile[0] == tile[1])
        p[1].rows = 0;
    const float *bias = a->bias ? a->bias + channel : NULL;
    if (g->step == 6)
        transform(a, p, bias, channels, 6, ncols, m);
    else
        transform(a, p, bias, channels, 7, ncols, m);
}

void zn_lowp_ahead(const zn_conv_args *a, const zn_lowp_grid *g, int64_t first, int tiles, int col, const float **at,
                   int count)
{
    const int each = g->cols / g->phases;
    int n = 0;
    for (int t = 0; t < tiles; t++) {
        const place p = place_of(a, g, first + t, col / each, col % each);
        for (int k = 0; k < g->step; k++)
            for (int l = 0; l < g->step && (p.rows >> k & 1); l++)
                if ((p.pixels >> l & 1) && n < count)
                    at[n++] = &a->y[p.first + k * p.row + l * p.pixel];
    }
    while (n < count)
        at[n++] = a->y;
}
