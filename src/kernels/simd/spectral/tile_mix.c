/* Spectral mixing in tiles. A tile of a strip is copied into scratch of whole vectors (rows of a map are far apart,
 * and often in the same cache sets). There it is transformed by passes over several rows at a time. Eight
 * neighbouring rows are transformed last, gated while they are in registers, and transformed back first. */
#include "kernels/gates.h"
#include "kernels/mix.h"
#include "kernels/simd/spectral/tile_gate.h"

#include <math.h>

void ZN_KERNEL(tile_mix)(const void *args, zn_range r);
void ZN_KERNEL(tile_mix_grad)(const void *args, zn_range r);

/* A strip of a unit in scratch: each pixel's channels are padded to whole vectors, with `wide` floats per position. */
typedef struct job {
    const zn_tile_mix_args *a;
    zn_strip s;
    int64_t padded, wide;
    float root; /* 1 / sqrt(P) */
} job;

static job job_of(const zn_tile_mix_args *a, int64_t unit)
{
    job j = { .a = a, .s = zn_tile_mix_strip(a, unit), .padded = VEC_ROUND(a->channels) };
    j.wide = j.s.wide / a->channels * j.padded;
    j.root = 1 / sqrtf((float)a->p);
    return j;
}

static void copy(float *to, const float *from, int64_t count)
{
    for (int64_t i = 0; i < count; i += VEC_LANES)
        vec_store(to + i, vec_load(from + i));
}

/* Copies one position of the strip from the map to scratch (with zero padding), and back. */
static void row_in(const job *j, const float *x, float *t)
{
    const int c = j->a->channels;
    if (j->padded == c)
        copy(t, x, j->wide);
    for (int64_t i = 0; j->padded != c && i < j->wide; i += VEC_LANES) {
        const int64_t k = i % j->padded;
        vec_store(t + i, load(x + i / j->padded * c + k, c - k < VEC_LANES ? (int)(c - k) : VEC_LANES));
    }
}

static void row_out(const job *j, const float *t, float *y, bool add)
{
    const int c = j->a->channels;
    if (j->padded == c && !add)
        copy(y, t, j->wide);
    for (int64_t i = 0; (j->padded != c || add) && i < j->wide; i += VEC_LANES) {
        const int64_t k = i % j->padded;
        const int n = c - k < VEC_LANES ? (int)(c - k) : VEC_LANES;
        float *to = y + i / j->padded * c + k;
        vec v = vec_load(t + i);
        if (add)
            v = v + load(to, n);
        store(to, v, n);
    }
}

/* Gathers a tile and does all steps except those of the middle. Outside the line values are reflected, or zero. */
static void tile_in(const job *j, int64_t tile, const float *x, bool reflected, float *t)
{
    const zn_tile_mix_args *a = j->a;
    for (int64_t i = 0; i < a->p; i++) {
        int64_t at = tile * a->p + i - j->s.left;
        const bool outside = at < 0 || at >= a->n;
        if (outside && reflected)
            at = zn_tile_mix_reflect(at, a->n);
        if (outside && !reflected)
            memset(t + i * j->wide, 0, sizeof(float) * (size_t)j->wide);
        else
            row_in(j, x + j->s.at + at * a->inner, t + i * j->wide);
    }
    wht_rows_from(t, a->p, TILE_MIDDLE, j->wide, j->wide);
}

/* The middle of a tile: `rows` neighbours (a compile-time constant) at a time. */
VEC_INLINE void gate_rows(const int rows, const job *j, float *t)
{
    const int channels = j->a->channels, whole = channels / VEC_LANES * VEC_LANES;
    const tile_gates g = { j->a->gate, j->a->th, channels, j->wide, j->root };
    for (int64_t k = 0; k < j->a->p; k += rows)
        for (int64_t pixel = 0; pixel < j->wide; pixel += j->padded) {
            float *at = t + k * j->wide + pixel;
            for (int c = 0; c < whole; c += VEC_LANES)
                tile_gate(rows, &g, at + c, k, c, VEC_LANES);
            if (whole < channels)
                tile_gate(rows, &g, at + whole, k, whole, channels - whole);
        }
}

void ZN_KERNEL(tile_mix)(const void *args, zn_range r)
{
    const zn_tile_mix_args *a = args;
    float *t = r.scratch;
    for (int64_t unit = r.begin; unit < r.end; unit++) {
        const job j = job_of(a, unit);
        for (int64_t tile = 0; tile < j.s.tiles; tile++) {
            tile_in(&j, tile, a->x, true, t);
            if (a->p >= TILE_MIDDLE)
                gate_rows(TILE_MIDDLE, &j, t);
            else if (a->p == 4)
                gate_rows(4, &j, t);
            else if (a->p == 2)
                gate_rows(2, &j, t);
            else
                gate_rows(1, &j, t);
            wht_rows_from(t, a->p, TILE_MIDDLE, j.wide, j.wide);
            for (int64_t i = 0; i < a->p; i++) {
                const int64_t at = tile * a->p + i - j.s.left;
                if (at >= 0 && at < a->n)
                    row_out(&j, t + i * j.wide, a->y + j.s.at + at * a->inner, false);
            }
        }
    }
}

