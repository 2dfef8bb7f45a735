/* Rotary position embeddings: rotates pairs of a token's channels by angles that depend on its position. */
#ifndef ZN_KERNELS_ROPE_H
#define ZN_KERNELS_ROPE_H

#include "base/threads.h"
#include "kernels/type.h"

#include <stdbool.h>
#include <stdint.h>

/* y[token][head][2 * pairs]. The angle of pair i rotates channels 2i and 2i + 1, or i and i + pairs if `halves`. All
 * heads use the same angles, and so do tokens that are a multiple of `period` apart. y may be x. Units are tokens. */
typedef struct zn_rope_args {
    const float *x;
    const float *cos, *sin; /* [period][pairs] */
    float *y;
    int64_t period;
    int heads, pairs;
    bool halves;
    zn_type type; /* of x and y; F32 on the CPU */
    bool back;    /* rotates in the opposite direction: the gradient */
} zn_rope_args;
void zn_k_rope(const void *rope_args, zn_range tokens);

#endif
