/* Walsh-Hadamard transforms along rows, columns and channels. A piece (a run of a line, or the channels of a pixel) is
 * transformed by passes of up to three steps in registers: the first reads the map, the last writes it, and between
 * them the piece stays in scratch that fits the first caches. Up to eight positions need no scratch. */
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

VEC_INLINE vec within(vec v)
{
    static const float one[] = { SIGNS(1, -1, 1, -1, 1, -1, 1, -1) }, two[] = { SIGNS(1, 1, -1, -1, 1, 1, -1, -1) };
    v = vec_fma(v, vec_load(one), (vec)__builtin_shufflevector(v, v, LANES(1, 0, 3, 2, 5, 4, 7, 6)));
    v = vec_fma(v, vec_load(two), (vec)__builtin_shufflevector(v, v, LANES(2, 3, 0, 1, 6, 7, 4, 5)));
#if defined(__AVX2__)
    static const float four[] = { SIGNS(1, 1, 1, 1, -1, -1, -1, -1) };
    v = vec_fma(v, vec_load(four), (vec)__builtin_shufflevector(v, v, LANES(4, 5, 6, 7, 0, 1, 2, 3)));
#endif
#if defined(__AVX512F__)
    static const float eight[] = { 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1, -1 };
    v = vec_fma(v, vec_load(eight),
                (vec)__builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
#endif
    return v;
}

/* Steps within vectors of lines shorter than a vector. */
static void within_short(const zn_wht_args *a, int64_t begin, int64_t end)
{
    for (int64_t unit = begin; unit < end; unit++) {
        float t[VEC_LANES];
        memcpy(t, a->x + unit * a->n, sizeof(float) * (size_t)a->n);
        zn_wht_line(t, a->n);
        for (int64_t k = 0; k < a->n; k++)
            a->y[unit * a->n + k] = a->scale * t[k];
    }
}

/* Rows that a pass reads and writes; `width` floats of each, whole vectors. */
typedef struct rows {
    const float *from;
    float *to;
    int64_t from_row, to_row, width;
} rows;

typedef enum ending { KEEP, SCALE, SCALE_WITHIN } ending; /* what a pass does last: only the last one more than KEEP */

/* One pass at distance len: radix * len divides n. radix and end are constants. */
VEC_INLINE void pass(const int radix, const ending end, const rows *q, int64_t n, int64_t len, float scale)
{
    const vec s = vec_splat(scale);
    const bool solid = q->from_row == q->width && q->to_row == q->width; /* rows that are treated alike are one run */
    const int64_t runs = solid ? 1 : len, run = solid ? len * q->width : q->width;
    for (int64_t i = 0; i < n; i += radix * len)
        for (int64_t k = i; k < i + runs; k++)
            for (int64_t c = 0; c < run; c += VEC_LANES) {
                vec v[8];
#pragma GCC unroll 8
                for (int j = 0; j < radix; j++)
                    v[j] = vec_load(q->from + (k + j * len) * q->from_row + c);
                wht_registers(radix, v);
#pragma GCC unroll 8
                for (int j = 0; j < radix; j++) {
                    if (end == SCALE_WITHIN)
                        v[j] = within(v[j]);
                    if (end != KEEP)
                        v[j] = v[j] * s;
                    vec_store(q->to + (k + j * len) * q->to_row + c, v[j]);
                }
            }
}

VEC_INLINE void last_pass(const ending end, const rows *q, int64_t n, int64_t len, float scale)
{
    if (n == 8 * len)
        pass(8, end, q, n, len, scale);
    else if (n == 4 * len)
        pass(4, end, q, n, len, scale);
    else if (n == 2 * len)
        pass(2, end, q, n, len, scale);
    else
        pass(1, end, q, n, len, scale);
}

/* All steps over n rows, from the map through t (rows of `width` floats) to the map. */
VEC_INLINE void through(const ending end, rows q, int64_t n, float scale, float *t)
{
    float *out = q.to;
    const int64_t out_row = q.to_row;
    int64_t len = 1;
    for (; n > 8 * len; len *= 8) {
        q.to = t;
        q.to_row = q.width;
        pass(8, KEEP, &q, n, len, 1);
        q.from = t;
        q.from_row = q.width;
    }
    q.to = out;
    q.to_row = out_row;
    last_pass(end, &q, n, len, scale);
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
        vec_store(x + i, within(vec_load(x + i)));
}

enum { RUN = ZN_WHT_RUN };

/* One unit: `width` floats at each of n positions, RUN floats apart in scratch (1 where channels are transformed). */
typedef struct piece {
    int64_t at, width, run;
} piece;

static piece piece_of(const zn_wht_args *a, int64_t unit)
{
    if (a->inner == 1)
        return (piece){ unit * a->n, 1, 1 };
    const int64_t runs = (a->inner + RUN - 1) / RUN, first = unit % runs * RUN;
    return (piece){ unit / runs * a->n * a->inner + first, a->inner - first < RUN ? a->inner - first : RUN, RUN };
}

static void gather(const zn_wht_args *a, const piece *q, const float *x, float *t)
{
    if (q->run == 1) {
        memcpy(t, x + q->at, sizeof(float) * (size_t)a->n);
        return;
    }
    for (int64_t k = 0; k < a->n; k++) {
        const float *from = x + q->at + k * a->inner;
        if (q->width == RUN) {
            for (int c = 0; c < RUN; c += VEC_LANES)
                vec_store(t + k * RUN + c, vec_load(from + c));
        } else {
            memcpy(t + k * RUN, from, sizeof(float) * (size_t)q->width);
            memset(t + k * RUN + q->width, 0, sizeof(float) * (size_t)(RUN - q->width));
        }
    }
}

static void transform(const zn_wht_args *a, const piece *q, float *t)
{
    if (q->run == 1)
        line(t, a->n);
    else
        wht_rows_from(t, a->n, 1, RUN, RUN);
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
                vec_store(y + c, vec_load(t + k * RUN + c) * s);
            else
                vec_store_part(y + c, vec_load(t + k * RUN + c) * s, (int)q->width - c);
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

void ZN_KERNEL(wht)(const void *args, zn_range r)
{
    const zn_wht_args *a = args;
    if (a->inner == 1 && a->n < VEC_LANES && !a->gate) {
        within_short(a, r.begin, r.end);
        return;
    }
    for (int64_t unit = r.begin; unit < r.end; unit++) {
        const piece q = piece_of(a, unit);
        const float *x = a->x + q.at;
        float *y = a->y + q.at;
        /* Rows far apart often meet in one set of the caches: more than a few are copied one by one. */
        const bool apart = a->inner > q.width && a->n > 8;
        if (a->gate || apart || (a->inner > 1 && q.width % VEC_LANES))
            gated(a, &q, r.scratch);
        else if (a->inner == 1)
            through(SCALE_WITHIN, (rows){ x, y, VEC_LANES, VEC_LANES, VEC_LANES }, a->n / VEC_LANES, a->scale,
                    r.scratch);
        else
            through(SCALE, (rows){ x, y, a->inner, a->inner, q.width }, a->n, a->scale, r.scratch);
    }
}

void ZN_KERNEL(gate_grad)(const void *args, zn_range r)
{
    const zn_gate_grad_args *g = args;
    const zn_wht_args *a = &g->t;
    float *x = r.scratch, *dy = x + RUN * a->n;
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
                for (int c = 0; c < RUN; c += VEC_LANES)
                    total = vec_fma(vec_load(x + k * RUN + c), vec_load(dy + k * RUN + c), total);
                sum[k] = a->scale * vec_sum(total);
            }
    }
}
