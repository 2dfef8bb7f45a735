/* Attention for rows too wide for tiles in shared memory: one thread block per row of the result. Threads share first
 * the rows of a group of THREADS others, then the columns. Right for any width, but every block reads everything. */
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/sequence/attention.h"

enum { LANES = 32, WARPS = THREADS / LANES };

static __device__ float dot(const float *a, const float *b, int width)
{
    float sum = 0;
    for (int i = (int)threadIdx.x % LANES; i < width; i += LANES)
        sum += a[i] * b[i];
    return sum_of_warp(sum);
}

/* numbers[i] = factor * (row . rows[i]) for i < count; row i is `step` floats after the last. */
static __device__ void dots(const float *row, const float *rows, int64_t step, int count, int width, float factor,
                            float *numbers)
{
    for (int i = (int)threadIdx.x / LANES; i < count; i += WARPS) {
        const float sum = factor * dot(row, rows + i * step, width);
        if (threadIdx.x % LANES == 0)
            numbers[i] = sum;
    }
}

static __device__ int group_of(int64_t first, int64_t end)
{
    return end - first < THREADS ? (int)(end - first) : THREADS;
}

/* Adds the largest of `count` scores to the softmax; every thread does the same. */
static __device__ float raise_by(softmax &s, const float *scores, int count)
{
    float top = -INFINITY;
    for (int i = 0; i < count; i++)
        top = scores[i] > top ? scores[i] : top;
    return raise(s, top);
}

/* Shared memory: scores [THREADS], then y [width]. */
__global__ void attention_row(attention_task t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    float *scores = zn_cuda_shared, *y = scores + THREADS;
    const int64_t unit = blockIdx.x / t.a.queries, query = blockIdx.x % t.a.queries, seen = seen_by(t, query);
    const float *q = rows_of(t, t.a.q, unit, 1) + query * t.a.q.step;
    const float *k = rows_of(t, t.a.k, unit, t.share), *v = rows_of(t, t.a.v, unit, t.share);
    float *to = rows_of(t, t.a.y, unit, 1) + query * t.a.y.step;
    softmax s = { -INFINITY, 0 };
    for (int c = (int)threadIdx.x; c < t.a.width; c += THREADS)
        y[c] = 0;
    for (int64_t key = 0; key < seen; key += THREADS) {
        const int count = group_of(key, seen);
        __syncthreads(); /* all have read the previous scores */
        dots(q, k + key * t.a.k.step, t.a.k.step, count, t.a.width, t.a.scale, scores);
        __syncthreads();
        const float factor = raise_by(s, scores, count);
        for (int i = 0; i < count; i++)
            s.sum += weight(s, scores[i]);
        for (int c = (int)threadIdx.x; c < t.a.width; c += THREADS) {
            float sum = factor * y[c];
            for (int i = 0; i < count; i++)
                sum += weight(s, scores[i]) * v[(key + i) * t.a.v.step + c];
            y[c] = sum;
        }
    }
    for (int c = (int)threadIdx.x; c < t.a.width; c += THREADS)
        to[c] = seen ? y[c] / s.sum : 0;
}

/* ---- gradient ---- */

/* Writes the query's numbers of attention_grad.cu. Shared memory: scores and products with dy, [2][THREADS]. */
__global__ void attention_stats_row(attention_task t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    float *scores = zn_cuda_shared, *products = scores + THREADS;
    const int64_t unit = blockIdx.x / t.a.queries, query = blockIdx.x % t.a.queries, seen = seen_by(t, query);
    const float *q = rows_of(t, t.a.q, unit, 1) + query * t.a.q.step;
    const float *dy = rows_of(t, t.a.y, unit, 1) + query * t.a.y.step;
    const float *k = rows_of(t, t.a.k, unit, t.share), *v = rows_of(t, t.a.v, unit, t.share);
    softmax s = { -INFINITY, 0 };
    float mean = 0;
    for (int64_t key = 0; key < seen; key += THREADS) {
        const int count = group_of(key, seen);
        __syncthreads();
        dots(q, k + key * t.a.k.step, t.a.k.step, count, t.a.width, t.a.scale, scores);
        dots(dy, v + key * t.a.v.step, t.a.v.step, count, t.a.width, 1, products);
        __syncthreads();
        mean *= raise_by(s, scores, count);
        for (int i = 0; i < count; i++) {
            s.sum += weight(s, scores[i]);
            mean += weight(s, scores[i]) * products[i];
        }
    }
    if (threadIdx.x == 0) {
        t.a.stats[2 * (int64_t)blockIdx.x] = s.most + logf(s.sum);
        t.a.stats[2 * (int64_t)blockIdx.x + 1] = mean / s.sum;
    }
}

