/* The passes of DeepSpectralLinear for AArch64. Pixels are lanes: a row holds one channel of eight of them. Every pass
 * takes sixteen vectors at a time through some steps of the transform, and goes over rows in the same way: it reads
 * from `radix` places that are as far apart as they can be and writes the results one behind the other, so that the
 * steps of the highest bits of a row's number are done and these become its lowest. Pointers that only grow are all it
 * takes, and the passes of a whole transform bring the bits of each row's number once around.
 *
 * Instructions stay in their order (wht_pass.h). Products stand together, since an addition behind a product, which
 * takes a cycle longer, finds the way out of its unit taken. Loads are those of the next block; behind the last one
 * they read what does not matter, within the scratch. */
#ifndef ZN_ARM_SPECTRAL_PASS_H
#define ZN_ARM_SPECTRAL_PASS_H

#include "kernels/arm/pinned.h"
#include "kernels/arm/wht_pass.h"

/* Pixels of a row; rows, vectors and bytes of a block; bytes of a row and of a line of the cache. */
enum { PASS_PIXELS = 8, PASS_ROWS = 8, PASS_VECTORS = 16, PASS_BYTES = 256, PASS_ROW = 32, PASS_LINE = 64 };

/* Each pass is a function: so many vectors at once leave a compiler no room for anything else. */
#define PASS_FUNCTION static __attribute__((noinline)) void

/* Lines of maps that are fetched meanwhile, two for every two blocks: those that the next pixels are read from, and
 * those that these will be written to, which otherwise wait for the memory too. A list that ends with one of no lines.
 */
typedef struct pass_ahead {
    const char *at;
    int64_t lines;
    bool write;
} pass_ahead;

VEC_INLINE void pass_fetch(pass_ahead **ahead)
{
    pass_ahead *a = *ahead;
    if (a->lines <= 0)
        return;
    if (a->write)
        __asm__ volatile("prfm pstl2keep, [%0]\n\tprfm pstl2keep, [%0, 64]" : : "r"(a->at));
    else
        __asm__ volatile("prfm pldl2keep, [%0]\n\tprfm pldl2keep, [%0, 64]" : : "r"(a->at));
    a->at += 2 * PASS_LINE;
    a->lines -= 2;
    if (a->lines <= 0)
        ++*ahead;
}

/* Keeps pointers in registers of their own, instead of sums that are made anew. */
VEC_INLINE void pass_advance(const char **pointers, const int count, const int bytes)
{
    WHT_UNROLL for (int i = 0; i < count; i++)
    {
        pointers[i] += bytes;
        __asm__ volatile("" : "+r"(pointers[i]));
    }
}

/* Operation k of the steps of eight rows; those that are done with it go to memory. */
VEC_INLINE void pass_step(const int steps, vec *v, char *to, const int k)
{
    const int h = 1 << (steps - 1), i = k % 8 / 2, low = i / h * 2 * h + i % h;
    wht_step(8, v, k);
    if (k >= 8 * (steps - 1) && k % 2) {
        vec_store_two_pinned(to, low * PASS_ROW, v + 2 * low);
        vec_store_two_pinned(to, (low + h) * PASS_ROW, v + 2 * (low + h));
    }
}

/* Operation k of eight: two steps of four rows of two vectors, `across` vectors from row to row. What an operation
 * needs has been computed shortly before: then it waits, and a Neoverse-V1 does not spend a way to read it from a
 * register. */
VEC_INLINE int pass_near(const int across, vec *v, const int k)
{
    const int h = k < 4 ? 1 : 2, row = k < 4 ? k / 2 * 2 : k / 2 - 2;
    wht_butterfly(v + row * across + k % 2, v + (row + h) * across + k % 2);
    return row;
}

VEC_INLINE void pass_eight_block(vec *v, vec *next, const char *const *from, const int offset, char *to)
{
    WHT_UNROLL for (int k = 0; k < 24; k++)
    {
        if (k < 16) {
            (void)pass_near(2, v + k / 8 * 8, k % 8);
        } else {
            pass_step(3, v, to, k);
            vec_load_two_pinned(from[k - 16], offset, next + 2 * (k - 16));
        }
    }
}

/* Three steps, from rows that are `apart` bytes apart; an even number of blocks. */
PASS_FUNCTION pass_eight(const char *rows, int64_t apart, char *to, int64_t blocks, pass_ahead **ahead)
{
    const char *from[PASS_ROWS];
    vec a[PASS_VECTORS], b[PASS_VECTORS];
    WHT_UNROLL for (int j = 0; j < PASS_ROWS; j++)
    {
        from[j] = rows + j * apart;
        vec_load_two_pinned(from[j], 0, a + 2 * j);
    }
    for (; blocks > 0; blocks -= 2, to += 2 * PASS_BYTES) {
        pass_eight_block(a, b, from, PASS_ROW, to);
        pass_eight_block(b, a, from, 2 * PASS_ROW, to + PASS_BYTES);
        pass_advance(from, PASS_ROWS, 2 * PASS_ROW);
        pass_fetch(ahead);
    }
}