/* The same for the gradient: from x and dy to dx, stored in dy; sums for the parameters. */
VEC_INLINE void gate_vector_back(const int rows, const job *j, const float *x, float *dy, float *sums, int64_t k, int c,
                                 const int n)
{
    const zn_tile_mix_args *a = j->a;
    const int64_t first = k * a->channels + c, count = (int64_t)a->p * a->channels;
    const vec root = vec_splat(j->root), all = vec_splat(j->root * j->root), zero = vec_splat(0);
    vec v[8], d[8];
#pragma GCC unroll 8
    for (int q = 0; q < rows; q++) {
        v[q] = vec_load(x + q * j->wide);
        d[q] = vec_load(dy + q * j->wide);
    }
    wht_registers(rows, v);
    wht_registers(rows, d);
#pragma GCC unroll 8
    for (int q = 0; q < rows; q++) {
        const int64_t at = first + q * a->channels;
        const vec gate = load(a->gate + at, n), th = load(a->th + at, n);
        const vec coefficient = v[q] * root, gated = coefficient * gate;
        float *dgate = sums + at, *dth = dgate + count;
        d[q] = vec_where(vec_greater(vec_abs(gated), vec_abs(th)), d[q]);
        store(dgate, vec_fma(coefficient * root, d[q], load(dgate, n)), n);
        /* -sign(gated) sign(th) d: the sign bits of all three, unless th is 0 */
        const veci flip = (vec_bits(gated) ^ ~vec_bits(th)) & veci_splat(INT32_MIN);
        const vec moved = vec_where(vec_greater(vec_abs(th), zero), vec_of_bits(vec_bits(d[q]) ^ flip));
        store(dth, vec_fma(root, moved, load(dth, n)), n);
        d[q] = d[q] * (gate * all);
    }
    wht_registers(rows, d);
#pragma GCC unroll 8
    for (int q = 0; q < rows; q++)
        vec_store(dy + q * j->wide, d[q]);
}

VEC_INLINE void gate_rows_back(const int rows, const job *j, const float *x, float *dy, float *sums)
{
    const int channels = j->a->channels, whole = channels / VEC_LANES * VEC_LANES;
    for (int64_t k = 0; k < j->a->p; k += rows)
        for (int64_t pixel = 0; pixel < j->wide; pixel += j->padded) {
            const int64_t at = k * j->wide + pixel;
            for (int c = 0; c < whole; c += VEC_LANES)
                gate_vector_back(rows, j, x + at + c, dy + at + c, sums, k, c, VEC_LANES);
            if (whole < channels)
                gate_vector_back(rows, j, x + at + whole, dy + at + whole, sums, k, whole, channels - whole);
        }
}

/* One strip. Gradients of reflected positions are kept in `outside` ([2][P][wide]: before and after the line) until
 * all gradients inside the line are written. */
static void strip_back(const job *j, float *scratch, float *sums)
{
    const zn_tile_mix_args *a = j->a;
    const int64_t size = a->p * j->wide, right = j->s.left + a->n;
    float *x = scratch, *dy = x + size, *outside = dy + size;
    for (int64_t tile = 0; tile < j->s.tiles; tile++) {
        tile_in(j, tile, a->x, true, x);
        tile_in(j, tile, a->dy, false, dy);
        if (a->p >= TILE_MIDDLE)
            gate_rows_back(TILE_MIDDLE, j, x, dy, sums);
        else if (a->p == 4)
            gate_rows_back(4, j, x, dy, sums);
        else if (a->p == 2)
            gate_rows_back(2, j, x, dy, sums);
        else
            gate_rows_back(1, j, x, dy, sums);
        wht_rows_from(dy, a->p, TILE_MIDDLE, j->wide, j->wide);
        for (int64_t i = 0; i < a->p; i++) {
            const int64_t at = tile * a->p + i;
            if (at < j->s.left)
                copy(outside + at * j->wide, dy + i * j->wide, j->wide);
            else if (at >= right)
                copy(outside + size + (at - right) * j->wide, dy + i * j->wide, j->wide);
            else
                row_out(j, dy + i * j->wide, a->y + j->s.at + (at - j->s.left) * a->inner, false);
        }
    }
    for (int64_t i = 0; i < j->s.left; i++)
        row_out(j, outside + i * j->wide, a->y + j->s.at + zn_tile_mix_reflect(i - j->s.left, a->n) * a->inner, true);
    for (int64_t i = right; i < j->s.tiles * a->p; i++)
        row_out(j, outside + size + (i - right) * j->wide,
                a->y + j->s.at + zn_tile_mix_reflect(i - j->s.left, a->n) * a->inner, true);
}

void ZN_KERNEL(tile_mix_grad)(const void *args, zn_range r)
{
    const zn_tile_mix_args *a = args;
    const int64_t count = (int64_t)a->p * a->channels, units = zn_tile_mix_units(a), size = zn_sum_block(units);
    for (int64_t block = r.begin; block < r.end; block++) {
        float *sums = a->partial + block * 2 * count; /* of gate, of th */
        memset(sums, 0, sizeof(float) * 2 * (size_t)count);
        for (int64_t unit = block * size; unit < (block + 1) * size && unit < units; unit++) {
            const job j = job_of(a, unit);
            strip_back(&j, r.scratch, sums);
        }
    }
}
