/* Which instructions this CPU has. */
#ifndef ZN_CPU_H
#define ZN_CPU_H

#include <stdint.h>

enum {
    ZN_CPU_NEON = 1 << 0,
    ZN_CPU_FP16 = 1 << 1, /* ARM half-precision arithmetic */
    ZN_CPU_BF16 = 1 << 2, /* ARM BFMMLA */
    ZN_CPU_I8MM = 1 << 3,
    ZN_CPU_AVX2 = 1 << 8,   /* with FMA and F16C */
    ZN_CPU_AVX512 = 1 << 9, /* F, BW, DQ, VL */
    ZN_CPU_AVX512BF16 = 1 << 10,
    ZN_CPU_AMX_BF16 = 1 << 11, /* tiles granted by the kernel too */
    ZN_CPU_CUDA = 1 << 16,     /* of no CPU: what a CUDA device has, and nothing else (kernels/device.h) */
};

/* Bits of the CPU, less those named in the environment variable ZENITH_CPU_MASK (a comma list such as "avx512,amx"):
 * for tests and for measuring one build against another. */
uint32_t zn_cpu_flags(void);

/* "neon+fp16+bf16+i8mm" */
void zn_cpu_text(uint32_t flags, char *text, int size);

#endif
