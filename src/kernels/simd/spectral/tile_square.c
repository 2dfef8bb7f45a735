/* Spectral mixing of squares with GELU, on vectors. */
#include "kernels/simd/spectral/square.h"

void ZN_KERNEL(tile_square)(const void *args, zn_range r);

void ZN_KERNEL(tile_square)(const void *args, zn_range r) { all_squares(args, r, mix_square); }
