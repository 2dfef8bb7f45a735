/* Tile products, and results from their sums. See conv_amx_products.h. */
#include "kernels/x86/conv_amx_products.h"

#include "kernels/simd/vec.h"
#include "kernels/x86/tile.h"

#include <math.h>

enum { FEW_PIXELS = 4 /* written at a time; a tile has a multiple of these */ };

/* Value `at` of a map. */
static inline char *value_at(const void *map, zn_type type, int64_t at)
{
    return (char *)(uintptr_t)map + at * (int64_t)zn_type_size(type);
}

/* Up to a vector of values of a map. */
VEC_INLINE vec load_values(const void *x, zn_type type, int lanes)
{
    if (type != ZN_TYPE_F32)
        return bf16_load(x, lanes);
    return lanes == VEC_LANES ? vec_load(x) : vec_load_part(x, lanes);
}

VEC_INLINE void store_values(void *y, zn_type type, vec v, int lanes)
{
    if (type != ZN_TYPE_F32)
        bf16_store(y, v, lanes);
    else if (lanes == VEC_LANES)
        vec_store(y, v);
    else
        vec_store_part(y, v, lanes);
}

/* Writes the next few pixels of sums: bias and residual added, with the activation. `whole`: there are 32 outputs,
 * which as bf16 are a cache line; `past` writes it past the caches. */
VEC_INLINE void finish_as(const zn_conv_args *a, zn_type y_type, zn_type residual_type, bool whole, bool past,
                          const sums *s)
{
    const target *t = &s->to[s->done / TILE_ROWS];
    const int first = s->done % TILE_ROWS, end = least(first + FEW_PIXELS, t->count);
    const int outputs = whole ? PAIR_OUTPUTS : s->lanes;
    const vec floor = vec_splat(a->relu ? 0 : -INFINITY);
    vec bias[PAIR_OUTPUTS / VEC_LANES], v[PAIR_OUTPUTS / VEC_LANES];
    for (int j = 0, k = 0; k < outputs; j++, k += VEC_LANES)
        bias[j] =
            a->bias ? load_values(a->bias + s->cout + k, ZN_TYPE_F32, least(VEC_LANES, outputs - k)) : vec_splat(0);
    for (int i = first; i < end; i++) {
        const float *c = s->c + (s->done - first + i) * TILE_ROWS;
        const int64_t at = t->at + i * t->step;
        for (int j = 0, k = 0; k < outputs; j++, k += VEC_LANES) {
            const int lanes = least(VEC_LANES, outputs - k);
            v[j] = vec_load(c + k / TILE_ROWS * COUT_VALUES + k % TILE_ROWS) + bias[j];
            if (a->residual)
                v[j] = v[j] + load_values(value_at(a->residual, residual_type, at + k), residual_type, lanes);
            v[j] = vec_max(v[j], floor);
            if (!past)
                store_values(value_at(a->y, y_type, at + k), y_type, v[j], lanes);
            else if (j % 2)
                bf16_stream((uint16_t *)(void *)value_at(a->y, y_type, at + k - VEC_LANES), v[j - 1], v[j]);
        }
    }
}

/* The types are constants in each loop. */
VEC_INLINE void finish_types(const zn_conv_args *a, bool whole, bool past, const sums *s)
{
    const bool wide = a->y_type == ZN_TYPE_F32, added = !a->residual || a->residual_type == ZN_TYPE_F32;
    if (wide && added)
        finish_as(a, ZN_TYPE_F32, ZN_TYPE_F32, whole, false, s);
    else if (wide)
        finish_as(a, ZN_TYPE_F32, ZN_TYPE_BF16, whole, false, s);
    else if (added)
        finish_as(a, ZN_TYPE_BF16, ZN_TYPE_F32, whole, past, s);
    else
        finish_as(a, ZN_TYPE_BF16, ZN_TYPE_BF16, whole, past, s);
}

static void finish_few(const zn_conv_args *a, bool past, sums *s)
{
    if (past)
        finish_types(a, true, true, s);
    else if (s->lanes == PAIR_OUTPUTS)
        finish_types(a, true, false, s);
    else
        finish_types(a, false, false, s);
    s->done += FEW_PIXELS;
}

static void finish(const zn_conv_args *a, bool past, sums *s)
{
    while (s->done < s->pixels)
        finish_few(a, past, s);
}

/* One step for two tiles of positions at `at` and 32 outputs: the weights of the second 16 are `other` bytes after
 * those of the first. Sums 0 and 1 are those of the first tile. */
