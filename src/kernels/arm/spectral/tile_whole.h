/* A square of 32 x 32 positions of sixteen channels for AArch64: mixed along rows and columns by the passes of
 * tile_pass.h. What lies outside the map is reflected, and of that only what something inside depends on is computed.
 */
#ifndef ZN_ARM_TILE_WHOLE_H
#define ZN_ARM_TILE_WHOLE_H

#include "kernels/arm/spectral/tile_pass.h"
#include "kernels/gates.h"

typedef struct tile_whole {
    const zn_tile_square_args *a;
    zn_tile_square at;
    int first;             /* channel */
    float *t;              /* [32][TILE_ROW] */
    int64_t next;          /* floats from here to the next square, whose first rows are fetched */
    const float *table[2]; /* of rows, of columns: gates, lower and upper bounds, each [32][16], TILE_TABLE apart */
} tile_whole;

enum { TILE_AHEAD = 2 }; /* rows that are fetched early */

/* The row of the map that row i shows. */
static inline const float *tile_map_row(const tile_whole *q, int i)
{
    const int64_t y = zn_tile_mix_reflect(q->at.y + i, q->a->h);
    return q->a->x + (q->at.image * q->a->h + y) * q->a->wide * q->a->channels + q->first;
}

/* The row of the square inside the map that shows the same as row i; or i, if there is none. */
static inline int tile_twin(const tile_whole *q, int i)
{
    const int64_t twin = zn_tile_mix_reflect(q->at.y + i, q->a->h) - q->at.y;
    return twin >= 0 && twin < TILE_SIDE ? (int)twin : i;
}

/* All rows without their last steps; twins are copied. */
static inline void tile_rows(const tile_whole *q)
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
        tile_row_pinned(row, q->table[0], ahead);
    }
    for (int i = 0; i < TILE_SIDE; i++)
        if (tile_twin(q, i) != i)
            memcpy(q->t + i * TILE_ROW, q->t + tile_twin(q, i) * TILE_ROW, sizeof(float) * TILE_SIDE * TILE_LINE);
}

static inline tile_half tile_half_of(int64_t begin, int64_t end)
{
    return end <= TILE_SIDE / 2 ? TILE_BEFORE : begin >= TILE_SIDE / 2 ? TILE_BEHIND : TILE_BOTH;
}

/* Mixes q->t: rows [top, bottom) of columns [left, right), which lie inside the map; the others are left undefined. */
static inline void tile_whole_mix(const tile_whole *q, int64_t top, int64_t bottom, int64_t left, int64_t right)
{
    const tile_half across = tile_half_of(left, right), down = tile_half_of(top, bottom);
    float *columns = q->t + left * TILE_LINE;
    tile_rows(q);
    for (int i = 0; i < 8; i++)
        if (across == TILE_BOTH)
            tile_corners_pinned(TILE_BOTH, q->t + i * TILE_ROW);
        else if (across == TILE_BEFORE)
            tile_corners_pinned(TILE_BEFORE, q->t + i * TILE_ROW);
        else
            tile_corners_pinned(TILE_BEHIND, q->t + i * TILE_ROW);
    for (int i = 0; i < TILE_SIDE; i += 8)
        tile_columns_pinned(columns + i * TILE_ROW, q->table[1] + i * TILE_LINE, right - left);
    for (int i = 0; i < 8; i++)
        if (down == TILE_BOTH)
            tile_last_pinned(TILE_BOTH, columns + i * TILE_ROW, right - left);
        else if (down == TILE_BEFORE)
            tile_last_pinned(TILE_BEFORE, columns + i * TILE_ROW, right - left);
        else
            tile_last_pinned(TILE_BEHIND, columns + i * TILE_ROW, right - left);
}

#endif
