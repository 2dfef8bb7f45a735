/* Walsh-Hadamard transforms along rows, columns and channels. A piece (a run of a line, or consecutive lines) is
 * transformed by passes of up to three steps in registers. The first pass reads the map, the last one writes it, and
 * in between the piece stays in scratch that fits L1 and L2. Up to four rows, and lines that fit in registers, are
 * done in one pass. */
#include "kernels/simd/spectral/wht_line.h"
#include "kernels/simd/spectral/wht_strip.h"
#include "kernels/simd/vec_math.h"
#include "kernels/spectral.h"

/* Walsh-Hadamard transforms of short consecutive lines: registers hold several lines, or one. */

enum {
    WHT_VECTORS = VEC_REGISTERS == 32 ? 16 : 8, /* vectors held in registers */
    WHT_HELD = WHT_VECTORS * VEC_LANES          /* floats: the longest line */
};

/* All steps of lines of n positions; a vector holds several lines if n is less than its lanes. */
VEC_INLINE vec wht_within(const int64_t n, vec v)
{
#pragma GCC unroll 4
    for (int d = 1; d < VEC_LANES; d *= 2)
        if (d < n)
            v = vec_fma(v, wht_signs(d), wht_swap(d, v)); /* exact: the product is v or -v */
    return v;
}

/* Groups of WHT_VECTORS vectors: all steps of lines of `n` floats within a vector (VEC_LANES: all), and the steps
 * among `radix` neighbours (a compile-time constant, up to WHT_VECTORS). */
VEC_INLINE void wht_held_vectors(const int radix, const int64_t n, const float *from, float *to, int64_t vectors,
                                 vec scale)
{
    int64_t i = 0;
    for (; i + WHT_VECTORS <= vectors; i += WHT_VECTORS, from += WHT_HELD, to += WHT_HELD) {
        vec v[WHT_VECTORS];
#pragma GCC unroll 16
        for (int j = 0; j < WHT_VECTORS; j++)
            v[j] = wht_within(n, vec_load(from + j * VEC_LANES));
#pragma GCC unroll 16
        for (int j = 0; j < WHT_VECTORS; j += radix)
            wht_registers(radix, v + j);
#pragma GCC unroll 16
        for (int j = 0; j < WHT_VECTORS; j += 2)
            vec_store_pair(to + j * VEC_LANES, v[j] * scale, v[j + 1] * scale);
    }
    for (; i < vectors; i += radix, from += radix * VEC_LANES, to += radix * VEC_LANES) {
        vec v[WHT_VECTORS];
#pragma GCC unroll 16
        for (int j = 0; j < radix; j++)
            v[j] = wht_within(n, vec_load(from + j * VEC_LANES));
        wht_registers(radix, v);
#pragma GCC unroll 16
        for (int j = 0; j < radix; j++)
            vec_store(to + j * VEC_LANES, v[j] * scale);
    }
}

/* Lines of n floats, shorter than a vector; `count` floats in total. */
static inline void wht_held_short(int64_t n, const float *from, float *to, int64_t count, vec scale)
{
    const int64_t whole = count / VEC_LANES;
    const int rest = (int)(count % VEC_LANES);
    if (n == 2)
        wht_held_vectors(1, 2, from, to, whole, scale);
    else if (n == 4)
        wht_held_vectors(1, 4, from, to, whole, scale);
    else if (n == 8)
        wht_held_vectors(1, 8, from, to, whole, scale);
    else
        wht_held_vectors(1, 1, from, to, whole, scale);
    if (rest) {
        const vec v = vec_load_part(from + whole * VEC_LANES, rest);
        vec_store_part(to + whole * VEC_LANES, wht_within(n, v) * scale, rest);
    }
}

/* scale * H x for lines of n floats, at most WHT_HELD; `count` floats in total. y may be x. */
static inline void wht_held(int64_t n, const float *x, float *y, int64_t count, float scale)
{
    const int64_t vectors = count / VEC_LANES;
    const vec s = vec_splat(scale);
    if (n < VEC_LANES)
        wht_held_short(n, x, y, count, s);
    else if (n == VEC_LANES)
        wht_held_vectors(1, VEC_LANES, x, y, vectors, s);
    else if (n == 2 * VEC_LANES)
        wht_held_vectors(2, VEC_LANES, x, y, vectors, s);
    else if (n == 4 * VEC_LANES)
        wht_held_vectors(4, VEC_LANES, x, y, vectors, s);
    else if (n == 8 * VEC_LANES)
        wht_held_vectors(8, VEC_LANES, x, y, vectors, s);
    else
        wht_held_vectors(WHT_VECTORS, VEC_LANES, x, y, vectors, s);
}

