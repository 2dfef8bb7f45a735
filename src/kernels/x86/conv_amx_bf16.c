/* Operands rounded to bf16: the fastest, and the error of a whole decoder is about one percent. */
#define PRODUCTS 1
#include "kernels/x86/conv_amx.h"

extern const zn_conv_kernel zn_conv_amx_bf16;

const zn_conv_kernel zn_conv_amx_bf16 = {
    .name = "direct-bf16-amx",
    .math = ZN_MATH_BF16,
    .cpu = ZN_CPU_AMX_BF16 | ZN_CPU_AVX512BF16 | ZN_CPU_AVX512,
    .tolerance = 4e-3f,
    .supports = supports,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .scratch_bytes = scratch_bytes,
    .units = units,
    .run = run,
    .flops = flops,
};
