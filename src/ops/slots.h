/* Issue slots: the least that the arithmetic of an op takes, for the roofline of a profile.
 *
 * One slot is one operation of one vector lane. A multiply-add takes one; so does an addition, a multiplication, a
 * comparison, a conversion or a change of bits that no multiply-add takes in. Loads, stores, moves between lanes, work
 * on parameters, and anything done once for a pixel of many channels take none. The peak of multiply-adds (two FLOP a
 * slot) gives the slots of a second, so an op can be no faster than its slots allow, whatever the kernel does: counts
 * are those of the cheapest form known, which no kernel has to follow. What they are made of: */
#ifndef ZN_SLOTS_H
#define ZN_SLOTS_H

#include "graph/graph.h"

#include <math.h>

/* x - min(max(x, -t), t) */
#define ZN_SLOTS_THRESHOLD 3.0
/* max(x, 0) - |x| h, h = p(|x|)^8, to 1e-7 (kernels/simd/basic/gelu.h): |x| and its bound 2, p of degree eight 8, its
 * power 3, the end 2. */
#define ZN_SLOTS_GELU 15.0
/* x / (1 + exp(-x)): the exponential's whole part and rest 4, its power of degree six 6, the exponent 1, the sum, the
 * quotient and the product 3. */
#define ZN_SLOTS_SILU 14.0
/* 2^x for x <= 0 (kernels/simd/sequence/scan.h): its bound 1, the whole part 3, the rest of degree five 5, the
 * exponent 2. */
#define ZN_SLOTS_POWER2 11.0
/* A factor for each of two numbers before their sum and difference are taken: one product and two multiply-adds instead
 * of two products and two additions. */
#define ZN_SLOTS_FACTOR 0.5

/* For each element of a transform of n. */
static inline double zn_slots_wht(double n) { return log2(n); }
/* For each element of H diag(g) H, the scale in g: the middle of both transforms on two neighbours is a product with
 * [a b; b a], two slots for each, instead of an addition, a factor and an addition. */
static inline double zn_slots_spectral(double n) { return n > 1 ? 2 * log2(n) : 1; }
/* For each element of H soft(g .* H x) with thresholds. */
static inline double zn_slots_tile(double p)
{
    return 2 * zn_slots_wht(p) + ZN_SLOTS_THRESHOLD + (p > 1 ? ZN_SLOTS_FACTOR : 1);
}

#endif
