/* Kernels that multiply bf16 on AMX tiles. */
#include "base/cpu.h"
#include "kernels/simd.h"
#include "kernels/x86/amx_bf16.h"

extern const zn_simd_table zn_table_amxbf16;
const zn_simd_table zn_table_amxbf16 = { "amxbf16",
                                         ZN_CPU_AMX_BF16 | ZN_CPU_AVX512 | ZN_CPU_AVX512BF16,
                                         {
                                             [ZN_SIMD_matrix_bf16] = { zn_matrix_bf16_amx, NULL },
                                             [ZN_SIMD_attention] = { zn_attention_amx, zn_attention_amx_supports },
                                         } };
