/* Attention of rows over rows, softmax(scale * q k') v, computed for each head of each sample separately.
 * Consecutive rows of a head are `step` floats apart. */
#ifndef ZN_KERNELS_ATTENTION_H
#define ZN_KERNELS_ATTENTION_H

#include "base/threads.h"
#include "kernels/conv.h"
#include "kernels/type.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct zn_rows {
    float *data;                /* row 0 of head 0 of sample 0 */
    int64_t sample, head, step; /* strides in floats */
} zn_rows;

typedef struct zn_attention_args {
    zn_rows q, k, v, y; /* gradient: y is dy */
    zn_rows dq, dk, dv; /* gradient */
    int64_t queries, keys;
    int heads, width;  /* width: floats of a row */
    int share;         /* consecutive heads that share one k and v; 0: every head has its own */
    bool causal;       /* query i attends to keys up to i + keys - queries */
    float scale;       /* above 0 */
    zn_precision math; /* that products may use; a kernel without it multiplies in fp32 */
    float *stats;      /* on GPUs: scratch; gradient: zn_attention_stats floats, else zn_attention_wide_bytes */
    zn_type type;      /* of q, k, v and y; F32 for the gradient and on the CPU */
} zn_attention_args;

/* Whether a GPU has a kernel for 16-bit rows of so many numbers that pays for so many queries. Rows begin at multiples
 * of 16 bytes. */
static inline bool zn_attention_narrow(int width, int64_t queries)
{
    const bool few = width % 64 == 0 && queries <= 256;
    return width % 8 == 0 && (width <= 128 || (width <= 512 && (few || queries >= 1024)));
}
/* Whether it needs scratch: for scores of some queries, in fp32, and as many weights of 16 bits. */
static inline bool zn_attention_is_wide(const zn_attention_args *a) { return a->type != ZN_TYPE_F32 && a->width > 128; }
static inline int64_t zn_attention_wide_stride(const zn_attention_args *a) { return (a->keys + 31) / 32 * 32; }
static inline int64_t zn_attention_wide_rows(const zn_attention_args *a)
{
    enum { SCORES = 1 << 25 };
    const int64_t step = 128, rows = SCORES / zn_attention_wide_stride(a) / step * step,
                  most = rows < step ? step : rows;
    return a->queries < most ? a->queries : most;
}
static inline size_t zn_attention_wide_bytes(const zn_attention_args *a)
{
    return zn_attention_is_wide(a) ? 6 * (size_t)(zn_attention_wide_rows(a) * zn_attention_wide_stride(a)) : 0;
}

/* In the forward pass a unit is a group of queries: their tiles of keys and values are packed once, and the queries are
 * multiplied with them in blocks of ZN_ATTENTION_ROWS. Groups are as large as the cache allows (their sums have
 * `width` floats a query), because packing costs as much as multiplying some ten queries; few queries are divided into
 * more units than that, for threads. */
enum { ZN_ATTENTION_ROWS = 96, ZN_ATTENTION_TILE = 128, ZN_ATTENTION_SUMS = 384 * 128 };
static inline int64_t zn_attention_rows(const zn_attention_args *a)
{
    if (a->queries < 1024)
        return ZN_ATTENTION_ROWS / 2;
    const int64_t most =
        ZN_ATTENTION_SUMS / a->width < ZN_ATTENTION_ROWS ? ZN_ATTENTION_ROWS : ZN_ATTENTION_SUMS / a->width;
    const int64_t groups = (a->queries + most - 1) / most;
    return ((a->queries + groups - 1) / groups + 5) / 6 * 6; /* the product's blocks have 6 rows */
}
static inline int64_t zn_attention_blocks(const zn_attention_args *a)
{
    return (a->queries + zn_attention_rows(a) - 1) / zn_attention_rows(a);
}
static inline int zn_attention_share(const zn_attention_args *a) { return a->share ? a->share : 1; }
static inline int64_t zn_attention_groups(const zn_attention_args *a) { return a->heads / zn_attention_share(a); }
/* Rows of head `unit`, counted over all samples; share: heads that share them. */
static inline zn_rows zn_attention_head(const zn_attention_args *a, const zn_rows *m, int64_t unit, int share)
{
    zn_rows head = *m;
    head.data += unit / a->heads * m->sample + unit % a->heads / share * m->head;
    return head;
}
/* Number of keys that a query attends to. */
static inline int64_t zn_attention_seen(const zn_attention_args *a, int64_t query)
{
    const int64_t seen = query + 1 + a->keys - a->queries;
    return !a->causal || seen > a->keys ? a->keys : seen;
}
/* Floats of one packed tile of keys or values. */
static inline int64_t zn_attention_panels(int width) { return (int64_t)ZN_ATTENTION_TILE * ((width + 15) / 16 * 16); }
/* Bytes of scratch for each thread; at least one float per key. */
static inline size_t zn_attention_scratch(const zn_attention_args *a)
{
    const int64_t wide = (a->width + 15) / 16 * 16;
    const int64_t floats = 2 * zn_attention_panels(a->width) + ZN_ATTENTION_ROWS * (ZN_ATTENTION_TILE + 16) +
                           zn_attention_rows(a) * (wide + 2);
    return sizeof(float) * (size_t)(floats > a->keys ? floats : a->keys);
}
enum { ZN_ATTENTION_QUERIES = 16 }; /* queries that a gradient kernel processes at a time */
static inline size_t zn_attention_grad_scratch(const zn_attention_args *a)
{
    return 2 * sizeof(float) * ZN_ATTENTION_QUERIES * (size_t)a->keys;
}

/* Whether a GPU computes the gradient by products of whole matrices (cuda/sequence/attention_wide_grad.cu): rows are
 * wide, no heads share keys, and the scores of a head are not too many. `units`: heads of all samples that it then has
 * scores of at a time, twice. */
enum { ZN_ATTENTION_GRAD_SCORES = 1 << 25 };
static inline int64_t zn_attention_scores(const zn_attention_args *a)
{
    return a->queries * zn_attention_wide_stride(a);
}
static inline bool zn_attention_grad_is_wide(const zn_attention_args *a)
{
    return a->width > 128 && zn_attention_share(a) == 1 && zn_attention_scores(a) <= ZN_ATTENTION_GRAD_SCORES;
}
static inline int64_t zn_attention_grad_units(const zn_attention_args *a, int64_t units)
{
    const int64_t fit = ZN_ATTENTION_GRAD_SCORES / zn_attention_scores(a), most = fit < 65535 ? fit : 65535;
    return units < most ? units : most;
}

/* Floats of scratch that the gradient needs on a GPU: these scores, or two numbers for each query of each head
 * (cuda/sequence/attention_grad.cu). */
static inline int64_t zn_attention_stats(const zn_attention_args *a, int64_t samples)
{
    const int64_t units = samples * a->heads;
    return zn_attention_grad_is_wide(a) ? 2 * zn_attention_grad_units(a, units) * zn_attention_scores(a)
                                        : 2 * units * a->queries;
}

void zn_k_attention(const void *attention_args, zn_range blocks);      /* units: samples * heads * blocks */
void zn_k_attention_grad(const void *attention_args, zn_range groups); /* units: samples * groups of heads */

#endif
