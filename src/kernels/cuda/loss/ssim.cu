/* Structural similarity and its gradient; ref/loss/ssim.c is the reference. A thread block computes a tile of one
 * plane, one position per thread. The pixels under its windows are copied to shared memory and filtered along rows,
 * then along columns.
 *
 * The gradient takes two passes: the derivatives by the moments at every valid position, as maps in scratch memory,
 * then their sums over the windows of each pixel. The window is symmetric, so that is the same filter. */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/index.h"
#include "kernels/cuda/reduce.h"

extern "C" {
#include "kernels/ssim.h"
}

enum { WINDOW = ZN_SSIM_WINDOW, TILE = 16, SPAN = TILE + WINDOW - 1, MOMENTS = 5, MAPS = 3 };

struct ssim_task {
    zn_ssim_args a;
    float weight[WINDOW];
    int64_t planes;
    int high, wide;   /* valid positions */
    int across, down; /* tiles of a plane */
};

/* The tile of this thread block and the position of this thread. */
struct position {
    int64_t plane;
    int y0, x0, y, x;
};

static __device__ position position_of(const ssim_task &t)
{
    const division unit = divide(blockIdx.x, t.across * t.down);
    position p = { unit.quotient, unit.rest / t.across * TILE, unit.rest % t.across * TILE, 0, 0 };
    p.y = p.y0 + (int)threadIdx.x / TILE;
    p.x = p.x0 + (int)threadIdx.x % TILE;
    return p;
}

/* Position of a pixel of a plane in the maps [n][h][w][c]. */
static __device__ int64_t pixel_of(const zn_ssim_args &a, int64_t plane, int y, int x)
{
    const division at = divide(plane, a.c);
    return ((at.quotient * a.h + y) * a.w + x) * a.c + at.rest;
}

/* Filters the rows of `from` [SPAN][SPAN] to [SPAN][TILE], and the result at this thread's position along its column.
 */
static __device__ void filter_row(const ssim_task &t, const float *from, float *half)
{
    for (int i = (int)threadIdx.x; i < SPAN * TILE; i += (int)blockDim.x) {
        const float *x = from + i / TILE * SPAN + i % TILE;
        float sum = 0;
        for (int k = 0; k < WINDOW; k++)
            sum += t.weight[k] * x[k];
        half[i] = sum;
    }
}

static __device__ float filter_column(const ssim_task &t, const float *half)
{
    float sum = 0;
    for (int k = 0; k < WINDOW; k++)
        sum += t.weight[k] * half[threadIdx.x + k * TILE];
    return sum;
}

/* The five moments along rows: of a, b, a a, b b and a b. */
static __device__ void filter_rows(const ssim_task &t, const float *a, const float *b, float *half)
{
    for (int i = (int)threadIdx.x; i < SPAN * TILE; i += (int)blockDim.x) {
        const int at = i / TILE * SPAN + i % TILE;
        float m[MOMENTS] = { 0 };
        for (int k = 0; k < WINDOW; k++) {
            const float v = t.weight[k], ax = a[at + k], bx = b[at + k];
            m[0] += v * ax;
            m[1] += v * bx;
            m[2] += v * ax * ax;
            m[3] += v * bx * bx;
            m[4] += v * ax * bx;
        }
        for (int k = 0; k < MOMENTS; k++)
            half[k * SPAN * TILE + i] = m[k];
    }
}

/* The terms of the similarity at one position: s = (a1 a2) / (b1 b2). */
struct parts {
    float ma, mb, a1, a2, b1, b2, s;
};

enum { MOMENT_FLOATS = 2 * SPAN * SPAN + MOMENTS * SPAN * TILE };

static __device__ parts parts_at(const ssim_task &t, const position &p, float *shared)
{
    const float c1 = (float)ZN_SSIM_K1 * (float)ZN_SSIM_K1, c2 = (float)ZN_SSIM_K2 * (float)ZN_SSIM_K2;
    float *a = shared, *b = a + SPAN * SPAN, *half = b + SPAN * SPAN;
    for (int i = (int)threadIdx.x; i < SPAN * SPAN; i += (int)blockDim.x) {
        const int y = p.y0 + i / SPAN, x = p.x0 + i % SPAN;
        const bool inside = y < t.a.h && x < t.a.w;
        const int64_t at = inside ? pixel_of(t.a, p.plane, y, x) : 0;
        a[i] = inside ? t.a.a[at] : 0;
        b[i] = inside ? t.a.b[at] : 0;
    }
    __syncthreads();
    filter_rows(t, a, b, half);
    __syncthreads();
    float m[MOMENTS];
    for (int k = 0; k < MOMENTS; k++)
        m[k] = filter_column(t, half + k * SPAN * TILE);
    const float aa = m[0] * m[0], bb = m[1] * m[1], ab = m[0] * m[1];
    parts q = { m[0], m[1], 2 * ab + c1, 2 * (m[4] - ab) + c2, aa + bb + c1, m[2] - aa + m[3] - bb + c2, 0 };
    q.s = q.a1 * q.a2 / (q.b1 * q.b2);
    return q;
}

/* ---- the similarity: the sum of each tile, in double, then the mean of each plane ---- */

