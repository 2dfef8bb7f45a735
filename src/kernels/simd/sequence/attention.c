/* The gradient of attention by blocks of queries: their products with all keys, the softmax, and the sums, each as
 * small matrix products in registers. */
#include "kernels/attention.h"
#include "kernels/simd/basic/silu.h"

#include <math.h>

void ZN_KERNEL(attention_grad)(const void *args, zn_range r);

enum { TALL = VEC_REGISTERS == 32 ? 4 : 2, WIDE = 4 }; /* rows and vectors of a product computed at a time */
#define EACH(i, n) _Pragma("GCC unroll 4") for (int i = 0; i < (n); i++)

/* Part of a matrix. */
typedef struct matrix {
    float *data;
    int64_t step;
} matrix;

static matrix head_of(const zn_rows *m, const zn_attention_args *a, int64_t unit)
{
    return (matrix){ m->data + unit / a->heads * m->sample + unit % a->heads * m->head, m->step };
}

/* A part of k or v, which several heads may share. */
static matrix shared_of(const zn_rows *m, const zn_attention_args *a, int64_t unit)
{
    const int64_t group = unit % a->heads / zn_attention_share(a);
    return (matrix){ m->data + unit / a->heads * m->sample + group * m->head, m->step };
}

/* c[i][j] = factor * (row i of a) (row j of b), i < tall, j < wide (both compile-time constants). */
VEC_INLINE void dots(const int tall, const int wide, const float *a, int64_t a_step, const float *b, int64_t b_step,
                     int depth, float factor, float *c, int64_t c_step)
{
    vec sum[TALL][WIDE];
    EACH(i, tall) EACH(j, wide) sum[i][j] = vec_splat(0);
    int k = 0;
    for (; k + VEC_LANES <= depth; k += VEC_LANES) {
        vec right[WIDE];
        EACH(j, wide) right[j] = vec_load(b + j * b_step + k);
        EACH(i, tall)
        {
            const vec left = vec_load(a + i * a_step + k);
            EACH(j, wide) sum[i][j] = vec_fma(left, right[j], sum[i][j]);
        }
    }
    if (k < depth)
        EACH(i, tall)
    EACH(j, wide)
    sum[i][j] =
        vec_fma(vec_load_part(a + i * a_step + k, depth - k), vec_load_part(b + j * b_step + k, depth - k), sum[i][j]);
    EACH(i, tall) EACH(j, wide) c[i * c_step + j] = factor * vec_sum(sum[i][j]);
}

/* c = factor * a b', rows x columns. */
static void product_dots(matrix a, int rows, matrix b, int64_t columns, int depth, float factor, matrix c)
{
    for (int i = 0; i < rows; i += TALL) {
        const float *left = a.data + i * a.step;
        float *to = c.data + i * c.step;
        int64_t j = 0;
        if (i + TALL <= rows)
            for (; j + WIDE <= columns; j += WIDE)
                dots(TALL, WIDE, left, a.step, b.data + j * b.step, b.step, depth, factor, to + j, c.step);
        for (; j < columns; j++)
            for (int k = 0; k < TALL && i + k < rows; k++)
                dots(1, 1, left + k * a.step, a.step, b.data + j * b.step, b.step, depth, factor, to + k * c.step + j,
                     c.step);
    }
}

/* c[i][..] += sum over k of a[i * row + k * step] b[k][..], `wide` vectors of n lanes. */
VEC_INLINE void sums(const int tall, const int wide, const int n, const float *a, int64_t row, int64_t step,
                     const float *b, int64_t b_step, int64_t depth, float *c, int64_t c_step)
{
    vec sum[TALL][WIDE];
    EACH(i, tall)
    EACH(j, wide)
    sum[i][j] = n == VEC_LANES ? vec_load(c + i * c_step + j * VEC_LANES) : vec_load_part(c + i * c_step, n);
    for (int64_t k = 0; k < depth; k++) {
        vec right[WIDE];
        EACH(j, wide)
        right[j] = n == VEC_LANES ? vec_load(b + k * b_step + j * VEC_LANES) : vec_load_part(b + k * b_step, n);
        EACH(i, tall)
        {
            const vec left = vec_splat(a[i * row + k * step]);
            EACH(j, wide) sum[i][j] = vec_fma(left, right[j], sum[i][j]);
        }
    }
    EACH(i, tall)
    EACH(j, wide)
    if (n == VEC_LANES)
        vec_store(c + i * c_step + j * VEC_LANES, sum[i][j]);
    else
        vec_store_part(c + i * c_step, sum[i][j], n);
}

VEC_INLINE void sums_across(const int tall, const float *a, int64_t row, int64_t step, matrix b, int64_t depth,
                            int width, float *c, int64_t c_step)
{
    int j = 0;
    for (; j + WIDE * VEC_LANES <= width; j += WIDE * VEC_LANES)
        sums(tall, WIDE, VEC_LANES, a, row, step, b.data + j, b.step, depth, c + j, c_step);
    for (; j + VEC_LANES <= width; j += VEC_LANES)
        sums(tall, 1, VEC_LANES, a, row, step, b.data + j, b.step, depth, c + j, c_step);
    if (j < width)
        sums(tall, 1, width - j, a, row, step, b.data + j, b.step, depth, c + j, c_step);
}

