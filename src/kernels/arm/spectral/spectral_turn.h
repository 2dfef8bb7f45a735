/* The first and the last pass of DeepSpectralLinear. They transpose pixels of a map to lanes of
 * rows and back, while the vectors are in registers for some steps of the transform anyway. */
#ifndef ZN_ARM_SPECTRAL_TURN_H
#define ZN_ARM_SPECTRAL_TURN_H

#include "kernels/arm/pinned.h"
#include "kernels/arm/spectral/wht_pass.h"

/* The passes of DeepSpectralLinear for AArch64. Pixels are lanes: a row is a vector, one channel of four pixels, and
 * the rows of four pixels are a panel. Every pass does some steps of the transform on sixteen rows at a time and
 * traverses a panel in the same way. It reads from `radix` places that are as far apart as possible and writes the
 * results consecutively. The steps of the highest bits of the row index are then done, and these bits become the
 * lowest. This only needs pointers that increase, and the passes of a whole transform rotate the bits of each row
 * index once around.
 *
 * Instructions keep their order (wht_pass.h). Products are grouped: a product takes one cycle longer than an
 * addition, so an addition after it would find the result port of its unit busy. Each block loads the data of the
 * next one; after the last block the loads read unused data within the scratch. */

/* Pixels of the two panels that alternate in all passes; rows and bytes per block; bytes per row and per cache line. */
enum { PASS_PIXELS = 8, PASS_ROWS = 16, PASS_BYTES = 256, PASS_ROW = 16, PASS_LINE = 64 };

/* Each pass is a function: with so many vectors at once a compiler has no registers left for anything else. */
#define PASS_FUNCTION static __attribute__((noinline)) void

/* Cache lines of maps to prefetch into L2 meanwhile, four per two blocks: those that the next pixels are read from,
 * and those that these will be written to, which would otherwise also wait for memory. The list ends with an entry
 * of no lines. */
typedef struct pass_ahead {
    const char *at;
    int64_t lines;
} pass_ahead;

#define PASS_FETCH(line) __asm__ volatile("prfm pldl2keep, [%0, %1]" : : "r"(a->at), "i"((line)*PASS_LINE))
VEC_INLINE void pass_fetch(pass_ahead **ahead)
{
    pass_ahead *a = *ahead;
    if (a->lines <= 0)
        return;
    PASS_FETCH(0);
    PASS_FETCH(1);
    PASS_FETCH(2);
    PASS_FETCH(3);
    a->at += 4 * PASS_LINE;
    a->lines -= 4;
    if (a->lines <= 0)
        ++*ahead;
}
#undef PASS_FETCH

/* Keeps pointers in their own registers instead of recomputing sums. */
VEC_INLINE void pass_advance(const char **pointers, const int count, int64_t bytes)
{
    WHT_UNROLL for (int i = 0; i < count; i++)
    {
        pointers[i] += bytes;
        __asm__ volatile("" : "+r"(pointers[i]));
    }
}

VEC_INLINE void pass_store(char *to, const int row, vec a, vec b)
{
    const vec two[2] = { a, b };
    vec_store_two_pinned(to, row * PASS_ROW, two);
}

/* Operation k of a step's eight in sixteen rows; returns the lower of its two rows, h apart. */
VEC_INLINE int pass_butterfly(vec *v, const int k)
{
    const int h = 1 << k / 8, low = k % 8 / h * 2 * h + k % 8 % h;
    wht_butterfly(v + low, v + low + h);
    return low;
}

/* Operation k of three or four steps of sixteen rows; stores the rows that are done. */
VEC_INLINE void pass_step(const int steps, vec *v, char *to, const int k)
{
    const int h = 1 << (steps - 1), row = pass_butterfly(v, k) - 1;
    if (k >= 8 * (steps - 1) && k % 2) {
        pass_store(to, row, v[row], v[row + 1]);
        pass_store(to, row + h, v[row + h], v[row + h + 1]);
    }
}

/* Operation k of eight: two steps of four rows from four places, `across` vectors from one place to the next; two of
 * them side by side. */
VEC_INLINE void pass_near(const int across, vec *v, const int k)
{
    const int h = k < 4 ? 1 : 2, row = k < 4 ? k / 2 * 2 : k / 2 - 2;
    vec *at = v + row * across + k % 2;
    wht_butterfly(at, at + h * across);
}

