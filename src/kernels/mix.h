/* Kernels of the Zenith blocks: products along an axis, taps over channels, grouped and depthwise convolutions,
 * rearrangements, RMS norm. Gradients that sum over pixels write one partial sum per block of pixels;
 * zn_k_sum_partials adds them in order. */
#ifndef ZN_KERNELS_MIX_H
#define ZN_KERNELS_MIX_H

#include "base/threads.h"
#include "kernels/type.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ZN_MIX_BLOCK = 1 << 10 };

/* Number of blocks for sums over pixels (or rows): enough for many threads, few enough that adding them is cheap. */
enum { ZN_SUM_BLOCKS = 64 };
static inline int64_t zn_sum_block(int64_t units) { return (units + ZN_SUM_BLOCKS - 1) / ZN_SUM_BLOCKS; }
static inline int64_t zn_sum_blocks(int64_t units)
{
    return units ? (units + zn_sum_block(units) - 1) / zn_sum_block(units) : 0;
}

/* The same where a GPU may run the sum, which needs more blocks to be busy. Kernels take the number of blocks from the
 * launch; a block has (units + blocks - 1) / blocks units. */
enum { ZN_SUM_BLOCKS_GPU = 512 };
static inline int64_t zn_sum_parts(int64_t units, bool gpu)
{
    const int64_t size = (units + ZN_SUM_BLOCKS_GPU - 1) / ZN_SUM_BLOCKS_GPU;
    return !gpu ? zn_sum_blocks(units) : units ? (units + size - 1) / size : 0;
}

static inline float zn_sign(float v) { return v > 0 ? 1.0f : v < 0 ? -1.0f : 0.0f; } /* 0 for NaN */

/* A tensor viewed as pixels of c channels. Each kernel uses only some of the pointers. */
typedef struct zn_mix_args {
    const float *x, *dy;
    const float *w, *b; /* parameters */
    float *y;
    float *partial; /* [blocks][parameters], zn_sum_blocks(pixels) blocks; RMS norm: zn_sum_parts */
    int64_t pixels;
    int c;
    float eps;
    float most;                      /* RMS norm: upper limit of the factor; infinity for no limit */
    zn_type x_type, dy_type, y_type; /* RMS norm; its gradient and scale_channels on a device; else F32 */
    float inverse; /* RMS norm with SiLU, y_type E4M3: y are codes of the results multiplied with it */
} zn_mix_args;

/* y[p][k] = x[p][k] + b[k]; units are pixels. */
void zn_k_add_channels(const void *mix_args, zn_range pixels);

/* Copies a range of channels of every pixel: y[p * to + skip + k] = x[p * from + k], k < count; units are pixels. */
typedef struct zn_channel_copy_args {
    const float *x;
    float *y;
    int from, to; /* channels per pixel */
    int count, skip;
    bool clear; /* set the other channels of y to 0 */
} zn_channel_copy_args;
void zn_k_copy_channels(const void *channel_copy_args, zn_range pixels);

/* y[p][k] = w[k] * x[p][k]; units are pixels. */
void zn_k_scale_channels(const void *mix_args, zn_range pixels);
/* partial[block][k] = sum of x * dy; units are blocks. */
void zn_k_scale_channels_grad(const void *mix_args, zn_range blocks);

/* y[k] = w[0][k] x[k-1] + w[1][k] x[k] + w[2][k] x[k+1], zero outside. The gradient with respect to w is [3][c]. */
void zn_k_taps(const void *mix_args, zn_range pixels);
void zn_k_taps_grad(const void *mix_args, zn_range pixels);
void zn_k_taps_param_grad(const void *mix_args, zn_range blocks);

/* y = x min(1 / sqrt(mean over channels of x^2 + eps), most) * w. The gradient kernel computes both in one pass: dx
 * in y, dw in partial. */
void zn_k_rms_norm(const void *mix_args, zn_range pixels);
void zn_k_rms_norm_silu(const void *mix_args, zn_range pixels); /* y of that / (1 + exp(-y)); for devices */
void zn_k_rms_norm_grad(const void *mix_args, zn_range blocks);

/* Grouped 1x1 convolution, weights [groups][cout/groups][cin/groups], bias [cout] or NULL. With `interleave` the
 * results of the groups alternate: y[j * groups + g] is output j of group g. Units of the weight gradient: blocks *
 * groups, with zn_sum_blocks(pixels) blocks. Each thread needs zn_grouped_scratch bytes. */
typedef struct zn_grouped_args {
    const float *x, *dy, *w, *bias;
    float *y;       /* forward: y; input gradient: dx */
    float *partial; /* weight gradient: [blocks][weights] */
    int64_t pixels;
    int cin, cout, groups;
    bool interleave;
} zn_grouped_args;
enum { ZN_GROUPED_PIXELS = 48 }; /* pixels per block in the vector builds */
size_t zn_grouped_scratch(const zn_grouped_args *a);
void zn_k_grouped(const void *grouped_args, zn_range pixels);
void zn_k_grouped_grad(const void *grouped_args, zn_range pixels);
void zn_k_grouped_weight_grad(const void *grouped_args, zn_range blocks_groups);

/* Depthwise 3x3 with zero padding, weights [c][3][3]; `flip`: the gradient with respect to x. Units are rows n*h. Each
 * thread needs 9 * c floats of scratch. */
typedef struct zn_depthwise_args {
    const float *x, *dy, *w;
    float *y;
    float *partial; /* weight gradient: [blocks][9*c] */
    int n, h, wide, c;
    bool flip;
    bool add_x; /* y = x + conv(x) */
} zn_depthwise_args;
void zn_k_depthwise(const void *depthwise_args, zn_range rows);
void zn_k_depthwise_weight_grad(const void *depthwise_args, zn_range blocks); /* zn_sum_blocks(n * h) blocks */

/* Pixel unshuffle (space to depth, PyTorch order): y[h][w][c*r*r + ry*r + rx] = x[h*r+ry][w*r+rx][c]. Shuffle is its
 * inverse. Units are rows of the small map. h, w: size of the small map; c: channels of the large one. */
typedef struct zn_shuffle_args {
    const float *x;
    float *y;
    int h, w, c, r;
} zn_shuffle_args;
void zn_k_unshuffle(const void *shuffle_args, zn_range rows);
void zn_k_shuffle(const void *shuffle_args, zn_range rows);
/* The same with the channels innermost: y[h][w][(ry*r + rx)*c + k] = x[h*r+ry][w*r+rx][k] (TensorFlow order). */
void zn_k_space_to_depth(const void *shuffle_args, zn_range rows);
void zn_k_depth_to_space(const void *shuffle_args, zn_range rows);

/* y[p][k] = x[p][from[k]], or 0 where from[k] < 0; cin and cout channels. The gradient is a scatter-add. Units are
 * pixels. */
typedef struct zn_select_args {
    const float *x;
    float *y;
    const int32_t *from; /* [cout] */
    int cin, cout;
} zn_select_args;
void zn_k_select(const void *select_args, zn_range pixels);
void zn_k_select_grad(const void *select_args, zn_range pixels); /* x = dy [cout], y = dx [cin] */

/* The indices of a selection from a table of floats; -1 for numbers outside [0,limit). Units are indices. */
typedef struct zn_indices_args {
    const float *table;
    int32_t *indices;
    int limit;
} zn_indices_args;
void zn_k_indices(const void *indices_args, zn_range indices);

#endif
