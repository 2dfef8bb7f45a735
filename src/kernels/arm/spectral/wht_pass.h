/* A pass of a Walsh-Hadamard transform for AArch64: radix rows at a time, sixteen vectors in registers, while the
 * next block is loaded and the previous one stored, in pairs. The order of the instructions matters: a Neoverse-V1
 * takes 15 cycles for a block of three steps in this order, and 25 if a block is loaded, added and stored one after
 * the other (additions and stores, four per cycle, allow 14). Compilers change that order, so every instruction is
 * its own `asm volatile`. These keep their order, and the compiler still assigns registers and addresses, which it
 * does well. */
#ifndef ZN_ARM_WHT_PASS_H
#define ZN_ARM_WHT_PASS_H

#include "kernels/arm/pinned.h"
#include "kernels/simd/spectral/wht_walk.h"

#if defined(__clang__)
#define WHT_UNROLL _Pragma("clang loop unroll(full)")
#else
#define WHT_UNROLL _Pragma("GCC unroll 64")
#endif

VEC_INLINE void wht_butterfly(vec *a, vec *b)
{
    vec sum, difference;
    __asm__ volatile("fadd %0.4s, %1.4s, %2.4s" : "=w"(sum) : "w"(*a), "w"(*b));
    __asm__ volatile("fsub %0.4s, %1.4s, %2.4s" : "=w"(difference) : "w"(*a), "w"(*b));
    *a = sum;
    *b = difference;
}

#define WHT_TIMES(lane) __asm__ volatile("fmul %0.4s, %0.4s, %1.s[" #lane "]" : "+w"(*a) : "w"(g))
VEC_INLINE void wht_times(vec *a, vec g, const int lane)
{
    if (lane == 0)
        WHT_TIMES(0);
    else if (lane == 1)
        WHT_TIMES(1);
    else if (lane == 2)
        WHT_TIMES(2);
    else
        WHT_TIMES(3);
}
#undef WHT_TIMES

/* A block of 8 rows of 2 vectors, 4 of 4 or 2 of 4; its vectors are v[row * across + u]. A butterfly is an
 * operation, and so is the product of two vectors with their factor. kind, radix and k are compile-time constants
 * everywhere. */
#define WHT_ACROSS(radix) ((radix) == 8 ? 2 : 4)
#define WHT_PAIRS(radix)  ((radix)*WHT_ACROSS(radix) / 2)
#define WHT_STEPS(radix)  (((radix) == 8 ? 3 : (radix) / 2) * WHT_PAIRS(radix)) /* butterflies of one transform */
#define WHT_OPERATIONS(kind, radix)                                                                                    \
    (WHT_STEPS(radix) * ((kind) == WHT_GATE ? 2 : 1) + ((kind) == WHT_PLAIN ? 0 : WHT_PAIRS(radix)))
#define WHT_FIRST(radix) ((radix) == 8 ? 3 : WHT_PAIRS(radix) / 4) /* pairs stored before the next block is started */

VEC_INLINE void wht_step(const int radix, vec *v, const int k)
{
    const int i = k % WHT_PAIRS(radix) / WHT_ACROSS(radix), u = k % WHT_ACROSS(radix), h = 1 << k / WHT_PAIRS(radix);
    const int low = i / h * 2 * h + i % h;
    wht_butterfly(v + low * WHT_ACROSS(radix) + u, v + (low + h) * WHT_ACROSS(radix) + u);
}

VEC_INLINE void wht_factor(const wht_kind kind, const int radix, vec *v, const vec *g, const int k)
{
    const int pairs = WHT_ACROSS(radix) / 2, row = k / pairs;
    vec *at = v + row * WHT_ACROSS(radix) + k % pairs * 2;
    wht_times(at, g[row / VEC_LANES], kind == WHT_SCALE ? 0 : row % VEC_LANES);
    wht_times(at + 1, g[row / VEC_LANES], kind == WHT_SCALE ? 0 : row % VEC_LANES);
}

/* Operation k of a block. */
VEC_INLINE void wht_operation(const wht_kind kind, const int radix, vec *v, const vec *g, const int k)
{
    const int pairs = WHT_PAIRS(radix), all = WHT_STEPS(radix);
    if (k >= all && k < all + pairs)
        wht_factor(kind, radix, v, g, k - all);
    else
        wht_step(radix, v, k < all ? k : k - all - pairs);
}

/* Where a block is read or written: offset in bytes, bytes left in this run, and its first row. */
typedef struct wht_place {
    int64_t at, left, row;
} wht_place;

VEC_INLINE void wht_advance(const int radix, wht_place *p, int64_t run, int64_t next)
{
    const int bytes = WHT_ACROSS(radix) * (int)sizeof(vec);
    p->at += bytes;
    p->left -= bytes;
    if (p->left == 0) {
        p->at += next - run;
        p->left = run;
        p->row += radix;
    }
}

VEC_INLINE void wht_read(const int radix, const wht_walk *q, const wht_place *p, vec *v, const int k)
{
    const int pairs = WHT_ACROSS(radix) / 2, row = k / pairs, two = k % pairs;
    vec_load_two_pinned((const char *)q->from + p->at + row * q->from_step, 32 * two,
                        v + row * WHT_ACROSS(radix) + 2 * two);
}

