/* Passes of a Walsh-Hadamard transform for AArch64: those of wht_pass.h if runs are whole blocks of sixteen vectors. */
#include "kernels/arm/spectral/wht_pass.h"
#include "kernels/simd/spectral/wht.h"

VEC_INLINE void walk_all(const wht_kind kind, const int radix, const wht_walk *q)
{
    if (q->run % (WHT_ACROSS(radix) * VEC_LANES) == 0)
        wht_pass_pinned(kind, radix, q);
    else
        wht_walk_blocks(kind, radix, q);
}

void ZN_KERNEL(wht_plain8)(const wht_walk *q) { walk_all(WHT_PLAIN, 8, q); }
void ZN_KERNEL(wht_plain4)(const wht_walk *q) { walk_all(WHT_PLAIN, 4, q); }
void ZN_KERNEL(wht_plain2)(const wht_walk *q) { walk_all(WHT_PLAIN, 2, q); }
void ZN_KERNEL(wht_scale4)(const wht_walk *q) { walk_all(WHT_SCALE, 4, q); }
void ZN_KERNEL(wht_scale2)(const wht_walk *q) { walk_all(WHT_SCALE, 2, q); }
void ZN_KERNEL(wht_gate8)(const wht_walk *q) { walk_all(WHT_GATE, 8, q); }
