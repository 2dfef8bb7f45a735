/* Instruction sets of this CPU. */
#ifndef ZN_CPU_H
#define ZN_CPU_H

#include <stdint.h>

enum {
    ZN_CPU_NEON = 1 << 0,
    ZN_CPU_FP16 = 1 << 1, /* ARM half-precision arithmetic */
    ZN_CPU_BF16 = 1 << 2, /* ARM BFMMLA */
    ZN_CPU_I8MM = 1 << 3,
    ZN_CPU_DOTPROD = 1 << 4, /* ARM SDOT */
    ZN_CPU_AVX2 = 1 << 8,    /* with FMA and F16C */
    ZN_CPU_AVX512 = 1 << 9,  /* F, BW, DQ, VL */
    ZN_CPU_AVX512BF16 = 1 << 10,
    ZN_CPU_AMX_BF16 = 1 << 11, /* set only if the kernel also permits the tile registers */
    ZN_CPU_AVX512VNNI = 1 << 12,
    ZN_CPU_AVXVNNI = 1 << 13, /* the same instructions on vectors of 32 bytes */
    ZN_CPU_AMX_I8 = 1 << 14,  /* like ZN_CPU_AMX_BF16 */
    /* Not CPU features: the flags of a CUDA device (kernels/device.h). */
    ZN_CPU_CUDA = 1 << 16,
    ZN_CPU_HOPPER = 1 << 17, /* the matrix instructions that only compute capability 9.0 has, in a build with them */
};

/* Flags of the CPU, without those that the environment variable ZENITH_CPU_MASK names (comma-separated, such as
 * "avx512,amx"). The variable is for tests and for benchmarks of one kernel build against another. */
uint32_t zn_cpu_flags(void);

/* Writes the flags as text, such as "neon+fp16+bf16+i8mm". */
void zn_cpu_text(uint32_t flags, char *text, int size);

#endif