/* Rows of two panels: `rows` of each, `panel` bytes from the first to the second. */
typedef struct pass_rows {
    const char *from;
    char *to;
    int64_t rows, panel;
    pass_ahead **ahead;
} pass_rows;

/* Sixteen rows: pointers to every fourth of them, and the distance in bytes to the others. */
typedef struct pass_spread {
    const char *row[4];
    int64_t apart[4];
} pass_spread;

VEC_INLINE pass_spread pass_spread_of(const char *rows, int64_t apart)
{
    pass_spread q = { .apart = { 0, apart, 2 * apart, 3 * apart } };
    WHT_UNROLL for (int j = 0; j < 4; j++) q.row[j] = rows + 4 * j * apart;
    return q;
}

VEC_INLINE vec pass_spread_load(const pass_spread *q, const int row)
{
    vec v;
    __asm__ volatile("ldr %q0, [%1, %2]" : "=w"(v) : "r"(q->row[row / 4]), "r"(q->apart[row % 4]));
    return v;
}

VEC_INLINE void pass_sixteen_block(vec *v, vec *next, const pass_spread *q, char *to)
{
    WHT_UNROLL for (int k = 0; k < 32; k++)
    {
        pass_step(4, v, to, k);
        if (k >= 16)
            next[k - 16] = pass_spread_load(q, k - 16);
    }
}

/* Four steps. */
PASS_FUNCTION pass_sixteen(pass_rows r)
{
    const int64_t apart = r.rows / 16 * PASS_ROW;
    pass_spread first = pass_spread_of(r.from, apart), second = first;
    vec a[PASS_ROWS], b[PASS_ROWS];
    WHT_UNROLL for (int j = 0; j < 4; j++) second.apart[j] += r.panel;
    WHT_UNROLL for (int j = 0; j < PASS_ROWS; j++) a[j] = pass_spread_load(&first, j);
    for (; r.rows > 0; r.rows -= PASS_ROWS, r.to += PASS_BYTES) {
        pass_sixteen_block(a, b, &second, r.to);
        pass_advance(first.row, 4, PASS_ROW);
        WHT_UNROLL for (int j = 0; j < 4; j++) second.row[j] = first.row[j];
        pass_sixteen_block(b, a, &first, r.to + r.panel);
        pass_fetch(r.ahead);
    }
}

/* Two sets of eight rows, v[2 * i + u] from place i. */
VEC_INLINE void pass_eight_block(vec *v, vec *next, const char *const *from, char *to)
{
    WHT_UNROLL for (int k = 0; k < 24; k++)
    {
        const int u = (k - 16) / 4, row = k % 4;
        if (k < 16) {
            pass_near(2, v + k / 8 * 8, k % 8);
            continue;
        }
        wht_butterfly(v + 2 * row + u, v + 2 * (row + 4) + u);
        if (k % 2) {
            pass_store(to, 8 * u + row - 1, v[2 * (row - 1) + u], v[2 * row + u]);
            pass_store(to, 8 * u + row + 3, v[2 * (row + 3) + u], v[2 * (row + 4) + u]);
        }
        vec_load_two_pinned(from[k - 16], 0, next + 2 * (k - 16));
    }
}

/* Three steps. */
PASS_FUNCTION pass_eight(pass_rows r)
{
    const int64_t apart = r.rows / 8 * PASS_ROW;
    const char *from[8];
    vec a[PASS_ROWS], b[PASS_ROWS];
    WHT_UNROLL for (int j = 0; j < 8; j++)
    {
        from[j] = r.from + j * apart;
        vec_load_two_pinned(from[j], 0, a + 2 * j);
    }
    for (; r.rows > 0; r.rows -= PASS_ROWS, r.to += PASS_BYTES) {
        pass_advance(from, 8, r.panel);
        pass_eight_block(a, b, from, r.to);
        pass_advance(from, 8, 2 * PASS_ROW - r.panel);
        pass_eight_block(b, a, from, r.to + r.panel);
        pass_fetch(r.ahead);
    }
}

