/* What AArch64 overlays on the vector build (kernels/simd.h): kernels with a fixed order of instructions. */
#include "base/cpu.h"
#include "kernels/arm/kernels.h"
#include "kernels/simd.h"

#define ALWAYS(name) [ZN_SIMD_##name] = { zn_##name##_arm, NULL }
#define WHERE(name)  [ZN_SIMD_##name] = { zn_##name##_arm, zn_##name##_arm_supports }

extern const zn_simd_table zn_table_arm;
const zn_simd_table zn_table_arm = { "arm",
                                     ZN_CPU_NEON,
                                     { WHERE(lite_columns), WHERE(lite_expand), ALWAYS(lite_head), WHERE(lite_rows),
                                       WHERE(spectral_linear), WHERE(tile_square), WHERE(wht) } };
