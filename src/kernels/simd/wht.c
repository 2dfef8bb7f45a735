/* Walsh-Hadamard transforms along rows, columns and channels. A piece (a run of a line, or lines that lie one behind
 * the other) is transformed by passes of up to three steps in registers: the first reads the map, the last writes it,
 * and between them the piece stays in scratch that fits the first caches. Up to eight positions need no scratch. */
#include "kernels/simd/wht.h"
#include "kernels/simd/vec_math.h"
#include "kernels/spectral.h"

void ZN_KERNEL(wht)(const void *args, zn_range r);
void ZN_KERNEL(gate_grad)(const void *args, zn_range r);

/* v[i ^ distance] + or - v[i]: one step within a vector. */
#if defined(__AVX512F__)
#define LANES(a, b, c, d, e, f, g, h)                                                                                  \
    a, b, c, d, e, f, g, h, 8 + (a), 8 + (b), 8 + (c), 8 + (d), 8 + (e), 8 + (f), 8 + (g), 8 + (h)
#define SIGNS(...) __VA_ARGS__, __VA_ARGS__
#elif defined(__AVX2__)
#define LANES(...) __VA_ARGS__
#define SIGNS(...) __VA_ARGS__
#else
#define LANES(a, b, c, d, e, f, g, h) a, b, c, d
#define SIGNS(a, b, c, d, e, f, g, h) a, b, c, d
#endif