/* Four sets of four rows, v[4 * i + u] from place i. */
VEC_INLINE void pass_four_block(vec *v, vec *next, const char *const *from, char *to)
{
    WHT_UNROLL for (int k = 0; k < 16; k++)
    {
        const int u = k / 8 * 2 + k % 2, i = (k - 8) / 4 * 2;
        pass_near(4, v + k / 8 * 2, k % 8);
        if (k % 8 >= 6) {
            pass_store(to, 4 * u, v[u], v[4 + u]);
            pass_store(to, 4 * u + 2, v[8 + u], v[12 + u]);
        }
        if (k >= 8)
            vec_load_two_pinned(from[k % 4], i * PASS_ROW, next + 4 * (k % 4) + i);
    }
}

/* Two steps. */
PASS_FUNCTION pass_four(pass_rows r)
{
    const int64_t apart = r.rows / 4 * PASS_ROW;
    const char *from[4];
    vec a[PASS_ROWS], b[PASS_ROWS];
    WHT_UNROLL for (int j = 0; j < 4; j++)
    {
        from[j] = r.from + j * apart;
        vec_load_two_pinned(from[j], 0, a + 4 * j);
        vec_load_two_pinned(from[j], 2 * PASS_ROW, a + 4 * j + 2);
    }
    for (; r.rows > 0; r.rows -= PASS_ROWS, r.to += PASS_BYTES) {
        pass_advance(from, 4, r.panel);
        pass_four_block(a, b, from, r.to);
        pass_advance(from, 4, 4 * PASS_ROW - r.panel);
        pass_four_block(b, a, from, r.to + r.panel);
        pass_fetch(r.ahead);
    }
}

/* The first pass of a stage of DeepSpectralLinear: reorders rows, multiplies them with their
 * factors, and does the first steps of the transform. */

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

/* Interleaves the lanes of a and b. */
VEC_INLINE void pass_zip(vec a, vec b, vec *low, vec *high)
{
    __asm__ volatile("zip1 %0.4s, %1.4s, %2.4s" : "=w"(*low) : "w"(a), "w"(b));
    __asm__ volatile("zip2 %0.4s, %1.4s, %2.4s" : "=w"(*high) : "w"(a), "w"(b));
}

/* Operation k of four: swaps lane i of v[j * step] and lane j of v[i * step]. */
VEC_INLINE void pass_turn(vec *v, const int step, vec t[4], const int k)
{
    if (k < 2)
        pass_zip(v[k * step], v[(k + 2) * step], t + 2 * k, t + 2 * k + 1);
    else
        pass_zip(t[k - 2], t[k], v + 2 * (k - 2) * step, v + (2 * (k - 2) + 1) * step);
}

/* Where the channels of some pixels are: in one part or four, each with consecutive channels. */
typedef struct pass_map {
    char *part[4]; /* of the first pixel */
    int parts;
    int64_t each, next; /* channels of a part, and bytes from one pixel to the next */
} pass_map;

/* A line of a map: sixteen channels of the first pixel. */
typedef struct pass_line {
    char *at;
    int part;
    int64_t left; /* channels left in this part */
} pass_line;

VEC_INLINE pass_line pass_first_line(const pass_map *m) { return (pass_line){ .at = m->part[0], .left = m->each }; }

/* The next line; after the last one, any line of the map. */
VEC_INLINE void pass_next_line(const pass_map *m, pass_line *l)
{
    l->at += PASS_LINE;
    l->left -= 16;
    if (l->left > 0)
        return;
    l->part++;
    l->left = m->each;
    l->at = m->part[l->part % m->parts];
}

/* Prefetches a line of each of eight pixels from L2 into L1. */
VEC_INLINE void pass_fetch_near(const char *line, int64_t apart)
{
    WHT_UNROLL for (int i = 0; i < PASS_PIXELS; i++) __asm__ volatile("prfm pldl1keep, [%0]" : : "r"(line + i * apart));
}

/* Sixteen channels of four pixels: v, with factors g, is transformed and stored; next and g are loaded from
 * `pixels`. */
