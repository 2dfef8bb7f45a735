/* Shared by the CUDA builds of attention. Rows that are wider than tiles in shared memory allow are computed by
 * attention_any.cu, slowly. Included only by .cu files. */
#ifndef ZN_CUDA_ATTENTION_H
#define ZN_CUDA_ATTENTION_H

#include "kernels/cuda/cuda.h"

extern "C" {
#include "kernels/attention.h"
}

struct attention_task {
    zn_attention_args a;
    int share;     /* heads that share keys and values */
    int64_t units; /* samples * heads */
    bool fours;    /* every row begins at a multiple of 16 bytes, and widths are multiples of 4 */
};

static inline attention_task attention_task_of(zn_device *d, zn_attention_args a, int64_t units)
{
    zn_rows *const all[] = { &a.q, &a.k, &a.v, &a.y, &a.dq, &a.dk, &a.dv };
    bool fours = a.width % 4 == 0;
    for (zn_rows *m : all) {
        to_device(d, m->data);
        fours &= (uintptr_t)m->data % 16 == 0 && (m->sample | m->head | m->step) % 4 == 0;
    }
    to_device(d, a.stats);
    return attention_task{ a, zn_attention_share(&a), units, fours };
}

/* Row 0 of head `unit`, counted over all samples; share: number of heads that share it. */
static inline __device__ float *rows_of(const attention_task &t, const zn_rows &m, int64_t unit, int share)
{
    return m.data + unit / t.a.heads * m.sample + unit % t.a.heads / share * m.head;
}

/* Number of keys that a query attends to, between 0 and all. */
static inline __device__ int64_t seen_by(const attention_task &t, int64_t query)
{
    const int64_t seen = query + 1 + t.a.keys - t.a.queries;
    return !t.a.causal || seen > t.a.keys ? t.a.keys : seen < 0 ? 0 : seen;
}

/* The softmax of a query over the keys seen so far, as sums relative to the largest score. */
struct softmax {
    float most, sum;
};
/* Adds scores up to `top`; returns the factor of the sums so far. */
static inline __device__ float raise(softmax &s, float top)
{
    const float most = s.most > top ? s.most : top;
    const float factor = most == -INFINITY ? 1 : expf(s.most - most);
    s.most = most;
    s.sum *= factor;
    return factor;
}
/* exp(score - most); 0 for a key that is not seen, whose score is -INFINITY. */
static inline __device__ float weight(const softmax &s, float score)
{
    return score == -INFINITY ? 0 : expf(score - s.most);
}

void attention_any(zn_device *d, const attention_task &t);
void attention_grad_any(zn_device *d, const attention_task &t);
/* attention_wide_grad.cu */
void attention_grad_products(zn_device *d, const attention_task &t);

#endif
