/* The product in 8-bit integers, in the vector build. */
#include "kernels/simd/basic/matrix_i8_dots.h"

void ZN_KERNEL(matrix_i8)(const void *args, zn_range r);

void ZN_KERNEL(matrix_i8)(const void *args, zn_range r) { matrix_i8(args, multiply_dots, r); }
