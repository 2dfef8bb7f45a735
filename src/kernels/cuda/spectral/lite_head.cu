/* The head of a Lite-R block in one pass: a thread block normalises a tile of pixels with its border in shared memory,
 * then computes the taps, then the grouped product. ref/spectral/lite_head.c is the reference. */
#include "kernels/cuda/spectral/lite_head.h"

#include "kernels/cuda/conv/group_product.h"

struct head_task {
    zn_lite_head_args a;
    group_product k;
    int high, wide;   /* pixels of a tile */
    int down, across; /* tiles */
    int lanes;        /* threads per pixel of the norm, a power of two up to 32 */

    __device__ __host__ int border(void) const { return (high + 2) * (wide + 2); }
    __device__ __host__ int row(void) const { return a.c + 4; } /* floats of a pixel: banks differ by pixel */
};

/* The tile and its border; zeros outside the image. */
template <int V> static __device__ void load_border(const head_task &t, int64_t image, int top, int left, float *to)
{
    const int vectors = t.a.c / V, across = t.wide + 2;
    for (int i = (int)threadIdx.x; i < t.border() * vectors; i += THREADS) {
        const int pixel = i / vectors, k = i % vectors * V, y = top - 1 + pixel / across, x = left - 1 + pixel % across;
        floats<V> f = {};
        if (y >= 0 && y < t.a.h && x >= 0 && x < t.a.wide)
            f = load<V>(t.a.x + ((image * t.a.h + y) * t.a.wide + x) * t.a.c + k, 0);
        store<V>(to + pixel * t.row() + k, 0, f);
    }
}

/* x = x / sqrt(mean x^2 + eps) * gain */
template <int V> static __device__ void normalise(const head_task &t, float *x)
{
    const int pixels = THREADS / t.lanes, lane = (int)threadIdx.x % t.lanes;
    for (int first = 0; first < t.border(); first += pixels) {
        const int pixel = first + (int)threadIdx.x / t.lanes;
        float *row = x + pixel * t.row(), sum = 0;
        const bool valid = pixel < t.border();
        for (int k = lane * V; valid && k < t.a.c; k += t.lanes * V) {
            const floats<V> f = load<V>(row + k, 0);
            for (int v = 0; v < V; v++)
                sum += f.v[v] * f.v[v];
        }
        for (int other = 1; other < t.lanes; other *= 2)
            sum += __shfl_xor_sync(0xffffffffu, sum, other);
        const float factor = 1 / sqrtf(sum / (float)t.a.c + t.a.eps);
        for (int k = lane * V; valid && k < t.a.c; k += t.lanes * V) {
            floats<V> f = load<V>(row + k, 0);
            for (int v = 0; v < V; v++)
                f.v[v] = f.v[v] * factor * t.a.gain[k + v];
            store<V>(row + k, 0, f);
        }
    }
}

/* e = x + taps of x, in the layout of the product. A thread keeps its channels and loops over pixels. */
template <int V> static __device__ void convolve(const head_task &t, const float *x, float *e)
{
    const int vectors = t.a.c / V, lanes = vectors < THREADS ? vectors : THREADS, teams = THREADS / lanes;
    const int across = t.wide + 2;
    for (int q = (int)threadIdx.x % lanes; q < vectors; q += lanes) {
        const int k = q * V;
        float w[9][V];
#pragma unroll
        for (int tap = 0; tap < 9; tap++)
            for (int v = 0; v < V; v++)
                w[tap][v] = (tap == 4 ? 1.0f : 0.0f) + t.a.taps[9 * (k + v) + tap];
        for (int p = (int)threadIdx.x / lanes; p < t.high * t.wide && (int)threadIdx.x / lanes < teams; p += teams) {
            const float *from = x + (p / t.wide * across + p % t.wide) * t.row() + k;
            floats<V> sum = {};
#pragma unroll
            for (int tap = 0; tap < 9; tap++) {
                const floats<V> f = load<V>(from + (tap / 3 * across + tap % 3) * t.row(), 0);
                for (int v = 0; v < V; v++)
                    sum.v[v] += w[tap][v] * f.v[v];
            }
            store<V>(e + p * t.k.row() + t.k.at(k / t.k.deep, k % t.k.deep), 0, sum);
        }
    }
}

template <int V> __global__ void __launch_bounds__(THREADS, 3) lite_head(head_task t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    float *x = zn_cuda_shared, *e = x + t.border() * t.row();
    const int tile = (int)blockIdx.x, map = t.down * t.across;
    const int64_t image = tile / map;
    const int top = tile % map / t.across * t.high, left = tile % t.across * t.wide;
    load_border<V>(t, image, top, left, x);
    __syncthreads();
    normalise<V>(t, x);
    __syncthreads();
    convolve<V>(t, x, e);
    __syncthreads();
    multiply_rows<V>(t.k, e, t.high * t.wide, [&](int p, int o, float value) {
        const int y = top + p / t.wide, at = left + p % t.wide;
        if (y < t.a.h && at < t.a.wide)
            t.a.y[((image * t.a.h + y) * t.a.wide + at) * t.a.co + o] = value;
    });
}

static int parts(int a, int b) { return (a + b - 1) / b; }

/* Tiles of about 4096 floats: shared memory then has space for several thread blocks per multiprocessor. */
static void choose_tile(head_task *t)
{
    const int c = t->a.c;
    t->wide = c <= 32 ? 16 : c <= 128 ? 8 : c <= 512 ? 4 : 2;
    t->high = c <= 64 ? 8 : c <= 256 ? 4 : 2;
    t->down = parts(t->a.h, t->high);
    t->across = parts(t->a.wide, t->wide);
    t->lanes = 1;
    while (t->lanes < 32 && t->lanes * 32 <= c)
        t->lanes *= 2;
}

extern "C" void zn_cuda_lite_head(zn_device *d, const void *args, int64_t)
{
    head_task t = {};
    t.a = *static_cast<const zn_lite_head_args *>(args);
    to_device(d, t.a.x);
    to_device(d, t.a.gain);
    to_device(d, t.a.taps);
    to_device(d, t.a.w);
    to_device(d, t.a.b);
    to_device(d, t.a.y);
    if (t.a.type != ZN_TYPE_F32) {
        zn_cuda_lite_head_half(d, t.a);
        return;
    }
    t.k = { t.a.w, t.a.b, t.a.groups, t.a.c / t.a.groups, t.a.co / t.a.groups, true, false };
    choose_tile(&t);
    const size_t floats_of_e = (size_t)(t.high * t.wide) * (size_t)(t.a.groups * (t.k.deep + 4));
    const size_t shared = sizeof(float) * ((size_t)t.border() * (size_t)t.row() + floats_of_e);
    const bool vectors = t.k.deep % 4 == 0 && is_aligned(t.a.x) && is_aligned(t.a.w);
    launch(d, vectors ? lite_head<4> : lite_head<1>, dim3((unsigned)(t.a.n * t.down * t.across)), THREADS, shared, t);
}
