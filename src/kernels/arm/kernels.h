/* Kernels of simd.def that AArch64 has in addition to the vector build, and the kernels of that build they fall back
 * to. */
#ifndef ZN_ARM_KERNELS_H
#define ZN_ARM_KERNELS_H

#include "base/threads.h"

#include <stdbool.h>

bool zn_lite_columns_arm_supports(const void *lite_args);
void zn_lite_columns_arm(const void *lite_args, zn_range r);
bool zn_lite_expand_arm_supports(const void *lite_args);
void zn_lite_expand_arm(const void *lite_args, zn_range r);
void zn_lite_head_arm(const void *lite_head_args, zn_range r);
bool zn_lite_rows_arm_supports(const void *lite_args);
void zn_lite_rows_arm(const void *lite_args, zn_range r);
bool zn_spectral_linear_arm_supports(const void *spectral_linear_args);
void zn_spectral_linear_arm(const void *spectral_linear_args, zn_range r);
bool zn_tile_square_arm_supports(const void *tile_square_args);
void zn_tile_square_arm(const void *tile_square_args, zn_range r);
bool zn_wht_arm_supports(const void *wht_args);
void zn_wht_arm(const void *wht_args, zn_range r);

void zn_wht_neon(const void *wht_args, zn_range r);

#endif
