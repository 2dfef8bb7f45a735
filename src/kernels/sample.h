/* Feature maps [samples][pixels][c] combined with one value per sample and channel, as in networks with a time or a
 * condition as input: factors and shifts, sums over a sample, and broadcasting a value over a sample. */
#ifndef ZN_KERNELS_SAMPLE_H
#define ZN_KERNELS_SAMPLE_H

#include "base/threads.h"
#include "kernels/type.h"

#include <stdint.h>

typedef struct zn_sample_args {
    const float *x;             /* the map; spread: [samples][c] */
    const float *other;         /* sum: a map that is multiplied with x, or NULL */
    const float *scale, *shift; /* modulate: [samples][c]; shift may be NULL */
    float *y;
    int64_t pixels;
    int c;
    float factor;                       /* factor of the sums, or of the broadcast values */
    zn_type x_type, other_type, y_type; /* of maps on a device; F32 on the CPU */
} zn_sample_args;

enum { ZN_SAMPLE_CHANNELS = 64 }; /* channels per unit of a sum */
static inline int64_t zn_sample_parts(int c) { return (c + ZN_SAMPLE_CHANNELS - 1) / ZN_SAMPLE_CHANNELS; }

void zn_k_modulate(const void *sample_args, zn_range pixels); /* y = x (1 + scale) + shift; units are pixels of all
                                                               * samples */
/* y[sample][c] = factor * sum of x, or of x * other; units are samples x zn_sample_parts. */
void zn_k_sample_sum(const void *sample_args, zn_range parts);
void zn_k_spread(const void *sample_args, zn_range pixels); /* y[sample][pixel][c] = factor * x[sample][c] */

#endif
