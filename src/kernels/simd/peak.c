/* fp32 multiply-adds on registers only, with enough independent sums to hide the latency on every ISA. */
#include "kernels/peak.h"

#include "kernels/simd/vec.h"

#if defined(__x86_64__)
#define OPAQUE(v) "+v"(v)
#elif defined(__aarch64__)
#define OPAQUE(v) "+w"(v)
#else
#define OPAQUE(v) "+m"(v)
#endif

enum { SUMS = VEC_REGISTERS - 4, ROUNDS = 20000 };

static void body(const void *args, zn_range r)
{
    (void)args;
    vec sum[SUMS];
    const vec a = vec_splat(1), b = vec_splat(0); /* a Neoverse-V1 halves its rate if neither is zero or loaded */
#pragma GCC unroll 32
    for (int i = 0; i < SUMS; i++) {
        sum[i] = vec_splat(1);
        __asm__("" : OPAQUE(sum[i])); /* equal sums must not be merged */
    }
    for (int64_t n = 0; n < (r.end - r.begin) * ROUNDS; n++)
#pragma GCC unroll 32
        for (int i = 0; i < SUMS; i++)
            sum[i] = vec_fma(a, b, sum[i]);
    volatile float keep = 0; /* keeps the sums from being optimised away */
#pragma GCC unroll 32
    for (int i = 0; i < SUMS; i++) {
        float lanes[VEC_LANES];
        vec_store(lanes, sum[i]);
        keep = keep + lanes[0];
    }
}

const zn_peak ZN_KERNEL(peak) = { body, 2.0 * SUMS *ROUNDS *VEC_LANES };
