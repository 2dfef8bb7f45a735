/* Operands as the sum of two bf16: three times the products, and nearly the exactness of fp32. */
#define PRODUCTS 3
#include "kernels/x86/conv_amx.h"

extern const zn_conv_kernel zn_conv_amx_bf16x3;

const zn_conv_kernel zn_conv_amx_bf16x3 = {
    .name = "direct-bf16x3-amx",
    .math = ZN_MATH_BF16,
    .cpu = ZN_CPU_AMX_BF16 | ZN_CPU_AVX512BF16 | ZN_CPU_AVX512,
    .tolerance = 2e-5f,
    .supports = supports,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .scratch_bytes = scratch_bytes,
    .units = units,
    .run = run,
    .flops = flops,
};
