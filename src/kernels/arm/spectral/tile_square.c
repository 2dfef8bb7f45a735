/* Spectral mixing of squares of 32 x 32 positions for AArch64. Sixteen channels at a time are mixed along rows and
 * columns by the passes below; the vector build handles fewer. Positions outside the map are reflected, and
 * only those that something inside depends on are computed. */
#include "kernels/arm/kernels.h"
#include "kernels/arm/pinned.h"
#include "kernels/arm/spectral/wht_pass.h"
#include "kernels/simd/spectral/square.h"

/* Passes over a square of 32 x 32 positions of sixteen channels for AArch64, with the same bits as
 * simd/spectral/tile_square.c. Sixteen vectors are in registers; those of the next block are loaded while these are
 * stored. The order of the instructions matters, so each is its own `asm volatile` (wht_pass.h), and parameters are
 * loaded where they are used (see gelu_lines.c for the reason). */

/* Strides in floats: lines of a row of the square, its rows, and the tables of gates and of both bounds. None is a
 * power of two, because loads at such distances wait for each other. */
enum { TILE_SIDE = 32, TILE_LINE = 16, TILE_ROW = 33 * TILE_LINE, TILE_TABLE = 33 * TILE_LINE };

/* Which results of the last step are needed: both halves of the square, or those before or after its middle. */
typedef enum tile_half { TILE_BOTH, TILE_BEFORE, TILE_BEHIND } tile_half;

/* The step at distance h of the transform of n values, of `across` vectors each. */
VEC_INLINE void tile_step(const int n, const int across, const int h, vec *v)
{
    WHT_UNROLL for (int k = 0; k < n / 2 * across; k++)
    {
        const int i = k / across, low = i / h * 2 * h + i % h;
        wht_butterfly(v + low * across + k % across, v + (low + h) * across + k % across);
    }
}

/* The whole transform, of 4 or 8. */
VEC_INLINE void tile_wht(const int n, const int across, vec *v)
{
    tile_step(n, across, 1, v);
    tile_step(n, across, 2, v);
    if (n > 4)
        tile_step(n, across, 4, v);
}

/* The transform of four values of `across` vectors, or half of its results. */
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

/* The steps at distances 8 and 16 of a row of the map, whose position j is at from + at[j]. */
static inline void tile_first_pinned(const float *from, const int64_t *at, float *to)
{
    vec v[16];
    vec_pinned_fence();
    WHT_UNROLL for (int k = 0; k < 16; k++) v[k] = vec_load_pinned(from + at[k / 4 * 8], k % 4 * VEC_LANES);
    for (int j = 0; j < 8; j++, to += TILE_LINE) {
        const int64_t *next = at + (j < 7 ? j + 1 : 7);
        tile_wht(4, 4, v);
        WHT_UNROLL for (int k = 0; k < 16; k++)
        {
            vec_store_pinned(to, k / 4 * 8 * TILE_LINE + k % 4 * VEC_LANES, v[k]);
            v[k] = vec_load_pinned(from + next[k / 4 * 8], k % 4 * VEC_LANES);
        }
    }
    vec_pinned_fence();
}

/* Gate and soft threshold of eight neighbours, two vectors each; half of them at a time, to have enough registers. */
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

/* What is prefetched while a row is mixed: the next row of the map into L1, the row after it into L2, position j of
 * both at at[j]. */
typedef struct tile_ahead {
    const float *soon, *later;
    const int64_t *at;
} tile_ahead;

VEC_INLINE void tile_fetch_later(const tile_ahead *f, const int j)
{
    __asm__ volatile("prfm pldl2keep, [%0]" : : "r"(f->later + f->at[j]));
}

VEC_INLINE void tile_fetch_soon(const tile_ahead *f, const int j)
{
    __asm__ volatile("prfm pldl1keep, [%0]" : : "r"(f->soon + f->at[j]));
}

/* The transform of eight, while positions j and j + 1 are prefetched: in a burst, each prefetch waits for the
 * previous one. */
VEC_INLINE void tile_wht_fetching(const tile_ahead *f, const int j, vec *v)
{
    tile_fetch_later(f, j);
    tile_step(8, 2, 1, v);
    tile_fetch_soon(f, j);
    tile_step(8, 2, 2, v);
    tile_fetch_soon(f, j + 1);
    tile_step(8, 2, 4, v);
    tile_fetch_later(f, j + 1);
}

/* The middle of the transforms of a row. */
static inline void tile_row_pinned(float *row, const float *table, tile_ahead f)
{
    vec v[16];
    vec_pinned_fence();
    WHT_UNROLL for (int k = 0; k < 16; k++) v[k] = vec_load_pinned(row, k / 2 * TILE_LINE + k % 2 * VEC_LANES);
    for (int j = 0; j < 4; j++, f.at += 8, table += 8 * TILE_LINE)
        WHT_UNROLL for (int c = 0; c < TILE_LINE; c += 2 * VEC_LANES)
        {
            float *next = row + (c == 0 ? 2 * VEC_LANES : j < 3 ? 8 * TILE_LINE - 2 * VEC_LANES : 0);
            tile_wht_fetching(&f, c / 2, v);
            tile_threshold(v, table + c);
            tile_wht_fetching(&f, c / 2 + 2, v);
            WHT_UNROLL for (int k = 0; k < 16; k++)
            {
                vec_store_pinned(row, k / 2 * TILE_LINE + k % 2 * VEC_LANES, v[k]);
                v[k] = vec_load_pinned(next, k / 2 * TILE_LINE + k % 2 * VEC_LANES);
            }
            row = next;
        }
    vec_pinned_fence();
}

