/* Loads and stores of vectors that stay in the order in which they are written, among each other and among other
 * `asm volatile` (wht_pass.h says why). They do not name what they touch: vec_pinned_fence stands for them before the
 * first and behind the last. */
#ifndef ZN_ARM_PINNED_H
#define ZN_ARM_PINNED_H

#include "kernels/simd/vec.h"

/* Before a loop whose counter has to be a constant, of at most sixteen rounds. */
#if defined(__clang__)
#define PINNED_UNROLL _Pragma("clang loop unroll(full)")
#else
#define PINNED_UNROLL _Pragma("GCC unroll 16")
#endif

/* at + offset floats. A known offset becomes part of the instruction, whatever the compiler thinks of its size. */
VEC_INLINE vec vec_load_pinned(const float *at, const int offset)
{
    vec v;
    if (__builtin_constant_p(offset))
        __asm__ volatile("ldr %q0, [%1, %2]" : "=w"(v) : "r"(at), "i"(offset * (int)sizeof(float)));
    else
        __asm__ volatile("ldr %q0, [%1]" : "=w"(v) : "r"(at + offset));
    return v;
}

VEC_INLINE void vec_store_pinned(float *at, const int offset, vec v)
{
    if (__builtin_constant_p(offset))
        __asm__ volatile("str %q0, [%1, %2]" : : "w"(v), "r"(at), "i"(offset * (int)sizeof(float)));
    else
        __asm__ volatile("str %q0, [%1]" : : "w"(v), "r"(at + offset));
}

VEC_INLINE void vec_pinned_fence(void) { __asm__ volatile("" : : : "memory"); }

#endif
