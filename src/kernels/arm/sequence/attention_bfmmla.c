/* The forward pass of attention with BFMMLA, which multiplies two rows by two over four numbers, as
 * simd/sequence/attention_tiles.c does it: q, k, v and the weights are rounded to bf16; the softmax and all sums are
 * fp32. 36 queries are multiplied at a time, with 128 keys. */
#include "kernels/arm/sequence/attention_bfmmla.h"
#include "base/cpu.h"
#include "kernels/arm/bfmmla.h"
#include "kernels/attention.h"
#include "kernels/simd/basic/silu.h"

#include <math.h>

enum {
    QUAD = BFMMLA_QUAD,
    TALL = BFMMLA_X,               /* queries of a block */
    WIDE = BFMMLA_W,               /* keys or columns */
    STEP = BFMMLA_UNROLLED * QUAD, /* numbers that products take at a time */
    QUERIES = 36,
    KEYS = ZN_ATTENTION_TILE,
    LEAST_WIDTH = 64, /* narrower heads have less scratch than this needs */
    MOST_WIDTH = 128,
    LINE = KEYS + 16, /* stride of a query's products, padded to avoid cache conflicts */
};
_Static_assert((int)QUERIES % (int)TALL == 0 && (int)KEYS % (int)WIDE == 0 && (int)KEYS % (int)SILU_BLOCK == 0,
               "whole blocks");

/* The scratch of a thread; y, most and sum follow. */
typedef struct scratch {
    bfmmla_w keys[KEYS / WIDE][MOST_WIDTH / QUAD];
    bfmmla_w values[MOST_WIDTH / WIDE][KEYS / QUAD]; /* a row is a column */
    bfmmla_x q[QUERIES / TALL][MOST_WIDTH / QUAD], p[QUERIES / TALL][KEYS / QUAD];
    float products[QUERIES][LINE];
} scratch;

VEC_INLINE uint16x4_t rounded(float32x4_t v) { return vreinterpret_u16_bf16(vcvt_bf16_f32(v)); }

static float largest(const float *p, int count)
{
    vec m[SILU_U];
    SILU_EACH m[u] = vec_splat(-INFINITY);
    for (int j = 0; j < count; j += SILU_BLOCK)
        SILU_EACH m[u] = vec_max(vec_load(p + j + u * VEC_LANES), m[u]);
    return vmaxnmvq_f32(vec_max(vec_max(m[0], m[1]), vec_max(m[2], m[3])));
}

VEC_INLINE void put_weights(scratch *t, int i, int j, vec v)
{
    vst1_u16(t->p[i / TALL][j / QUAD][i % TALL / 2][i % 2], rounded(v));
}

#include "kernels/simd/sequence/attention_group.h"

bool zn_attention_bfmmla_supports(const void *args) { return group_fits(args); }

/* The sums of two of the group's queries and two columns, both from an even number on: y is
 * [block of queries][block of columns][BFMMLA_SUMS]. */
static inline float *sums_of(const group *g, int query, int column)
{
    return g->y + ((int64_t)query / TALL * (g->a->width / WIDE) + column / WIDE) * (int)BFMMLA_SUMS +
           bfmmla_sums_at(query % TALL, column % WIDE);
}

/* ---- operands ---- */

/* Rounds rows from `from` on to operands, [block of `block` rows][MOST_WIDTH / QUAD][row][QUAD]; rows from `count` up
 * to `all` are zero. */
VEC_INLINE void pack_rows(const float *from, int64_t step, int count, int all, int quads, const int block, uint16_t *to)
{
    for (int i = 0; i < all; i++)
        for (int s = 0; s < quads; s++)
            vst1_u16(to + ((i / block * (MOST_WIDTH / QUAD) + s) * block + i % block) * QUAD,
                     i < count ? rounded(vld1q_f32(from + i * step + QUAD * s)) : vdup_n_u16(0));
}

/* Four columns of a key, or zeros. */
VEC_INLINE uint16x4_t value_of(const float *v, int64_t step, int key, int keys)
{
    return key < keys ? rounded(vld1q_f32(v + key * step)) : vdup_n_u16(0);
}

