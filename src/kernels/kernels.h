/* Kernels other than convolutions: inner loops on raw pointers. They never allocate, never fail and know no tensor.
 * Every one has the shape (const args *, zn_range), so threading is written once; any split of the range gives the
 * same bits. Reductions work on blocks of a fixed size, so they do not depend on the thread count either. */
#ifndef ZN_KERNELS_H
#define ZN_KERNELS_H

#include "base/threads.h"

#include <stdbool.h>
#include <stdint.h>

/* y[i] = f(x[i]), units are elements. In the gradients, dx[i] = dy[i] * f'. x or y may be the output. */
typedef struct zn_unary_args {
    const float *x; /* for gradients: the value named below */
    const float *dy;
    float *y;
    float a, b; /* parameters of the function */
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

/* y = a + b, units are elements; y may be a or b. */
typedef struct zn_binary_args {
    const float *a, *b;
    float *y;
} zn_binary_args;
void zn_k_add(const void *binary_args, zn_range elements);
void zn_k_sub(const void *binary_args, zn_range elements);
void zn_k_multiply(const void *binary_args, zn_range elements);

/* Nearest x2: y[n][2h][2w][c]; its gradient sums the four children. Units are rows of the large map for the forward,
 * rows of the small map for the gradient. `h`, `w` are the small sizes. */
typedef struct zn_resample_args {
    const float *x;
    float *y;
    int h, w, c;
} zn_resample_args;
void zn_k_upsample2(const void *resample_args, zn_range rows);
void zn_k_upsample2_grad(const void *resample_args, zn_range rows);
/* y = x with a zero after every element of both axes: [n][2h][2w][c], last row and column zero. Units: large rows. */
void zn_k_dilate2(const void *resample_args, zn_range rows);

/* y[block][c] = sum of x[row][c] over the rows of a block, ZN_SUM_ROWS of them; units are blocks. zn_k_sum_partials
 * adds the blocks up. Also the mean square of a difference. */
typedef struct zn_reduce_args {
    const float *x, *b;
    float *y;
    int64_t rows;
    int c;
} zn_reduce_args;
enum { ZN_SUM_ROWS = 256 };
void zn_k_channel_sum(const void *reduce_args, zn_range blocks);
/* y[block] = sum of (x-b)^2 over block of ZN_REDUCE_BLOCK elements; units are blocks; rows = number of elements. */
enum { ZN_REDUCE_BLOCK = 1 << 14 };
void zn_k_square_difference(const void *reduce_args, zn_range blocks);

/* Huber's distance, linear beyond the knee (0: plain absolute differences). Units: blocks of ZN_REDUCE_BLOCK elements.
 */
typedef struct zn_distance_args {
    const float *a, *b;
    const float *dy; /* gradient: scalar */
    float *y;        /* a sum for each block; gradient: da, units are elements */
    int64_t count;
    float knee;
} zn_distance_args;
void zn_k_distance(const void *distance_args, zn_range blocks);
void zn_k_distance_grad(const void *distance_args, zn_range elements);

/* Mean structural similarity of each plane (channel of an image) of [n][h][w][c]; see ref/ssim.c. Units are planes.
 * The range's scratch holds zn_ssim_scratch bytes. */
enum { ZN_SSIM_WINDOW = 11 };
typedef struct zn_ssim_args {
    const float *a, *b;
    const float *dy; /* gradient: scalar, of each plane's mean */
    float *y;        /* a mean for each plane; gradient: da */
    int h, w, c;
} zn_ssim_args;
size_t zn_ssim_scratch(int h, int w);
void zn_k_ssim(const void *ssim_args, zn_range planes);
void zn_k_ssim_grad(const void *ssim_args, zn_range planes);

/* y[i] = sum over blocks of partial[block][i], in block order; units are elements; c = blocks, rows = elements. */
void zn_k_sum_partials(const void *reduce_args, zn_range elements);

/* w [kh][kw][i][o] -> flipped and transposed [kh][kw][o][i]; units are taps. */
typedef struct zn_flip_args {
    const float *w;
    float *y;
    int taps, cin, cout;
} zn_flip_args;
void zn_k_flip_weights(const void *flip_args, zn_range taps);

/* Median of 3x3 in each channel of maps [n][h][w][c], the edge pixel repeated; units are rows of all images. Its
 * gradient goes to the first neighbour that is the median; units are images. */
typedef struct zn_median_args {
    const float *x;
    const float *dy; /* gradient */
    float *y;        /* gradient: dx */
    int h, w, c;
} zn_median_args;
void zn_k_median3(const void *median_args, zn_range rows);
void zn_k_median3_grad(const void *median_args, zn_range images);

/* One step of Adam over elements: m, v moments; v_max for amsgrad, else NULL. decay shrinks the weights themselves
 * (AdamW), penalty is added to the gradient. corrections: 1 - beta^t. */
typedef struct zn_adam_args {
    float *w, *m, *v, *v_max;
    const float *g;
    float lr, beta1, beta2, eps, decay, penalty, correction1, correction2;
} zn_adam_args;
void zn_k_adam(const void *adam_args, zn_range elements);

/* One step of gradient descent: m the momentum's memory, or NULL without. */
typedef struct zn_sgd_args {
    float *w, *m;
    const float *g;
    float lr, momentum, penalty;
    bool nesterov;
} zn_sgd_args;
void zn_k_sgd(const void *sgd_args, zn_range elements);

#endif
