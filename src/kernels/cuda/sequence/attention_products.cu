/* Attention of 16-bit maps whose rows are too wide for the registers of a block, as products of matrices: scores of
 * some queries with all keys, in fp32, their softmax, rounded to 16 bits, and its product with the values. */
#include "kernels/cuda/basic/blas.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/sequence/attention_half.h"
#include "kernels/cuda/vector.h"

#include <math.h>

struct weigh_task {
    attention_task t;
    const float *scores; /* [rows][stride] */
    uint16_t *weights;   /* the same */
    int64_t first;       /* query of row 0 */
    int64_t stride;
    bool kept; /* a row fits into shared memory, after a number for each thread */
};

/* The largest of the values of all threads; see sum_of. */
static __device__ float largest_of(float value, float *shared)
{
    __syncthreads();
    shared[threadIdx.x] = value;
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half && shared[threadIdx.x + half] > shared[threadIdx.x])
            shared[threadIdx.x] = shared[threadIdx.x + half];
    }
    __syncthreads();
    return shared[0];
}

/* A block for each query: T is bf16_pair or f16_pair. */
template <typename T> __global__ void weigh_scores(weigh_task w)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    const float *row = w.scores + (int64_t)blockIdx.x * w.stride;
    const int64_t seen = seen_by(w.t, w.first + blockIdx.x);
    float *const kept = zn_cuda_shared + THREADS;
    float most = -INFINITY, sum = 0;
    for (int64_t i = threadIdx.x; i < w.stride / 4; i += THREADS) {
        floats<4> v = load<4>(row, i);
        for (int j = 0; j < 4; j++) {
            v.v[j] = 4 * i + j < seen ? v.v[j] : -INFINITY;
            most = v.v[j] > most ? v.v[j] : most;
        }
        if (w.kept)
            store<4>(kept, i, v); /* read by this thread alone */
    }
    most = largest_of(most, zn_cuda_shared);
    const float scale = w.t.a.scale * 1.44269504f;
    const auto weights_at = [&](int64_t i) {
        floats<4> v = w.kept ? load<4>(kept, i) : load<4>(row, i);
        for (int j = 0; j < 4; j++)
            v.v[j] = 4 * i + j < seen ? exp2f((v.v[j] - most) * scale) : 0;
        return v;
    };
    for (int64_t i = threadIdx.x; i < w.stride / 4; i += THREADS) {
        const floats<4> v = weights_at(i);
        sum += v.v[0] + v.v[1] + (v.v[2] + v.v[3]);
        if (w.kept)
            store<4>(kept, i, v);
    }
    sum = sum_of(sum, zn_cuda_shared);
    const float factor = seen > 0 ? 1 / sum : 0;
    float *to = reinterpret_cast<float *>(w.weights + (int64_t)blockIdx.x * w.stride);
    for (int64_t i = threadIdx.x; i < w.stride / 4; i += THREADS) {
        floats<4> v = w.kept ? load<4>(kept, i) : weights_at(i);
        for (int j = 0; j < 4; j++)
            v.v[j] *= factor;
        as_short<T>::template store<4>(to, i, v);
    }
}

static void weigh(zn_device *d, weigh_task w, int64_t rows)
{
    enum { MOST = 96 << 10 }; /* two blocks on a multiprocessor */
    const size_t row = sizeof(float) * (size_t)w.stride, threads = sizeof(float) * THREADS;
    w.kept = row + threads <= MOST && row + threads <= (size_t)d->shared;
    void (*const kernel)(weigh_task) = w.t.a.type == ZN_TYPE_BF16 ? weigh_scores<bf16_pair> : weigh_scores<f16_pair>;
    launch(d, kernel, dim3((unsigned)rows), THREADS, threads + (w.kept ? row : 0), w);
}

static void multiply(zn_device *d, const half_product &p)
{
    if (!zn_cuda_blas_product(d, p))
        zn_cuda_half_product(d, p);
}

/* Row `row` of head `unit`, counted over all samples, of a map of 16 bits. */
static char *row_at(const attention_task &t, const zn_rows &m, int64_t unit, int share, int64_t row)
{
    const int64_t at = unit / t.a.heads * m.sample + unit % t.a.heads / share * m.head + row * m.step;
    return reinterpret_cast<char *>(m.data) + at * (int64_t)sizeof(uint16_t);
}

static void attend_rows(zn_device *d, const attention_task &t, int64_t unit, int64_t first, int64_t rows)
{
    const int64_t stride = zn_attention_wide_stride(&t.a), most = zn_attention_wide_rows(&t.a);
    float *const scores = t.a.stats;
    uint16_t *const weights = reinterpret_cast<uint16_t *>(scores + most * stride);
    half_product p = {};
    p.x = row_at(t, t.a.q, unit, 1, first), p.x_stride = t.a.q.step;
    p.w = row_at(t, t.a.k, unit, t.share, 0), p.w_stride = t.a.k.step;
    p.rows = rows, p.depth = t.a.width, p.columns = t.a.keys;
    p.type = t.a.type;
    p.y = scores, p.y_stride = stride;
    multiply(d, p);
    weigh(d, weigh_task{ t, scores, weights, first, stride, false }, rows);
    p.x = weights, p.x_stride = stride;
    p.w = row_at(t, t.a.v, unit, t.share, 0), p.w_stride = t.a.v.step;
    p.depth = t.a.keys, p.columns = t.a.width;
    p.turned = true;
    p.y = reinterpret_cast<float *>(row_at(t, t.a.y, unit, 1, first)), p.y_type = t.a.type, p.y_stride = t.a.y.step;
    multiply(d, p);
}

void attention_products(zn_device *d, const attention_task &t)
{
    const int64_t most = zn_attention_wide_rows(&t.a);
    for (int64_t unit = 0; unit < t.units; unit++)
        for (int64_t first = 0; first < t.a.queries; first += most)
            attend_rows(d, t, unit, first, t.a.queries - first < most ? t.a.queries - first : most);
}
