/* The forward pass of attention, by blocks of queries and tiles of keys. q k' and p v are products of gemm.h; a
 * tile's keys and values are packed into panels once per block. The softmax runs online over the tiles: it keeps
 * each query's largest product so far, and the sums of weights and values relative to it. These sums are scaled down
 * when the maximum grows. */
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

/* The current block of queries; stored in the scratch. */
typedef struct block {
    const zn_attention_args *a;
    int64_t first; /* first query */
    int count, wide;
    zn_rows q, k, v; /* of this head: data points to its row 0 */
    float *panels, *p, *y, *most, *sum;
} block;

static int whole(int n, int to) { return (n + to - 1) / to * to; }

static zn_rows head_of(const zn_rows *m, const zn_attention_args *a, int64_t unit, int share)
{
    zn_rows head = *m;
    head.data += unit / a->heads * m->sample + unit % a->heads / share * m->head;
    return head;
}

static block block_of(const zn_attention_args *a, int64_t unit, float *scratch)
{
    const int64_t blocks = zn_attention_blocks(a), head = unit / blocks, first = unit % blocks * zn_attention_rows(a);
    block b = { .a = a,
                .first = first,
                .count = zn_least(zn_attention_rows(a), a->queries - first),
                .wide = whole(a->width, VEC_LANES),
                .q = head_of(&a->q, a, head, 1),
                .k = head_of(&a->k, a, head, zn_attention_share(a)),
                .v = head_of(&a->v, a, head, zn_attention_share(a)) };
    b.panels = scratch;
    b.p = b.panels + zn_attention_panels(a->width);
    b.y = b.p + ZN_ATTENTION_ROWS * LINE;
    b.most = b.y + ZN_ATTENTION_ROWS * b.wide;
    b.sum = b.most + ZN_ATTENTION_ROWS;
    memset(b.y, 0, sizeof(float) * (size_t)(b.count * b.wide));
    for (int i = 0; i < b.count; i++) {
        b.most[i] = -INFINITY;
        b.sum[i] = 0;
    }
    return b;
}

/* p = q k' for `keys` keys from `key`. */
static void multiply_keys(const block *b, int64_t key, int keys)
{
    const int padded = whole(keys, VEC_LANES), width = b->a->width;
    for (int j = 0; j < padded; j += GEMM_NR) {
        const int across = zn_least(GEMM_NR, padded - j), count = zn_least(across, keys - j);
        float *to = b->panels + (int64_t)j * width;
        if (count < across)
            memset(to, 0, sizeof(float) * (size_t)(across * width));
        turn(b->k.data + (key + j) * b->k.step, b->k.step, count, width, to, across);
    }
    const gemm_args g = { .a = b->q.data + b->first * b->q.step,
                          .b = b->panels,
                          .c = b->p,
                          .row = b->q.step,
                          .c_row = LINE,
                          .segments = 1,
                          .k = width,
                          .depth = width };
    ZN_KERNEL(gemm)(&g, b->count, padded);
}

static float largest(const float *p, int count)
{
    float lanes[VEC_LANES], most = -INFINITY;
    vec m = vec_splat(-INFINITY);
    for (int j = 0; j < count; j += VEC_LANES)
        m = vec_max(vec_load(p + j), m);
    vec_store(lanes, m);
    for (int i = 0; i < VEC_LANES; i++)
        most = lanes[i] > most || isnan(lanes[i]) ? lanes[i] : most;
    return most;
}

/* Turns the products of query i with the first `seen` keys of the tile into weights, relative to its largest product
 * so far. */
static void weigh(const block *b, int i, int seen)
{
    float *p = b->p + i * LINE;
    const int end = whole(seen, SILU_BLOCK);
    for (int j = seen; j < end; j++)
        p[j] = -INFINITY;
    const float here = b->a->scale * largest(p, end), most = here > b->most[i] || isnan(here) ? here : b->most[i];
    const float factor = expf(b->most[i] - most);
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

/* y += p v; the sum over keys is zero-padded to a multiple of 4 for the fastest product. */
static void multiply_values(const block *b, int64_t key, int keys)
{
    const int deep = whole(keys, 4), width = b->a->width;
    for (int j = 0; j < b->wide; j += GEMM_NR) {
        const int across = zn_least(GEMM_NR, b->wide - j), count = zn_least(across, width - j);
        float *to = b->panels + (int64_t)j * deep;
        for (int t = 0; t < deep; t++, to += across) {
            if (t < keys)
                memcpy(to, b->v.data + (key + t) * b->v.step + j, sizeof(float) * (size_t)count);
            if (t >= keys || count < across)
                memset(to + (t < keys ? count : 0), 0, sizeof(float) * (size_t)(across - (t < keys ? count : 0)));
        }
    }
    const gemm_args g = { .a = b->p,
                          .b = b->panels,
                          .c = b->y,
                          .row = LINE,
                          .c_row = b->wide,
                          .segments = 1,
                          .k = deep,
                          .depth = deep,
                          .more = true };
    ZN_KERNEL(gemm)(&g, b->count, b->wide);
}

static void tile(const block *b, int64_t key, int keys)
{
    multiply_keys(b, key, keys);
    for (int i = 0; i < b->count; i++) {
        const int64_t seen = zn_attention_seen(b->a, b->first + i) - key;
        const int here = seen < 0 ? 0 : zn_least(seen, keys);
        if (here > 0)
            weigh(b, i, here);
        memset(b->p + i * LINE + here, 0, sizeof(float) * (size_t)(LINE - here));
    }
    multiply_values(b, key, keys);
}

void ZN_KERNEL(attention)(const void *args, zn_range r)
{
    const zn_attention_args *a = args;
    const int64_t blocks = zn_attention_blocks(a);
    for (int64_t unit = r.begin; unit < r.end; unit++) {
        const block b = block_of(a, unit, r.scratch);
        const int64_t seen = zn_attention_seen(a, b.first + b.count - 1);
        for (int64_t key = 0; key < seen; key += KEYS)
            tile(&b, key, zn_least(KEYS, seen - key));
        const zn_rows y = head_of(&a->y, a, unit / blocks, 1);
        for (int i = 0; i < b.count; i++) {
            const float factor = 1 / b.sum[i];
            for (int j = 0; j < a->width; j++)
                y.data[(b.first + i) * y.step + j] = b.y[i * b.wide + j] * factor;
        }
    }
}