/* Four keys by four columns are transposed. */
static void pack_values(const group *g, int64_t key, int keys)
{
    for (int t = 0; t < whole(keys, STEP); t += QUAD)
        for (int c = 0; c < g->a->width; c += QUAD) {
            const float *v = g->v.data + (key + t) * g->v.step + c;
            const uint16x4_t k0 = value_of(v, g->v.step, 0, keys - t), k1 = value_of(v, g->v.step, 1, keys - t),
                             k2 = value_of(v, g->v.step, 2, keys - t), k3 = value_of(v, g->v.step, 3, keys - t);
            const uint32x4_t low = vreinterpretq_u32_u16(vcombine_u16(vzip1_u16(k0, k1), vzip2_u16(k0, k1))),
                             high = vreinterpretq_u32_u16(vcombine_u16(vzip1_u16(k2, k3), vzip2_u16(k2, k3)));
            vst1q_u16(g->t->values[c / WIDE][t / QUAD][c % WIDE / 2][0], vreinterpretq_u16_u32(vzip1q_u32(low, high)));
            vst1q_u16(g->t->values[c / WIDE][t / QUAD][c % WIDE / 2 + 1][0],
                      vreinterpretq_u16_u32(vzip2q_u32(low, high)));
        }
}

/* ---- products ---- */

/* products = q k' */
static void multiply_keys(const group *g, int keys)
{
    scratch *t = g->t;
    for (int i = 0; i < QUERIES; i += TALL)
        for (int j = 0; j < whole(keys, WIDE); j += WIDE) {
            float sums[BFMMLA_SUMS] = { 0 };
            bfmmla_block(t->q[i / TALL], t->keys[j / WIDE], g->a->width / QUAD, sums);
            for (int r = 0; r < TALL; r++)
                for (int k = 0; k < WIDE; k += 2)
                    vst1_f32(&t->products[i + r][j + k], vld1_f32(sums + bfmmla_sums_at(r, k) + r % 2 * 2));
        }
}

/* y += p v */
static void multiply_values(const group *g, int row, int keys)
{
    scratch *t = g->t;
    for (int i = 0; i < QUERIES; i += TALL)
        for (int j = 0; j < g->a->width; j += WIDE)
            bfmmla_block(t->p[i / TALL], t->values[j / WIDE], whole(keys, STEP) / QUAD, sums_of(g, row + i, j));
}

/* ---- the softmax ---- */

static void weigh_pair(const group *g, int row, int i, int keys)
{
    const float first = weigh(g, row, i, keys), second = weigh(g, row, i + 1, keys);
    const float32x4_t factors = { first, first, second, second };
    for (int j = 0; j < g->a->width && (first != 1 || second != 1); j += 2) {
        float *y = sums_of(g, row + i, j);
        vst1q_f32(y, vmulq_f32(vld1q_f32(y), factors));
    }
}

/* ---- a unit ---- */

static void tile_of_keys(const group *g, int64_t key, int keys)
{
    const int quads = g->a->width / QUAD;
    pack_rows(g->k.data + key * g->k.step, g->k.step, keys, whole(keys, WIDE), quads, WIDE, g->t->keys[0][0][0][0]);
    pack_values(g, key, keys);
    for (int row = 0; row < g->count; row += QUERIES) {
        pack_rows(g->q.data + (g->first + row) * g->q.step, g->q.step, (int)zn_least(QUERIES, g->count - row), QUERIES,
                  quads, TALL, g->t->q[0][0][0][0]);
        multiply_keys(g, keys);
        for (int i = 0; i < QUERIES; i += 2)
            weigh_pair(g, row, i, keys);
        multiply_values(g, row, keys);
    }
}

static void put(const group *g, const zn_rows *y)
{
    for (int i = 0; i < g->count; i++) {
        const float32x2_t factor = vdup_n_f32(1 / g->sum[i]);
        float *to = y->data + (g->first + i) * y->step;
        for (int j = 0; j < g->a->width; j += 2)
            vst1_f32(to + j, vmul_f32(vld1_f32(sums_of(g, i / 2 * 2, j) + i % 2 * 2), factor));
    }
}

void zn_attention_bfmmla(const void *args, zn_range r)
{
    const zn_attention_args *a = args;
    for (int64_t unit = r.begin; unit < r.end; unit++) {
        const group g = group_of(a, unit, r.scratch);
        const zn_rows y = zn_attention_head(a, &a->y, unit / zn_attention_blocks(a), 1);
        for (int64_t key = 0; key < a->keys; key += KEYS)
            tile_of_keys(&g, key, (int)zn_least(KEYS, a->keys - key));
        put(&g, &y);
    }
}