VEC_INLINE void step_pair(const char *const at[TILE_SUMS], int64_t stride, const char *w, int64_t other)
{
    tile_load(4, at[0], stride);
    tile_load(6, w, TILE_BYTES);
    tile_load(7, w + other, TILE_BYTES);
    tile_dp(0, 4, 6);
    tile_load(5, at[1], stride);
    tile_dp(1, 4, 7);
    tile_dp(2, 5, 6);
    tile_dp(3, 5, 7);
}

/* One step for four tiles of positions and 16 outputs. */
VEC_INLINE void step_single(const char *const at[TILE_SUMS], int64_t stride, const char *w)
{
    tile_load(6, w, TILE_BYTES);
    tile_load(4, at[0], stride);
    tile_load(5, at[1], stride);
    tile_dp(0, 4, 6);
    tile_dp(1, 5, 6);
    tile_load(4, at[2], stride);
    tile_load(5, at[3], stride);
    tile_dp(2, 4, 6);
    tile_dp(3, 5, 6);
}

static void store_sums(const operands *o, float *c)
{
    tile_store(0, c, TILE_BYTES);
    tile_store(3, c + (o->pair ? COUT_VALUES + TILE_VALUES : 3 * TILE_VALUES), TILE_BYTES);
    if (o->pair) {
        tile_store(1, c + COUT_VALUES, TILE_BYTES);
        tile_store(2, c + TILE_VALUES, TILE_BYTES);
    } else {
        tile_store(1, c + TILE_VALUES, TILE_BYTES);
        tile_store(2, c + 2 * TILE_VALUES, TILE_BYTES);
    }
}

/* The residual of a tile is spread out, one or two cache lines per pixel: fetches it for pixels [first,first + count)
 * while their sums are computed. */
VEC_INLINE void prefetch_residual(const zn_conv_args *a, const sums *s, int first, int count)
{
    const int64_t line = 64 / (int64_t)zn_type_size(a->residual_type);
    for (int i = first; i < first + count && i < s->pixels; i++) {
        const target *t = &s->to[i / TILE_ROWS];
        for (int64_t j = 0; j < s->lanes && i % TILE_ROWS < t->count; j += line)
            __builtin_prefetch(value_at(a->residual, a->residual_type, t->at + i % TILE_ROWS * t->step + j));
    }
}

/* Adds the products of all steps to the sums in the tiles: of the values, or of their low parts, which are `part` bytes
 * after them. Meanwhile `next` is prefetched, and the sums before are written. What the steps use is in registers: a
 * tile load could change any memory, as far as the compiler knows. */
static void add_products(const zn_conv_args *a, const plan *p, const operands *o, int64_t part, ahead next, work *w)
{
    const int64_t run = (int64_t)sizeof(uint16_t) * p->depth, stride = o->stride, line = o->line - p->steps * run;
    const int64_t step = step_bytes(p), other = slice_bytes(p);
    const int steps = p->kh * p->steps, turn = p->steps;
    const int writes = (w->before.pixels - w->before.done) / FEW_PIXELS, every = writes ? steps / writes : 0;
    const bool pair = o->pair;
    const int fetches = a->residual && !part ? pieces(w->now.pixels, steps) : 0;
    const char *at[TILE_SUMS] = { o->at[0] + part, o->at[1] + part, o->at[2] + part, o->at[3] + part };
    const char *weights = o->weights;
    for (int i = 1, wait = every; i <= steps; i++, weights += step) {
        if (pair)
            step_pair(at, stride, weights, other);
        else
            step_single(at, stride, weights);
        const int64_t by = i % turn ? run : run + line; /* to the next run of this row, or the next row */
        for (int t = 0; t < TILE_SUMS; t++)
            at[t] += by;
        for (int64_t end = 0; end < next.bytes; end += 64, next.from += 64)
            __builtin_prefetch(next.from, 0, 2);
        if (fetches)
            prefetch_residual(a, &w->now, (i - 1) * fetches, fetches);
        if (--wait <= 0 && w->before.done < w->before.pixels) {
            finish_few(a, w->past, &w->before);
            wait = every;
        }
    }
}

void zn_conv_amx_product(const zn_conv_args *a, const plan *p, const operands *o, ahead next, work *w)
{
    tile_zero(0);
    tile_zero(1);
    tile_zero(2);
    tile_zero(3);
    add_products(a, p, o, 0, next, w);
    if (o->low)
        add_products(a, p, o, o->low, (ahead){ 0 }, w);
    store_sums(o, w->now.c);
    finish(a, w->past, &w->before);
}

void zn_conv_amx_begin(const plan *p) { tile_begin((int)sizeof(uint16_t) * p->depth); }

void zn_conv_amx_end(const zn_conv_args *a, work *w)
{
    tile_end();
    finish(a, w->past, &w->before);
    bf16_stream_end();
}
