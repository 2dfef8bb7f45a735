/* DeepSpectralLinear on a few pixels at a time, turned so that a channel of all of them is a row of vectors: then the
 * permutation moves whole rows while they are read, and no step of the transform works within a vector. All stages of
 * the pixels stay in the L1. */
#include "kernels/simd/vec_math.h"
#include "kernels/simd/wht.h"
#include "kernels/spectral.h"

#include <stdbool.h>

void ZN_KERNEL(spectral_linear)(const void *args, zn_range r);

enum { L1_FLOATS = 4096, MOST = 16 };

/* Pixels that are taken together. */
static int pixels_of(int d)
{
    const int fit = L1_FLOATS / d < MOST ? L1_FLOATS / d : MOST;
    return fit > VEC_LANES ? fit / VEC_LANES * VEC_LANES : VEC_LANES;
}

/* Some pixels of one row: p of them, the first at x; `channels` of each in rows of t, `from` a map or its shuffled
 * form. */
typedef struct block {
    int64_t row;
    int x, count, p, wide;
} block;

/* The part `sub` of a map: where its channel 0 of pixel i of the block lies, and which rows of t it fills. */
static int64_t place(const block *b, bool shuffled, int channels, int sub, int i)
{
    const int x = b->x + (i < b->count ? i : b->count - 1); /* beyond the end: the last one again */
    if (!shuffled)
        return (b->row * b->wide + x) * channels;
    return (((b->row * 2 + sub / 2) * b->wide + x) * 2 + sub % 2) * (channels / 4);
}

/* t[channel][pixel] from the map. */
static void turn_in(const block *b, const float *x, bool shuffled, int channels, float *t)
{
    const int parts = shuffled ? 4 : 1, each = channels / parts;
    for (int sub = 0; sub < parts; sub++)
        for (int i = 0; i < b->p; i += 4) {
            const float *from[4];
            for (int j = 0; j < 4; j++)
                from[j] = x + place(b, shuffled, channels, sub, i + j);
            int k = 0;
            for (; k + 4 <= each; k += 4)
                transpose4(t + (int64_t)(k * parts + sub) * b->p + i, (int64_t)parts * b->p, from[0] + k, from[1] + k,
                           from[2] + k, from[3] + k);
            for (; k < each; k++)
                for (int j = 0; j < 4; j++)
                    t[(int64_t)(k * parts + sub) * b->p + i + j] = from[j][k];
        }
}

/* The map from t[channel][pixel], plus bias. */
static void turn_out(const block *b, const float *t, const float *bias, bool shuffled, int channels, float *y)
{
    const int parts = shuffled ? 4 : 1, each = channels / parts;
    const int64_t step = (int64_t)parts * b->p;
    for (int sub = 0; sub < parts; sub++)
        for (int i = 0; i < b->count; i++) {
            float *to = y + place(b, shuffled, channels, sub, i);
            const float *from = t + (int64_t)sub * b->p + i;
            const bool four = i % 4 == 0 && i + 4 <= b->count;
            int k = 0;
            if (four) {
                const int64_t next = (shuffled ? 2 : 1) * (int64_t)each;
                for (; k + 4 <= each; k += 4)
                    transpose4(to + k, next, from + k * step, from + (k + 1) * step, from + (k + 2) * step,
                               from + (k + 3) * step);
                for (int j = 0; j < 4; j++)
                    for (int c = 0; c < k; c++)
                        to[j * next + c] += bias[c * parts + sub];
                for (int j = 1; j < 4; j++)
                    for (int c = k; c < each; c++)
                        to[j * next + c] = from[c * step + j] + bias[c * parts + sub];
            }
            for (; k < each; k++)
                to[k] = from[k * step] + bias[k * parts + sub];
            i += four ? 3 : 0;
        }
}

/* One stage: to = the first `rows` of H (s .* P x), both powers of two, x known by its first `known` rows (the others
 * repeat them). Steps at distances of `rows` and more only add, so they are done while P x is read. */
typedef struct stage {
    const float *x, *s;
    const int32_t *from;
    int d, rows, known, p;
    float *to;
} stage;

/* `radix` rows (a constant) at a time, each the sum of `folds` rows (likewise; more are added one by one); p, its
 * pixels, is one too where it is as usual. */
