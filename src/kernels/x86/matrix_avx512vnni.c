/* The product in 8-bit integers with the dot products of AVX-512 VNNI. */
#include "kernels/simd.h"
#include "kernels/simd/basic/matrix_i8_dots.h"

static void run(const void *args, zn_range r) { matrix_i8(args, multiply_dots, r); }

extern const zn_simd_table zn_table_avx512vnni;
const zn_simd_table zn_table_avx512vnni = { "avx512vnni", ZN_CPU_AVX512VNNI, { [ZN_SIMD_matrix_i8] = { run, NULL } } };
