/* Passes of a Walsh-Hadamard transform on vectors, one vector of each row at a time. */
#include "kernels/simd/spectral/wht.h"

void ZN_KERNEL(wht_plain8)(const wht_walk *q) { wht_walk_blocks(WHT_PLAIN, 8, q); }
void ZN_KERNEL(wht_plain4)(const wht_walk *q) { wht_walk_blocks(WHT_PLAIN, 4, q); }
void ZN_KERNEL(wht_plain2)(const wht_walk *q) { wht_walk_blocks(WHT_PLAIN, 2, q); }
void ZN_KERNEL(wht_scale4)(const wht_walk *q) { wht_walk_blocks(WHT_SCALE, 4, q); }
void ZN_KERNEL(wht_scale2)(const wht_walk *q) { wht_walk_blocks(WHT_SCALE, 2, q); }
void ZN_KERNEL(wht_gate8)(const wht_walk *q) { wht_walk_blocks(WHT_GATE, 8, q); }
