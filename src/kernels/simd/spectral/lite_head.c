/* The head of a Lite-R block, on vectors. */
#include "kernels/simd/spectral/head.h"

void ZN_KERNEL(lite_head)(const void *args, zn_range r);

APART void row_of_planes(const strip *s, int y) { row_of(true, s, y); }

void ZN_KERNEL(lite_head)(const void *args, zn_range r) { all_rows(args, r, (head_steps){ norm_any, row_of_planes }); }
