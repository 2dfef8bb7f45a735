/* The product in 8-bit integers with the dot products of AVX-VNNI, for CPUs without AVX-512. */
#include "kernels/simd.h"
#include "kernels/simd/basic/matrix_i8_dots.h"

static void run(const void *args, zn_range r) { matrix_i8(args, multiply_dots, r); }

extern const zn_simd_table zn_table_avxvnni;
const zn_simd_table zn_table_avxvnni = { "avxvnni", ZN_CPU_AVXVNNI, { [ZN_SIMD_matrix_i8] = { run, NULL } } };
