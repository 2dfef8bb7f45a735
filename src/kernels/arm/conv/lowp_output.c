/* Output side of the reduced-precision convolutions: the fp32 output transform with bias, residual and ReLU. */
#include "base/convert.h"
#include "kernels/arm/conv/lowp.h"
#include "kernels/arm/two.h"

#include <math.h>

enum { MAX_STEP = 7, MAX_VECTORS = 32 * 6 * 5 }; /* 64 columns of 6 points, for two taps; 32 of 8 points need less */

typedef struct factors {
    float32x4_t quarter, half, four, sixteen, sixteenth; /* for 8 points */
    float32x4_t near[5], far[5];                         /* for 6 points: their powers */
} factors;

ZN_INLINE factors factors_of(int points)
{
    if (points == 8)
        return (factors){ .quarter = two_factor(0.25f),
                          .half = two_factor(0.5f),
                          .four = two_factor(4),
                          .sixteen = two_factor(16),
                          .sixteenth = two_factor(0.0625f) };
    factors f = { 0 };
    double near = ZN_LOWP_NEAR, far = ZN_LOWP_FAR;
    for (int i = 1; i < 5; i++, near *= ZN_LOWP_NEAR, far *= ZN_LOWP_FAR)
        f.near[i] = two_factor((float)near), f.far[i] = two_factor((float)far);
    return f;
}

/* A^T along one axis: 6 products to 4 outputs, or 5 for two taps. The point at infinity contributes to the last
 * output. */
ZN_INLINE void backward6(factors k, const two m[6], int step, two y[5])
{
    const two s1 = two_add(m[1], m[2]), d1 = two_sub(m[1], m[2]);
    const two s2 = two_add(m[3], m[4]), d2 = two_sub(m[3], m[4]);
    y[0] = two_add(two_add(m[0], s1), s2);
    y[1] = two_add_times(two_times(d1, k.near[1]), d2, k.far[1]);
    y[2] = two_add_times(two_times(s1, k.near[2]), s2, k.far[2]);
    y[3] = two_add_times(two_times(d1, k.near[3]), d2, k.far[3]);
    if (step == 5)
        y[4] = two_add_times(two_times(s1, k.near[4]), s2, k.far[4]);
    y[step - 1] = two_add(y[step - 1], m[5]);
}

/* 8 products to 6 outputs, or 7 for two taps. */
ZN_INLINE void backward8(factors k, const two m[8], int step, two y[MAX_STEP])
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

ZN_INLINE void backward(int points, factors k, const two *m, int step, two *y)
{
    if (points == 8)
        backward8(k, m, step, y);
    else
        backward6(k, m, step, y);
}

/* Destination of the outputs of one tile and one phase: row k is inside the image if bit k of rows is set; the same
 * for pixels along the row. */
typedef struct place {
    int64_t first, row, pixel; /* offsets into y and residual; first may be outside */
    unsigned rows, pixels;     /* bits of the outputs inside the image */
} place;

static unsigned inside(int first, int by, int step, int size)
{
    unsigned bits = 0;
    if (first >= 0 && first + (step - 1) * by < size)
        return (1u << step) - 1;
    for (int k = 0; k < step; k++)
        bits |= (unsigned)(first + k * by >= 0 && first + k * by < size) << k;
    return bits;
}

static place place_of(const zn_conv_args *a, const zn_lowp_grid *g, zn_lowp_place at, int phase, int channel)
{
    const zn_conv_shape *s = &a->s;
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

/* A chunk of columns between the two halves of the transform: t[q][j][k], with two columns of both tiles in each. */
typedef struct half_way {
    float32x4_t *t;
    int points, step;
} half_way;

ZN_INLINE float32x4_t *half_way_at(half_way h, int64_t q, int j, int k)
{
    return h.t + q * h.points * h.step + j * h.step + k;
}

/* Along column j, for all columns of the product: t[q][j][k] from m[points * j + i]. Prefetches the next column. */
ZN_INLINE void down(factors f, const float *m, int64_t ncols, int pairs, int j, const float32x4_t *bias, half_way h)
{
    const int64_t row = ZN_LOWP_M_ROW(ncols);
    m += j * h.points * row;
#pragma GCC unroll 2
    for (int64_t q = 0; q < pairs; q += 2) {
        two in[8], out[MAX_STEP];
        if (h.points == 6 && q % 4 == 0)
            for (int i = 0; i < h.points; i++)
                __builtin_prefetch(m + (h.points + i) * row + q * 4);
        for (int i = 0; i < h.points; i++)
            in[i] = two_load(m + i * row + q * 4, 4);
        if (bias)
            in[1] = two_add(in[1], two_of(bias[q], bias[q + 1]));
        backward(h.points, f, in, h.step, out);
        for (int k = 0; k < h.step; k++)
            *half_way_at(h, q, j, k) = out[k].val[0], *half_way_at(h, q + 1, j, k) = out[k].val[1];
    }
}

/* Along output row k, for four columns from q: out has two columns each of both tiles. */
ZN_INLINE void along(factors f, half_way h, int64_t q, int k, two out[MAX_STEP])
{
    two in[8];
    for (int j = 0; j < h.points; j++)
        in[j] = two_of(*half_way_at(h, q, j, k), *half_way_at(h, q + 1, j, k));
    backward(h.points, f, in, h.step, out);
}

/* Four values of a map. */
ZN_INLINE float32x4_t load_values(const void *map, zn_type type, int64_t at)
{
    if (type == ZN_TYPE_F32)
        return vld1q_f32((const float *)map + at);
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16((const uint16_t *)map + at), 16));
}