__global__ void ssim_tiles(ssim_task t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    const position p = position_of(t);
    const float s = parts_at(t, p, zn_cuda_shared).s;
    const double sum =
        sum_of(p.y < t.high && p.x < t.wide ? (double)s : 0.0, reinterpret_cast<double *>(zn_cuda_shared));
    if (threadIdx.x == 0)
        reinterpret_cast<double *>(t.a.maps)[blockIdx.x] = sum;
}

__global__ void ssim_planes(ssim_task t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    const int tiles = t.across * t.down;
    const double *sums = reinterpret_cast<const double *>(t.a.maps) + (int64_t)blockIdx.x * tiles;
    double sum = 0;
    for (int i = (int)threadIdx.x; i < tiles; i += (int)blockDim.x)
        sum += sums[i];
    sum = sum_of(sum, reinterpret_cast<double *>(zn_cuda_shared));
    if (threadIdx.x == 0)
        t.a.y[blockIdx.x] = (float)(sum / ((double)t.high * t.wide));
}

/* ---- the gradient ---- */

/* Map m is the derivative by mean(a), mean(a a) or mean(a b). */
static __device__ int64_t map_at(const ssim_task &t, int m, const position &p, int y, int x)
{
    return ((m * t.planes + p.plane) * t.high + y) * t.wide + x;
}

__global__ void ssim_moment_grads(ssim_task t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    const position p = position_of(t);
    const parts q = parts_at(t, p, zn_cuda_shared);
    if (p.y >= t.high || p.x >= t.wide)
        return;
    const float scale = *t.a.dy / (float)((int64_t)t.high * t.wide), b12 = q.b1 * q.b2;
    t.a.maps[map_at(t, 0, p, p.y, p.x)] = scale * 2 * (q.mb * (q.a2 - q.a1) / b12 - q.ma * q.s * (1 / q.b1 - 1 / q.b2));
    t.a.maps[map_at(t, 1, p, p.y, p.x)] = scale * -q.s / q.b2;
    t.a.maps[map_at(t, 2, p, p.y, p.x)] = scale * 2 * q.a1 / b12;
}

enum { PIXEL_FLOATS = SPAN * SPAN + SPAN * TILE };

__global__ void ssim_pixel_grads(ssim_task t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    float *map = zn_cuda_shared, *half = map + SPAN * SPAN, grads[MAPS];
    const position p = position_of(t);
    for (int m = 0; m < MAPS; m++) {
        for (int i = (int)threadIdx.x; i < SPAN * SPAN; i += (int)blockDim.x) {
            const int y = p.y0 - (WINDOW - 1) + i / SPAN, x = p.x0 - (WINDOW - 1) + i % SPAN;
            map[i] = y >= 0 && y < t.high && x >= 0 && x < t.wide ? t.a.maps[map_at(t, m, p, y, x)] : 0;
        }
        __syncthreads();
        filter_row(t, map, half);
        __syncthreads();
        grads[m] = filter_column(t, half);
        __syncthreads(); /* before the next map overwrites this one */
    }
    if (p.y >= t.a.h || p.x >= t.a.w)
        return;
    const int64_t at = pixel_of(t.a, p.plane, p.y, p.x);
    t.a.y[at] = grads[0] + 2 * t.a.a[at] * grads[1] + t.a.b[at] * grads[2];
}

/* ---- launchers ---- */

/* Tiles that cover h x w positions. */
static void set_tiles(ssim_task *t, int h, int w)
{
    t->across = (w + TILE - 1) / TILE;
    t->down = (h + TILE - 1) / TILE;
}

static ssim_task task_of(zn_device *d, const void *args, int64_t planes)
{
    ssim_task t = { *static_cast<const zn_ssim_args *>(args), {}, planes, 0, 0, 0, 0 };
    double weight[WINDOW];
    zn_ssim_window(WINDOW, weight);
    for (int i = 0; i < WINDOW; i++)
        t.weight[i] = (float)weight[i];
    t.high = t.a.h - WINDOW + 1;
    t.wide = t.a.w - WINDOW + 1;
    set_tiles(&t, t.high, t.wide);
    to_device(d, t.a.a);
    to_device(d, t.a.b);
    to_device(d, t.a.dy);
    to_device(d, t.a.y);
    to_device(d, t.a.maps);
    return t;
}

static void run(zn_device *d, const ssim_task &t, void (*kernel)(ssim_task), size_t floats)
{
    launch(d, kernel, dim3((unsigned)(t.planes * t.across * t.down)), TILE * TILE, sizeof(float) * floats, t);
}

extern "C" {
void zn_cuda_ssim(zn_device *d, const void *args, int64_t planes)
{
    const ssim_task t = task_of(d, args, planes);
    run(d, t, ssim_tiles, MOMENT_FLOATS);
    launch(d, ssim_planes, dim3((unsigned)planes), THREADS, sizeof(double) * THREADS, t);
}

void zn_cuda_ssim_grad(zn_device *d, const void *args, int64_t planes)
{
    ssim_task t = task_of(d, args, planes);
    run(d, t, ssim_moment_grads, MOMENT_FLOATS);
    set_tiles(&t, t.a.h, t.a.w);
    run(d, t, ssim_pixel_grads, PIXEL_FLOATS);
}
}
