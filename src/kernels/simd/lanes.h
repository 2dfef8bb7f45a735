/* Operations on the first n lanes of a vector, 0 < n <= VEC_LANES. If n is constant, whole vectors use whole-vector
 * instructions. */
#ifndef ZN_SIMD_LANES_H
#define ZN_SIMD_LANES_H

#include "kernels/simd/vec.h"

VEC_INLINE vec load(const float *p, int n) { return n == VEC_LANES ? vec_load(p) : vec_load_part(p, n); }

VEC_INLINE void store(float *p, vec v, int n)
{
    if (n == VEC_LANES)
        vec_store(p, v);
    else
        vec_store_part(p, v, n);
}

#endif