/* All steps of lines of n positions, several of them in a vector if n is less than its lanes. */
VEC_INLINE vec within(const int64_t n, vec v)
{
    static const float one[] = { SIGNS(1, -1, 1, -1, 1, -1, 1, -1) }, two[] = { SIGNS(1, 1, -1, -1, 1, 1, -1, -1) };
    v = vec_fma(v, vec_load(one), (vec)__builtin_shufflevector(v, v, LANES(1, 0, 3, 2, 5, 4, 7, 6)));
    if (n > 2)
        v = vec_fma(v, vec_load(two), (vec)__builtin_shufflevector(v, v, LANES(2, 3, 0, 1, 6, 7, 4, 5)));
#if defined(__AVX2__)
    static const float four[] = { SIGNS(1, 1, 1, 1, -1, -1, -1, -1) };
    if (n > 4)
        v = vec_fma(v, vec_load(four), (vec)__builtin_shufflevector(v, v, LANES(4, 5, 6, 7, 0, 1, 2, 3)));
#endif
#if defined(__AVX512F__)
    static const float eight[] = { 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1, -1 };
    if (n > 8)
        v = vec_fma(v, vec_load(eight),
                    (vec)__builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
#endif
    return v;
}

/* Lines shorter than a vector, `count` floats of them. */
static void short_lines(const zn_wht_args *a, int64_t at, int64_t count)
{
    const vec s = vec_splat(a->scale);
    const float *x = a->x + at;
    float *y = a->y + at;
    for (int64_t k = 0; k < count; k += VEC_LANES) {
        const int n = count - k < VEC_LANES ? (int)(count - k) : VEC_LANES; /* whole lines too */
        vec v = n < VEC_LANES ? vec_load_part(x + k, n) : vec_load(x + k);
        v = (a->n > 1 ? within(a->n, v) : v) * s;
        if (n < VEC_LANES)
            vec_store_part(y + k, v, n);
        else
            vec_store(y + k, v);
    }
}

/* Rows that a pass reads and writes; `width` floats of each, whole vectors. */
typedef struct rows {
    const float *from;
    float *to;
    int64_t from_row, to_row, width;
    const float *ahead; /* what is read next, fetched by the last pass of SCALE_WITHIN meanwhile; or NULL */
} rows;

typedef enum ending { KEEP, SCALE, SCALE_WITHIN } ending; /* what a pass does last: only the last one more than KEEP */

enum { LINE = 16 / VEC_LANES > 1 ? 16 / VEC_LANES : 1 }; /* vectors of a line of the cache */

/* radix rows of `across` neighbouring vectors, all constants, `from_step` and `to_step` floats apart. */
VEC_INLINE void block(const int radix, const int across, const ending end, const float *from, int64_t from_step,
                      float *to, int64_t to_step, vec scale)
{
    vec v[LINE][8];
#pragma GCC unroll 8
    for (int j = 0; j < radix; j++)
#pragma GCC unroll 4
        for (int u = 0; u < across; u++)
            v[u][j] = vec_load(from + j * from_step + u * VEC_LANES);
#pragma GCC unroll 4
    for (int u = 0; u < across; u++)
        wht_registers(radix, v[u]);
#pragma GCC unroll 8
    for (int j = 0; j < radix; j++)
#pragma GCC unroll 4
        for (int u = 0; u < across; u++) {
            if (end == SCALE_WITHIN)
                v[u][j] = within(VEC_LANES, v[u][j]);
            if (end != KEEP)
                v[u][j] = v[u][j] * scale;
            vec_store(to + j * to_step + u * VEC_LANES, v[u][j]);
        }
}

/* One pass over `total` rows at distance len: radix * len divides it. radix, end and fetches are constants. A pass that
 * writes the map writes whole lines one after the other where it can: memory takes lines in pieces at a third of the
 * speed. */
VEC_INLINE void pass(const int radix, const ending end, const bool fetches, const rows *q, int64_t total, int64_t len,
                     float scale)
{
    const vec s = vec_splat(scale);
    const bool solid = q->from_row == q->width && q->to_row == q->width; /* rows that are treated alike are one run */
    const int64_t runs = solid ? 1 : len, run = solid ? len * q->width : q->width;
    const int64_t from_step = len * q->from_row, to_step = len * q->to_row;
    for (int64_t i = 0; i < total; i += radix * len)
        for (int64_t k = i; k < i + runs; k++) {
            const float *from = q->from + k * q->from_row;
            float *to = q->to + k * q->to_row;
            int64_t c = 0;
            for (; end != KEEP && c + LINE * VEC_LANES <= run; c += LINE * VEC_LANES) {
                if (fetches && q->ahead)
#pragma GCC unroll 8
                    for (int j = 0; j < radix; j++)
                        __builtin_prefetch(q->ahead + k * q->to_row + c + j * to_step);
                block(radix, LINE, end, from + c, from_step, to + c, to_step, s);
            }
            for (; c < run; c += VEC_LANES)
                block(radix, 1, end, from + c, from_step, to + c, to_step, s);
        }
}

/* All steps over lines of n rows, `total` rows together, from the map through t (rows of `width` floats) to the map.
 * The last pass has two steps at most, so that registers hold a line of each of its rows; neighbouring vectors are a
 * line anyway. */
VEC_INLINE void through(const ending end, rows q, int64_t n, int64_t total, float scale, float *t)
{
    float *out = q.to;
    const int64_t out_row = q.to_row;
    const bool neighbours = n == 8 && end == SCALE_WITHIN;
    const bool fetches = end == SCALE_WITHIN;
    int64_t len = 1;
    while (n > 4 * len && !neighbours) {
        q.to = t;
        q.to_row = q.width;
        if (n >= 32 * len) {
            pass(8, KEEP, false, &q, total, len, 1);
            len *= 8;
        } else if (n >= 16 * len) {
            pass(4, KEEP, false, &q, total, len, 1);
            len *= 4;
        } else {
            pass(2, KEEP, false, &q, total, len, 1);
            len *= 2;
        }
        q.from = t;
        q.from_row = q.width;
    }
    q.to = out;
    q.to_row = out_row;
    if (end == SCALE_WITHIN && n == 8 * len)
        pass(8, end, false, &q, total, len, scale);
    else if (n == 4 * len)
        pass(4, end, fetches, &q, total, len, scale);
    else if (n == 2 * len)
        pass(2, end, fetches, &q, total, len, scale);
    else
        pass(1, end, fetches, &q, total, len, scale);
}

/* Both uses apart: in one function, gcc lacks registers for either. */
static __attribute__((noinline)) void through_lines(const zn_wht_args *a, int64_t at, int64_t units, float *t)
{
    const int64_t n = a->n / VEC_LANES, next = at + a->n * units;
    const bool more = n > 8 && next + a->n * units <= a->outer * a->n; /* short ones read as they write */
    const rows q = { a->x + at, a->y + at, VEC_LANES, VEC_LANES, VEC_LANES, more ? a->x + next : NULL };
    through(SCALE_WITHIN, q, n, n * units, a->scale, t);
}

static __attribute__((noinline)) void through_rows(const zn_wht_args *a, int64_t at, int64_t width, int64_t units,
                                                   float *t)
{
    through(SCALE, (rows){ a->x + at, a->y + at, a->inner, a->inner, width, NULL }, a->n, a->n * units, a->scale, t);
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
        vec_store(x + i, within(VEC_LANES, vec_load(x + i)));
}

/* One unit: `width` floats at each of n positions, `run` floats apart in scratch (1 where channels are transformed). */
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

/* Through scratch as a whole, with or without a gate between two transforms. */
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

/* How many neighbouring units lie one behind the other and are taken at once. */
static int64_t together(const zn_wht_args *a)
{
    const bool lines = a->inner == 1 || (a->inner <= zn_wht_run(a) && a->inner % VEC_LANES == 0);
    const int64_t most = ZN_WHT_CHUNK / (a->n * a->inner);
    return lines && most > 1 ? most : 1;
}

void ZN_KERNEL(wht)(const void *args, zn_range r)
{
    const zn_wht_args *a = args;
    if (a->inner == 1 && a->n < VEC_LANES && !a->gate) {
        short_lines(a, r.begin * a->n, (r.end - r.begin) * a->n);
        return;
    }
    const int64_t most = a->gate ? 1 : together(a);
    for (int64_t unit = r.begin; unit < r.end; unit += most) {
        const piece q = piece_of(a, unit);
        const int64_t units = r.end - unit < most ? r.end - unit : most;
        if (a->gate || (a->inner > 1 && q.width % VEC_LANES))
            gated(a, &q, r.scratch);
        else if (a->inner == 1)
            through_lines(a, q.at, units, r.scratch);
        else
            through_rows(a, q.at, q.width, units, r.scratch);
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
