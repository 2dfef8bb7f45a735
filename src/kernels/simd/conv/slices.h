/* A direct convolution with heavy weights for few pixels: a slice of a panel of weights that fits in L1 is multiplied
 * with all pixels of a unit, and meanwhile the next slice is fetched. Also how direct convolutions store their sums. */
#ifndef ZN_SLICES_H
#define ZN_SLICES_H

#include "kernels/conv.h"
#include "kernels/simd/conv/gemm.h"

/* The pixels of a unit. Their multipliers lie in a patch of the input: lines with zeros for the edges, from line
 * `first` of all lines of the batch on. */
typedef struct unit_pixels {
    int high, stride, pad; /* lines of an image; of rows */
    int rows, wide;        /* outputs of an image */
    int64_t row, end_row;  /* rows of outputs, of all images */
    const float *patch;
    int64_t first, line; /* line: floats */
} unit_pixels;

/* The lines [first, end) that kernels of kh rows read; pad < kh. */
static inline void unit_lines(const unit_pixels *u, int kh, int64_t *first, int64_t *end)
{
    const int64_t top = u->row % u->rows * u->stride - u->pad;
    const int64_t below = (u->end_row - 1) % u->rows * u->stride - u->pad + kh;
    *first = u->row / u->rows * u->high + (top < 0 ? 0 : top);
    *end = (u->end_row - 1) / u->rows * u->high + (below < u->high ? below : u->high);
}

/* c[pixels][width] = the products with b[kh][k][width], k multipliers of a row of the kernel: a multiple of VEC_STEP.
 */
static inline void multiply_slices(const unit_pixels *u, const float *b, int kh, int k, int cin, int width, float *c)
{
    enum { SLICE = 16 << 10 };
    const int slices = (k * width * (int)sizeof(float) + SLICE - 1) / SLICE, steps = k / VEC_STEP;
    for (int64_t i = 0; i < (u->end_row - u->row) * u->wide * width; i += VEC_LANES)
        vec_store(c + i, vec_splat(-0.0f)); /* as in gemm.h */
    for (int i = 0; i < kh * slices; i++) {
        const int ky = i / slices, from = (int)((int64_t)(i % slices) * steps / slices) * VEC_STEP;
        const int end = (int)((int64_t)(i % slices + 1) * steps / slices) * VEC_STEP;
        gemm_args g = { .b = b + (int64_t)(ky * k + from) * width,
                        .row = (int64_t)u->stride * cin,
                        .c_row = width,
                        .segments = 1,
                        .k = end - from,
                        .depth = kh * k,
                        .more = true };
        for (int64_t row = u->row; row < u->end_row; row++) {
            const int64_t y = row % u->rows * u->stride - u->pad + ky, at = (row - u->row) * u->wide;
            if (y < 0 || y >= u->high)
                continue;
            g.a = u->patch + (row / u->rows * u->high + y - u->first) * u->line + from;
            g.c = c + at * width;
            g.ahead = GEMM_FETCHES || at >= width ? NULL : g.b + (int64_t)g.k * width + at * g.k;
            ZN_KERNEL(gemm)(&g, u->wide, width);
        }
    }
}

/* y = act(c + bias + residual) for a run of n floats at `at`; may read past the end of c, up to a whole vector. */
VEC_INLINE void finish_run(const zn_conv_args *a, const float *c, const float *bias, int n, int64_t at)
{
    const vec floor = vec_splat(a->relu ? 0 : -__builtin_inff());
    int j = 0;
    for (; j + VEC_LANES <= n; j += VEC_LANES) {
        vec v = vec_load(c + j);
        if (bias)
            v = v + vec_load(bias + j);
        if (a->residual)
            v = v + vec_load(a->residual + at + j);
        vec_store(a->y + at + j, vec_max(v, floor));
    }
    if (j < n) {
        vec v = vec_load(c + j);
        if (bias)
            v = v + vec_load_part(bias + j, n - j);
        if (a->residual)
            v = v + vec_load_part(a->residual + at + j, n - j);
        vec_store_part(a->y + at + j, vec_max(v, floor), n - j);
    }
}

#endif
