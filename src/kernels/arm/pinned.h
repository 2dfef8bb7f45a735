/* Loads, stores and products of vectors that keep the order in which they are written, among themselves and relative
 * to other `asm volatile` (see wht_pass.h for the reason). They do not declare the memory they access: call
 * vec_pinned_fence before the first and after the last. */
#ifndef ZN_ARM_PINNED_H
#define ZN_ARM_PINNED_H

#include "kernels/simd/vec.h"

/* Unrolls a loop whose counter must be a constant, with at most sixteen iterations. */
#if defined(__clang__)
#define PINNED_UNROLL _Pragma("clang loop unroll(full)")
#else
#define PINNED_UNROLL _Pragma("GCC unroll 16")
#endif

/* at + offset floats. A constant offset becomes part of the instruction, regardless of the compiler's size limits. */
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

#define VEC_FMA_PINNED(lane) __asm__ volatile("fmla %0.4s, %1.4s, %2.s[" #lane "]" : "+w"(*sum) : "w"(w), "w"(m))
/* sum += w * lane `lane` (a compile-time constant) of m */
VEC_INLINE void vec_fma_pinned(vec *sum, vec w, vec m, const int lane)
{
    if (lane == 0)
        VEC_FMA_PINNED(0);
    else if (lane == 1)
        VEC_FMA_PINNED(1);
    else if (lane == 2)
        VEC_FMA_PINNED(2);
    else
        VEC_FMA_PINNED(3);
}
#undef VEC_FMA_PINNED

/* Stores a whole cache line. */
VEC_INLINE void vec_store_line_pinned(float *at, const vec v[4])
{
    __asm__ volatile("stp %q0, %q1, [%2]" : : "w"(v[0]), "w"(v[1]), "r"(at));
    __asm__ volatile("stp %q0, %q1, [%2, 32]" : : "w"(v[2]), "w"(v[3]), "r"(at));
}

/* Prefetches the line at + offset floats into L2, or L1. */
VEC_INLINE void vec_fetch_pinned(const float *at, const int offset)
{
    if (__builtin_constant_p(offset))
        __asm__ volatile("prfm pldl2keep, [%0, %1]" : : "r"(at), "i"(offset * (int)sizeof(float)));
    else
        __asm__ volatile("prfm pldl2keep, [%0]" : : "r"(at + offset));
}

VEC_INLINE void vec_fetch_near_pinned(const float *at, const int offset)
{
    if (__builtin_constant_p(offset))
        __asm__ volatile("prfm pldl1keep, [%0, %1]" : : "r"(at), "i"(offset * (int)sizeof(float)));
    else
        __asm__ volatile("prfm pldl1keep, [%0]" : : "r"(at + offset));
}

/* Loads two vectors, at + offset bytes. */
VEC_INLINE void vec_load_two_pinned(const char *at, const int offset, vec *a)
{
    if (__builtin_constant_p(offset))
        __asm__ volatile("ldp %q0, %q1, [%2, %3]" : "=w"(a[0]), "=w"(a[1]) : "r"(at), "i"(offset));
    else
        __asm__ volatile("ldp %q0, %q1, [%2]" : "=w"(a[0]), "=w"(a[1]) : "r"(at + offset));
}

VEC_INLINE void vec_store_two_pinned(char *at, const int offset, const vec *a)
{
    if (__builtin_constant_p(offset))
        __asm__ volatile("stp %q0, %q1, [%2, %3]" : : "w"(a[0]), "w"(a[1]), "r"(at), "i"(offset));
    else
        __asm__ volatile("stp %q0, %q1, [%2]" : : "w"(a[0]), "w"(a[1]), "r"(at + offset));
}

VEC_INLINE void vec_pinned_fence(void) { __asm__ volatile("" : : : "memory"); }

#endif
