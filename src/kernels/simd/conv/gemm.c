/* The product of gemm.h on vectors. */
#include "kernels/simd/conv/gemm.h"

void ZN_KERNEL(gemm)(const gemm_args *g, int rows, int width) { gemm_from(0, g, rows, width); }