/* c += a b, a [rows][depth] with any strides, b [depth][width]. */
static void product_sums(const float *a, int64_t row, int64_t step, int64_t rows, matrix b, int64_t depth, int width,
                         matrix c)
{
    int64_t i = 0;
    for (; i + TALL <= rows; i += TALL)
        sums_across(TALL, a + i * row, row, step, b, depth, width, c.data + i * c.step, c.step);
    for (; i < rows; i++)
        sums_across(1, a + i * row, row, step, b, depth, width, c.data + i * c.step, c.step);
}

static void clear(matrix m, int64_t rows, int width)
{
    for (int64_t i = 0; i < rows; i++)
        memset(m.data + i * m.step, 0, sizeof(float) * (size_t)width);
}

/* Turns one row of products into weights whose sum is 1. */
static void softmax(float *p, int64_t keys)
{
    float most = -INFINITY;
    for (int64_t j = 0; j < keys; j++)
        most = p[j] > most || isnan(p[j]) ? p[j] : most;
    vec total = vec_splat(0);
    for (int64_t j = 0; j < keys; j += SILU_BLOCK) {
        const int64_t count = keys - j < SILU_BLOCK ? keys - j : SILU_BLOCK;
        float rest[SILU_BLOCK];
        for (int k = 0; k < SILU_BLOCK; k++)
            rest[k] = k < count ? p[j + k] - most : -INFINITY;
        vec v[SILU_U];
        SILU_EACH v[u] = vec_load(rest + u * VEC_LANES);
        vec_exp_vectors(SILU_U, v);
        SILU_EACH vec_store(rest + u * VEC_LANES, v[u]);
        for (int64_t k = count; k < SILU_BLOCK; k++)
            rest[k] = 0;
        memcpy(p + j, rest, sizeof(float) * (size_t)count);
        SILU_EACH total = total + vec_load(rest + u * VEC_LANES);
    }
    const float scale = 1 / vec_sum(total);
    for (int64_t j = 0; j < keys; j++)
        p[j] *= scale;
}

/* Weights of `count` queries from `first`, in p [count][keys], 0 for keys that a query does not attend to. Returns
 * the number of keys that any query attends to. */
static int64_t weights(const zn_attention_args *a, int64_t unit, int64_t first, int count, float *p)
{
    const matrix q = head_of(&a->q, a, unit), k = shared_of(&a->k, a, unit);
    const int64_t all = zn_attention_seen(a, first + count - 1);
    product_dots((matrix){ q.data + first * q.step, q.step }, count, k, all, a->width, a->scale,
                 (matrix){ p, a->keys });
    for (int i = 0; i < count; i++) {
        const int64_t seen = zn_attention_seen(a, first + i);
        softmax(p + i * a->keys, seen);
        memset(p + i * a->keys + seen, 0, sizeof(float) * (size_t)(all - seen));
    }
    return all;
}

static int count_at(const zn_attention_args *a, int64_t first)
{
    return a->queries - first < ZN_ATTENTION_QUERIES ? (int)(a->queries - first) : ZN_ATTENTION_QUERIES;
}

/* Queries from `first`: adds to dk and dv, writes dq. */
static void back(const zn_attention_args *a, int64_t head, int64_t first, float *p, float *ds)
{
    const int count = count_at(a, first);
    const matrix k = shared_of(&a->k, a, head), v = shared_of(&a->v, a, head);
    matrix q = head_of(&a->q, a, head), dy = head_of(&a->y, a, head), dq = head_of(&a->dq, a, head);
    q.data += first * q.step;
    dy.data += first * dy.step;
    dq.data += first * dq.step;
    const int64_t seen = weights(a, head, first, count, p);
    product_dots(dy, count, v, seen, a->width, 1, (matrix){ ds, a->keys });
    for (int i = 0; i < count; i++) {
        const float *weight = p + i * a->keys;
        float *row = ds + i * a->keys;
        double mean = 0;
        for (int64_t j = 0; j < seen; j++)
            mean += (double)(weight[j] * row[j]);
        for (int64_t j = 0; j < seen; j++)
            row[j] = a->scale * weight[j] * (row[j] - (float)mean);
    }
    clear(dq, count, a->width);
    product_sums(ds, a->keys, 1, count, k, seen, a->width, dq);
    product_sums(ds, 1, a->keys, seen, q, count, a->width, shared_of(&a->dk, a, head));
    product_sums(p, 1, a->keys, seen, dy, count, a->width, shared_of(&a->dv, a, head));
}

void ZN_KERNEL(attention_grad)(const void *args, zn_range r)
{
    const zn_attention_args *a = args;
    const int share = zn_attention_share(a);
    float *p = r.scratch, *ds = p + ZN_ATTENTION_QUERIES * a->keys;
    for (int64_t group = r.begin; group < r.end; group++) {
        clear(shared_of(&a->dk, a, group * share), a->keys, a->width);
        clear(shared_of(&a->dv, a, group * share), a->keys, a->width);
        for (int64_t head = group * share; head < (group + 1) * share; head++)
            for (int64_t first = 0; first < a->queries; first += ZN_ATTENTION_QUERIES)
                back(a, head, first, p, ds);
    }
}
