/* The kernels of simd.def in the build of one ISA. */
#include "kernels/simd.h"
#include "kernels/simd/vec.h"

#define ZN_SIMD(name) void ZN_KERNEL(name)(const void *, zn_range);
#include "kernels/simd.def"
#undef ZN_SIMD

extern const zn_simd_table ZN_KERNEL(table);
const zn_simd_table ZN_KERNEL(table) = { ZN_ISA_NAME,
                                         VEC_CPU,
                                         {
#define ZN_SIMD(name) { ZN_KERNEL(name), NULL },
#include "kernels/simd.def"
#undef ZN_SIMD
                                         } };
