/* The forward pass of attention on AMX tiles, as simd/sequence/attention_tiles.c does it: q, k, v and the weights are
 * rounded to bf16; the softmax and all sums are fp32. 32 queries are multiplied at a time, with 128 keys. */
#include "kernels/attention.h"
#include "kernels/simd/basic/silu.h"
#include "kernels/simd/spectral/turn.h"
#include "kernels/x86/amx_bf16.h"
#include "kernels/x86/bf16.h"
#include "kernels/x86/tile.h"

#include <math.h>

enum {
    SIDE = TILE_ROWS,
    STEP = TILE_DEPTH,
    QUERIES = 2 * SIDE,
    KEYS = ZN_ATTENTION_TILE,
    LEAST_WIDTH = 64, /* narrower heads have less scratch than this needs */
    MOST_WIDTH = 128,
    LINE = KEYS + 16, /* stride of a query's products, padded to avoid cache conflicts */
};

typedef uint16_t operand[SIDE][STEP];

/* The scratch of a thread; y, most and sum follow. */
typedef struct scratch {
    operand keys[KEYS / SIDE][MOST_WIDTH / STEP];   /* [tile of keys][step of the width]: pairs of numbers by keys */
    operand values[MOST_WIDTH / SIDE][KEYS / STEP]; /* [tile of columns][step of keys]: pairs of keys by columns */
    operand q[2][MOST_WIDTH / STEP], p[2][KEYS / STEP];
    float products[QUERIES][LINE];
} scratch;

static float largest(const float *p, int count)
{
    vec m = vec_splat(-INFINITY);
    for (int j = 0; j < count; j += VEC_LANES)
        m = vec_max(vec_load(p + j), m);
    return _mm512_reduce_max_ps(m);
}

static inline void put_weights(scratch *t, int i, int j, vec v)
{
    _mm256_storeu_si256((__m256i *)(void *)(t->p[i / SIDE][j / STEP][i % SIDE] + j % STEP), bf16_from_16(v));
}

#include "kernels/simd/sequence/attention_group.h"

bool zn_attention_amx_supports(const void *args) { return group_fits(args); }

/* ---- operands ---- */

/* Keys [key,key+keys); those that pad the last pair of tiles are zero. */
static void pack_keys(const group *g, int64_t key, int keys)
{
    for (int j = 0; j < whole(keys, QUERIES); j += SIDE)
        for (int s = 0; s < g->a->width / STEP; s++) {
            float pairs[SIDE][SIDE] = { { 0 } }; /* two numbers in each */
            for (int i = 0; i < SIDE && j + i < keys; i++) {
                uint16_t line[STEP];
                bf16_from(g->k.data + (key + j + i) * g->k.step + s * STEP, STEP, line);
                memcpy(pairs[i], line, sizeof line);
            }
            turn(pairs[0], SIDE, SIDE, SIDE, (float *)(void *)g->t->keys[j / SIDE][s], SIDE);
        }
}

/* 16 columns of a key from `column` on, in the low halves of words; zero if it is not there. */
static inline __m512i value_words(const group *g, int64_t key, int t, int keys, int column)
{
    if (t >= keys)
        return _mm512_setzero_si512();
    return _mm512_cvtepu16_epi32(bf16_from_16(_mm512_loadu_ps(g->v.data + (key + t) * g->v.step + column)));
}

static void pack_values(const group *g, int64_t key, int keys)
{
    for (int t = 0; t < whole(keys, STEP); t += 2)
        for (int c = 0; c < g->a->width; c += SIDE) {
            const __m512i even = value_words(g, key, t, keys, c), odd = value_words(g, key, t + 1, keys, c);
            _mm512_storeu_si512(g->t->values[c / SIDE][t / STEP][t % STEP / 2],
                                _mm512_or_si512(even, _mm512_slli_epi32(odd, 16)));
        }
}

/* Queries from the group's `row` on; those that are not there are zero. */
static void pack_queries(const group *g, int row)
{
    for (int i = 0; i < QUERIES; i++)
        for (int s = 0; s < g->a->width / STEP; s++) {
            uint16_t *to = g->t->q[i / SIDE][s][i % SIDE];
            if (row + i < g->count)
                bf16_from(g->q.data + (g->first + row + i) * g->q.step + s * STEP, STEP, to);
            else
                memset(to, 0, sizeof(uint16_t) * STEP);
        }
}

