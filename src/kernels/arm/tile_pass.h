/* Passes over a square of 32 x 32 positions of sixteen channels for AArch64, the same bits as simd/tile_square.c gives
 * elsewhere. Sixteen vectors are in registers; those of the next block are loaded while these are stored. The order of
 * the instructions is what counts, so each is an `asm volatile` (wht_pass.h), and parameters are loaded where they are
 * used (gelu_pass.h says why). */
#ifndef ZN_ARM_TILE_PASS_H
#define ZN_ARM_TILE_PASS_H

#include "kernels/arm/pinned.h"
#include "kernels/arm/wht_pass.h"

/* Floats between lines of a row of the square, between its rows, and between the tables of gates and of both bounds: no
 * power of two, since loads from places that far apart wait for each other. */
enum { TILE_SIDE = 32, TILE_LINE = 16, TILE_ROW = 33 * TILE_LINE, TILE_TABLE = 33 * TILE_LINE };

/* Which results of the last step are wanted: both halves of the square, or those before or behind its middle. */
typedef enum tile_half { TILE_BOTH, TILE_BEFORE, TILE_BEHIND } tile_half;

/* The transform of n values (4, 8 or 16), of `across` vectors each. */
VEC_INLINE void tile_wht(const int n, const int across, vec *v)
{
    const int pairs = n / 2 * across, all = pairs * (n == 4 ? 2 : n == 8 ? 3 : 4);
    WHT_UNROLL for (int k = 0; k < all; k++)
    {
        const int h = 1 << k / pairs, i = k % pairs / across, low = i / h * 2 * h + i % h;
        wht_butterfly(v + low * across + k % across, v + (low + h) * across + k % across);
    }
}

/* The transform of four values of `across` vectors, or a half of its results. */
VEC_INLINE void tile_wht_half(const tile_half half, const int across, vec *v)
{
    WHT_UNROLL for (int k = 0; k < 2 * across; k++)
        wht_butterfly(v + k / across * 2 * across + k % across, v + (k / across * 2 + 1) * across + k % across);
    WHT_UNROLL for (int k = 0; k < 2 * across; k++)
    {
        vec *low = v + k, *high = low + 2 * across;
        if (half == TILE_BOTH)
            wht_butterfly(low, high);
        else if (half == TILE_BEFORE)
            __asm__ volatile("fadd %0.4s, %0.4s, %1.4s" : "+w"(*low) : "w"(*high));
        else
            __asm__ volatile("fsub %0.4s, %1.4s, %0.4s" : "+w"(*high) : "w"(*low));
    }
}

VEC_INLINE bool tile_wanted(const tile_half half, const int k)
{
    return half == TILE_BOTH || (k >= 2) == (half == TILE_BEHIND);
}

/* The steps at distances 8 and 16 of a row of the map, whose position j lies at from + at[j]. */
static inline void tile_first_pinned(const float *from, const int64_t *at, float *to)
{
    vec v[16];
    vec_pinned_fence();
    WHT_UNROLL for (int k = 0; k < 16; k++) v[k] = vec_load_pinned(from + at[k / 4 * 8], k % 4 * VEC_LANES);
    for (int j = 0; j < 8; j++, to += TILE_LINE) {
        tile_wht(4, 4, v);
        const int64_t *next = at + (j < 7 ? j + 1 : 7);
        WHT_UNROLL for (int k = 0; k < 16; k++)
        {
            vec_store_pinned(to, k / 4 * 8 * TILE_LINE + k % 4 * VEC_LANES, v[k]);
            v[k] = vec_load_pinned(from + next[k / 4 * 8], k % 4 * VEC_LANES);
        }
    }
    vec_pinned_fence();
}

/* Gate and soft threshold of eight neighbours, two vectors of each; half of them at a time, to have registers enough.
 */
VEC_INLINE void tile_threshold(vec *v, const float *table)
{
    WHT_UNROLL for (int half = 0; half < 16; half += 8)
    {
        vec m[8];
        WHT_UNROLL for (int i = 0; i < 8; i++)
        {
            const vec gate = vec_load_pinned(table, (half + i) / 2 * TILE_LINE + i % 2 * VEC_LANES);
            __asm__ volatile("fmul %0.4s, %0.4s, %1.4s" : "+w"(v[half + i]) : "w"(gate));
        }
        WHT_UNROLL for (int i = 0; i < 8; i++)
        {
            const vec low = vec_load_pinned(table, TILE_TABLE + (half + i) / 2 * TILE_LINE + i % 2 * VEC_LANES);
            __asm__ volatile("fmax %0.4s, %1.4s, %2.4s" : "=w"(m[i]) : "w"(v[half + i]), "w"(low));
        }
        WHT_UNROLL for (int i = 0; i < 8; i++)
        {
            const vec high = vec_load_pinned(table, 2 * TILE_TABLE + (half + i) / 2 * TILE_LINE + i % 2 * VEC_LANES);
            __asm__ volatile("fmin %0.4s, %0.4s, %1.4s" : "+w"(m[i]) : "w"(high));
        }
        WHT_UNROLL for (int i = 0; i < 8;
                        i++) __asm__ volatile("fsub %0.4s, %0.4s, %1.4s" : "+w"(v[half + i]) : "w"(m[i]));
    }
}

