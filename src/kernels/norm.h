/* Group norm over feature maps [n][pixels][c], with `groups` groups of consecutive channels, in sequential passes
 * over the map:
 *
 *     norm_sums   mean and squared deviations of every channel, per block of pixels
 *     norm_merge  merges these into the statistics of a group, then computes a factor and a shift for each channel
 *     norm_apply  y = act(factor x + shift)
 *
 * A modulation (x (1 + scale) + shift) (1 + gain) per sample and channel is folded into factor and shift. The
 * gradient has the same passes: sums, merge, dx = a dy + b x + c. Merging uses double precision. */
#ifndef ZN_KERNELS_NORM_H
#define ZN_KERNELS_NORM_H

#include "base/least.h"
#include "base/threads.h"
#include "kernels/type.h"

#include <stdint.h>

typedef enum zn_activation { ZN_ACT_NONE, ZN_ACT_RELU, ZN_ACT_SILU } zn_activation;

typedef struct zn_norm_args {
    const float *x, *dy;
    const float *more; /* zn_k_group_norm on devices: a map with the channels from `split` on, which x lacks; or NULL */
    int split;
    float *y;
    const float *gamma, *beta;                 /* [c] */
    const float *scale, *shift, *gain;         /* modulation: c numbers for each map, or NULL */
    int64_t scale_step, shift_step, gain_step; /* floats between those of two maps */
    float *partial;                            /* [n][blocks][2][c] */
    float *table; /* [n][3][c]: forward factor, shift; gradient 1/deviation, -mean/deviation */
    float *sums;  /* gradient: [n][2][c], of dy times the normalised x, and of dy */
    int64_t n, pixels;
    int c, groups;
    float eps;
    zn_activation act;
    /* Of the maps: in the forward pass also on the CPU, for the kernels of narrow.h; else on devices. */
    zn_type x_type, dy_type, y_type;
} zn_norm_args;

/* Pixels per block: as many as stay in L1 while the block is read twice. */
static inline int64_t zn_norm_block(const zn_norm_args *a) { return a->c < 512 ? 8192 / a->c : 16; }
static inline int64_t zn_norm_blocks(const zn_norm_args *a)
{
    return (a->pixels + zn_norm_block(a) - 1) / zn_norm_block(a);
}

/* Pixels [*begin, *end) of block `unit`, counted over all maps. */
static inline void zn_norm_block_of(const zn_norm_args *a, int64_t unit, int64_t *begin, int64_t *end)
{
    const int64_t blocks = zn_norm_blocks(a), size = zn_norm_block(a), map = unit / blocks;
    *begin = map * a->pixels + unit % blocks * size;
    *end = zn_least(*begin + size, (map + 1) * a->pixels);
}

/* Total floats of partial, table and sums. */
static inline int64_t zn_norm_scratch(const zn_norm_args *a) { return a->n * a->c * (2 * zn_norm_blocks(a) + 5); }

void zn_k_norm_sums(const void *norm_args, zn_range blocks);  /* units: n * blocks */
void zn_k_norm_merge(const void *norm_args, zn_range groups); /* units: n * groups */
void zn_k_norm_apply(const void *norm_args, zn_range pixels); /* units: pixels of all maps */

/* All of it, for devices: units: n * groups. */
void zn_k_group_norm(const void *norm_args, zn_range groups);

void zn_k_norm_stats(const void *norm_args, zn_range groups);      /* for the gradient: like merge, but only
                                                                    * normalises */
void zn_k_norm_grad_sums(const void *norm_args, zn_range blocks);  /* partial: sums of dy xh, and of dy */
void zn_k_norm_grad_merge(const void *norm_args, zn_range groups); /* sums, and the table of dx = a dy + b x + c */
void zn_k_norm_grad(const void *norm_args, zn_range pixels);

#endif
