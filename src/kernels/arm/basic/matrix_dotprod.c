/* The product in 8-bit integers with the dot products of ARMv8.2 (SDOT). */
#include "kernels/arm/basic/matrix_few.h"
#include "kernels/simd.h"
#include "kernels/simd/basic/matrix_i8_dots.h"

static void run(const void *args, zn_range r)
{
    if (uses_few(args))
        matrix_few(args, r);
    else
        matrix_i8(args, multiply_dots, r);
}

extern const zn_simd_table zn_table_dotprod;
const zn_simd_table zn_table_dotprod = { "dotprod", ZN_CPU_DOTPROD, { [ZN_SIMD_matrix_i8] = { run, NULL } } };