/* Lines of positions that begin eight neighbours, the middle of a transform; in rows of lines. */
typedef struct tile_walk {
    float *at;
    const float *table;                 /* parameters of the first */
    int64_t lines, at_next, table_next; /* in a row; floats from line to line */
    int64_t rows, at_row, table_row;    /* floats from row to row */
    const float *ahead;                 /* a row of the map, of which eight lines are fetched with each line, or NULL */
    const int64_t *ahead_at;            /* where they lie behind it */
} tile_walk;

/* The map into the second cache, since the first is full; and into that the lines of the square that come next. */
VEC_INLINE void tile_fetch(const float *from, const int64_t *at, const float *next)
{
    WHT_UNROLL for (int k = 0; k < 8; k++) __asm__ volatile("prfm pldl2keep, [%0]" : : "r"(from + at[k]));
    WHT_UNROLL for (int k = 0; k < 8; k++) __asm__ volatile("prfm pstl1keep, [%0]" : : "r"(next + k * TILE_LINE));
}

/* The middle of all transforms of a walk, two vectors of eight neighbours that lie `step` floats apart, a constant. */
VEC_INLINE void tile_middle_pinned(const int step, const tile_walk *w)
{
    float *at = w->at;
    const float *table = w->table;
    vec v[16];
    vec_pinned_fence();
    WHT_UNROLL for (int k = 0; k < 16; k++) v[k] = vec_load_pinned(at, k / 2 * step + k % 2 * VEC_LANES);
    for (int64_t row = 0, line = 0; row < w->rows;)
        WHT_UNROLL for (int c = 0; c < TILE_LINE; c += 2 * VEC_LANES)
        {
            float *done = at + c, *next = done + 2 * VEC_LANES;
            tile_wht(8, 2, v);
            tile_threshold(v, table + c);
            tile_wht(8, 2, v);
            if (c > 0) {
                if (w->ahead)
                    tile_fetch(w->ahead, w->ahead_at + 8 * line, at + TILE_ROW);
                row += ++line == w->lines;
                line = line == w->lines ? 0 : line;
                at = row < w->rows ? w->at + row * w->at_row + line * w->at_next : w->at;
                table = w->table + row * w->table_row + line * w->table_next;
                next = at;
            }
            WHT_UNROLL for (int k = 0; k < 16; k++)
            {
                vec_store_pinned(done, k / 2 * step + k % 2 * VEC_LANES, v[k]);
                v[k] = vec_load_pinned(next, k / 2 * step + k % 2 * VEC_LANES);
            }
        }
    vec_pinned_fence();
}

/* The steps at distances 8 and 16 along rows, for the wanted half of the columns, and then along columns, of four rows
 * of the square that lie eight apart: sixteen positions at a time. */
VEC_INLINE void tile_corners_pinned(const tile_half half, float *rows)
{
    vec v[16];
    vec_pinned_fence();
    WHT_UNROLL for (int k = 0; k < 16; k++) v[k] = vec_load_pinned(rows, k / 4 * 8 * TILE_ROW + k % 4 * 8 * TILE_LINE);
    for (int i = 0; i < 8 * TILE_LINE; i += VEC_LANES) {
        float *at = rows + i, *next = i + VEC_LANES < 8 * TILE_LINE ? at + VEC_LANES : at;
        WHT_UNROLL for (int k = 0; k < 4; k++) tile_wht_half(half, 1, v + 4 * k);
        WHT_UNROLL for (int k = 0; k < 16; k++)
        {
            const int h = 4 << k / 8, low = k % 8 / 4 * (h == 4 ? 8 : 4) + k % 4;
            if (tile_wanted(half, k % 4))
                wht_butterfly(v + low, v + low + h);
        }
        WHT_UNROLL for (int k = 0; k < 16; k++)
        {
            if (tile_wanted(half, k % 4))
                vec_store_pinned(at, k / 4 * 8 * TILE_ROW + k % 4 * 8 * TILE_LINE, v[k]);
            v[k] = vec_load_pinned(next, k / 4 * 8 * TILE_ROW + k % 4 * 8 * TILE_LINE);
        }
    }
    vec_pinned_fence();
}

/* The steps at distances 8 and 16 along columns, for the wanted half of the rows, of so many lines of four rows. */
VEC_INLINE void tile_last_pinned(const tile_half half, float *at, int64_t lines)
{
    vec v[16];
    vec_pinned_fence();
    WHT_UNROLL for (int k = 0; k < 16; k++) v[k] = vec_load_pinned(at, k / 4 * 8 * TILE_ROW + k % 4 * VEC_LANES);
    for (int64_t i = 0; i < lines; i++) {
        float *next = i + 1 < lines ? at + TILE_LINE : at;
        tile_wht_half(half, 4, v);
        WHT_UNROLL for (int k = 0; k < 16; k++)
        {
            if (tile_wanted(half, k / 4))
                vec_store_pinned(at, k / 4 * 8 * TILE_ROW + k % 4 * VEC_LANES, v[k]);
            v[k] = vec_load_pinned(next, k / 4 * 8 * TILE_ROW + k % 4 * VEC_LANES);
        }
        at = next;
    }
    vec_pinned_fence();
}

#endif