void ZN_KERNEL(wht)(const void *args, zn_range r);
void ZN_KERNEL(gate_grad)(const void *args, zn_range r);

static int passes_of(int64_t n)
{
    int passes = 1;
    for (int64_t left = n / 4; left > 1; left /= wht_next_radix(left))
        passes++;
    return passes;
}

/* The memory after `floats` floats of the map, of the same length, to prefetch for lines of several passes. */
static wht_ahead following(const zn_wht_args *a, int64_t at, int64_t floats)
{
    const int passes = passes_of(a->n);
    const bool more = passes > 1 && at + 2 * floats <= a->outer * a->n * a->inner;
    return (wht_ahead){ a->x + at + floats, more ? floats / 16 : 0, (8 + passes - 1) / passes, false };
}

/* `units` lines of n floats. */
static void channels(const zn_wht_args *a, int64_t at, int64_t units, float *t)
{
    const int64_t count = a->n * units;
    if (a->n <= WHT_HELD) {
        wht_held(a->n, a->x + at, a->y + at, count, a->scale);
        return;
    }
    wht_held(WHT_HELD, a->x + at, t, count, 1);
    wht_whole_lines(t, t, a->y + at, a->n / WHT_HELD, count / WHT_HELD, WHT_HELD, a->scale, NULL);
}

/* Lines whose rows have no gaps. */
static void rows(const zn_wht_args *a, int64_t at, int64_t units, float *t)
{
    wht_ahead ahead = following(a, at, a->n * a->inner * units);
    wht_whole_lines(a->x + at, t, a->y + at, a->n, a->n * units, a->inner, a->scale, &ahead);
}

/* `width` floats of each of n rows that are not contiguous. */
static void columns(const zn_wht_args *a, int64_t at, int64_t width, float *t)
{
    const int64_t each = width % 16 ? width : 16;
    const wht_strip q = { .from = a->x + at,
                          .to = a->y + at,
                          .row = a->inner,
                          .n = a->n,
                          .columns = width / each,
                          .width = each,
                          .scale = a->scale,
                          .lines = t };
    if (a->n >= 8) {
        wht_strip_all(&q);
        return;
    }
    wht_walk walk = { .from = q.from, .to = q.to, .from_step = q.row, .to_step = q.row, .run = width, .runs = 1 };
    walk.scale = a->scale;
    wht_scaled((int)a->n, &walk);
}

/* All steps over n contiguous floats in scratch. */
static void line(float *x, int64_t n)
{
    if (n < VEC_LANES) {
        zn_wht_line(x, n);
        return;
    }
    wht_rows_from(x, n / VEC_LANES, 1, VEC_LANES, VEC_LANES);
    for (int64_t i = 0; i < n; i += VEC_LANES)
        vec_store(x + i, wht_within(VEC_LANES, vec_load(x + i)));
}

/* One unit: `width` floats at each of n positions, `run` floats apart in scratch (1 if channels are transformed). */
typedef struct piece {
    int64_t at, width, run;
} piece;

static piece piece_of(const zn_wht_args *a, int64_t unit)
{
    const int64_t run = zn_wht_run(a), runs = (a->inner + run - 1) / run, first = unit % runs * run;
    return (piece){ unit / runs * a->n * a->inner + first, a->inner - first < run ? a->inner - first : run,
                    a->inner == 1 ? 1 : VEC_ROUND(run) };
}

