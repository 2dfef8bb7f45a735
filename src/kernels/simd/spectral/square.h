/* Spectral mixing of squares with GELU, in one pass over memory. A few channels of a whole square are gathered into
 * scratch that fits L1, mixed along rows while they are loaded, then along columns, and stored through the
 * activation. The kernel chooses how a square is mixed: tile_square.c, in simd/ or in the folder of the ISA. */
#ifndef ZN_SIMD_SQUARE_H
#define ZN_SIMD_SQUARE_H

#include "kernels/gates.h"
#include "kernels/simd/basic/gelu.h"
#include "kernels/simd/spectral/tile_gate.h"

#include <math.h>

/* FOUR_MIDDLES: the side for which the steps outside the middle are one pass over whole lines. */
enum { CHANNELS = WHT_LINE, PADDING = 16, FOUR_MIDDLES = 4 * TILE_MIDDLE, AHEAD = 3 };

/* Channels [first, first + count) of a square; row: stride of its rows in floats. */
typedef struct square {
    const zn_tile_square_args *a;
    zn_tile_square at;
    int first, count;
    int64_t row;
    int64_t next; /* floats of the map up to the next square */
    float root;
    float *t;
    float *gate[2];          /* per axis, [P][CHANNELS], including the scale of both transforms */
    float *low[2], *high[2]; /* bounds of what the threshold subtracts, in the same layout */
} square;

/* One vector of `rows` positions (a compile-time constant): the steps among them, gate and threshold, and back. It
 * gives the same bits as tile_mix, because training may compute one here and recompute it there. */
VEC_INLINE void gate_vector(const int rows, float *at, int64_t step, const float *gate, const float *low,
                            const float *high)
{
    vec v[TILE_MIDDLE];
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
        v[i] = vec_load(at + i * step);
    wht_registers(rows, v);
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
        v[i] = soft(v[i] * vec_load(gate + i * CHANNELS), vec_load(low + i * CHANNELS), vec_load(high + i * CHANNELS));
    wht_registers(rows, v);
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
        vec_store(at + i * step, v[i]);
}

/* Tables of one axis; `count` channels (a compile-time constant for a full line). */
VEC_INLINE void tables_of(const square *q, int axis, const int count)
{
    const zn_tile_square_args *a = q->a;
    const vec all = vec_splat(q->root * q->root), root = vec_splat(q->root);
    const float *gate = a->gate[axis] + q->first, *th = a->th[axis] + q->first;
    float *const gates = q->gate[axis], *const low = q->low[axis], *const high = q->high[axis];
    for (int to = 0; to < a->p * CHANNELS; to += CHANNELS, gate += a->channels, th += a->channels)
#pragma GCC unroll 4
        for (int c = 0; c < count; c += VEC_LANES) {
            const int n = count - c < VEC_LANES ? count - c : VEC_LANES;
            const vec t = vec_abs(load(th + c, n)) * root;
            vec_store(gates + to + c, load(gate + c, n) * all);
            vec_store(low + to + c, -t);
            vec_store(high + to + c, t);
        }
}

static void tables(const square *q)
{
    for (int axis = 0; axis < 2; axis++)
        if (q->count == CHANNELS)
            tables_of(q, axis, CHANNELS);
        else
            tables_of(q, axis, q->count);
}

/* The middle of the transforms of one line, `rows` positions at a time. */
VEC_INLINE void gates(const int rows, const square *q, int axis, float *line, int64_t step)
{
    for (int k = 0; k < q->a->p; k += rows)
        for (int c = 0; c < q->count; c += VEC_LANES) {
            const int at = k * CHANNELS + c;
            gate_vector(rows, line + k * step + c, step, q->gate[axis] + at, q->low[axis] + at, q->high[axis] + at);
        }
}

static void middle(const square *q, int axis, float *line, int64_t step)
{
    if (q->a->p >= TILE_MIDDLE)
        gates(TILE_MIDDLE, q, axis, line, step);
    else if (q->a->p == 4)
        gates(4, q, axis, line, step);
    else if (q->a->p == 2)
        gates(2, q, axis, line, step);
    else
        gates(1, q, axis, line, step);
}

/* The steps of one line outside the middle, in place, with positions `step` floats apart. */
static void outer_steps(const square *q, float *line, int64_t step)
{
    if (q->a->p != FOUR_MIDDLES) {
        wht_rows_from(line, q->a->p, TILE_MIDDLE, CHANNELS, step);
        return;
    }
    for (int k = 0; k < TILE_MIDDLE; k++)
        wht_lines(line + k * step, TILE_MIDDLE * step, line + k * step, TILE_MIDDLE * step);
}

