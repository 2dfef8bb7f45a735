/* The gradient of attention with wide rows as products of matrices, of all heads at once: scores s = q k' and t = dy v'
 * of some units are in scratch, p = softmax(scale s) and ds = scale p (t - sum of p t) replace them, and dv = p' dy,
 * dq = ds k, dk = ds' q. */
#include "kernels/cuda/basic/product_batch.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/sequence/attention.h"

struct slope_task {
    attention_task t;
    float *scores, *products; /* [units][queries][stride] */
    int64_t stride;
};

enum { SLOPE_WARPS = THREADS / 32 };

/* A warp for each query. */
__global__ void attention_slopes(slope_task w)
{
    const int64_t row = (int64_t)blockIdx.x * SLOPE_WARPS + threadIdx.x / 32;
    if (row >= w.t.units * w.t.a.queries)
        return;
    const int64_t seen = seen_by(w.t, row % w.t.a.queries);
    const int lane = (int)threadIdx.x % 32;
    float *const s = w.scores + row * w.stride, *const t = w.products + row * w.stride;
    float most = -INFINITY, sum = 0, mean = 0;
    for (int64_t i = lane; i < seen; i += 32)
        most = fmaxf(most, s[i]);
    for (int mask = 16; mask > 0; mask /= 2)
        most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, mask));
    for (int64_t i = lane; i < seen; i += 32) {
        const float p = expf(w.t.a.scale * (s[i] - most));
        sum += p;
        mean += p * t[i];
        s[i] = p; /* read by this thread alone */
    }
    sum = sum_of_warp(sum);
    mean = sum_of_warp(mean) / sum;
    for (int64_t i = lane; i < w.t.a.keys; i += 32) {
        const float p = i < seen ? s[i] / sum : 0;
        s[i] = p;
        t[i] = i < seen ? w.t.a.scale * p * (t[i] - mean) : 0;
    }
}

static batch_matrix matrix_of(const zn_rows &m, bool turned, bool by_four)
{
    return batch_matrix{ m.data, m.sample, m.head, m.step, turned, by_four };
}

/* Scratch of `units` units, of which the product's first is number `first`. */
static batch_matrix scratch_of(const attention_task &t, float *data, int64_t first, bool turned)
{
    const int64_t stride = zn_attention_wide_stride(&t.a), each = t.a.queries * stride;
    return batch_matrix{ data - first * each, t.a.heads * each, each, stride, turned, t.a.keys % 4 == 0 };
}

static void attend_units(zn_device *d, const attention_task &t, int64_t first, int64_t units)
{
    const int64_t stride = zn_attention_wide_stride(&t.a);
    const bool full = t.a.math == ZN_PRECISION_F32 || t.a.math == ZN_PRECISION_DEFAULT;
    float *const scores = t.a.stats, *const products = scores + units * t.a.queries * stride;
    const auto s = [&](bool turned) { return scratch_of(t, scores, first, turned); };
    const auto p = [&](bool turned) { return scratch_of(t, products, first, turned); };
    const auto rows = [&](const zn_rows &m, bool turned) { return matrix_of(m, turned, t.fours); };
    const int64_t queries = t.a.queries, keys = t.a.keys, width = t.a.width, heads = t.a.heads;
    const auto multiply = [&](const batch_matrix &x, const batch_matrix &w, const batch_matrix &y, int64_t count,
                              int64_t depth, int64_t columns) {
        zn_cuda_product_batch(d, batch_product{ x, w, y, count, depth, columns, first, units, heads, full });
    };
    multiply(rows(t.a.q, false), rows(t.a.k, false), s(false), queries, width, keys);
    multiply(rows(t.a.y, false), rows(t.a.v, false), p(false), queries, width, keys);
    slope_task w = { t, scores, products, stride };
    w.t.units = units;
    launch(d, attention_slopes, dim3((unsigned)((units * queries + SLOPE_WARPS - 1) / SLOPE_WARPS)), THREADS, 0, w);
    multiply(s(true), rows(t.a.y, true), rows(t.a.dv, false), keys, queries, width);
    multiply(p(false), rows(t.a.k, true), rows(t.a.dq, false), queries, keys, width);
    multiply(p(true), rows(t.a.q, true), rows(t.a.dk, false), keys, queries, width);
}

void attention_grad_products(zn_device *d, const attention_task &t)
{
    const int64_t most = zn_attention_grad_units(&t.a, t.units);
    for (int64_t first = 0; first < t.units; first += most)
        attend_units(d, t, first, t.units - first < most ? t.units - first : most);
}
