/* Output side of the reduced-precision convolutions: the fp32 output transform with bias, residual and ReLU. */
#include "kernels/arm/lowp.h"

#include <arm_neon.h>
#include <math.h>

#define INLINE static inline __attribute__((always_inline))

enum { MAX_STEP = 7 };

/* A^T along one axis: 8 products to 6 outputs, or 7 for two taps. The infinite point belongs to the last output. */
INLINE void backward(const float32x4_t m[8], int step, float32x4_t y[MAX_STEP])
{
    const float32x4_t s1 = vaddq_f32(m[1], m[2]), d1 = vsubq_f32(m[1], m[2]);
    const float32x4_t s2 = vaddq_f32(m[3], m[4]), d2 = vsubq_f32(m[3], m[4]);
    const float32x4_t s3 = vaddq_f32(m[5], m[6]), d3 = vsubq_f32(m[5], m[6]);
    y[0] = vaddq_f32(vaddq_f32(m[0], s1), vaddq_f32(s2, s3));
    y[1] = vfmaq_n_f32(vfmaq_n_f32(d1, d2, 2.0f), d3, 0.5f);
    y[2] = vfmaq_n_f32(vfmaq_n_f32(s1, s2, 4.0f), s3, 0.25f);
    y[3] = vfmaq_n_f32(vfmaq_n_f32(d1, d2, 8.0f), d3, 0.125f);
    y[4] = vfmaq_n_f32(vfmaq_n_f32(s1, s2, 16.0f), s3, 0.0625f);
    y[5] = vfmaq_n_f32(vfmaq_n_f32(d1, d2, 32.0f), d3, 0.03125f);
    if (step == 6)
        y[5] = vaddq_f32(y[5], m[7]);
    else
        y[6] = vaddq_f32(vfmaq_n_f32(vfmaq_n_f32(s1, s2, 64.0f), s3, 0.015625f), m[7]);
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

INLINE float32x4_t half(float32x4_t a, float32x4_t b, int which)
{
    const float64x2_t x = vreinterpretq_f64_f32(a), y = vreinterpretq_f64_f32(b);
    return vreinterpretq_f32_f64(which ? vzip2q_f64(x, y) : vzip1q_f64(x, y));
}

/* Down column j, all columns of the product: t[q][j][k] from m[8j + i]. */
INLINE void down(const float *m, int ncols, int pairs, int j, const float32x4_t *bias, int step,
                 float32x4_t (*t)[8][MAX_STEP])
{
    for (int q = 0; q < pairs; q++) {
        float32x4_t in[8], out[MAX_STEP];
        for (int i = 0; i < 8; i++)
            in[i] = vld1q_f32(m + (j * 8 + i) * (ncols * 2 + 4) + q * 4);
        if (bias)
            in[1] = vaddq_f32(in[1], bias[q]);
        backward(in, step, out);
        for (int k = 0; k < step; k++)
            t[q][j][k] = out[k];
    }
}

/* Along output row k, four columns: lo and hi are two columns each of both tiles. */
INLINE void along(float32x4_t (*t)[8][MAX_STEP], int k, int step, float32x4_t *lo, float32x4_t *hi)
{
    float32x4_t in[8];
    for (int j = 0; j < 8; j++)
        in[j] = t[0][j][k];
    backward(in, step, lo);
    for (int j = 0; j < 8; j++)
        in[j] = t[1][j][k];
    backward(in, step, hi);
}

/* Two whole tiles, channels a multiple of 4. */
INLINE void whole(const zn_conv_args *a, const place p[2], int channels, int step, bool add,
                  float32x4_t (*t)[8][MAX_STEP])
{
    const float32x4_t floor = vdupq_n_f32(a->relu ? 0 : -INFINITY); /* FMAX passes NaN on */
    for (int k = 0; k < step; k++)
        for (int c = 0; c < channels; c += 4) {
            float32x4_t lo[MAX_STEP], hi[MAX_STEP];
            along(t + c / 2, k, step, lo, hi);
            for (int i = 0; i < 2; i++) {
                const int64_t at = p[i].first + k * p[i].row + c;
                for (int l = 0; l < step; l++) {
                    float32x4_t v = half(lo[l], hi[l], i);
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
INLINE void partly(const zn_conv_args *a, const place p[2], int channels, int step, float32x4_t (*t)[8][MAX_STEP])
{
    const float32x4_t floor = vdupq_n_f32(a->relu ? 0 : -INFINITY);
    for (int k = 0; k < step; k++)
        for (int c = 0; c < channels; c += 4) {
            float32x4_t lo[MAX_STEP], hi[MAX_STEP];
            along(t + c / 2, k, step, lo, hi);
            for (int i = 0; i < 2; i++) {
                const unsigned pixels = p[i].rows >> k & 1 ? p[i].pixels : 0;
                const int64_t at = p[i].first + k * p[i].row + c;
                for (int l = 0; l < step; l++) {
                    if (!(pixels >> l & 1))
                        continue;
                    float32x4_t v = half(lo[l], hi[l], i);
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

INLINE void transform(const zn_conv_args *a, const place p[2], const float *bias, int channels, int step, int ncols,
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
    for (int j = 0; j < 8; j++)
        down(m, ncols, pairs, j, j == 1 ? b : NULL, step, t);
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