/* ---- products ---- */

/* Adds a step to the sums of two tiles by two. */
#define ADD_STEP(a0, a1, b0, b1)                                                                                       \
    do {                                                                                                               \
        tile_load(4, a0, TILE_BYTES);                                                                                  \
        tile_load(6, b0, TILE_BYTES);                                                                                  \
        tile_dp(0, 4, 6);                                                                                              \
        tile_load(7, b1, TILE_BYTES);                                                                                  \
        tile_dp(1, 4, 7);                                                                                              \
        tile_load(5, a1, TILE_BYTES);                                                                                  \
        tile_dp(2, 5, 6);                                                                                              \
        tile_dp(3, 5, 7);                                                                                              \
    } while (0)

#define STORE_SUMS(to, row)                                                                                            \
    do {                                                                                                               \
        tile_store(0, to, 4 * (row));                                                                                  \
        tile_store(1, to + SIDE, 4 * (row));                                                                           \
        tile_store(2, to + SIDE * (row), 4 * (row));                                                                   \
        tile_store(3, to + SIDE * (row) + SIDE, 4 * (row));                                                            \
    } while (0)

static void multiply_keys(const group *g, int keys)
{
    scratch *t = g->t;
    for (int j = 0; j < whole(keys, QUERIES); j += QUERIES) {
        float *to = t->products[0] + j;
        tile_zero(0);
        tile_zero(1);
        tile_zero(2);
        tile_zero(3);
        for (int s = 0; s < g->a->width / STEP; s++)
            ADD_STEP(t->q[0][s], t->q[1][s], t->keys[j / SIDE][s], t->keys[j / SIDE + 1][s]);
        STORE_SUMS(to, LINE);
    }
}

/* y += p v */
static void multiply_values(const group *g, int row, int keys)
{
    scratch *t = g->t;
    const int64_t width = g->a->width;
    for (int c = 0; c < width; c += 2 * SIDE) {
        float *y = g->y + row * width + c;
        tile_load(0, y, 4 * width);
        tile_load(1, y + SIDE, 4 * width);
        tile_load(2, y + SIDE * width, 4 * width);
        tile_load(3, y + SIDE * width + SIDE, 4 * width);
        for (int s = 0; s < whole(keys, STEP) / STEP; s++)
            ADD_STEP(t->p[0][s], t->p[1][s], t->values[c / SIDE][s], t->values[c / SIDE + 1][s]);
        STORE_SUMS(y, width);
    }
}

/* ---- the softmax ---- */

static void weigh_and_scale(const group *g, int row, int i, int keys)
{
    float *y = g->y + (int64_t)(row + i) * g->a->width;
    const float factor = weigh(g, row, i, keys);
    for (int j = 0; j < g->a->width && factor != 1; j += VEC_LANES)
        vec_store(y + j, vec_load(y + j) * vec_splat(factor));
}

/* ---- a unit ---- */

static void tile_of_keys(const group *g, int64_t key, int keys)
{
    pack_keys(g, key, keys);
    pack_values(g, key, keys);
    for (int row = 0; row < g->count; row += QUERIES) {
        pack_queries(g, row);
        multiply_keys(g, keys);
        for (int i = 0; i < QUERIES; i++)
            weigh_and_scale(g, row, i, keys);
        multiply_values(g, row, keys);
    }
}

static void put(const group *g, const zn_rows *y)
{
    for (int i = 0; i < g->count; i++) {
        const float factor = 1 / g->sum[i];
        const float *from = g->y + (int64_t)i * g->a->width;
        float *to = y->data + (g->first + i) * y->step;
        for (int j = 0; j < g->a->width; j++)
            to[j] = from[j] * factor;
    }
}

void zn_attention_amx(const void *args, zn_range r)
{
    const zn_attention_args *a = args;
    tile_begin(TILE_BYTES);
    for (int64_t unit = r.begin; unit < r.end; unit++) {
        const group g = group_of(a, unit, r.scratch);
        const zn_rows y = zn_attention_head(a, &a->y, unit / zn_attention_blocks(a), 1);
        for (int64_t key = 0; key < a->keys; key += KEYS)
            tile_of_keys(&g, key, (int)zn_least(KEYS, a->keys - key));
        put(&g, &y);
    }
    tile_end();
}
