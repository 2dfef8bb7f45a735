/* Issue slots: the minimum that the arithmetic of an op takes, for the roofline of a profile.
 *
 * One slot is one operation of one vector lane. A multiply-add takes one. So does an addition, a multiplication, a
 * comparison, a conversion or a bit operation that cannot be part of a multiply-add. Loads, stores, moves between
 * lanes, work on parameters, and anything done once for a pixel of many channels take none. The peak rate of
 * multiply-adds (two FLOP a slot) gives the slots per second. An op can therefore not be faster than its slots
 * allow, whatever the kernel does. Counts are those of the cheapest form known; a kernel need not use it. The terms: */
#ifndef ZN_SLOTS_H
#define ZN_SLOTS_H

#include "graph/graph.h"

#include <math.h>

/* x - min(max(x, -t), t) */
#define ZN_SLOTS_THRESHOLD 3.0
/* max(x, 0) - |x| h, h = p(|x|)^8, to 1e-7 (kernels/simd/basic/gelu.h): |x| and its clamp 2, p of degree eight 8,
 * its power 3, the final step 2. */
#define ZN_SLOTS_GELU 15.0
/* x / (1 + exp(-x)): integer part and remainder of the exponential 4, polynomial of degree six 6, the exponent 1,
 * sum, quotient and product 3. */
#define ZN_SLOTS_SILU 14.0
/* 2^x for x <= 0 (kernels/simd/sequence/scan.h): the clamp 1, the integer part 3, the remainder of degree five 5,
 * the exponent 2. */
#define ZN_SLOTS_POWER2 11.0
/* A factor for each of two numbers before their sum and difference: one product and two multiply-adds instead of two
 * products and two additions. */
#define ZN_SLOTS_FACTOR 0.5

/* Per element of a transform of size n. */
static inline double zn_slots_wht(double n) { return log2(n); }
/* Per element of H diag(g) H, with the scale in g. The middle of both transforms, on two neighbours, is a product
 * with [a b; b a]. It takes two slots per element, instead of an addition, a factor and an addition. */
static inline double zn_slots_spectral(double n) { return n > 1 ? 2 * log2(n) : 1; }
/* Per element of H soft(g .* H x) with thresholds. */
static inline double zn_slots_tile(double p)
{
    return 2 * zn_slots_wht(p) + ZN_SLOTS_THRESHOLD + (p > 1 ? ZN_SLOTS_FACTOR : 1);
}

#endif
