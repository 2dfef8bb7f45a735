/* DeepSpectralLinear on a few pixels at a time, transposed so that one channel of all of them is a row of vectors.
 * The permutation then moves whole rows while they are read, and no step of the transform works within a vector. All
 * stages of the pixels stay in L1. */
#include "kernels/simd/spectral/wht.h"
#include "kernels/simd/vec_math.h"
#include "kernels/spectral.h"

#include <stdbool.h>

void ZN_KERNEL(spectral_linear)(const void *args, zn_range r);

enum { L1_FLOATS = 4096, MOST = 16 };

/* Number of pixels processed together. */
static int pixels_of(int d)
{
    const int fit = L1_FLOATS / d < MOST ? L1_FLOATS / d : MOST;
    return fit > VEC_LANES ? fit / VEC_LANES * VEC_LANES : VEC_LANES;
}

/* Some pixels of one row: p of them, the first at x; `channels` of each in rows of t. `from` is a map or its
 * shuffled form. */
typedef struct block {
    int64_t row;
    int x, count, p, wide;
} block;

/* Part `sub` of a map: the offset of its channel 0 for pixel i of the block, and which rows of t it fills. */
static int64_t place(const block *b, bool shuffled, int channels, int sub, int i)
{
    const int x = b->x + (i < b->count ? i : b->count - 1); /* past the end: repeat the last one */
    if (!shuffled)
        return (b->row * b->wide + x) * channels;
    return (((b->row * 2 + sub / 2) * b->wide + x) * 2 + sub % 2) * (channels / 4);
}

/* Four channels of 4 * fours pixels (a compile-time constant), fours * 16 bytes of four rows of t: whole cache lines
 * if possible. */
VEC_INLINE void turn_in_some(const int fours, float *t, int64_t step, const float *const *from, int k)
{
    quad v[4][4];
#pragma GCC unroll 4
    for (int u = 0; u < fours; u++) {
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++)
            v[u][j] = quad_load(from[4 * u + j] + k);
        quad_transpose(v[u]);
    }
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++)
#pragma GCC unroll 4
        for (int u = 0; u < fours; u++)
            quad_store(t + j * step + 4 * u, v[u][j]);
}

/* t[channel][pixel] from the map. */
static void turn_in(const block *b, const float *x, bool shuffled, int channels, float *t)
{
    const int parts = shuffled ? 4 : 1, each = channels / parts;
    const int64_t step = (int64_t)parts * b->p;
    for (int sub = 0; sub < parts; sub++) {
        const float *from[MOST];
        for (int i = 0; i < b->p; i++)
            from[i] = x + place(b, shuffled, channels, sub, i);
        int k = 0;
        for (; k + 4 <= each; k += 4) {
            float *to = t + k * step + (int64_t)sub * b->p;
            if (b->p == MOST)
                turn_in_some(MOST / 4, to, step, from, k);
            else
                for (int i = 0; i < b->p; i += 4)
                    turn_in_some(1, to + i, step, from + i, k);
        }
        for (; k < each; k++)
            for (int i = 0; i < b->p; i++)
                t[k * step + (int64_t)sub * b->p + i] = from[i][k];
    }
}

/* 4 * fours channels (a compile-time constant) of four pixels, plus bias: fours * 16 bytes of each. */
VEC_INLINE void turn_out_some(const int fours, float *to, int64_t next, const float *from, int64_t step,
                              const float *bias, int parts)
{
    quad v[4][4];
#pragma GCC unroll 4
    for (int u = 0; u < fours; u++) {
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++)
            v[u][j] = quad_load(from + (4 * u + j) * step) + quad_splat(bias[(4 * u + j) * parts]);
        quad_transpose(v[u]);
    }
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++)
#pragma GCC unroll 4
        for (int u = 0; u < fours; u++)
            quad_store(to + j * next + 4 * u, v[u][j]);
}

/* The map from t[channel][pixel], plus bias. */
static void turn_out(const block *b, const float *t, const float *bias, bool shuffled, int channels, float *y)
{
    const int parts = shuffled ? 4 : 1, each = channels / parts;
    const int64_t step = (int64_t)parts * b->p, next = (shuffled ? 2 : 1) * (int64_t)each;
    for (int sub = 0; sub < parts; sub++)
        for (int i = 0; i < b->count; i += 4) {
            float *to = y + place(b, shuffled, channels, sub, i);
            const float *from = t + (int64_t)sub * b->p + i;
            const int pixels = b->count - i < 4 ? b->count - i : 4;
            int k = 0;
            for (; pixels == 4 && k + 16 <= each; k += 16)
                turn_out_some(4, to + k, next, from + k * step, step, bias + k * parts + sub, parts);
            for (; pixels == 4 && k + 4 <= each; k += 4)
                turn_out_some(1, to + k, next, from + k * step, step, bias + k * parts + sub, parts);
            for (; k < each; k++)
                for (int j = 0; j < pixels; j++)
                    to[j * next + k] = from[k * step + j] + bias[k * parts + sub];
        }
}

/* One stage: to = the first `rows` rows of H (s .* P x), both powers of two. x is given by its first `known` rows
 * (the others repeat them). Steps at distances of `rows` and more only add, so they are done while P x is read. */
