/* Moving through conditions and noise: interpolation and attributes. */
#ifndef ZN_EDIT_H
#define ZN_EDIT_H

#include <stdint.h>

/* out = (1 - at) a + at b */
void zn_lerp(const float *a, const float *b, double at, float *out, int64_t count);

/* Along the great circle between two tensors of noise, which keeps their length; straight where they are
 * (anti)parallel. Returns the angle between them. */
double zn_slerp(const float *a, const float *b, double at, float *out, int64_t count);

/* A condition moved by `strength` along an attribute: in the space of normalised conditions, sqrt(width) times the unit
 * vector of the attribute's direction. mean and deviation: of conditions. */
void zn_move_condition(const float *cond, const float *mean, const float *deviation, const float *direction,
                       double strength, float *out, int width);

#endif
