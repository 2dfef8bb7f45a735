/* Grouped 1x1 convolutions and depthwise 3x3 convolutions, with their gradients; ref/conv/grouped.c is the reference.
 */
#include "kernels/cuda/cuda.h"

#include "kernels/cuda/conv/group_product.h"
#include "kernels/cuda/conv/grouped.h"

extern "C" {
#include "kernels/mix.h"
}

static int64_t parts(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* ---- grouped 1x1: a thread block stages a tile of pixels, then computes all their outputs ---- */

template <int V> __global__ void grouped(grouped_task t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    const int channels = t.k.groups * t.k.deep, vectors = channels / V;
    const int64_t first = (int64_t)blockIdx.x * t.tile;
    const int pixels = (int)(t.pixels - first < t.tile ? t.pixels - first : t.tile);
    for (int i = (int)threadIdx.x; i < pixels * vectors; i += THREADS) {
        const int pixel = i / vectors, k = i % vectors * V;
        const floats<V> f = load<V>(t.x + t.in.at(first + pixel) + k, 0);
        for (int v = 0; v < V; v++) {
            const int q = k + v;
            const int to = t.mixed ? t.k.at(q % t.k.groups, q / t.k.groups) : t.k.at(q / t.k.deep, q % t.k.deep);
            zn_cuda_shared[pixel * t.k.row() + to] = f.v[v];
        }
    }
    __syncthreads();
    multiply_rows<V>(t.k, zn_cuda_shared, pixels, [&](int p, int o, float value) {
        const int64_t at = t.out.at(first + p) + o;
        t.y[at] = t.residual ? t.residual[at] + value : value;
        if (t.out.ends(first + p))
            t.y[at + t.out.band * t.out.channels] = 0;
    });
}

/* Tiles of at most 32 KiB, and small enough that every multiprocessor gets several. */
void zn_cuda_grouped_launch(zn_device *d, grouped_task t)
{
    enum { FLOATS = 8192, MOST = 128, LEAST = 8 };
    const int row = t.k.groups * (t.k.deep + 4);
    t.tile = MOST;
    while (t.tile > LEAST && (t.tile * row > FLOATS || parts(t.pixels, t.tile) < 4 * d->processors))
        t.tile /= 2;
    const bool vectors = t.k.deep % 4 == 0 && is_aligned(t.x) && is_aligned(t.k.w);
    launch(d, vectors ? grouped<4> : grouped<1>, dim3((unsigned)parts(t.pixels, t.tile)), THREADS,
           sizeof(float) * (size_t)(t.tile * row), t);
}

/* ---- weight gradient: a thread block sums one group over one block of pixels ---- */

struct weight_task {
    zn_grouped_args a;
    int64_t size; /* pixels per block */
};

enum { STAGE = 64, PAIRS = 8 }; /* pixels in shared memory at once; products per thread and pixel */

/* Input and gradient of the next pixels: [STAGE][gi], then [STAGE][go]. */
static __device__ void stage(const zn_grouped_args &a, int group, int64_t first, int pixels, float *x, float *dy)
{
    const int gi = a.cin / a.groups, go = a.cout / a.groups;
    for (int i = (int)threadIdx.x; i < pixels * gi; i += THREADS)
        x[i] = a.x[(first + i / gi) * a.cin + group * gi + i % gi];
    for (int i = (int)threadIdx.x; i < pixels * go; i += THREADS) {
        const int j = i % go, at = a.interleave ? j * a.groups + group : group * go + j;
        dy[i] = a.dy[(first + i / go) * a.cout + at];
    }
}

/* blockIdx.y counts pieces of PAIRS * THREADS weights. If a group has fewer weights than there are threads, several
 * threads share the pixels of a weight, and their sums are added in order. */
__global__ void grouped_weight_grad(weight_task t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    const zn_grouped_args &a = t.a;
    const int gi = a.cin / a.groups, go = a.cout / a.groups, count = gi * go, group = (int)blockIdx.x % a.groups;
    const int64_t begin = blockIdx.x / (unsigned)a.groups * t.size;
    const int64_t end = begin + t.size < a.pixels ? begin + t.size : a.pixels;
    const int share = count < THREADS ? THREADS / count : 1,
              lane = share > 1 ? (int)threadIdx.x % count : (int)threadIdx.x;
    const int turn = share > 1 ? (int)threadIdx.x / count : 0, base = (int)blockIdx.y * PAIRS * THREADS + lane;
    float *x = zn_cuda_shared, *dy = x + STAGE * gi, sum[PAIRS] = {};
    for (int64_t first = begin; first < end; first += STAGE) {
        const int pixels = (int)(end - first < STAGE ? end - first : (int64_t)STAGE);
        __syncthreads();
        stage(a, group, first, pixels, x, dy);
        __syncthreads();
        for (int p = turn; p < pixels && turn < share; p += share)
#pragma unroll
            for (int r = 0; r < PAIRS; r++) {
                const int q = base + r * THREADS;
                if (q < count)
                    sum[r] += dy[p * go + q / gi] * x[p * gi + q % gi];
            }
    }
    float *to = a.partial + (int64_t)blockIdx.x * count;
    if (share == 1) {
        for (int r = 0; r < PAIRS; r++)
            if (base + r * THREADS < count)
                to[base + r * THREADS] = sum[r];
        return;
    }
    __syncthreads();
    zn_cuda_shared[threadIdx.x] = sum[0];
    __syncthreads();
    if ((int)threadIdx.x < count) {
        float all = 0;
        for (int k = 0; k < share; k++)
            all += zn_cuda_shared[k * count + (int)threadIdx.x];
        to[threadIdx.x] = all;
    }
}

/* ---- depthwise 3x3 ---- */

struct depthwise_task {
    zn_depthwise_args a;
    int rows;     /* per thread; weight gradient: rows of all images per block */
    int across;   /* thread blocks per strip of rows */
    int channels; /* weight gradient: vectors of channels per thread block */
};

/* The weights of V channels, in the order of the taps. */
template <int V> static __device__ void load_taps(const zn_depthwise_args &a, int k, float (&w)[9][V])
{
#pragma unroll
    for (int tap = 0; tap < 9; tap++)
        for (int v = 0; v < V; v++)
            w[tap][v] = a.w[9 * (k + v) + (a.flip ? 8 - tap : tap)];
}

/* Three pixels of a row, x - 1 to x + 1; zeros outside the image. */
template <int V>
static __device__ void load_three(const zn_depthwise_args &a, int64_t image, int y, int x, int k, floats<V> (&f)[3])
{
#pragma unroll
    for (int i = 0; i < 3; i++) {
        f[i] = floats<V>{};
        if (y >= 0 && y < a.h && x + i - 1 >= 0 && x + i - 1 < a.wide)
            f[i] = load<V>(a.x + ((image * a.h + y) * a.wide + x + i - 1) * a.c + k, 0);
    }
}

/* A thread keeps V channels of one column and goes down t.rows rows, so it reads each row once. */
template <int V> __global__ void depthwise(depthwise_task t)
{
    const zn_depthwise_args &a = t.a;
    const int vectors = a.c / V;
    const int64_t i = (int64_t)(blockIdx.x % (unsigned)t.across) * THREADS + threadIdx.x;
    const int k = (int)(i % vectors) * V, x = (int)(i / vectors), strips = (a.h + t.rows - 1) / t.rows;
    const int strip = (int)(blockIdx.x / (unsigned)t.across), top = strip % strips * t.rows;
    const int64_t image = strip / strips;
    if (x >= a.wide)
        return;
    float w[9][V];
    floats<V> window[3][3];
    load_taps<V>(a, k, w);
    load_three<V>(a, image, top - 1, x, k, window[0]);
    load_three<V>(a, image, top, x, k, window[1]);
    for (int y = top; y < top + t.rows && y < a.h; y++) {
        load_three<V>(a, image, y + 1, x, k, window[2]);
        floats<V> sum = {};
        if (a.add_x)
            sum = window[1][1];
#pragma unroll
        for (int tap = 0; tap < 9; tap++)
            for (int v = 0; v < V; v++)
                sum.v[v] += w[tap][v] * window[tap / 3][tap % 3].v[v];
        store<V>(a.y + ((image * a.h + y) * a.wide + x) * a.c + k, 0, sum);
#pragma unroll
        for (int j = 0; j < 3; j++) {
            window[0][j] = window[1][j];
            window[1][j] = window[2][j];
        }
    }
}

/* Adds the products of one column of the rows [begin,end), which may be of several images. */
template <int V>
static __device__ void column_weights(const zn_depthwise_args &a, int64_t begin, int64_t end, int x, int k,
                                      float (&sum)[9][V])
{
    floats<V> window[3][3] = {};
    for (int64_t row = begin; row < end; row++) {
        const int64_t image = row / a.h;
        const int y = (int)(row % a.h);
        if (row == begin || y == 0) {
            load_three<V>(a, image, y - 1, x, k, window[0]);
            load_three<V>(a, image, y, x, k, window[1]);
        }
        load_three<V>(a, image, y + 1, x, k, window[2]);
        const floats<V> dy = load<V>(a.dy + (row * a.wide + x) * a.c + k, 0);
#pragma unroll
        for (int tap = 0; tap < 9; tap++)
            for (int v = 0; v < V; v++)
                sum[tap][v] += dy.v[v] * window[tap / 3][tap % 3].v[v];
#pragma unroll
        for (int j = 0; j < 3; j++) {
            window[0][j] = window[1][j];
            window[1][j] = window[2][j];
        }
    }
}

/* A thread block has t.channels vectors of channels of one block of rows; threads with the same channels share the
 * columns. */
template <int V> __global__ void depthwise_weight_grad(depthwise_task t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    const zn_depthwise_args &a = t.a;
    const int lanes = t.channels, teams = THREADS / lanes, team = (int)threadIdx.x / lanes;
    const int k = ((int)blockIdx.y * lanes + (int)threadIdx.x % lanes) * V;
    const int64_t rows = (int64_t)a.n * a.h, begin = (int64_t)blockIdx.x * t.rows;
    const int64_t end = begin + t.rows < rows ? begin + t.rows : rows;
    float sum[9][V] = {};
    for (int x = team; x < a.wide && team < teams && k < a.c; x += teams)
        column_weights<V>(a, begin, end, x, k, sum);
#pragma unroll
    for (int tap = 0; tap < 9; tap++)
        for (int v = 0; v < V; v++)
            zn_cuda_shared[(v * 9 + tap) * THREADS + (int)threadIdx.x] = sum[tap][v];
    __syncthreads();
    for (int i = (int)threadIdx.x; i < lanes * V * 9; i += THREADS) { /* in the order of the result */
        const int channel = i / 9, lane = channel / V, slot = channel % V * 9 + i % 9;
        const int64_t to = ((int64_t)blockIdx.y * lanes * V + channel) * 9 + i % 9;
        float all = 0;
        for (int other = 0; other < teams; other++)
            all += zn_cuda_shared[slot * THREADS + other * lanes + lane];
        if (to < 9 * (int64_t)a.c)
            a.partial[(int64_t)blockIdx.x * 9 * a.c + to] = all;
    }
}

static depthwise_task depthwise_task_of(zn_device *d, const void *args)
{
    depthwise_task t = {};
    t.a = *static_cast<const zn_depthwise_args *>(args);
    to_device(d, t.a.x);
    to_device(d, t.a.dy);
    to_device(d, t.a.w);
    to_device(d, t.a.y);
    to_device(d, t.a.partial);
    return t;
}

static zn_grouped_args grouped_args_of(zn_device *d, const void *args)
{
    zn_grouped_args a = *static_cast<const zn_grouped_args *>(args);
    to_device(d, a.x);
    to_device(d, a.dy);
    to_device(d, a.w);
    to_device(d, a.bias);
    to_device(d, a.y);
    to_device(d, a.partial);
    return a;
}

extern "C" {
void zn_cuda_grouped(zn_device *d, const void *args, int64_t units)
{
    const zn_grouped_args a = grouped_args_of(d, args);
    grouped_task t = {};
    t.k = { a.w, a.bias, a.groups, a.cin / a.groups, a.cout / a.groups, a.interleave, false };
    t.x = a.x;
    t.y = a.y;
    t.in.channels = a.cin;
    t.out.channels = a.cout;
    t.pixels = units;
    zn_cuda_grouped_launch(d, t);
}

/* The same with the transposed weights, from the outputs to the inputs. */
void zn_cuda_grouped_grad(zn_device *d, const void *args, int64_t units)
{
    const zn_grouped_args a = grouped_args_of(d, args);
    grouped_task t = {};
    t.k = { a.w, NULL, a.groups, a.cout / a.groups, a.cin / a.groups, false, true };
    t.x = a.dy;
    t.y = a.y;
    t.in.channels = a.cout;
    t.out.channels = a.cin;
    t.mixed = a.interleave;
    t.pixels = units;
    zn_cuda_grouped_launch(d, t);
}

void zn_cuda_grouped_weight_grad(zn_device *d, const void *args, int64_t units)
{
    weight_task t = { grouped_args_of(d, args), 0 };
    const int gi = t.a.cin / t.a.groups, go = t.a.cout / t.a.groups;
    t.size = parts(t.a.pixels, units / t.a.groups);
    const size_t staged = sizeof(float) * STAGE * (size_t)(gi + go), sums = sizeof(float) * THREADS;
    const dim3 grid((unsigned)units, (unsigned)parts(gi * go, PAIRS * THREADS));
    launch(d, grouped_weight_grad, grid, THREADS, staged > sums ? staged : sums, t);
}

void zn_cuda_depthwise(zn_device *d, const void *args, int64_t)
{
    enum { ROWS = 16, LEAST = 2 };
    depthwise_task t = depthwise_task_of(d, args);
    const bool vectors = t.a.c % 4 == 0 && is_aligned(t.a.x) && is_aligned(t.a.y);
    t.across = (int)parts((int64_t)t.a.wide * t.a.c / (vectors ? 4 : 1), THREADS);
    t.rows = ROWS;
    while (t.rows > LEAST && t.across * t.a.n * parts(t.a.h, t.rows) < 4 * d->processors)
        t.rows /= 2;
    const dim3 grid((unsigned)(t.across * t.a.n * parts(t.a.h, t.rows)));
    launch(d, vectors ? depthwise<4> : depthwise<1>, grid, THREADS, 0, t);
}

void zn_cuda_depthwise_weight_grad(zn_device *d, const void *args, int64_t units)
{
    depthwise_task t = depthwise_task_of(d, args);
    const bool vectors = t.a.c % 4 == 0 && is_aligned(t.a.x) && is_aligned(t.a.dy);
    const int wide = vectors ? 4 : 1, all = t.a.c / wide;
    t.rows = (int)parts((int64_t)t.a.n * t.a.h, units);
    t.channels = all < THREADS ? all : THREADS;
    launch(d, vectors ? depthwise_weight_grad<4> : depthwise_weight_grad<1>,
           dim3((unsigned)units, (unsigned)parts(all, t.channels)), THREADS, sizeof(float) * 9 * THREADS * (size_t)wide,
           t);
}
}
