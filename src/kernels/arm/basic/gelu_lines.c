/* GELU of lines of sixteen floats for AArch64, with the same bits as gelu() of simd/basic/gelu.h. Four lines are in
 * flight at once, one in each quarter of the formula, so that many instructions separate a result from its use.
 * Every constant is loaded where it is used: a Neoverse-V1 reads only four registers per cycle that were ready when
 * an instruction entered the queue; operands still being loaded do not count. The order of instructions matters, so
 * each is its own `asm volatile` (wht_pass.h). */
#include "kernels/arm/pinned.h"
#include "kernels/simd/basic/gelu.h"

#include <stdbool.h>

/* Entries after the polynomial in the table of constants. */
enum { GELU_BOUND = 9, GELU_ZERO };

/* A line in flight: |x| with its bound, later times p; the polynomial, later its powers; and max(x, 0). */
typedef struct gelu_line {
    vec a[GELU_U], p[GELU_U], m[GELU_U];
} gelu_line;

/* Addresses of the lines in flight: the line that is read next and the two before it; and where the three lines
 * before the next will be written. */
typedef struct gelu_places {
    const float *x, *x1, *x2;
    float *y, *y1, *y2, *y3;
    int64_t left; /* lines left in the row, including the next one */
} gelu_places;

/* p = p a + constant */
VEC_INLINE void gelu_horner(const float (*table)[VEC_LANES], const int k, gelu_line *s)
{
    GELU_EACH
    {
        vec sum = vec_load_pinned(table[0], k * VEC_LANES);
        __asm__ volatile("fmla %0.4s, %1.4s, %2.4s" : "+w"(sum) : "w"(s->p[u]), "w"(s->a[u]));
        s->p[u] = sum;
    }
}

VEC_INLINE void gelu_square(gelu_line *s) { GELU_EACH __asm__ volatile("fmul %0.4s, %0.4s, %0.4s" : "+w"(s->p[u])); }

/* Computes a quarter of the formula for each of four lines: `one` is read from x, `three` is read again, and `four`
 * is written. */
VEC_INLINE void gelu_step(const float (*table)[VEC_LANES], gelu_line *one, gelu_line *two, gelu_line *three,
                          gelu_line *four, const float *from, const float *again, float *to)
{
    vec kept;
    GELU_EACH __asm__ volatile("fmls %0.4s, %1.4s, %2.4s" : "+w"(four->m[u]) : "w"(four->a[u]), "w"(four->p[u]));
    gelu_horner(table, 0, three);
    gelu_horner(table, 5, two);
    GELU_EACH one->a[u] = vec_load_pinned(from, u * VEC_LANES);

    GELU_EACH vec_store_pinned(to, u * VEC_LANES, four->m[u]);
    gelu_horner(table, 4, two);
    GELU_EACH __asm__ volatile("fabs %0.4s, %0.4s" : "+w"(one->a[u]));

    gelu_square(three);
    gelu_horner(table, 3, two);
    kept = vec_load_pinned(table[0], GELU_BOUND * VEC_LANES);
    GELU_EACH __asm__ volatile("fmin %0.4s, %0.4s, %1.4s" : "+w"(one->a[u]) : "w"(kept));

    gelu_square(three);
    GELU_EACH three->m[u] = vec_load_pinned(again, u * VEC_LANES);
    gelu_horner(table, 2, two);
    kept = vec_load_pinned(table[0], 8 * VEC_LANES);
    GELU_EACH one->p[u] = kept;
    gelu_horner(table, 7, one);

    GELU_EACH __asm__ volatile("fmul %0.4s, %0.4s, %1.4s" : "+w"(three->a[u]) : "w"(three->p[u]));
    kept = vec_load_pinned(table[0], GELU_ZERO * VEC_LANES);
    GELU_EACH __asm__ volatile("fmax %0.4s, %0.4s, %1.4s" : "+w"(three->m[u]) : "w"(kept));
    gelu_horner(table, 1, two);
    gelu_horner(table, 6, one);
}

VEC_INLINE void gelu_advance(const gelu_walk *w, gelu_places *p, bool more)
{
    p->x2 = p->x1;
    p->x1 = p->x;
    p->y3 = p->y2;
    p->y2 = p->y1;
    p->y1 = p->y;
    if (!more)
        return;
    p->x += GELU_LINE;
    p->y += w->y_step;
    if (--p->left == 0) {
        p->x += w->x_row - w->lines * GELU_LINE;
        p->y += w->y_row - w->lines * w->y_step;
        p->left = w->lines;
    }
}

void ZN_KERNEL(gelu_lines)(const gelu_walk *w)
{
    static const float table[][VEC_LANES] = {
#define ROW(c) { c, c, c, c }
        ROW(GELU_C0), ROW(GELU_C1), ROW(GELU_C2), ROW(GELU_C3),   ROW(GELU_C4), ROW(GELU_C5),
        ROW(GELU_C6), ROW(GELU_C7), ROW(GELU_C8), ROW(GELU_MOST), ROW(0.0f),
#undef ROW
    };
    const int64_t count = w->lines * w->rows;
    float nowhere[GELU_LINE];
    gelu_places p = { w->x, w->x, w->x, w->y, nowhere, nowhere, nowhere, w->lines };
    gelu_line a, b, c, d;
    GELU_EACH a.a[u] = a.p[u] = a.m[u] = b.a[u] = b.p[u] = c.a[u] = c.p[u] = d.a[u] = d.p[u] = vec_splat(0);
    vec_pinned_fence();
#define STEP(one, two, three, four)                                                                                    \
    gelu_step(table, &one, &two, &three, &four, p.x, p.x2, p.y3);                                                      \
    gelu_advance(w, &p, i + 1 < count);                                                                                \
    if (++i == count + 3)                                                                                              \
        break;
    for (int64_t i = 0; count;) {
        STEP(d, c, b, a)
        STEP(a, d, c, b)
        STEP(b, a, d, c)
        STEP(c, b, a, d)
    }
#undef STEP
    vec_pinned_fence();
}
