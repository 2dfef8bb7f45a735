/* Tables for rotary position embeddings (kernels/rope.h) with several axes: image tokens have a row and a column.
 */
#ifndef ZN_ROPE_H
#define ZN_ROPE_H

#include <stdint.h>

typedef struct zn_rope_axes {
    int count;
    int width[4]; /* channels of each axis, even; their sum is the width of a head */
    double theta;
} zn_rope_axes;

/* position: [tokens][axes]; cos, sin: [tokens][half the width of a head], one axis after the other. Angles are computed
 * in double and rounded to float before the cosine, because the networks that use them were trained this way. */
void zn_rope_table(const zn_rope_axes *axes, const int32_t *position, int64_t tokens, float *cosines, float *sines);

#endif
