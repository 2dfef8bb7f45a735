/* Spectral mixing of squares of 32 x 32 positions for AArch64. Sixteen channels at a time are mixed along rows and
 * columns by the passes of tile_pass.h; the vector build handles fewer. Positions outside the map are reflected, and
 * only those that something inside depends on are computed. */
#include "kernels/arm/kernels.h"
#include "kernels/arm/spectral/tile_pass.h"
#include "kernels/simd/spectral/square.h"

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
