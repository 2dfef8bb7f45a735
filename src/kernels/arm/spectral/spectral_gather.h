/* The first pass of a stage of DeepSpectralLinear (spectral_pass.h): reorders rows, multiplies them with their
 * factors, and does the first steps of the transform. */
#ifndef ZN_ARM_SPECTRAL_GATHER_H
#define ZN_ARM_SPECTRAL_GATHER_H

#include "kernels/arm/spectral/spectral_pass.h"

/* Rows that a stage starts with: row i is factors[i] times the row at offsets[i]; with two parts it is the sum of
 * two such rows: sixteen values of the first, then sixteen of the second. */
typedef struct pass_gather {
    const char *from;
    const uint32_t *offsets;
    const float *factors;
} pass_gather;

VEC_INLINE vec pass_gather_row(const char *from, uint64_t offset)
{
    vec v;
    __asm__ volatile("ldr %q0, [%1, %2]" : "=w"(v) : "r"(from), "r"(offset));
    return v;
}

VEC_INLINE void pass_factors(const float *from, vec g[4])
{
    WHT_UNROLL for (int i = 0; i < 4; i++) g[i] = vec_load_pinned(from, 4 * i);
}

/* Offsets i and i + 1. */
VEC_INLINE void pass_offsets(const uint32_t *from, const int i, uint64_t *to)
{
    if (__builtin_constant_p(i))
        __asm__ volatile("ldp %w0, %w1, [%2, %3]" : "=r"(to[0]), "=r"(to[1]) : "r"(from), "i"(i * (int)sizeof *from));
    else
        __asm__ volatile("ldp %w0, %w1, [%2]" : "=r"(to[0]), "=r"(to[1]) : "r"(from + i));
}

/* Rows k and k + 1 of the second part. */
VEC_INLINE void pass_more(const pass_gather *q, const int k, vec *more)
{
    uint64_t offsets[2];
    pass_offsets(q->offsets, PASS_ROWS + k, offsets);
    more[k] = pass_gather_row(q->from, offsets[0]);
    more[k + 1] = pass_gather_row(q->from, offsets[1]);
}

/* v, the rows of q with factors g, is transformed and stored. next and g are loaded with the rows and factors of the
 * next block, which are at `offsets`: those of q again, in another panel, or new ones. */
VEC_INLINE void pass_gather_block(const int parts, const int steps, const bool same, const pass_gather *q,
                                  const pass_gather *then, uint64_t *offsets, vec *v, vec *next, vec *g, char *to)
{
    const int begin = 8 * parts, end = begin + 8 * steps;
    vec more[PASS_ROWS], h[4];
    WHT_UNROLL for (int k = 0; k < end; k++)
    {
        const int i = k % 8 * 2, load = k - (end - 18), offset = load + 8;
        if (k < 8) {
            wht_times(v + i, g[i / 4], i % 4);
            wht_times(v + i + 1, g[i / 4], i % 4 + 1);
        } else if (k < begin) {
            vec_fma_pinned(v + i, more[i], h[i / 4], i % 4);
            vec_fma_pinned(v + i + 1, more[i + 1], h[i / 4], i % 4 + 1);
        } else {
            pass_step(steps, v, to, k - begin);
        }
        if (parts == 2 && k < 8 && k % 2 == 0)
            h[k / 2] = vec_load_pinned(q->factors + PASS_ROWS, 2 * k);
        if (parts == 2 && k >= 3 && k < 11)
            pass_more(q, 2 * (k - 3), more);
        if (!same && offset >= 0 && offset < 16 && offset % 2 == 0)
            pass_offsets(then->offsets, offset, offsets + offset);
        if (load >= 0 && load < 16)
            next[load] = pass_gather_row(then->from, offsets[load]);
    }
    pass_factors(then->factors, g);
}

/* The first three or four steps of a stage. parts and steps are compile-time constants. */
VEC_INLINE void pass_gathered(const int parts, const int steps, const pass_gather *from, pass_rows r)
{
    const int each = PASS_ROWS * parts;
    pass_gather q = *from;
    uint64_t offsets[PASS_ROWS];
    vec a[PASS_ROWS], b[PASS_ROWS], g[4];
    pass_factors(q.factors, g);
    WHT_UNROLL for (int j = 0; j < PASS_ROWS; j += 2) pass_offsets(q.offsets, j, offsets + j);
    WHT_UNROLL for (int j = 0; j < PASS_ROWS; j++) a[j] = pass_gather_row(q.from, offsets[j]);
    for (; r.rows > 0; r.rows -= PASS_ROWS, r.to += PASS_BYTES) {
        const pass_gather second = { q.from + r.panel, q.offsets, q.factors };
        pass_gather_block(parts, steps, true, &q, &second, offsets, a, b, g, r.to);
        q.offsets += each;
        q.factors += each;
        pass_gather_block(parts, steps, false, &second, &q, offsets, b, a, g, r.to + r.panel);
        pass_fetch(r.ahead);
    }
}
PASS_FUNCTION pass_gathered_three(const pass_gather *q, pass_rows r) { pass_gathered(1, 3, q, r); }
PASS_FUNCTION pass_gathered_four(const pass_gather *q, pass_rows r) { pass_gathered(1, 4, q, r); }
PASS_FUNCTION pass_folded_three(const pass_gather *q, pass_rows r) { pass_gathered(2, 3, q, r); }
PASS_FUNCTION pass_folded_four(const pass_gather *q, pass_rows r) { pass_gathered(2, 4, q, r); }

#endif
