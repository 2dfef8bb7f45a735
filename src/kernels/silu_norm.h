/* Group norm over feature maps [n][pixels][c] with the layers after it in a network that is trained, as one layer:
 *
 *     v = ((xh gamma + beta) (1 + scale) + shift) (1 + gain)     xh: x normalised in its group of c / groups channels
 *     y = dropout(v / (1 + exp(-v)))                             as kernels/dropout.h
 *
 * v = factor x + offset, for each sample and channel. In passes over the map:
 *
 *     silu_norm_sums        mean and squared deviations of every channel, per block of pixels
 *     silu_norm_merge       the table that the others read, which the gradient needs again
 *     silu_norm_apply       y
 *
 *     silu_norm_grad_sums   sums of dv xh and of dv, per block of pixels; dv is computed from x and dy
 *     silu_norm_grad_merge  from these, gradients of all parameters and modulations, and two numbers for dx
 *     silu_norm_grad        dx = factor dv + slope x + rest, and `more`
 *
 * One map is kept between both, x, which the layer before has written. */
#ifndef ZN_KERNELS_SILU_NORM_H
#define ZN_KERNELS_SILU_NORM_H

#include "base/threads.h"
#include "kernels/type.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct zn_silu_norm_args {
    const float *x, *dy;
    const float *more;                 /* gradient: a map that is added to dx, or NULL */
    float *y;                          /* gradient: dx */
    const float *gamma, *beta;         /* [c] */
    const float *scale, *shift, *gain; /* [n][c], or NULL */
    const float *seeds;                /* [n]: of dropout; NULL: none */
    float *partial;                    /* [n][blocks][2][c] */
    float *table;                      /* [n][4][c]: factor, offset, 1 / deviation, - mean / deviation */
    float *line;                       /* gradient: [n][2][c], slope and rest */
    float *sums;                       /* gradient: [n][2][c], what each sample adds to those of gamma and beta */
    float *d_scale, *d_shift, *d_gain; /* gradient: [n][c]; NULL as scale, shift and gain */
    int64_t n, pixels;
    int c, groups;
    float eps;
    float share; /* of dropout */
    uint32_t place;
    zn_type x_type, dy_type, more_type, y_type; /* F32 on the CPU */
} zn_silu_norm_args;

/* Pixels per block: few blocks have to be merged, and enough of them keep a GPU busy. */
static inline int64_t zn_silu_norm_block(const zn_silu_norm_args *a)
{
    const int64_t enough = 1056 / a->n, most = enough < 1 ? 1 : enough < 512 ? enough : 512;
    const int64_t block = (a->pixels + most - 1) / most, least = a->c < 512 ? 8192 / a->c : 16;
    return block > least ? block : least;
}
static inline int64_t zn_silu_norm_blocks(const zn_silu_norm_args *a)
{
    return (a->pixels + zn_silu_norm_block(a) - 1) / zn_silu_norm_block(a);
}

/* All passes, for devices: units: n * groups. */
void zn_k_silu_norm(const void *silu_norm_args, zn_range groups);

/* Whether a device does all passes of the gradient in one launch: a group of a map of BF16 then fits into the registers
 * of a thread block, in pieces of four channels. */
enum { ZN_SILU_NORM_PIECE = 4, ZN_SILU_NORM_PIECES = 8 /* of a thread */, ZN_SILU_NORM_THREADS = 256 };
static inline bool zn_silu_norm_is_whole(const zn_silu_norm_args *a)
{
    const int width = a->c / a->groups, across = width / ZN_SILU_NORM_PIECE;
    const bool narrow = a->x_type == ZN_TYPE_BF16 && a->y_type == ZN_TYPE_BF16 && a->dy_type == ZN_TYPE_BF16 &&
                        (!a->more || a->more_type == ZN_TYPE_BF16);
    return narrow && width % ZN_SILU_NORM_PIECE == 0 && across <= 32 &&
           a->pixels <= (int64_t)ZN_SILU_NORM_PIECES * (ZN_SILU_NORM_THREADS / across);
}
void zn_k_silu_norm_back(const void *silu_norm_args, zn_range groups); /* units: n * groups */

void zn_k_silu_norm_sums(const void *silu_norm_args, zn_range blocks);  /* units: n * blocks */
void zn_k_silu_norm_merge(const void *silu_norm_args, zn_range groups); /* units: n * groups */
void zn_k_silu_norm_apply(const void *silu_norm_args, zn_range pixels); /* units: pixels of all maps */
void zn_k_silu_norm_grad_sums(const void *silu_norm_args, zn_range blocks);
void zn_k_silu_norm_grad_merge(const void *silu_norm_args, zn_range groups);
void zn_k_silu_norm_grad(const void *silu_norm_args, zn_range pixels);

#endif
