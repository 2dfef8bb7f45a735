/* A square of 32 x 32 positions of sixteen channels for AArch64: mixed along rows and columns by the passes of
 * tile_pass.h. What lies outside the map is reflected, and of that only what something inside depends on is computed.
 */
#ifndef ZN_ARM_TILE_WHOLE_H
#define ZN_ARM_TILE_WHOLE_H

#include "kernels/arm/tile_pass.h"
#include "kernels/gates.h"

typedef struct tile_whole {
    const zn_tile_square_args *a;
    zn_tile_square at;
    int first;             /* channel */
    float *t;              /* [32][TILE_ROW] */
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

/* One row without its last steps, while another row of the map is fetched; position j lies at[j] floats from the
 * beginning of a row. */
static inline void tile_row(const tile_whole *q, int i, const int64_t *at, const float *ahead)
{
    const tile_walk w = { .at = q->t + i * TILE_ROW,
                          .table = q->table[0],
                          .lines = 4,
                          .at_next = 8 * TILE_LINE,
                          .table_next = 8 * TILE_LINE,
                          .rows = 1,
                          .ahead = ahead,
                          .ahead_at = at };
    tile_first_pinned(tile_map_row(q, i), at, w.at);
    tile_middle_pinned(TILE_LINE, &w);
}

/* All rows without their last steps; twins are copied. */
static inline void tile_rows(const tile_whole *q)
{
    int64_t at[TILE_SIDE];
    int rows[TILE_SIDE + TILE_AHEAD], count = 0;
    for (int i = 0; i < TILE_SIDE; i++) {
        at[i] = zn_tile_mix_reflect(q->at.x + i, q->a->wide) * q->a->channels;
        if (tile_twin(q, i) == i)
            rows[count++] = i;
    }
    for (int k = 0; k < TILE_AHEAD; k++)
        rows[count + k] = rows[count - 1];
    for (int k = 0; k < count; k++)
        tile_row(q, rows[k], at, tile_map_row(q, rows[k + TILE_AHEAD]));
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
    const tile_walk w = { .at = q->t + left * TILE_LINE,
                          .table = q->table[1],
                          .lines = right - left,
                          .at_next = TILE_LINE,
                          .rows = 4,
                          .at_row = 8 * TILE_ROW,
                          .table_row = 8 * TILE_LINE };
    tile_rows(q);
    for (int i = 0; i < 8; i++)
        if (across == TILE_BOTH)
            tile_corners_pinned(TILE_BOTH, q->t + i * TILE_ROW);
        else if (across == TILE_BEFORE)
            tile_corners_pinned(TILE_BEFORE, q->t + i * TILE_ROW);
        else
            tile_corners_pinned(TILE_BEHIND, q->t + i * TILE_ROW);
    tile_middle_pinned(TILE_ROW, &w);
    for (int i = 0; i < 8; i++)
        if (down == TILE_BOTH)
            tile_last_pinned(TILE_BOTH, w.at + i * TILE_ROW, w.lines);
        else if (down == TILE_BEFORE)
            tile_last_pinned(TILE_BEFORE, w.at + i * TILE_ROW, w.lines);
        else
            tile_last_pinned(TILE_BEHIND, w.at + i * TILE_ROW, w.lines);
}

#endif
