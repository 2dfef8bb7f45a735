/* The forward pass of attention, by groups of queries and tiles of keys. q k' and p v are products of gemm.h; a tile's
 * keys and values are packed into panels once per group. The softmax runs online over the tiles: it keeps each query's
 * largest product so far, and the sums of weights and values relative to it. These sums are scaled down when the
 * maximum grows. */
#include "base/least.h"
#include "kernels/attention.h"
#include "kernels/simd/basic/silu.h"
#include "kernels/simd/conv/gemm.h"
#include "kernels/simd/spectral/turn.h"

#include <math.h>

void ZN_KERNEL(attention)(const void *args, zn_range r);

enum {
    KEYS = ZN_ATTENTION_TILE,
    LINE = KEYS + 16, /* stride of a query's products, padded to avoid cache conflicts */
};
_Static_assert((int)KEYS % (int)SILU_BLOCK == 0 && 16 % VEC_LANES == 0, "whole vectors");

/* The current group of queries; stored in the scratch. */
typedef struct group {
    const zn_attention_args *a;
    int64_t first; /* first query */
    int count, wide;
    zn_rows q, k, v;      /* of this head: data points to its row 0 */
    float *keys, *values; /* the packed tile */
    float *p;             /* of one block of queries */
    float *y, *most, *sum;
} group;

static int whole(int n, int to) { return (n + to - 1) / to * to; }

static group group_of(const zn_attention_args *a, int64_t unit, float *scratch)
{
    const int64_t groups = zn_attention_blocks(a), rows = zn_attention_rows(a);
    const int64_t head = unit / groups, first = unit % groups * rows;
    group b = { .a = a,
                .first = first,
                .count = zn_least(rows, a->queries - first),
                .wide = whole(a->width, VEC_LANES),
                .q = zn_attention_head(a, &a->q, head, 1),
                .k = zn_attention_head(a, &a->k, head, zn_attention_share(a)),
                .v = zn_attention_head(a, &a->v, head, zn_attention_share(a)) };
    b.keys = scratch;
    b.values = b.keys + zn_attention_panels(a->width);
    b.p = b.values + zn_attention_panels(a->width);
    b.y = b.p + ZN_ATTENTION_ROWS * LINE;
    b.most = b.y + rows * b.wide;
    b.sum = b.most + rows;
    memset(b.y, 0, sizeof(float) * (size_t)(b.count * b.wide));
    for (int i = 0; i < b.count; i++) {
        b.most[i] = -INFINITY;
        b.sum[i] = 0;
    }
    return b;
}

static void pack_keys(const group *b, int64_t key, int keys)
{
    const int padded = whole(keys, VEC_LANES), width = b->a->width;
    for (int j = 0; j < padded; j += GEMM_NR) {
        const int across = zn_least(GEMM_NR, padded - j), count = zn_least(across, keys - j);
        float *to = b->keys + (int64_t)j * width;
        if (count < across)
            memset(to, 0, sizeof(float) * (size_t)(across * width));
        turn(b->k.data + (key + j) * b->k.step, b->k.step, count, width, to, across);
    }
}

/* The sum over keys is zero-padded to a multiple of 4 for the fastest product. */
static void pack_values(const group *b, int64_t key, int keys)
{
    const int deep = whole(keys, 4), width = b->a->width;
    for (int j = 0; j < b->wide; j += GEMM_NR) {
        const int across = zn_least(GEMM_NR, b->wide - j), count = zn_least(across, width - j);
        float *to = b->values + (int64_t)j * deep;
        for (int t = 0; t < deep; t++, to += across) {
            if (t < keys)
                memcpy(to, b->v.data + (key + t) * b->v.step + j, sizeof(float) * (size_t)count);
            if (t >= keys || count < across)
                memset(to + (t < keys ? count : 0), 0, sizeof(float) * (size_t)(across - (t < keys ? count : 0)));
        }
    }
}

/* p = q k' for `count` queries from the group's query `row`. */
static void multiply_keys(const group *b, int row, int count, int keys)
{
    const int width = b->a->width;
    const gemm_args g = { .a = b->q.data + (b->first + row) * b->q.step,
                          .b = b->keys,
                          .c = b->p,
                          .row = b->q.step,
                          .c_row = LINE,
                          .segments = 1,
                          .k = width,
                          .depth = width };
    ZN_KERNEL(gemm)(&g, count, whole(keys, VEC_LANES));
}

