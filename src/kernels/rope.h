/* Rotary positions: pairs of a token's channels are turned by angles that its position gives. */
#ifndef ZN_KERNELS_ROPE_H
#define ZN_KERNELS_ROPE_H

#include "base/threads.h"

#include <stdbool.h>
#include <stdint.h>

/* y[token][head][2 * pairs]; the angle of pair i turns channels 2i and 2i + 1, or, if `halves`, i and i + pairs. The
 * same angles serve every head. y may be x. Units are tokens. */
typedef struct zn_rope_args {
    const float *x;
    const float *cos, *sin; /* [tokens][pairs] */
    float *y;
    int heads, pairs;
    bool halves;
    bool back; /* the other way round: the gradient */
} zn_rope_args;
void zn_k_rope(const void *rope_args, zn_range tokens);

#endif
