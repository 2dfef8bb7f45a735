/* Kernels other than convolutions: inner loops on raw pointers. They never allocate, never fail and do not use
 * tensors. Every kernel has the signature (const args *, zn_range), so threading is implemented once. Any split of
 * the range gives the same bits. Reductions use blocks of a fixed size, so their results do not depend on the thread
 * count either. */
#ifndef ZN_KERNELS_H
#define ZN_KERNELS_H

#include "base/threads.h"
#include "kernels/type.h"

#include <stdbool.h>
#include <stdint.h>

/* y[i] = f(x[i]); units are elements. The gradients compute dx[i] = dy[i] * f'. The output may alias x or y. */
typedef struct zn_unary_args {
    const float *x; /* gradients: the value named below */
    const float *dy;
    float *y;
    float a, b;   /* parameters of the function */
    zn_type type; /* of x, dy and y; the CPU's kernels know F32 only, here and below (see narrow.h) */
} zn_unary_args;
void zn_k_relu(const void *unary_args, zn_range elements);
void zn_k_relu_grad(const void *unary_args, zn_range elements);       /* x = output of the forward */
void zn_k_soft_clamp(const void *unary_args, zn_range elements);      /* a * tanh(x / a) */
void zn_k_soft_clamp_grad(const void *unary_args, zn_range elements); /* x = output of the forward */
void zn_k_clamp(const void *unary_args, zn_range elements);           /* min(max(x, a), b) */
void zn_k_clamp_grad(const void *unary_args, zn_range elements);      /* x = input of the forward */
void zn_k_gelu(const void *unary_args, zn_range elements);            /* x (1 + erf(x / sqrt 2)) / 2 */
void zn_k_gelu_grad(const void *unary_args, zn_range elements);       /* x = input of the forward */
void zn_k_silu(const void *unary_args, zn_range elements);            /* x / (1 + exp(-x)) */
void zn_k_silu_grad(const void *unary_args, zn_range elements);       /* x = input of the forward */
void zn_k_positive(const void *unary_args, zn_range elements);        /* 1 where x > 0, else 0 */
void zn_k_scale(const void *unary_args, zn_range elements);           /* a * x */
void zn_k_exp(const void *unary_args, zn_range elements);
void zn_k_copy(const void *unary_args, zn_range elements);       /* y = x */
void zn_k_fill(const void *unary_args, zn_range elements);       /* y = a */
void zn_k_accumulate(const void *unary_args, zn_range elements); /* y += x */

/* y = a + b, units are elements; y may be a or b. */
typedef struct zn_binary_args {
    const float *a, *b;
    float *y;
    zn_type type; /* of all three */
} zn_binary_args;
void zn_k_add(const void *binary_args, zn_range elements);
void zn_k_sub(const void *binary_args, zn_range elements);
void zn_k_multiply(const void *binary_args, zn_range elements);
void zn_k_multiply_scalar(const void *binary_args, zn_range elements); /* y = a * b[0]; y is not b */

/* Nearest x2 upsampling: y[n][2h][2w][c]. Its gradient sums the four output pixels of each input pixel. Units are
 * rows of the large map for the forward pass, rows of the small map for the gradient. `h`, `w` are the small sizes. */
typedef struct zn_resample_args {
    const float *x;
    float *y;
    int h, w, c;
    bool mean;    /* the gradient: a quarter of the sum */
    zn_type type; /* of both */
} zn_resample_args;
void zn_k_upsample2(const void *resample_args, zn_range rows);
void zn_k_upsample2_grad(const void *resample_args, zn_range rows);
/* y = x with a zero inserted after every element along both axes: [n][2h][2w][c]; the last row and column are zero.
 * Units are rows of the large map. */
void zn_k_dilate2(const void *resample_args, zn_range rows);

/* y[block][c] = sum of x[row][c] over the ZN_SUM_ROWS rows of a block; units are blocks. zn_k_sum_partials adds the
 * blocks. Also used for the mean square error. */
typedef struct zn_reduce_args {
    const float *x, *b;
    float *y;
    int64_t rows;
    int c;
    zn_type type; /* of x */
} zn_reduce_args;
enum { ZN_SUM_ROWS = 256 };
void zn_k_channel_sum(const void *reduce_args, zn_range blocks);
/* y[block] = sum of (x-b)^2 over a block of ZN_REDUCE_BLOCK elements; units are blocks; rows = number of elements. */
enum { ZN_REDUCE_BLOCK = 1 << 14 };
static inline int64_t zn_reduce_blocks(int64_t count) { return (count + ZN_REDUCE_BLOCK - 1) / ZN_REDUCE_BLOCK; }
void zn_k_square_difference(const void *reduce_args, zn_range blocks);

/* Huber loss, linear beyond the knee (knee 0: absolute differences). Units are blocks of ZN_REDUCE_BLOCK elements. */
typedef struct zn_distance_args {
    const float *a, *b;
    const float *dy; /* gradient: scalar */
    float *y;        /* one sum per block; gradient: da, units are elements */
    int64_t count;
    float knee;
} zn_distance_args;
void zn_k_distance(const void *distance_args, zn_range blocks);
void zn_k_distance_grad(const void *distance_args, zn_range elements);

/* Mean structural similarity of each plane (one channel of one image) of [n][h][w][c]; see ref/loss/ssim.c. Units are
 * planes. The scratch of the range must hold zn_ssim_scratch bytes. */
enum { ZN_SSIM_WINDOW = 11 };
typedef struct zn_ssim_args {
    const float *a, *b;
    const float *dy; /* gradient: scalar, gradient of each plane's mean */
    float *y;        /* one mean per plane; gradient: da */
    int h, w, c;
    float *maps; /* zn_ssim_maps bytes; only devices use it */
} zn_ssim_args;
size_t zn_ssim_scratch(int h, int w);
size_t zn_ssim_maps(int64_t planes, int h, int w);
void zn_k_ssim(const void *ssim_args, zn_range planes);
void zn_k_ssim_grad(const void *ssim_args, zn_range planes);

/* y[i] = sum over blocks of partial[block][i], in block order; units are elements; c = blocks, rows = elements. */
void zn_k_sum_partials(const void *reduce_args, zn_range elements);

/* w [kh][kw][i][o] -> flipped and transposed [kh][kw][o][i]; units are kernel taps. */
typedef struct zn_flip_args {
    const float *w;
    float *y;
    int taps, cin, cout;
} zn_flip_args;
void zn_k_flip_weights(const void *flip_args, zn_range taps);

/* 3x3 median in each channel of feature maps [n][h][w][c], with edge pixels repeated. Units are rows of all images.
 * The gradient goes to the first neighbour that equals the median; its units are images. */
typedef struct zn_median_args {
    const float *x;
    const float *dy; /* gradient */
    float *y;        /* gradient: dx */
    int h, w, c;
} zn_median_args;
void zn_k_median3(const void *median_args, zn_range rows);
void zn_k_median3_grad(const void *median_args, zn_range images);

#endif
