/* Loads and stores of vectors that stay in the order in which they are written, among each other and among other
 * `asm volatile` (wht_pass.h says why). */
#ifndef ZN_ARM_PINNED_H
#define ZN_ARM_PINNED_H

#include "kernels/simd/vec.h"

/* A vector anywhere in memory. */
typedef vec vec_there __attribute__((aligned(4), may_alias));

VEC_INLINE vec vec_load_pinned(const float *at)
{
    vec v;
    __asm__ volatile("ldr %q0, %1" : "=w"(v) : "m"(*(const vec_there *)at));
    return v;
}

VEC_INLINE void vec_store_pinned(float *at, vec v)
{
    __asm__ volatile("str %q1, %0" : "=m"(*(vec_there *)at) : "w"(v));
}

#endif