/* Rounds to nearest, ties to even; NaN stays NaN. */
ZN_INLINE void store_values(void *map, zn_type type, int64_t at, float32x4_t v)
{
    if (type == ZN_TYPE_F32) {
        vst1q_f32((float *)map + at, v);
        return;
    }
    const uint32x4_t bits = vreinterpretq_u32_f32(v), odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    const uint32x4_t near = vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7fff)), odd);
    const uint32x4_t quiet = vorrq_u32(bits, vdupq_n_u32(1u << 22));
    vst1_u16((uint16_t *)map + at, vshrn_n_u32(vbslq_u32(vceqq_f32(v, v), near, quiet), 16));
}

/* Stores two whole tiles; channels is a multiple of 4. bias: if the transform did not add it, otherwise NULL. */
ZN_INLINE void whole(const zn_conv_args *a, const place p[2], int channels, const float *bias, bool add, half_way h)
{
    const float32x4_t floor = vdupq_n_f32(a->relu ? 0 : -INFINITY); /* FMAX propagates NaN */
    const factors f = factors_of(h.points);
    const ptrdiff_t residual = add ? (const char *)a->residual - (const char *)a->y : 0;
    for (int k = 0; k < h.step; k++) {
        float *y[2][MAX_STEP];
        for (int i = 0; i < 2; i++)
            for (int l = 0; l < h.step; l++)
                y[i][l] = a->y + p[i].first + k * p[i].row + l * p[i].pixel;
        for (int64_t c = 0; c < channels; c += 4) {
            two out[MAX_STEP];
            along(f, h, c / 2, k, out);
            const float32x4_t b = bias ? vld1q_f32(bias + c) : vdupq_n_f32(0);
            for (int i = 0; i < 2; i++)
                for (int l = 0; l < h.step; l++) {
                    float32x4_t v = half(out[l], i);
                    if (bias)
                        v = vaddq_f32(v, b);
                    if (add)
                        v = vaddq_f32(v,
                                      vld1q_f32((const float *)(const void *)((const char *)(y[i][l] + c) + residual)));
                    vst1q_f32(y[i][l] + c, vmaxq_f32(v, floor));
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
        const float more = !a->residual ? 0
                           : a->residual_type == ZN_TYPE_F32
                               ? a->residual[at + e]
                               : zn_bf16_to_f32(((const uint16_t *)(const void *)a->residual)[at + e]);
        const float sum = a->relu && out[e] + more < 0 ? 0 : out[e] + more;
        if (a->y_type == ZN_TYPE_F32)
            a->y[at + e] = sum;
        else
            ((uint16_t *)(void *)a->y)[at + e] = zn_f32_to_bf16(sum);
    }
}

/* Stores tiles that are partly outside the image, a number of channels that is not a multiple of 4, or maps of bf16. */
ZN_INLINE void partly(const zn_conv_args *a, const place p[2], int channels, const float *bias, half_way h)
{
    const float32x4_t floor = vdupq_n_f32(a->relu ? 0 : -INFINITY);
    const factors f = factors_of(h.points);
    for (int k = 0; k < h.step; k++)
        for (int c = 0; c < channels; c += 4) {
            two out[MAX_STEP];
            along(f, h, c / 2, k, out);
            float b[4] = { 0 };
            for (int e = 0; bias && e < 4 && c + e < channels; e++)
                b[e] = bias[c + e];
            for (int i = 0; i < 2; i++) {
                const unsigned pixels = p[i].rows >> k & 1 ? p[i].pixels : 0;
                const int64_t at = p[i].first + k * p[i].row + c;
                for (int l = 0; l < h.step; l++) {
                    if (!(pixels >> l & 1))
                        continue;
                    float32x4_t v = half(out[l], i);
                    if (bias)
                        v = vaddq_f32(v, vld1q_f32(b));
                    if (channels - c < 4) {
                        few(a, at + l * p[i].pixel, channels - c, v);
                        continue;
                    }
                    if (a->residual)
                        v = vaddq_f32(v, load_values(a->residual, a->residual_type, at + l * p[i].pixel));
                    store_values(a->y, a->y_type, at + l * p[i].pixel, vmaxq_f32(v, floor));
                }
            }
        }
}

ZN_INLINE void transform(const zn_conv_args *a, const place p[2], const float *bias, int channels, int points, int step,
                         int ncols, const float *m)
{
    float32x4_t t[MAX_VECTORS], b[ZN_LOWP_COLS / 2];
    const half_way h = { .t = t, .points = points, .step = step };
    const int pairs = (channels + 3) / 4 * 2;
    /* With a point at 1, a constant is its own transform at (1, 1), so the bias is added there; otherwise it is
     * added at the end. */
    const bool early = points == 8;
    for (int q = 0; early && q < pairs; q++) {
        const float b0 = bias && 2 * q < channels ? bias[2 * q] : 0,
                    b1 = bias && 2 * q + 1 < channels ? bias[2 * q + 1] : 0;
        b[q] = (float32x4_t){ b0, b1, b0, b1 };
    }
    const factors f = factors_of(points);
    for (int j = 0; j < points; j++)
        down(f, m, ncols, pairs, j, early && j == 1 ? b : NULL, h);
    const float *late = early ? NULL : bias;
    const unsigned all = (1u << step) - 1;
    const bool narrow = a->y_type != ZN_TYPE_F32 || (a->residual && a->residual_type != ZN_TYPE_F32);
    if ((p[0].rows & p[0].pixels & p[1].rows & p[1].pixels) != all || channels % 4 || narrow)
        partly(a, p, channels, late, h);
    else if (a->residual)
        whole(a, p, channels, late, true, h);
    else
        whole(a, p, channels, late, false, h);
}

void zn_lowp_output(const zn_conv_args *a, const zn_lowp_grid *g, const zn_lowp_place at[2], int col, int ncols,
                    const float *m)
{
    const int each = g->cols / g->phases;
    const int phase = col / each, channel = col % each;
    const int channels = a->s.cout - channel < ncols ? a->s.cout - channel : ncols;
    place p[2] = { place_of(a, g, at[0], phase, channel), place_of(a, g, at[1], phase, channel) };
    if (p[0].first == p[1].first) /* the same tile twice */
        p[1].rows = 0;
    const float *bias = a->bias ? a->bias + channel : NULL;
    if (g->step == 4 && channels == 64) /* the width of all current models: loops of known length */
        transform(a, p, bias, 64, 6, 4, 64, m);
    else if (g->step == 5 && channels == 64)
        transform(a, p, bias, 64, 6, 5, 64, m);
    else if (g->step == 4)
        transform(a, p, bias, channels, 6, 4, ncols, m);
    else if (g->step == 5)
        transform(a, p, bias, channels, 6, 5, ncols, m);
    else if (g->step == 6)
        transform(a, p, bias, channels, 8, 6, ncols, m);
    else
        transform(a, p, bias, channels, 8, 7, ncols, m);
}

void zn_lowp_ahead(const zn_conv_args *a, const zn_lowp_grid *g, const zn_lowp_place *tile, int tiles, int col,
                   const float **at, int count)
{
    const int each = g->cols / g->phases;
    const int64_t size = (int64_t)zn_type_size(a->y_type);
    int n = 0;
    for (int t = 0; t < tiles; t++) {
        const place p = place_of(a, g, tile[t], col / each, col % each);
        for (int k = 0; k < g->step && n + g->step <= count; k++) {
            for (int l = 0; l < g->step && p.rows >> k & 1; l++)
                if (p.pixels >> l & 1)
                    at[n++] = (float *)(void *)((char *)a->y + size * (p.first + k * p.row + l * p.pixel));
        }
    }
    while (n < count)
        at[n++] = a->y;
}
