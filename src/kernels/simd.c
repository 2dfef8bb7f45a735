/* Chooses a build for each call of a kernel of simd.def. */
#include "kernels/simd.h"

#include "base/cpu.h"
#include "kernels/attention.h"
#include "kernels/dense.h"
#include "kernels/gates.h"
#include "kernels/kernels.h"
#include "kernels/line.h"
#include "kernels/lite.h"
#include "kernels/matrix.h"
#include "kernels/matrix_bf16.h"
#include "kernels/matrix_i8.h"
#include "kernels/mix.h"
#include "kernels/narrow.h"
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
#define ZN_SIMD(name) { zn_ref_##name, NULL },
#include "kernels/simd.def"
#undef ZN_SIMD
                                         } };

#if defined(__aarch64__)
extern const zn_simd_table zn_table_neon, zn_table_arm, zn_table_dotprod, zn_table_i8mm, zn_table_bfmmla;
const zn_simd_table *const zn_simd_tables[] = { &reference,     &zn_table_neon,   &zn_table_arm, &zn_table_dotprod,
                                                &zn_table_i8mm, &zn_table_bfmmla, NULL };
#elif defined(__x86_64__)
extern const zn_simd_table zn_table_sse2, zn_table_avx2, zn_table_avxvnni, zn_table_avx512, zn_table_avx512vnni,
    zn_table_amx, zn_table_amxbf16;
const zn_simd_table *const zn_simd_tables[] = { &reference,        &zn_table_sse2,    &zn_table_avx2,
                                                &zn_table_avxvnni, &zn_table_avx512,  &zn_table_avx512vnni,
                                                &zn_table_amx,     &zn_table_amxbf16, NULL };
#else
extern const zn_simd_table zn_table_generic;
const zn_simd_table *const zn_simd_tables[] = { &reference, &zn_table_generic, NULL };
#endif

bool zn_simd_has(const zn_simd_table *t, int kernel, const void *args, uint32_t cpu)
{
    const zn_simd_entry *e = &t->entry[kernel];
    return (t->cpu & ~cpu) == 0 && e->body && (!e->supports || e->supports(args));
}

/* Detects the CPU flags once per process. */
static uint32_t cpu_flags(void)
{
    static _Atomic uint64_t kept;
    const uint64_t known = (uint64_t)1 << 32;
    uint64_t flags = atomic_load_explicit(&kept, memory_order_relaxed);
    if (!flags) {
        flags = known | zn_cpu_flags();
        atomic_store_explicit(&kept, flags, memory_order_relaxed);
    }
    return (uint32_t)flags;
}

static void run(int kernel, const void *args, zn_range r)
{
    const uint32_t cpu = cpu_flags();
    zn_body best = NULL;
    for (const zn_simd_table *const *t = zn_simd_tables; *t; t++)
        best = zn_simd_has(*t, kernel, args, cpu) ? (*t)->entry[kernel].body : best;
    best(args, r);
}

#define ZN_SIMD(name)                                                                                                  \
    void zn_k_##name(const void *args, zn_range r) { run(ZN_SIMD_##name, args, r); }
#include "kernels/simd.def"
#undef ZN_SIMD
