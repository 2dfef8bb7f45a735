/* 3x3 convolutions of GPUs that normalise what they read and measure what they write, so that a group norm between two
 * of them is not a pass over a map:
 *
 *     y = conv(act(norm([x more]))) + bias + residual
 *
 * Maps are BF16, and what a norm with SiLU would have written is rounded as it would have been. */
#ifndef ZN_KERNELS_NORM_CONV_H
#define ZN_KERNELS_NORM_CONV_H

#include "kernels/conv.h"
#include "kernels/norm.h"

/* What was measured of a map while it was written: means of all channels, then their squared deviations, for each of
 * `blocks` parts of it that have the same number of pixels: [n][blocks][2][c]. */
typedef struct zn_measured {
    const float *at;
    int blocks, c;
} zn_measured;
static inline int64_t zn_measured_floats(int64_t n, int blocks, int64_t c) { return 2 * n * blocks * c; }

typedef struct zn_norm_conv_args {
    zn_conv_args a;      /* cin: channels of x and `more` together */
    zn_norm_args n;      /* gamma NULL: x is read as it is. Not of it: x, y, partial, sums, types */
    zn_measured x, more; /* what was measured of the maps that are read; more: if n.more */
    float *measured;     /* of y, or NULL */
} zn_norm_conv_args;
/* Floats of n.table: a factor and a shift for each channel of each map. */
static inline int64_t zn_norm_conv_table(int64_t n, int64_t c) { return 2 * n * c; }

/* The norm alone, of maps that were measured. Of the arguments: n, now with x, y and types, and what was
 * measured. */
void zn_k_norm_measured(const void *norm_conv_args, zn_range maps);

#endif