/* The middle of the transforms of columns: `lines` lines of eight rows. */
static inline void tile_columns_pinned(float *at, const float *table, int64_t lines)
{
    vec v[16];
    vec_pinned_fence();
    WHT_UNROLL for (int k = 0; k < 16; k++) v[k] = vec_load_pinned(at, k / 2 * TILE_ROW + k % 2 * VEC_LANES);
    for (; lines > 0; lines--)
        WHT_UNROLL for (int c = 0; c < TILE_LINE; c += 2 * VEC_LANES)
        {
            float *next = c == 0 || lines > 1 ? at + 2 * VEC_LANES : at;
            tile_wht(8, 2, v);
            tile_threshold(v, table + c);
            tile_wht(8, 2, v);
            WHT_UNROLL for (int k = 0; k < 16; k++)
            {
                vec_store_pinned(at, k / 2 * TILE_ROW + k % 2 * VEC_LANES, v[k]);
                v[k] = vec_load_pinned(next, k / 2 * TILE_ROW + k % 2 * VEC_LANES);
            }
            at = next;
        }
    vec_pinned_fence();
}

/* The steps at distances 8 and 16 along rows, for the needed half of the columns, and then along columns, for four
 * rows of the square that are eight apart: sixteen positions at a time. */
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

/* The steps at distances 8 and 16 along columns, for the needed half of the rows: `lines` lines of four rows. */
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

enum { TILE_AHEAD = 2 }; /* rows to prefetch */

/* The row of the map that row i is read from. */
static const float *tile_map_row(const square *q, int i)
{
    const int64_t y = zn_tile_mix_reflect(q->at.y + i, q->a->h);
    return q->a->x + (q->at.image * q->a->h + y) * q->a->wide * q->a->channels + q->first;
}

/* The row of the square inside the map that is read from the same row as i; or i if there is none. */
static int tile_twin(const square *q, int i)
{
    const int64_t twin = zn_tile_mix_reflect(q->at.y + i, q->a->h) - q->at.y;
    return twin >= 0 && twin < TILE_SIDE ? (int)twin : i;
}

/* All rows without their last steps; duplicates are copied. */
static void tile_rows(const square *q)
{
    int64_t at[TILE_SIDE];
    int rows[TILE_SIDE], count = 0;
    for (int i = 0; i < TILE_SIDE; i++) {
        at[i] = zn_tile_mix_reflect(q->at.x + i, q->a->wide) * q->a->channels;
        if (tile_twin(q, i) == i)
            rows[count++] = i;
    }
    for (int k = 0; k < count; k++) {
        const int soon = k + 1 < count ? k + 1 : k, later = (k + TILE_AHEAD) % count;
        const int64_t beyond = k + TILE_AHEAD < count ? 0 : q->next;
        const tile_ahead ahead = { tile_map_row(q, rows[soon]), tile_map_row(q, rows[later]) + beyond, at };
        float *row = q->t + rows[k] * TILE_ROW;
        tile_first_pinned(tile_map_row(q, rows[k]), at, row);
        tile_row_pinned(row, q->gate[0], ahead);
    }
    for (int i = 0; i < TILE_SIDE; i++)
        if (tile_twin(q, i) != i)
            memcpy(q->t + i * TILE_ROW, q->t + tile_twin(q, i) * TILE_ROW, sizeof(float) * TILE_SIDE * TILE_LINE);
}

static tile_half tile_half_of(int64_t begin, int64_t end)
{
    return end <= TILE_SIDE / 2 ? TILE_BEFORE : begin >= TILE_SIDE / 2 ? TILE_BEHIND : TILE_BOTH;
}

/* Sixteen channels. Gates and both bounds of a row or column are TILE_TABLE apart, as all_squares stores them. */
static void mix_sixteen(const square *q, square_part in)
{
    const tile_half across = tile_half_of(in.left, in.right), down = tile_half_of(in.top, in.bottom);
    float *columns = q->t + in.left * TILE_LINE;
    tile_rows(q);
    for (int i = 0; i < 8; i++)
        if (across == TILE_BOTH)
            tile_corners_pinned(TILE_BOTH, q->t + i * TILE_ROW);
        else if (across == TILE_BEFORE)
            tile_corners_pinned(TILE_BEFORE, q->t + i * TILE_ROW);
        else
            tile_corners_pinned(TILE_BEHIND, q->t + i * TILE_ROW);
    for (int i = 0; i < TILE_SIDE; i += 8)
        tile_columns_pinned(columns + i * TILE_ROW, q->gate[1] + i * TILE_LINE, in.right - in.left);
    for (int i = 0; i < 8; i++)
        if (down == TILE_BOTH)
            tile_last_pinned(TILE_BOTH, columns + i * TILE_ROW, in.right - in.left);
        else if (down == TILE_BEFORE)
            tile_last_pinned(TILE_BEFORE, columns + i * TILE_ROW, in.right - in.left);
        else
            tile_last_pinned(TILE_BEHIND, columns + i * TILE_ROW, in.right - in.left);
}

static void mix_some(const square *q, square_part in)
{
    if (q->count == TILE_LINE)
        mix_sixteen(q, in);
    else
        mix_square(q, in);
}

bool zn_tile_square_arm_supports(const void *args) { return ((const zn_tile_square_args *)args)->p == TILE_SIDE; }

void zn_tile_square_arm(const void *args, zn_range r) { all_squares(args, r, mix_some); }