/* Four times two rows: v[4 * i + u] is vector u of the two at from[i]. */
VEC_INLINE void pass_four_block(vec *v, vec *next, const char *const *from, const int offset, char *to)
{
    WHT_UNROLL for (int k = 0; k < 16; k++)
    {
        const int row = k / 8, i = pass_near(4, v + 2 * row, k % 8);
        if (k % 8 >= 4 && k % 2) {
            vec_store_two_pinned(to, (4 * row + i) * PASS_ROW, v + 4 * i + 2 * row);
            vec_store_two_pinned(to, (4 * row + i + 2) * PASS_ROW, v + 4 * (i + 2) + 2 * row);
        }
        if (k >= 8)
            vec_load_two_pinned(from[k % 4], offset + (k - 8) / 4 * PASS_ROW, next + 4 * (k % 4) + 2 * ((k - 8) / 4));
    }
}

/* Two steps. */
PASS_FUNCTION pass_four(const char *rows, int64_t apart, char *to, int64_t blocks, pass_ahead **ahead)
{
    const char *from[4];
    vec a[PASS_VECTORS], b[PASS_VECTORS];
    WHT_UNROLL for (int j = 0; j < 4; j++)
    {
        from[j] = rows + j * apart;
        vec_load_two_pinned(from[j], 0, a + 4 * j);
        vec_load_two_pinned(from[j], PASS_ROW, a + 4 * j + 2);
    }
    for (; blocks > 0; blocks -= 2, to += 2 * PASS_BYTES) {
        pass_four_block(a, b, from, 2 * PASS_ROW, to);
        pass_four_block(b, a, from, 4 * PASS_ROW, to + PASS_BYTES);
        pass_advance(from, 4, 4 * PASS_ROW);
        pass_fetch(ahead);
    }
}

/* Rows that a stage begins with: row i is factors[i] times the row at offsets[i]; or with two parts, the sum of two
 * such ones: eight numbers of the first, then eight of the second. */
typedef struct pass_gather {
    const char *from;
    const uint16_t *offsets;
    const float *factors;
} pass_gather;

VEC_INLINE void pass_gather_row(const pass_gather *q, const int row, vec *v)
{
    vec_load_two_pinned(q->from + q->offsets[row], 0, v);
}

VEC_INLINE void pass_factors(const float *from, vec g[2])
{
    g[0] = vec_load_pinned(from, 0);
    g[1] = vec_load_pinned(from, 4);
}

/* v, whose factors are g, becomes what is written; next and g are the rows and factors of the block behind it. */
VEC_INLINE void pass_gather_block(const int parts, const int steps, pass_gather *q, vec *v, vec *next, vec *g, char *to)
{
    const int begin = 8 * parts, end = begin + 8 * steps;
    const pass_gather own = *q;
    vec more[PASS_VECTORS], h[2];
    q->offsets += PASS_ROWS * parts;
    q->factors += PASS_ROWS * parts;
    if (parts == 2)
        pass_factors(own.factors + PASS_ROWS, h);
    WHT_UNROLL for (int k = 0; k < end; k++)
    {
        const int row = k % 8, slot = k - (end - 18);
        if (k < 8) {
            wht_times(v + 2 * row, g[row / 4], row % 4);
            wht_times(v + 2 * row + 1, g[row / 4], row % 4);
        } else if (k < begin) {
            vec_fma_pinned(v + 2 * row, more[2 * row], h[row / 4], row % 4);
            vec_fma_pinned(v + 2 * row + 1, more[2 * row + 1], h[row / 4], row % 4);
        } else {
            pass_step(steps, v, to, k - begin);
        }
        if (parts == 2 && k >= 3 && k < 11)
            pass_gather_row(&own, PASS_ROWS + k - 3, more + 2 * (k - 3));
        if (slot >= 0 && slot % 2 == 0 && slot < 16)
            pass_gather_row(q, slot / 2, next + slot);
        if (slot == 16)
            pass_factors(q->factors, g);
    }
}

/* The first two or three steps of a stage. parts and steps are constants. */
VEC_INLINE void pass_gathered(const int parts, const int steps, pass_gather q, char *to, int64_t blocks)
{
    vec a[PASS_VECTORS], b[PASS_VECTORS], g[2];
    pass_factors(q.factors, g);
    WHT_UNROLL for (int j = 0; j < PASS_ROWS; j++) pass_gather_row(&q, j, a + 2 * j);
    for (; blocks > 0; blocks -= 2, to += 2 * PASS_BYTES) {
        pass_gather_block(parts, steps, &q, a, b, g, to);
        pass_gather_block(parts, steps, &q, b, a, g, to + PASS_BYTES);
    }
}
PASS_FUNCTION pass_gathered_two(pass_gather q, char *to, int64_t blocks) { pass_gathered(1, 2, q, to, blocks); }
PASS_FUNCTION pass_gathered_three(pass_gather q, char *to, int64_t blocks) { pass_gathered(1, 3, q, to, blocks); }
PASS_FUNCTION pass_folded_two(pass_gather q, char *to, int64_t blocks) { pass_gathered(2, 2, q, to, blocks); }
PASS_FUNCTION pass_folded_three(pass_gather q, char *to, int64_t blocks) { pass_gathered(2, 3, q, to, blocks); }

#endif
