/* Chooses the loop of peak.h that measures the peak of this CPU. */
#include "kernels/peak.h"

#include "base/cpu.h"

#if defined(__aarch64__)
extern const zn_peak zn_peak_neon, zn_peak_f16, zn_peak_bf16;

zn_peak zn_peak_choose(zn_precision math, uint32_t cpu)
{
    if (math == ZN_PRECISION_BF16 && (cpu & ZN_CPU_BF16) && (cpu & ZN_CPU_FP16))
        return zn_peak_bf16;
    if (math == ZN_PRECISION_F16 && (cpu & ZN_CPU_FP16))
        return zn_peak_f16;
    return zn_peak_neon;
}
#elif defined(__x86_64__)
extern const zn_peak zn_peak_sse2, zn_peak_avx2, zn_peak_avx512, zn_peak_amx;

zn_peak zn_peak_choose(zn_precision math, uint32_t cpu)
{
    if (math == ZN_PRECISION_BF16 && (cpu & ZN_CPU_AMX_BF16))
        return zn_peak_amx;
    return cpu & ZN_CPU_AVX512 ? zn_peak_avx512 : cpu & ZN_CPU_AVX2 ? zn_peak_avx2 : zn_peak_sse2;
}
#else
extern const zn_peak zn_peak_generic;

zn_peak zn_peak_choose(zn_precision math, uint32_t cpu)
{
    (void)math, (void)cpu;
    return zn_peak_generic;
}
#endif
