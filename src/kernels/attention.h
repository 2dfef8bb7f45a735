/* Attention of rows over rows, softmax(scale * q k') v, for each head of each sample by itself. Rows of a head lie
 * `step` floats apart. */
#ifndef ZN_KERNELS_ATTENTION_H
#define ZN_KERNELS_ATTENTION_H

#include "base/threads.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct zn_rows {
    float *data;                /* row 0 of head 0 of sample 0 */
    int64_t sample, head, step; /* distances */
} zn_rows;

typedef struct zn_attention_args {
    zn_rows q, k, v, y; /* gradient: y is dy */
    zn_rows dq, dk, dv; /* gradient */
    int64_t queries, keys;
    int heads, width; /* width: floats of a row */
    int share;        /* heads that follow each other and have one k and v; 0: each its own */
    bool causal;      /* query i sees the keys up to i + keys - queries */
    float scale;
} zn_attention_args;

enum { ZN_ATTENTION_QUERIES = 16 }; /* of one unit */
static inline int64_t zn_attention_blocks(const zn_attention_args *a)
{
    return (a->queries + ZN_ATTENTION_QUERIES - 1) / ZN_ATTENTION_QUERIES;
}
static inline int zn_attention_share(const zn_attention_args *a) { return a->share ? a->share : 1; }
static inline int64_t zn_attention_groups(const zn_attention_args *a) { return a->heads / zn_attention_share(a); }
/* How many keys a query sees. */
static inline int64_t zn_attention_seen(const zn_attention_args *a, int64_t query)
{
    const int64_t seen = query + 1 + a->keys - a->queries;
    return !a->causal || seen > a->keys ? a->keys : seen;
}
/* Bytes for each thread. */
static inline size_t zn_attention_scratch(const zn_attention_args *a)
{
    return sizeof(float) * ZN_ATTENTION_QUERIES * (size_t)a->keys;
}
static inline size_t zn_attention_grad_scratch(const zn_attention_args *a) { return 2 * zn_attention_scratch(a); }

void zn_k_attention(const void *attention_args, zn_range blocks);      /* units: samples * heads * blocks */
void zn_k_attention_grad(const void *attention_args, zn_range groups); /* units: samples * groups of heads */

#endif
