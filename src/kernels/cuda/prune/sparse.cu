/* Depthwise 3x3 followed by a block gate. A thread takes four channels of a pixel and reads the mask itself: transposed
 * weights and summaries of masks are for CPUs. ref/prune/sparse.c is the reference. */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/index.h"
#include "kernels/cuda/vector.h"

extern "C" {
#include "kernels/gates.h"
}

struct sparse_task {
    zn_sparse_args a;
    int64_t units; /* vectors of four channels, over all pixels */
};

static sparse_task task_of(zn_device *d, const void *args)
{
    sparse_task t = { *static_cast<const zn_sparse_args *>(args), 0 };
    to_device(d, t.a.x);
    to_device(d, t.a.w);
    to_device(d, t.a.dy);
    to_device(d, t.a.mask);
    to_device(d, t.a.y);
    to_device(d, t.a.partial);
    t.units = (int64_t)t.a.n * t.a.h * t.a.wide * t.a.c / 4;
    return t;
}

/* Four floats at any address. */
static __device__ floats<4> four(const float *from)
{
    floats<4> f;
    if ((uintptr_t)from % sizeof f == 0)
        return load<4>(from, 0);
    for (int v = 0; v < 4; v++)
        f.v[v] = from[v];
    return f;
}

static __device__ float mask_of(const zn_sparse_args &a, int64_t pixel, int k)
{
    return a.mask ? a.mask[pixel * (a.c / ZN_GATE_BLOCK) + k / ZN_GATE_BLOCK] : 1;
}

/* The neighbour of a pixel at (x, y) that a tap reads, or -1 outside the image. */
static __device__ int64_t neighbour(const zn_sparse_args &a, int64_t pixel, int y, int x, int tap)
{
    const int dy = tap / 3 - 1, dx = tap % 3 - 1;
    return y + dy < 0 || y + dy >= a.h || x + dx < 0 || x + dx >= a.wide ? -1 : pixel + dy * a.wide + dx;
}

/* BACK: the gradient with respect to x. */
template <bool BACK> __global__ void sparse(sparse_task t)
{
    const zn_sparse_args &a = t.a;
    for (int64_t i = first_unit(); i < t.units; i += unit_step()) {
        const division at = divide(i, a.c / 4), row = divide(at.quotient, a.wide);
        const int k = at.rest * 4, x = row.rest, y = (int)(row.quotient % a.h);
        const int64_t pixel = at.quotient;
        const float own = BACK ? 1 : mask_of(a, pixel, k);
        floats<4> sum = {};
        for (int tap = 0; tap < 9 && own != 0; tap++) {
            const int64_t from = neighbour(a, pixel, y, x, tap);
            const float m = from < 0 ? 0 : BACK ? mask_of(a, from, k) : 1;
            if (m == 0)
                continue;
            const floats<4> f = four((BACK ? a.dy : a.x) + from * a.c + k);
            for (int v = 0; v < 4; v++)
                sum.v[v] += a.w[9 * (k + v) + (BACK ? 8 - tap : tap)] * (BACK ? m * f.v[v] : f.v[v]);
        }
        for (int v = 0; v < 4; v++)
            a.y[pixel * a.c + k + v] = own == 0 ? 0 : own * sum.v[v];
    }
}

enum { LANES = ZN_SPARSE_STRIP / 4, TEAMS = THREADS / LANES };

/* A thread block sums one strip of channels of one image; its teams share the pixels. */
__global__ void sparse_weights(sparse_task t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    const zn_sparse_args &a = t.a;
    const int strips = (a.c + ZN_SPARSE_STRIP - 1) / ZN_SPARSE_STRIP, lane = (int)threadIdx.x % LANES;
    const int first = (int)blockIdx.x % strips * ZN_SPARSE_STRIP, k = first + 4 * lane;
    const int64_t image = blockIdx.x / (unsigned)strips, size = (int64_t)a.h * a.wide;
    float sum[9][4] = {};
    for (int64_t p = threadIdx.x / LANES; p < size && k < a.c; p += TEAMS) {
        const int64_t pixel = image * size + p;
        const float m = mask_of(a, pixel, k);
        if (m == 0)
            continue;
        const floats<4> dy = four(a.dy + pixel * a.c + k);
#pragma unroll
        for (int tap = 0; tap < 9; tap++) {
            const int64_t from = neighbour(a, pixel, (int)(p / a.wide), (int)(p % a.wide), tap);
            if (from < 0)
                continue;
            const floats<4> x = four(a.x + from * a.c + k);
            for (int v = 0; v < 4; v++)
                sum[tap][v] += m * dy.v[v] * x.v[v];
        }
    }
#pragma unroll
    for (int tap = 0; tap < 9; tap++)
        for (int v = 0; v < 4; v++)
            zn_cuda_shared[(v * 9 + tap) * THREADS + (int)threadIdx.x] = sum[tap][v];
    __syncthreads();
    for (int i = (int)threadIdx.x; i < 9 * ZN_SPARSE_STRIP && first * 9 + i < 9 * a.c; i += THREADS) {
        const int channel = i / 9, slot = channel % 4 * 9 + i % 9;
        float all = 0;
        for (int team = 0; team < TEAMS; team++)
            all += zn_cuda_shared[slot * THREADS + team * LANES + channel / 4];
        a.partial[image * 9 * a.c + first * 9 + i] = all;
    }
}

extern "C" {
void zn_cuda_sparse_depthwise(zn_device *d, const void *args, int64_t)
{
    const sparse_task t = task_of(d, args);
    launch(d, sparse<false>, dim3(grid_of(t.units)), THREADS, 0, t);
}

void zn_cuda_sparse_depthwise_grad(zn_device *d, const void *args, int64_t)
{
    const sparse_task t = task_of(d, args);
    launch(d, sparse<true>, dim3(grid_of(t.units)), THREADS, 0, t);
}

void zn_cuda_sparse_depthwise_weight_grad(zn_device *d, const void *args, int64_t units)
{
    launch(d, sparse_weights, dim3((unsigned)units), THREADS, sizeof(float) * 36 * THREADS, task_of(d, args));
}
}
