/* The product in 8-bit integers for few rows, on AMX tiles. */
#ifndef ZN_KERNELS_X86_MATRIX_AMX_FEW_H
#define ZN_KERNELS_X86_MATRIX_AMX_FEW_H

#include "kernels/matrix_i8.h"

/* True for formats and sizes that zn_matrix_amx_few multiplies. */
bool zn_matrix_amx_few_fits(const zn_matrix_i8_args *a);
void zn_matrix_amx_few(const zn_matrix_i8_args *a, zn_range units);

#endif
