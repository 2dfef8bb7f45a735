/* The choice of a build for the kernels of simd.def, made once for the process. */
#include "kernels/simd.h"

#include "base/cpu.h"
#include "kernels/attention.h"
#include "kernels/dense.h"
#include "kernels/gates.h"
#include "kernels/kernels.h"
#include "kernels/line.h"
#include "kernels/lite.h"
#include "kernels/matrix.h"
#include "kernels/mix.h"
#include "kernels/norm.h"
#include "kernels/scan.h"
#include "kernels/sequence.h"
#include "kernels/spectral.h"

#include <stdatomic.h>
#include <stddef.h>

#define ZN_SIMD(name) void zn_ref_##name(const void *, zn_range);
#include "kernels/simd.def"
#undef ZN_SIMD

static const zn_simd_table reference = { "ref",
                                         0,
                                         {
#define ZN_SIMD(name) zn_ref_##name,
#include "kernels/simd.def"
#undef ZN_SIMD
                                         } };

#if defined(__aarch64__)
extern const zn_simd_table zn_table_neon;
const zn_simd_table *const zn_simd_tables[] = { &zn_table_neon, &reference, NULL };
#elif defined(__x86_64__)
extern const zn_simd_table zn_table_avx512, zn_table_avx2, zn_table_sse2;
const zn_simd_table *const zn_simd_tables[] = { &zn_table_avx512, &zn_table_avx2, &zn_table_sse2, &reference, NULL };
#else
const zn_simd_table *const zn_simd_tables[] = { &reference, NULL };
#endif

static const zn_simd_table *chosen(void)
{
    static _Atomic(const zn_simd_table *) kept;
    const zn_simd_table *table = atomic_load_explicit(&kept, memory_order_relaxed);
    if (table)
        return table;
    const uint32_t cpu = zn_cpu_flags();
    const zn_simd_table *const *t = zn_simd_tables;
    while ((*t)->cpu & ~cpu)
        t++;
    atomic_store_explicit(&kept, *t, memory_order_relaxed);
    return *t;
}

#define ZN_SIMD(name)                                                                                                  \
    void zn_k_##name(const void *args, zn_range r) { chosen()->body[ZN_SIMD_##name](args, r); }
#include "kernels/simd.def"
#undef ZN_SIMD