/* Loads and mixes one row of the square; positions outside the map are reflected. */
static void row_in(const square *q, int i)
{
    const zn_tile_square_args *a = q->a;
    const int64_t y = zn_tile_mix_reflect(q->at.y + i, a->h);
    const float *from = a->x + ((q->at.image * a->h + y) * a->wide) * a->channels + q->first;
    float *line = q->t + i * q->row, *to = line;
    const bool inside = q->at.x >= 0 && q->at.x + a->p <= a->wide && q->count == CHANNELS;
    if (inside && a->p == FOUR_MIDDLES) {
        for (int k = 0; k < TILE_MIDDLE; k++)
            wht_lines(from + (q->at.x + k) * a->channels, (int64_t)TILE_MIDDLE * a->channels, to + k * CHANNELS,
                      TILE_MIDDLE * CHANNELS);
    } else {
        for (int j = 0; j < a->p; j++, to += CHANNELS) {
            const int64_t x = inside ? q->at.x + j : zn_tile_mix_reflect(q->at.x + j, a->wide);
            const float *pixel = from + x * a->channels;
            for (int c = 0; c < CHANNELS; c += VEC_LANES)
                if (inside || c + VEC_LANES <= q->count)
                    vec_store(to + c, vec_load(pixel + c));
                else
                    vec_store(to + c, c < q->count ? load(pixel + c, q->count - c) : vec_splat(0));
        }
        outer_steps(q, line, CHANNELS);
    }
    if (inside && y + AHEAD < a->h) { /* prefetches a later row into L2 */
        const float *later = from + (AHEAD * (int64_t)a->wide + q->at.x) * a->channels;
        for (int j = 0; j < a->p; j++)
            __builtin_prefetch(later + (int64_t)j * a->channels, 0, 2);
    }
    middle(q, 0, line, CHANNELS);
    outer_steps(q, line, CHANNELS);
}

/* All rows. A row outside the map is usually a copy of another row of the square. */
static void rows_in(const square *q)
{
    const zn_tile_square_args *a = q->a;
    for (int outside = 0; outside < 2; outside++)
        for (int i = 0; i < a->p; i++) {
            const int64_t y = q->at.y + i, twin = zn_tile_mix_reflect(y, a->h) - q->at.y;
            if ((y < 0 || y >= a->h) != outside)
                continue;
            if (outside && twin >= 0 && twin < a->p)
                memcpy(q->t + i * q->row, q->t + twin * q->row, sizeof(float) * (size_t)a->p * CHANNELS);
            else
                row_in(q, i);
        }
}

/* The part of a square inside the map: rows [top, bottom), columns [left, right). */
typedef struct square_part {
    int64_t top, bottom, left, right;
} square_part;

/* Applies GELU and stores the part inside the map. */
static void rows_out(const square *q, square_part in)
{
    const zn_tile_square_args *a = q->a;
    float *from = q->t + in.top * q->row + in.left * CHANNELS;
    float *to = a->y + ((q->at.image * a->h + q->at.y + in.top) * a->wide + q->at.x + in.left) * a->channels + q->first;
    const int64_t to_row = (int64_t)a->wide * a->channels;
    gelu_walk w = { from, to, in.right - in.left, in.bottom - in.top, a->channels, q->row, to_row };
    if (q->count == CHANNELS) {
        ZN_KERNEL(gelu_lines)(&w);
        return;
    }
    w.y = from;
    w.y_step = CHANNELS;
    w.y_row = q->row;
    ZN_KERNEL(gelu_lines)(&w);
    for (int64_t i = 0; i < w.rows; i++)
        for (int64_t j = 0; j < w.lines; j++)
            for (int c = 0; c < q->count; c += VEC_LANES)
                store(to + i * to_row + j * a->channels + c, vec_load(from + i * q->row + j * CHANNELS + c),
                      q->count - c < VEC_LANES ? q->count - c : VEC_LANES);
}

static int64_t inside(int64_t at, int64_t first, int64_t size)
{
    const int64_t i = at - first;
    return i < 0 ? 0 : i < size ? i : size;
}

/* Mixes q->t along rows, then along columns; values outside the map may be left undefined. */
static void mix_square(const square *q, square_part in)
{
    rows_in(q);
    for (int64_t j = in.left; j < in.right; j++) {
        outer_steps(q, q->t + j * CHANNELS, q->row);
        middle(q, 1, q->t + j * CHANNELS, q->row);
        outer_steps(q, q->t + j * CHANNELS, q->row);
    }
}

/* Offset of a unit in the map, in floats. */
static int64_t place_of(const zn_tile_square_args *a, int64_t unit)
{
    const zn_tile_square at = zn_tile_square_at(a, unit);
    return ((at.image * a->h + at.y) * a->wide + at.x) * a->channels;
}

/* All squares of a range; `mix` (a compile-time constant) mixes one. */
VEC_INLINE void all_squares(const zn_tile_square_args *a, zn_range r, void (*const mix)(const square *, square_part))
{
    const int64_t row = (int64_t)a->p * CHANNELS + PADDING, table = (int64_t)a->p * CHANNELS + PADDING;
    float *t = r.scratch, *end = t + a->p * row;
    for (int first = 0; first < a->channels; first += CHANNELS) {
        square q = { .a = a,
                     .first = first,
                     .count = a->channels - first < CHANNELS ? a->channels - first : CHANNELS,
                     .row = row,
                     .root = 1 / sqrtf((float)a->p),
                     .t = t,
                     .gate = { end, end + 3 * table },
                     .low = { end + table, end + 4 * table },
                     .high = { end + 2 * table, end + 5 * table } };
        tables(&q);
        for (int64_t unit = r.begin; unit < r.end; unit++) {
            const bool last = unit + 1 == r.end;
            q.at = zn_tile_square_at(a, unit);
            q.next = place_of(a, last ? r.begin : unit + 1) - place_of(a, unit) + (last ? CHANNELS : 0);
            const square_part in = { inside(0, q.at.y, a->p), inside(a->h, q.at.y, a->p), inside(0, q.at.x, a->p),
                                     inside(a->wide, q.at.x, a->p) };
            mix(&q, in);
            rows_out(&q, in);
        }
    }
}

#endif
