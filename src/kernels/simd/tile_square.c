/* Spectral mixing of squares with GELU: a few channels of a whole square are gathered into scratch that fits the L1,
 * mixed along rows while they come, then along columns, and leave through the activation: one pass over memory. */
#include "kernels/gates.h"
#include "kernels/simd/gelu.h"
#include "kernels/simd/tile_gate.h"

#include <math.h>

void ZN_KERNEL(tile_square)(const void *args, zn_range r);

enum { CHANNELS = 16, PADDING = 16 };

/* Channels [first, first + count) of a square; row: floats between its rows. */
typedef struct square {
    const zn_tile_square_args *a;
    zn_tile_square at;
    int first, count;
    int64_t row;
    float root;
    float *t;
} square;

/* One vector of `rows` positions (a constant) through the steps among them, gate and threshold, and back: the same bits
 * as tile_mix gives, since training may compute one here and again there. */
VEC_INLINE void gate_vector(const int rows, float *at, int64_t step, const vec gate[4], const vec th[4], vec root)
{
    vec v[8];
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++)
        v[i] = vec_load(at + i * step);
    wht_registers(rows, v);
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++) {
        const vec coefficient = v[i] * gate[i];
        const vec left = vec_fms(th[i], root, vec_abs(coefficient)); /* rounded as in tile_gate.h */
        v[i] = vec_with_sign(vec_max(left, vec_splat(0)), coefficient);
    }
    wht_registers(rows, v);
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++)
        vec_store(at + i * step, v[i]);
}

/* The middle of the transforms along `axis` of P lines that lie `line` floats apart, their positions `step` floats:
 * gates stay in registers while all lines go by. They hold the scale of both transforms, the thresholds get it. */
VEC_INLINE void gates(const int rows, const square *q, int axis, int64_t step, int64_t line)
{
    const zn_tile_square_args *a = q->a;
    const vec all = vec_splat(q->root * q->root), root = vec_splat(q->root);
    for (int k = 0; k < a->p; k += rows)
        for (int c = 0; c < q->count; c += VEC_LANES) {
            const int n = q->count - c < VEC_LANES ? q->count - c : VEC_LANES;
            vec gate[4], th[4];
#pragma GCC unroll 4
            for (int i = 0; i < rows; i++) {
                const int64_t parameter = (int64_t)(k + i) * a->channels + q->first + c;
                gate[i] = load(a->gate[axis] + parameter, n) * all;
                th[i] = vec_abs(load(a->th[axis] + parameter, n));
            }
            for (int l = 0; l < a->p; l++)
                gate_vector(rows, q->t + k * step + l * line + c, step, gate, th, root);
        }
}

static void gates_of(const square *q, int axis, int64_t step, int64_t line)
{
    if (q->a->p >= 4)
        gates(4, q, axis, step, line);
    else if (q->a->p == 2)
        gates(2, q, axis, step, line);
    else
        gates(1, q, axis, step, line);
}

/* One row of the square, with all steps but those among four neighbours; what lies outside the map is reflected. */
static void row_in(const square *q, int i)
{
    const zn_tile_square_args *a = q->a;
    const int64_t y = zn_tile_mix_reflect(q->at.y + i, a->h);
    const float *from = a->x + ((q->at.image * a->h + y) * a->wide) * a->channels + q->first;
    float *to = q->t + i * q->row;
    const bool inside = q->at.x >= 0 && q->at.x + a->p <= a->wide && q->count == CHANNELS;
    for (int j = 0; j < a->p; j++, to += CHANNELS) {
        const int64_t x = inside ? q->at.x + j : zn_tile_mix_reflect(q->at.x + j, a->wide);
        const float *pixel = from + x * a->channels;
        for (int c = 0; c < CHANNELS; c += VEC_LANES)
            if (inside || c + VEC_LANES <= q->count)
                vec_store(to + c, vec_load(pixel + c));
            else
                vec_store(to + c, c < q->count ? load(pixel + c, q->count - c) : vec_splat(0));
    }
    wht_rows_from(q->t + i * q->row, a->p, 4, CHANNELS, CHANNELS);
}

/* GELU of one row, in place, then what lies inside the map goes out. */
static void row_out(const square *q, int i)
{
    const zn_tile_square_args *a = q->a;
    const int64_t y = q->at.y + i, width = (int64_t)a->p * CHANNELS;
    if (y < 0 || y >= a->h)
        return;
    float *from = q->t + i * q->row; /* a row has room for whole blocks */
    for (int64_t c = 0; c < width; c += GELU_BLOCK) {
        vec x[GELU_U];
        GELU_EACH x[u] = vec_load(from + c + u * VEC_LANES);
        gelu(x);
        GELU_EACH vec_store(from + c + u * VEC_LANES, x[u]);
    }
    const int64_t begin = q->at.x < 0 ? -q->at.x : 0, end = a->wide - q->at.x < a->p ? a->wide - q->at.x : a->p;
    float *to = a->y + ((q->at.image * a->h + y) * a->wide + q->at.x + begin) * a->channels + q->first;
    for (int64_t j = begin; j < end; j++, to += a->channels)
        for (int c = 0; c < q->count; c += VEC_LANES)
            store(to + c, vec_load(from + j * CHANNELS + c), q->count - c < VEC_LANES ? q->count - c : VEC_LANES);
}

void ZN_KERNEL(tile_square)(const void *args, zn_range r)
{
    const zn_tile_square_args *a = args;
    for (int64_t unit = r.begin; unit < r.end; unit++)
        for (int first = 0; first < a->channels; first += CHANNELS) {
            const square q = { .a = a,
                               .at = zn_tile_square_at(a, unit),
                               .first = first,
                               .count = a->channels - first < CHANNELS ? a->channels - first : CHANNELS,
                               .row = (int64_t)a->p * CHANNELS + PADDING,
                               .root = 1 / sqrtf((float)a->p),
                               .t = r.scratch };
            for (int i = 0; i < a->p; i++)
                row_in(&q, i);
            gates_of(&q, 0, CHANNELS, q.row);
            for (int i = 0; i < a->p; i++)
                wht_rows_from(q.t + i * q.row, a->p, 4, CHANNELS, CHANNELS);
            wht_rows_from(q.t, a->p, 4, (int64_t)a->p * CHANNELS, q.row);
            gates_of(&q, 1, q.row, CHANNELS);
            wht_rows_from(q.t, a->p, 4, (int64_t)a->p * CHANNELS, q.row);
            for (int i = 0; i < a->p; i++)
                row_out(&q, i);
        }
}
