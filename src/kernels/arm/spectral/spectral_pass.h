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
#ifndef ZN_ARM_SPECTRAL_PASS_H
#define ZN_ARM_SPECTRAL_PASS_H

#include "kernels/arm/pinned.h"
#include "kernels/arm/spectral/wht_pass.h"

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

#endif