VEC_INLINE void wht_write(const int radix, const wht_walk *q, const wht_place *p, const vec *v, const int k)
{
    const int pairs = WHT_ACROSS(radix) / 2, row = k / pairs, two = k % pairs;
    vec_store_two_pinned((char *)q->to + p->at + row * q->to_step, 32 * two, v + row * WHT_ACROSS(radix) + 2 * two);
}

/* The factors of a block. */
VEC_INLINE void wht_factors(const wht_kind kind, const int radix, const wht_walk *q, const wht_place *p, vec g[2])
{
    const float *from = q->factors + p->row;
    if (kind == WHT_SCALE)
        g[0] = g[1] = vec_splat(q->scale);
    if (kind == WHT_GATE) {
        g[0] = vec_load(from) * vec_splat(q->scale);
        g[1] = radix > VEC_LANES ? vec_load(from + VEC_LANES) * vec_splat(q->scale) : g[0];
    }
}

/* Computes v, whose position is `own`, while the rest of `old` (or NULL) is stored and `next` (or NULL) loaded. Then
 * `old_at` is set to `own`, and `own` and `read` advance by one block. */
VEC_INLINE void wht_block(const wht_kind kind, const int radix, const wht_walk *q, vec *v, const vec *old, vec *next,
                          vec *g, wht_place *old_at, wht_place *own, wht_place *read)
{
    const int operations = WHT_OPERATIONS(kind, radix), apart = operations / WHT_PAIRS(radix),
              late = WHT_PAIRS(radix) - WHT_FIRST(radix);
    vec fresh[16];
    if (kind == WHT_GATE)
        wht_factors(kind, radix, q, own, g);
    WHT_UNROLL for (int k = 0; k < operations; k++)
    {
        if (old && k % apart == 0 && k / apart < late)
            wht_write(radix, q, old_at, old, WHT_FIRST(radix) + k / apart);
        wht_operation(kind, radix, v, g, k);
        if (k % 2 && k > operations - 1 - 2 * WHT_FIRST(radix))
            wht_write(radix, q, own, v, WHT_FIRST(radix) - 1 - (operations - 1 - k) / 2);
        if (next && k % apart == apart - 1)
            wht_read(radix, q, read, fresh, k / apart);
    }
    const int all = 2 * WHT_PAIRS(radix);
    WHT_UNROLL for (int k = 0; next && k < all; k++) next[k] = fresh[k];
    *old_at = *own;
    wht_advance(radix, own, q->run, q->to_next);
    if (next)
        wht_advance(radix, read, q->run, q->from_next);
}

VEC_INLINE void wht_begin(const wht_kind kind, const int radix, const wht_walk *q, vec *v, vec *g, wht_place *read)
{
    if (kind != WHT_GATE)
        wht_factors(kind, radix, q, read, g);
    const int pairs = WHT_PAIRS(radix);
    WHT_UNROLL for (int k = 0; k < pairs; k++) wht_read(radix, q, read, v, k);
    wht_advance(radix, read, q->run, q->from_next);
}

VEC_INLINE void wht_end(const int radix, const wht_walk *q, const vec *v, const wht_place *at)
{
    const int first = WHT_FIRST(radix), pairs = WHT_PAIRS(radix);
    WHT_UNROLL for (int k = first; k < pairs; k++) wht_write(radix, q, at, v, k);
}

/* Prefetches lines; returns the address after them. */
VEC_INLINE const float *wht_fetch(const float *at, int each, bool near)
{
    for (int i = 0; i < each; i++, at += 16)
        if (near)
            __asm__ volatile("prfm pldl1keep, [%0]" : : "r"(at));
        else
            __asm__ volatile("prfm pldl2keep, [%0]" : : "r"(at));
    return at;
}

/* All blocks of a walk; runs are whole blocks. */
VEC_INLINE void wht_pass_pinned(const wht_kind kind, const int radix, const wht_walk *walk)
{
    wht_walk here = *walk;
    const wht_walk *q = &here;
    const int64_t size = sizeof(float);
    here.from_step *= size;
    here.to_step *= size;
    here.run *= size;
    here.from_next *= size;
    here.to_next *= size;
    vec_pinned_fence();
    wht_place read = { 0, q->run, 0 }, own = read, old = read;
    const bool fetches = wht_fetches(q), near = fetches && q->ahead->near;
    const int each = fetches ? q->ahead->each : 0;
    const float *ahead = fetches ? q->ahead->at : NULL;
    int64_t blocks = q->runs * walk->run / (WHT_ACROSS(radix) * VEC_LANES);
    vec a[16], b[16], g[2];
    if (blocks % 2) {
        wht_begin(kind, radix, q, a, g, &read);
        wht_block(kind, radix, q, a, NULL, NULL, g, &old, &own, &read);
        wht_end(radix, q, a, &old);
    }
    if (blocks > 1) {
        wht_begin(kind, radix, q, a, g, &read);
        wht_block(kind, radix, q, a, NULL, b, g, &old, &own, &read);
        for (blocks -= 2; blocks > 1; blocks -= 2) {
            wht_block(kind, radix, q, b, a, a, g, &old, &own, &read);
            wht_block(kind, radix, q, a, b, b, g, &old, &own, &read);
            ahead = wht_fetch(ahead, each, near);
        }
        wht_block(kind, radix, q, b, a, NULL, g, &old, &own, &read);
        wht_end(radix, q, b, &old);
    }
    vec_pinned_fence();
    wht_fetched(q, ahead);
}

#endif
