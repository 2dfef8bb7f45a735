/* The forward pass of attention with BFMMLA, which multiplies two rows by two over four numbers, as
 * simd/sequence/attention_tiles.c does it: q, k, v and the weights are rounded to bf16; the softmax and all sums are
 * fp32. 32 queries are multiplied at a time, with 128 keys. */
#include "kernels/arm/sequence/attention_bfmmla.h"
#include "base/cpu.h"
#include "kernels/arm/bfmmla.h"
#include "kernels/attention.h"
#include "kernels/simd/basic/silu.h"

#include <math.h>

enum {
    QUAD = BFMMLA_QUAD,
    BLOCK = BFMMLA_BLOCK,
    PAIRS = BFMMLA_PAIRS,
    STEP = BFMMLA_UNROLLED * QUAD, /* numbers that products take at a time */
    QUERIES = 32,
    KEYS = ZN_ATTENTION_TILE,
    LEAST_WIDTH = 64, /* narrower heads have less scratch than this needs */
    MOST_WIDTH = 128,
    LINE = KEYS + 16, /* stride of a query's products, padded to avoid cache conflicts */
};
_Static_assert((int)QUERIES % (int)BLOCK == 0 && (int)KEYS % (int)BLOCK == 0 && (int)KEYS % (int)SILU_BLOCK == 0,
               "whole blocks");

/* The scratch of a thread; y, most and sum follow. */
typedef struct scratch {
    bfmmla_operands keys[KEYS / BLOCK][MOST_WIDTH / QUAD];
    bfmmla_operands values[MOST_WIDTH / BLOCK][KEYS / QUAD]; /* a row is a column */
    bfmmla_operands q[QUERIES / BLOCK][MOST_WIDTH / QUAD], p[QUERIES / BLOCK][KEYS / QUAD];
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
    vst1_u16(t->p[i / BLOCK][j / QUAD][i % BLOCK / 2][i % 2], rounded(v));
}

#include "kernels/simd/sequence/attention_group.h"

bool zn_attention_bfmmla_supports(const void *args) { return group_fits(args); }

/* The sums of a block of the group's queries and columns: y is [block of queries][block of columns][BFMMLA_SUMS]. */
static inline float *sums_of(const group *g, int query, int column)
{
    return g->y + ((int64_t)query / BLOCK * (g->a->width / BLOCK) + column / BLOCK) * (int)BFMMLA_SUMS;
}

/* ---- operands ---- */

/* Rounds rows from `from` on to operands, of blocks; rows from `count` up to `all` are zero. */
static void pack_rows(const float *from, int64_t step, int count, int all, int quads,
                      bfmmla_operands (*to)[MOST_WIDTH / QUAD])
{
    for (int i = 0; i < all; i++)
        for (int s = 0; s < quads; s++)
            vst1_u16(to[i / BLOCK][s][i % BLOCK / 2][i % 2],
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
            vst1q_u16(g->t->values[c / BLOCK][t / QUAD][c % BLOCK / 2][0],
                      vreinterpretq_u16_u32(vzip1q_u32(low, high)));
            vst1q_u16(g->t->values[c / BLOCK][t / QUAD][c % BLOCK / 2 + 1][0],
                      vreinterpretq_u16_u32(vzip2q_u32(low, high)));
        }
}

/* ---- products ---- */

/* products = q k' */
static void multiply_keys(const group *g, int keys)
{
    scratch *t = g->t;
    for (int j = 0; j < whole(keys, BLOCK); j += BLOCK)
        for (int i = 0; i < QUERIES; i += BLOCK) {
            float c[PAIRS][PAIRS][2][2] = { { { { 0 } } } };
            bfmmla_block(t->q[i / BLOCK], t->keys[j / BLOCK], g->a->width / QUAD, (float *)c);
            for (int r = 0; r < BLOCK; r++)
                for (int k = 0; k < PAIRS; k++)
                    vst1_f32(&t->products[i + r][j + 2 * k], vld1_f32(c[r / 2][k][r % 2]));
        }
}

/* y += p v */
static void multiply_values(const group *g, int row, int keys)
{
    scratch *t = g->t;
    for (int j = 0; j < g->a->width; j += BLOCK)
        for (int i = 0; i < QUERIES; i += BLOCK)
            bfmmla_block(t->p[i / BLOCK], t->values[j / BLOCK], whole(keys, STEP) / QUAD, sums_of(g, row + i, j));
}

/* ---- the softmax ---- */

static void weigh_pair(const group *g, int row, int i, int keys)
{
    const float first = weigh(g, row, i, keys), second = weigh(g, row, i + 1, keys);
    const float32x4_t factors = { first, first, second, second };
    for (int j = 0; j < g->a->width && (first != 1 || second != 1); j += 2) {
        float *y = sums_of(g, row + i, j) + i % BLOCK / 2 * 4 * (int)PAIRS + j % BLOCK / 2 * 4;
        vst1q_f32(y, vmulq_f32(vld1q_f32(y), factors));
    }
}

/* ---- a unit ---- */

static void tile_of_keys(const group *g, int64_t key, int keys)
{
    const int quads = g->a->width / QUAD;
    pack_rows(g->k.data + key * g->k.step, g->k.step, keys, whole(keys, BLOCK), quads, g->t->keys);
    pack_values(g, key, keys);
    for (int row = 0; row < g->count; row += QUERIES) {
        pack_rows(g->q.data + (g->first + row) * g->q.step, g->q.step, (int)zn_least(QUERIES, g->count - row), QUERIES,
                  quads, g->t->q);
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
        for (int j = 0; j < g->a->width; j += 2) {
            const float *from = sums_of(g, i, j) + i % BLOCK / 2 * 4 * (int)PAIRS + j % BLOCK / 2 * 4 + i % 2 * 2;
            vst1_f32(to + j, vmul_f32(vld1_f32(from), factor));
        }
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