typedef struct stage {
    const float *x, *s;
    const int32_t *from;
    int d, rows, known, p;
    float *to;
    wht_ahead *ahead;
} stage;

/* s .* P x, including the additions of the last steps; `some` rows (a compile-time constant, at most 4) at a time. */
VEC_INLINE void folded(const int some, const int p, const stage *q)
{
    const int vectors = p / VEC_LANES;
    for (int k = 0; k < q->rows; k += some) {
        vec v[4][MOST / VEC_LANES] = { 0 };
        for (int f = k; f < q->d; f += q->rows)
#pragma GCC unroll 4
            for (int i = 0; i < some; i++) {
                const float *from = q->x + (int64_t)(q->from[f + i] & (q->known - 1)) * p;
                const vec s = vec_splat(q->s[f + i]);
#pragma GCC unroll 4
                for (int c = 0; c < vectors; c++)
                    v[i][c] = vec_fma(vec_load(from + c * VEC_LANES), s, v[i][c]);
            }
#pragma GCC unroll 4
        for (int i = 0; i < some; i++)
#pragma GCC unroll 4
            for (int c = 0; c < vectors; c++)
                vec_store(q->to + (int64_t)(k + i) * p + c * VEC_LANES, v[i][c]);
    }
    wht_solid_from(q->to, q->rows, 1, q->rows, p, q->ahead);
}

/* A stage of all rows; radix and p are compile-time constants. */
VEC_INLINE void whole(const int radix, const int p, const stage *q)
{
    const wht_walk walk = { .from = q->x,
                            .to = q->to,
                            .from_step = p,
                            .to_step = p,
                            .run = p,
                            .runs = q->rows / radix,
                            .to_next = (int64_t)radix * p,
                            .factors = q->s,
                            .table = q->from,
                            .mask = q->known - 1,
                            .ahead = q->ahead };
    wht_walk_blocks(WHT_FACTORS, radix, &walk);
    wht_solid_from(q->to, q->rows, radix, q->rows, p, q->ahead);
}

VEC_INLINE void run_stage_of(const int p, const stage *q)
{
    if (q->rows == q->d && q->rows >= 4 && p == 4 * VEC_LANES) {
        whole(4, p, q);
        return;
    }
    if (q->rows == q->d && q->rows >= 8) {
        whole(8, p, q);
        return;
    }
    if (q->rows >= 4)
        folded(4, p, q);
    else if (q->rows == 2)
        folded(2, p, q);
    else
        folded(1, p, q);
}

static void run_stage(const stage *q)
{
    if (q->p == MOST)
        run_stage_of(MOST, q);
    else if (q->p == MOST / 2)
        run_stage_of(MOST / 2, q);
    else
        run_stage_of(q->p, q);
}

static int power_of_two(int n)
{
    int power = 1;
    while (power < n)
        power *= 2;
    return power;
}

static bool is_identity(const int32_t *from, int d)
{
    int same = 0;
    while (same < d && from[same] == same)
        same++;
    return same == d;
}

/* What the block after b will read from one line of the map: it is prefetched while the stages of b are computed. */
static wht_ahead next_of(const zn_spectral_linear_args *a, const block *b, int line)
{
    const int lines = a->shuffle_in ? 2 : 1, x = b->x + 2 * b->p <= a->wide ? b->x + b->p : 0;
    const int64_t row = x ? b->row : b->row + 1, each = a->cin / lines;
    return (wht_ahead){ a->x + ((row * lines + line) * a->wide + x) * each, line < lines ? b->p * each / 16 : 0, 2,
                        true };
}

void ZN_KERNEL(spectral_linear)(const void *args, zn_range r)
{
    const zn_spectral_linear_args *a = args;
    const int p = pixels_of(a->d), last = a->depth - 1;
    const bool ordered = last > 0 && is_identity(a->from, a->d); /* then zeros after the input make its end repeat */
    const int first = ordered ? power_of_two(a->cin) : a->d;
    for (int64_t row = r.begin; row < r.end; row++)
        for (int x = 0; x < a->wide; x += p) {
            float *t = r.scratch, *u = t + (int64_t)a->d * p;
            const block b = { row, x, a->wide - x < p ? a->wide - x : p, p, a->wide };
            turn_in(&b, a->x, a->shuffle_in, a->cin, t);
            memset(t + (int64_t)a->cin * p, 0, sizeof(float) * (size_t)(first - a->cin) * (size_t)p);
            for (int k = 0, known = first; k < a->depth; k++) {
                wht_ahead ahead = next_of(a, &b, k);
                stage q = { t, a->s + (int64_t)k * a->d, a->from + (int64_t)k * a->d, a->d, a->d, known, p, u, &ahead };
                if (k == last)
                    q.rows = power_of_two(a->cout);
                else if (k == 0)
                    q.rows = q.d = first;
                run_stage(&q);
                known = q.rows;
                float *other = t;
                t = u;
                u = other;
            }
            turn_out(&b, t, a->bias, a->shuffle_out, a->cout, a->y);
        }
}
