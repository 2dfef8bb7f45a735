/* Walsh-Hadamard transforms of consecutive lines of 2 to 64 floats, for AArch64: sixteen vectors at a time, which
 * hold whole lines, while the next sixteen are loaded and the previous ones stored. Instructions keep their order
 * and whole cache lines are written, as in wht_pass.h and wht_stream.h. */
#ifndef ZN_ARM_WHT_LINES_H
#define ZN_ARM_WHT_LINES_H

#include "kernels/arm/spectral/wht_pass.h"

/* Two instructions each: steps within a vector, then those among vectors. n is a compile-time constant everywhere. */
#define LINES_WITHIN(n)     ((n) == 2 ? 16 : 32)
#define LINES_OPERATIONS(n) (LINES_WITHIN(n) + ((n) == 64 ? 32 : (n) == 32 ? 24 : (n) == 16 ? 16 : (n) == 8 ? 8 : 0))

/* Operation k of a block: lane l becomes its neighbour's value plus or minus its own, which is exact as a product
 * with signs; then butterflies among vectors. */
VEC_INLINE void lines_operation(const int n, vec *v, const vec *signs, const int k)
{
    vec other;
    if (k < 16)
        __asm__ volatile("rev64 %0.4s, %1.4s" : "=w"(other) : "w"(v[k]));
    else if (k < LINES_WITHIN(n))
        __asm__ volatile("ext %0.16b, %1.16b, %1.16b, 8" : "=w"(other) : "w"(v[k % 16]));
    if (k < LINES_WITHIN(n)) {
        __asm__ volatile("fmla %0.4s, %1.4s, %2.4s" : "+w"(other) : "w"(v[k % 16]), "w"(signs[k / 16]));
        v[k % 16] = other;
        return;
    }
    const int i = (k - LINES_WITHIN(n)) % 8, h = 1 << (k - LINES_WITHIN(n)) / 8, low = i / h * 2 * h + i % h;
    wht_butterfly(v + low, v + low + h);
}

#define LINES_LOAD(offset)                                                                                             \
    __asm__ volatile("ldp %q0, %q1, [%2, " #offset "]" : "=w"(v[2 * k]), "=w"(v[2 * k + 1]) : "r"(from))
/* Loads pair k of a block. */
VEC_INLINE void lines_load(const char *from, vec *v, const int k)
{
    if (k == 0)
        LINES_LOAD(0);
    else if (k == 1)
        LINES_LOAD(32);
    else if (k == 2)
        LINES_LOAD(64);
    else if (k == 3)
        LINES_LOAD(96);
    else if (k == 4)
        LINES_LOAD(128);
    else if (k == 5)
        LINES_LOAD(160);
    else if (k == 6)
        LINES_LOAD(192);
    else
        LINES_LOAD(224);
}
#undef LINES_LOAD

/* Stores the k-th cache line that is complete: first, third, second, fourth. */
VEC_INLINE void lines_store(const bool scaled, char *to, vec *v, vec scale, const int k)
{
    const int line = k / 2 + k % 2 * 2, products = scaled ? 4 : 0;
    v += 4 * line;
    WHT_UNROLL for (int i = 0; i < products; i++) wht_times(v + i, scale, 0);
    __asm__ volatile("stp %q0, %q1, [%4]\n\tstp %q2, %q3, [%4, 32]"
                     :
                     : "w"(v[0]), "w"(v[1]), "w"(v[2]), "w"(v[3]), "r"(to + 64 * line));
}

/* Computes v, whose destination is `to`, and stores half of it; stores the rest of `old` at old_to and loads the
 * next block, its last pairs late, when registers are free. Prefetches 16 KB ahead. */
VEC_INLINE void lines_block(const int n, const bool scaled, vec *v, vec *old, const char *from, char *to, char *old_to,
                            const vec *signs, vec scale)
{
    const int all = LINES_OPERATIONS(n), apart = all / 8;
    vec fresh[16];
    WHT_UNROLL for (int k = 0; k < all; k++)
    {
        if (k == 0 || k == apart)
            lines_store(scaled, old_to, old, scale, 2 + k / apart);
        if (k % apart == 0 && k / apart < 4)
            __asm__ volatile("prfm pldl2keep, [%0]" : : "r"(from + 16384 + k / apart * 64));
        lines_operation(n, v, signs, k);
        if (k == all - 3 || k == all - 1)
            lines_store(scaled, to, v, scale, (k - all + 3) / 2);
        if (k % apart == apart - 1 && k / apart < 4)
            lines_load(from, fresh, k / apart);
        if (k == all - 3 || k == all - 2)
            lines_load(from, fresh, k - all + 7);
    }
    lines_load(from, fresh, 6);
    lines_load(from, fresh, 7);
    WHT_UNROLL for (int k = 0; k < 16; k++) old[k] = fresh[k];
}

/* An even number of blocks of 64 floats; they may be written where they were read. */
VEC_INLINE void lines_all(const int n, const bool scaled, const float *x, float *y, int64_t blocks, float factor)
{
    const vec signs[2] = { { 1, -1, 1, -1 }, { 1, 1, -1, -1 } }, scale = vec_splat(factor);
    const char *from = (const char *)x;
    char *to = (char *)y, *old_to = to; /* the initial content of `old` is overwritten */
    vec v[16], w[16];
    __asm__ volatile("" : : : "memory"); /* loads and stores do not declare their memory: these two do */
    WHT_UNROLL for (int k = 0; k < 8; k++) lines_load(from, v, k);
    WHT_UNROLL for (int k = 0; k < 16; k++) w[k] = vec_splat(0);
    for (; blocks > 0; blocks -= 2, to += 512) {
        from += 256;
        lines_block(n, scaled, v, w, from, to, old_to, signs, scale);
        from += blocks > 2 ? 256 : 0;
        lines_block(n, scaled, w, v, from, to + 256, to, signs, scale);
        old_to = to + 256;
    }
    lines_store(scaled, old_to, w, scale, 2);
    lines_store(scaled, old_to, w, scale, 3);
    __asm__ volatile("" : : : "memory");
}

#define WHT_LINES(n)                                                                                                   \
    static __attribute__((noinline, unused)) void wht_blocks##n(const float *x, float *y, int64_t blocks, float scale) \
    {                                                                                                                  \
        if (scale == 1)                                                                                                \
            lines_all(n, false, x, y, blocks, scale);                                                                  \
        else                                                                                                           \
            lines_all(n, true, x, y, blocks, scale);                                                                   \
    }
WHT_LINES(2)
WHT_LINES(4)
WHT_LINES(8)
WHT_LINES(16)
WHT_LINES(32)
WHT_LINES(64)
#undef WHT_LINES

/* The minimum length; clang spills loaded blocks to the stack, which for short lines is slower than wht.c. */
#if defined(__clang__)
enum { WHT_BLOCKS_LEAST = 8 };
#else
enum { WHT_BLOCKS_LEAST = 2 };
#endif

/* Transforms as many of `count` floats, in lines of n, as are whole pairs of blocks; returns how many. */
static inline int64_t wht_blocks(int64_t n, const float *x, float *y, int64_t count, float scale)
{
    void (*const by_length[])(const float *, float *, int64_t, float) = { wht_blocks2,  wht_blocks4,  wht_blocks8,
                                                                          wht_blocks16, wht_blocks32, wht_blocks64 };
    const int64_t blocks = count / 128 * 2;
    if (blocks == 0 || n < WHT_BLOCKS_LEAST)
        return 0;
    by_length[__builtin_ctzll((unsigned long long)n) - 1](x, y, blocks, scale);
    return blocks * 64;
}

#endif