/* A NaN may be passed over: its weight is NaN anyway. */
static float largest(const float *p, int count)
{
    float lanes[VEC_LANES];
    vec m = vec_splat(-INFINITY);
    for (int j = 0; j < count; j += VEC_LANES)
        m = vec_max(vec_load(p + j), m);
    vec_store(lanes, m);
    for (int half = VEC_LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            lanes[i] = lanes[i] > lanes[i + half] ? lanes[i] : lanes[i + half];
    return lanes[0];
}

/* Turns the products p of the group's query i with the first `seen` keys of the tile into weights, relative to its
 * largest product so far. */
static void weigh(const group *b, int i, float *p, int seen)
{
    const int end = whole(seen, SILU_BLOCK);
    for (int j = seen; j < end; j++)
        p[j] = -INFINITY;
    const float here = b->a->scale * largest(p, end), most = here > b->most[i] ? here : b->most[i];
    const float factor = most > b->most[i] ? expf(b->most[i] - most) : 1;
    vec total = vec_splat(0);
    for (int j = 0; j < end; j += SILU_BLOCK) {
        vec v[SILU_U];
        SILU_EACH v[u] = vec_fma(vec_load(p + j + u * VEC_LANES), vec_splat(b->a->scale), vec_splat(-most));
        vec_exp_vectors(SILU_U, v);
        SILU_EACH vec_store(p + j + u * VEC_LANES, v[u]);
        SILU_EACH total = total + v[u];
    }
    b->sum[i] = b->sum[i] * factor + vec_sum(total);
    b->most[i] = most;
    for (int j = 0; j < b->wide && factor != 1; j += VEC_LANES)
        vec_store(b->y + i * b->wide + j, vec_load(b->y + i * b->wide + j) * vec_splat(factor));
}

/* y += p v */
static void multiply_values(const group *b, int row, int count, int keys)
{
    const int deep = whole(keys, 4);
    const gemm_args g = { .a = b->p,
                          .b = b->values,
                          .c = b->y + row * b->wide,
                          .row = LINE,
                          .c_row = b->wide,
                          .segments = 1,
                          .k = deep,
                          .depth = deep,
                          .more = true };
    ZN_KERNEL(gemm)(&g, count, b->wide);
}

/* Queries from `row` of the group with the packed tile of keys from `key`. */
static void block(const group *b, int row, int count, int64_t key, int keys)
{
    multiply_keys(b, row, count, keys);
    for (int i = 0; i < count; i++) {
        float *p = b->p + i * LINE;
        const int64_t seen = zn_attention_seen(b->a, b->first + row + i) - key;
        const int here = seen < 0 ? 0 : zn_least(seen, keys);
        if (here > 0)
            weigh(b, row + i, p, here);
        for (int j = here; j < whole(keys, 4); j++)
            p[j] = 0;
    }
    multiply_values(b, row, count, keys);
}

static void tile(const group *b, int64_t key, int keys)
{
    pack_keys(b, key, keys);
    pack_values(b, key, keys);
    for (int row = 0; row < b->count; row += ZN_ATTENTION_ROWS)
        block(b, row, zn_least(ZN_ATTENTION_ROWS, b->count - row), key, keys);
}

void ZN_KERNEL(attention)(const void *args, zn_range r)
{
    const zn_attention_args *a = args;
    const int64_t groups = zn_attention_blocks(a);
    for (int64_t unit = r.begin; unit < r.end; unit++) {
        const group b = group_of(a, unit, r.scratch);
        const int64_t seen = zn_attention_seen(a, b.first + b.count - 1);
        for (int64_t key = 0; key < seen; key += KEYS)
            tile(&b, key, zn_least(KEYS, seen - key));
        const zn_rows y = zn_attention_head(a, &a->y, unit / groups, 1);
        for (int i = 0; i < b.count; i++) {
            const float factor = 1 / b.sum[i];
            for (int j = 0; j < a->width; j++)
                y.data[(b.first + i) * y.step + j] = b.y[i * b.wide + j] * factor;
        }
    }
}