__global__ void attention_dq_row(attention_task t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    float *scores = zn_cuda_shared, *products = scores + THREADS;
    const int64_t unit = blockIdx.x / t.a.queries, query = blockIdx.x % t.a.queries, seen = seen_by(t, query);
    const float *q = rows_of(t, t.a.q, unit, 1) + query * t.a.q.step;
    const float *dy = rows_of(t, t.a.y, unit, 1) + query * t.a.y.step;
    const float *k = rows_of(t, t.a.k, unit, t.share), *v = rows_of(t, t.a.v, unit, t.share);
    const float most = t.a.stats[2 * (int64_t)blockIdx.x], mean = t.a.stats[2 * (int64_t)blockIdx.x + 1];
    float *dq = rows_of(t, t.a.dq, unit, 1) + query * t.a.dq.step;
    for (int c = (int)threadIdx.x; c < t.a.width; c += THREADS)
        dq[c] = 0;
    for (int64_t key = 0; key < seen; key += THREADS) {
        const int count = group_of(key, seen);
        __syncthreads();
        dots(q, k + key * t.a.k.step, t.a.k.step, count, t.a.width, t.a.scale, scores);
        dots(dy, v + key * t.a.v.step, t.a.v.step, count, t.a.width, 1, products);
        __syncthreads();
        for (int c = (int)threadIdx.x; c < t.a.width; c += THREADS) {
            float sum = dq[c];
            for (int i = 0; i < count; i++)
                sum += t.a.scale * expf(scores[i] - most) * (products[i] - mean) * k[(key + i) * t.a.k.step + c];
            dq[c] = sum;
        }
    }
}

/* One thread block per key of each group of heads. */
__global__ void attention_dkv_row(attention_task t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    float *scores = zn_cuda_shared, *products = scores + THREADS;
    const int64_t group = blockIdx.x / t.a.keys, key = blockIdx.x % t.a.keys;
    const float *k = rows_of(t, t.a.k, group * t.share, t.share) + key * t.a.k.step;
    const float *v = rows_of(t, t.a.v, group * t.share, t.share) + key * t.a.v.step;
    float *dk = rows_of(t, t.a.dk, group * t.share, t.share) + key * t.a.dk.step;
    float *dv = rows_of(t, t.a.dv, group * t.share, t.share) + key * t.a.dv.step;
    const int64_t begin = t.a.causal && key > t.a.keys - t.a.queries ? key - (t.a.keys - t.a.queries) : 0;
    for (int c = (int)threadIdx.x; c < t.a.width; c += THREADS)
        dk[c] = dv[c] = 0;
    for (int64_t unit = group * t.share; unit < (group + 1) * t.share; unit++)
        for (int64_t query = begin; query < t.a.queries; query += THREADS) {
            const int count = group_of(query, t.a.queries);
            const float *q = rows_of(t, t.a.q, unit, 1) + query * t.a.q.step;
            const float *dy = rows_of(t, t.a.y, unit, 1) + query * t.a.y.step;
            const float *stats = t.a.stats + 2 * (unit * t.a.queries + query);
            __syncthreads();
            dots(k, q, t.a.q.step, count, t.a.width, t.a.scale, scores);
            dots(v, dy, t.a.y.step, count, t.a.width, 1, products);
            __syncthreads();
            for (int c = (int)threadIdx.x; c < t.a.width; c += THREADS)
                for (int i = 0; i < count; i++) {
                    const float p = expf(scores[i] - stats[2 * i]);
                    dv[c] += p * dy[i * t.a.y.step + c];
                    dk[c] += t.a.scale * p * (products[i] - stats[2 * i + 1]) * q[i * t.a.q.step + c];
                }
        }
}

void attention_any(zn_device *d, const attention_task &t)
{
    const size_t bytes = sizeof(float) * (size_t)(THREADS + t.a.width);
    zn_cuda_check(d, cudaFuncSetAttribute(attention_row, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes),
                  "shared memory");
    launch(d, attention_row, dim3((unsigned)(t.units * t.a.queries)), THREADS, bytes, t);
}

void attention_grad_any(zn_device *d, const attention_task &t)
{
    const size_t bytes = sizeof(float) * 2 * THREADS;
    const unsigned queries = (unsigned)(t.units * t.a.queries), keys = (unsigned)(t.units / t.share * t.a.keys);
    launch(d, attention_stats_row, dim3(queries), THREADS, bytes, t);
    launch(d, attention_dq_row, dim3(queries), THREADS, bytes, t);
    launch(d, attention_dkv_row, dim3(keys), THREADS, bytes, t);
}