static void gather(const zn_wht_args *a, const piece *q, const float *x, float *t)
{
    if (q->run == 1) {
        memcpy(t, x + q->at, sizeof(float) * (size_t)a->n);
        return;
    }
    for (int64_t k = 0; k < a->n; k++) {
        const float *from = x + q->at + k * a->inner;
        if (q->width == q->run) {
            for (int c = 0; c < q->run; c += VEC_LANES)
                vec_store(t + k * q->run + c, vec_load(from + c));
        } else {
            memcpy(t + k * q->run, from, sizeof(float) * (size_t)q->width);
            memset(t + k * q->run + q->width, 0, sizeof(float) * (size_t)(q->run - q->width));
        }
    }
}

static void transform(const zn_wht_args *a, const piece *q, float *t)
{
    if (q->run == 1)
        line(t, a->n);
    else
        wht_rows_from(t, a->n, 1, q->run, q->run);
}

static void scatter(const zn_wht_args *a, const piece *q, const float *t, float scale)
{
    const vec s = vec_splat(scale);
    if (q->run == 1) {
        float *y = a->y + q->at;
        int64_t k = 0;
        for (; k + VEC_LANES <= a->n; k += VEC_LANES)
            vec_store(y + k, vec_load(t + k) * s);
        for (; k < a->n; k++)
            y[k] = scale * t[k];
        return;
    }
    for (int64_t k = 0; k < a->n; k++) {
        float *y = a->y + q->at + k * a->inner;
        for (int c = 0; c < q->width; c += VEC_LANES)
            if (c + VEC_LANES <= q->width)
                vec_store(y + c, vec_load(t + k * q->run + c) * s);
            else
                vec_store_part(y + c, vec_load(t + k * q->run + c) * s, (int)q->width - c);
    }
}

/* Processes a whole piece in scratch, with or without a gate between two transforms. */
static void gated(const zn_wht_args *a, const piece *q, float *t)
{
    gather(a, q, a->x, t);
    transform(a, q, t);
    for (int64_t k = 0; a->gate && k < a->n; k++)
        for (int64_t c = 0; c < q->run; c++)
            t[k * q->run + c] *= a->gate[k] * a->scale;
    if (a->gate)
        transform(a, q, t);
    scatter(a, q, t, a->gate ? 1 : a->scale);
}

/* The number of consecutive units that are contiguous and processed at once. */
static int64_t together(const zn_wht_args *a)
{
    const bool lines = a->inner == 1 || (a->inner <= zn_wht_run(a) && a->inner % VEC_LANES == 0);
    const int64_t most = ZN_WHT_CHUNK / (a->n * a->inner);
    if (lines && a->n <= (a->inner > 1 ? 4 : WHT_HELD))
        return INT64_MAX; /* one pass: no scratch */
    return lines && most > 1 ? most : 1;
}

void ZN_KERNEL(wht)(const void *args, zn_range r)
{
    const zn_wht_args *a = args;
    const int64_t most = a->gate ? 1 : together(a);
    int64_t units;
    for (int64_t unit = r.begin; unit < r.end; unit += units) {
        const piece q = piece_of(a, unit);
        units = r.end - unit < most ? r.end - unit : most;
        if (a->gate || (a->inner > 1 && q.width % VEC_LANES))
            gated(a, &q, r.scratch);
        else if (a->inner == 1)
            channels(a, q.at, units, r.scratch);
        else if (q.width == a->inner)
            rows(a, q.at, units, r.scratch);
        else
            columns(a, q.at, q.width, r.scratch);
    }
}

void ZN_KERNEL(gate_grad)(const void *args, zn_range r)
{
    const zn_gate_grad_args *g = args;
    const zn_wht_args *a = &g->t;
    float *x = r.scratch, *dy = x + zn_wht_run(a) * a->n;
    for (int64_t unit = r.begin; unit < r.end; unit++) {
        const piece q = piece_of(a, unit);
        float *sum = g->partial + unit * a->n;
        gather(a, &q, a->x, x);
        gather(a, &q, g->dy, dy);
        transform(a, &q, x);
        transform(a, &q, dy);
        for (int64_t k = 0; k < a->n; k++)
            if (q.run == 1) {
                sum[k] = a->scale * x[k] * dy[k];
            } else {
                vec total = vec_splat(0);
                for (int c = 0; c < q.run; c += VEC_LANES)
                    total = vec_fma(vec_load(x + k * q.run + c), vec_load(dy + k * q.run + c), total);
                sum[k] = a->scale * vec_sum(total);
            }
    }
}