VEC_INLINE void pass_turn_block(vec *v, vec *next, vec *g, const char *pixels, int64_t apart, const float *factors,
                                char *to)
{
    const char *const pixel[4] = { pixels, pixels + apart, pixels + 2 * apart, pixels + 3 * apart };
    vec t[4], rows[PASS_ROWS];
    WHT_UNROLL for (int k = 0; k < 56; k++)
    {
        if (k < 8) {
            WHT_UNROLL for (int i = 2 * k; i < 2 * k + 2;
                            i++) __asm__ volatile("fmul %0.4s, %0.4s, %1.4s" : "+w"(v[i]) : "w"(g[i % 4]));
        } else if (k < 24) {
            const int four = (k - 8) / 4;
            pass_turn(v + four, 4, t, k % 4);
            if (k % 4 == 3)
                WHT_UNROLL for (int j = 0; j < 4; j++) rows[4 * four + j] = v[4 * j + four];
        } else {
            pass_step(4, rows, to, k - 24);
        }
        if (k >= 38 && k < 54 && k % 2 == 0) {
            const int i = k - 38;
            vec_load_two_pinned(pixel[i / 4], i % 4 / 2 * 32, next + i);
        }
        if (k == 54)
            pass_factors(factors, g);
    }
}

/* The map -> rows of pixels times their factors, and the first four steps. */
PASS_FUNCTION pass_turned(const pass_map *m, const float *factors, char *to, int64_t panel)
{
    pass_line l = pass_first_line(m);
    vec a[PASS_ROWS], b[PASS_ROWS], g[4];
    pass_factors(factors, g);
    WHT_UNROLL for (int i = 0; i < PASS_ROWS; i += 2)
        vec_load_two_pinned(l.at + i / 4 * m->next, i % 4 / 2 * 32, a + i);
    while (l.part < m->parts) {
        const char *second = l.at + 4 * m->next;
        pass_next_line(m, &l);
        pass_fetch_near(l.at, m->next);
        pass_turn_block(a, b, g, second, m->next, factors, to);
        factors += 16;
        pass_turn_block(b, a, g, l.at, m->next, factors, to + panel);
        to += PASS_BYTES;
    }
}

/* Four steps, then sixteen channels of four pixels plus bias are stored as lines of the map; next: the rows at q. */
VEC_INLINE void pass_out_block(const pass_spread *q, vec *v, vec *next, const float *bias, char *to, int64_t apart)
{
    vec t[4], kept[4];
    char *const pixel[4] = { to, to + apart, to + 2 * apart, to + 3 * apart };
    WHT_UNROLL for (int k = 0; k < 56; k++)
    {
        const int four = (k - 32) / 6, i = (k - 32) % 6;
        vec *of = v + 4 * four;
        if (k < 32) {
            (void)pass_butterfly(v, k);
        } else if (i < 4) {
            pass_turn(of, 1, t, i);
        } else {
            WHT_UNROLL for (int j = 2 * i - 8; j < 2 * i - 6; j++)
            {
                __asm__ volatile("fadd %0.4s, %0.4s, %1.4s" : "+w"(of[j]) : "w"(kept[four]));
                const vec two[2] = { v[4 * (four - four % 2) + j], of[j] };
                if (four % 2)
                    vec_store_two_pinned(pixel[j], four / 2 * 32, two);
            }
        }
        if (k >= 26 && (k - 26) % 6 == 0 && k < 50)
            kept[(k - 26) / 6] = vec_load_pinned(bias, (k - 26) / 6 * 4);
        if (k >= 38 && k < 54)
            next[k - 38] = pass_spread_load(q, k - 38);
    }
}

/* The last four steps: rows -> the map. Sixteen rows that are as far apart as possible are sixteen channels of a
 * part; the rows after them are the next channels. */
PASS_FUNCTION pass_out(const pass_rows *r, const float *bias, const pass_map *m)
{
    const int64_t apart = r->rows / 16 * PASS_ROW;
    pass_spread first = pass_spread_of(r->from, apart), second = first;
    pass_line l = pass_first_line(m);
    vec a[PASS_ROWS], b[PASS_ROWS];
    WHT_UNROLL for (int j = 0; j < 4; j++) second.apart[j] += r->panel;
    WHT_UNROLL for (int j = 0; j < PASS_ROWS; j++) a[j] = pass_spread_load(&first, j);
    for (; l.part < m->parts; bias += 16) {
        char *to = l.at;
        pass_next_line(m, &l);
        pass_out_block(&second, a, b, bias, to, m->next);
        pass_advance(first.row, 4, PASS_ROW);
        WHT_UNROLL for (int j = 0; j < 4; j++) second.row[j] = first.row[j];
        pass_out_block(&first, b, a, bias, to + 4 * m->next, m->next);
    }
}

#endif
