/* The product in 8-bit integers with the matrix instructions of ARMv8.6 (SMMLA). It has the bits of the other builds.
 */
#include "kernels/simd.h"
#include "kernels/simd/basic/matrix_i8_dots.h"

static void run(const void *args, zn_range r) { matrix_i8(args, multiply_dots, r); }

extern const zn_simd_table zn_table_i8mm;
const zn_simd_table zn_table_i8mm = { "i8mm", ZN_CPU_DOTPROD | ZN_CPU_I8MM, { [ZN_SIMD_matrix_i8] = { run, NULL } } };