VEC_INLINE void gathered(const int radix, const int folds, const int p, const stage *q)
{
    const int32_t *from = q->from, mask = q->known - 1;
    for (int k = 0; k < q->rows; k += radix) {
        const float *at[2][8];
        vec s[2][8];
#pragma GCC unroll 2
        for (int f = 0; f < folds; f++)
#pragma GCC unroll 8
            for (int i = 0; i < radix; i++) {
                at[f][i] = q->x + (int64_t)(from[k + f * q->rows + i] & mask) * p;
                s[f][i] = vec_splat(q->s[k + f * q->rows + i]);
            }
        for (int c = 0; c < p; c += VEC_LANES) {
            vec v[8];
#pragma GCC unroll 8
            for (int i = 0; i < radix; i++)
                v[i] = vec_load(at[0][i] + c) * s[0][i];
            if (folds == 2)
#pragma GCC unroll 8
                for (int i = 0; i < radix; i++)
                    v[i] = vec_fma(vec_load(at[1][i] + c), s[1][i], v[i]);
            for (int more = k + folds * q->rows; more < q->d; more += q->rows)
#pragma GCC unroll 8
                for (int i = 0; i < radix; i++)
                    v[i] = vec_fma(vec_load(q->x + (int64_t)(from[more + i] & mask) * p + c), vec_splat(q->s[more + i]),
                                   v[i]);
            wht_registers(radix, v);
#pragma GCC unroll 8
            for (int i = 0; i < radix; i++)
                vec_store(q->to + (int64_t)(k + i) * p + c, v[i]);
        }
    }
}

VEC_INLINE void run_stage_of(const int p, const stage *q)
{
    if (q->rows >= 8 && q->rows == q->d)
        gathered(8, 1, p, q);
    else if (q->rows >= 8)
        gathered(8, 2, p, q);
    else if (q->rows == 4)
        gathered(4, 1, p, q);
    else if (q->rows == 2)
        gathered(2, 1, p, q);
    else
        gathered(1, 1, p, q);
    wht_rows_from(q->to, q->rows, 8, p, p);
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

/* A part of what the block behind b will read, one of `parts`: it comes while the stages of b are computed. */
static void fetch(const zn_spectral_linear_args *a, const block *b, int part, int parts)
{
    const int rows = a->shuffle_in ? 2 : 1;
    const int64_t line = (int64_t)a->wide * a->cin / rows, run = (int64_t)b->p * a->cin / rows;
    if (b->x + 2 * b->p > a->wide)
        return;
    for (int i = 0; i < rows; i++) {
        const float *from = a->x + (b->row * rows + i) * line + (int64_t)(b->x + b->p) * a->cin / rows;
        for (int64_t k = run * part / parts; k < run * (part + 1) / parts; k += 16)
            __builtin_prefetch(from + k);
    }
}

void ZN_KERNEL(spectral_linear)(const void *args, zn_range r)
{
    const zn_spectral_linear_args *a = args;
    const int p = pixels_of(a->d), last = a->depth - 1;
    const bool ordered = last > 0 && is_identity(a->from, a->d); /* then zeros behind the input make its end repeat */
    const int first = ordered ? power_of_two(a->cin) : a->d;
    for (int64_t row = r.begin; row < r.end; row++)
        for (int x = 0; x < a->wide; x += p) {
            float *t = r.scratch, *u = t + (int64_t)a->d * p;
            const block b = { row, x, a->wide - x < p ? a->wide - x : p, p, a->wide };
            turn_in(&b, a->x, a->shuffle_in, a->cin, t);
            memset(t + (int64_t)a->cin * p, 0, sizeof(float) * (size_t)(first - a->cin) * (size_t)p);
            for (int k = 0, known = first; k < a->depth; k++) {
                stage q = { t, a->s + (int64_t)k * a->d, a->from + (int64_t)k * a->d, a->d, a->d, known, p, u };
                if (k == last)
                    q.rows = power_of_two(a->cout);
                else if (k == 0)
                    q.rows = q.d = first;
                fetch(a, &b, k, a->depth);
                run_stage(&q);
                known = q.rows;
                float *other = t;
                t = u;
                u = other;
            }
            turn_out(&b, t, a->bias, a->shuffle_out, a->cout, a->y);
        }
}
