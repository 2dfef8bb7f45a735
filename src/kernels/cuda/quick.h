/* Inverses to 2 units in the last place, for results that are rounded to 16 bits. Included only by .cu files. */
#ifndef ZN_CUDA_QUICK_H
#define ZN_CUDA_QUICK_H

#include <math.h>

#if defined(ZN_CUDA_EMULATED)
[[maybe_unused]] static inline float quick_inverse(float x) { return 1 / x; }
[[maybe_unused]] static inline float quick_inverse_root(float x) { return 1 / sqrtf(x); }
#else
[[maybe_unused]] static __device__ float quick_inverse(float x)
{
    float inverse;
    asm("rcp.approx.ftz.f32 %0, %1;\n" : "=f"(inverse) : "f"(x));
    return inverse;
}
[[maybe_unused]] static __device__ float quick_inverse_root(float x)
{
    float inverse;
    asm("rsqrt.approx.ftz.f32 %0, %1;\n" : "=f"(inverse) : "f"(x));
    return inverse;
}
#endif

#endif
