/* Max pooling and its gradient; ref/basic/max_pool.c is the reference. A thread per value; neighbours are channels. */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/index.h"

extern "C" {
#include "kernels/max_pool.h"
}

enum { SIDE = ZN_MAX_POOL_SIDE, STRIDE = ZN_MAX_POOL_STRIDE };

/* A channel of a pixel. */
struct position {
    int64_t image;
    int y, x, c;
};

static __device__ position position_of(int64_t i, int h, int w, int c)
{
    const division channel = divide(i, c), column = divide(channel.quotient, w), row = divide(column.quotient, h);
    return position{ row.quotient, (int)row.rest, (int)column.rest, (int)channel.rest };
}

static __device__ int least(int a, int b) { return a < b ? a : b; }

__global__ void max_pool(task<zn_max_pool_args> t)
{
    const zn_max_pool_args &a = t.a;
    for (int64_t i = first_unit(); i < t.units; i += unit_step()) {
        const position p = position_of(i, a.oh, a.ow, a.c);
        const int top = p.y * STRIDE, left = p.x * STRIDE;
        const float *map = a.x + p.image * a.h * a.w * a.c + p.c;
        float y = map[((int64_t)top * a.w + left) * a.c];
        for (int iy = top; iy < least(top + SIDE, a.h); iy++)
            for (int ix = left; ix < least(left + SIDE, a.w); ix++) {
                const float x = map[((int64_t)iy * a.w + ix) * a.c];
                y = x > y || x != x ? x : y; /* NaN passes through */
            }
        a.y[i] = y;
    }
}

/* Whether no value of the window at (top, left) that comes before (y, x) is as large. map: the channel of the image. */
static __device__ bool is_first(const zn_max_pool_args &a, const float *map, int top, int left, int y, int x)
{
    const float value = map[((int64_t)y * a.w + x) * a.c];
    for (int iy = top; iy <= y; iy++)
        for (int ix = left; ix < (iy < y ? least(left + SIDE, a.w) : x); ix++)
            if (map[((int64_t)iy * a.w + ix) * a.c] == value)
                return false;
    return true;
}

static __device__ int first_window(int i) { return i < SIDE ? 0 : (i - SIDE) / STRIDE + 1; }

__global__ void max_pool_grad(task<zn_max_pool_args> t)
{
    const zn_max_pool_args &a = t.a;
    for (int64_t i = first_unit(); i < t.units; i += unit_step()) {
        const position p = position_of(i, a.h, a.w, a.c);
        const float *map = a.x + p.image * a.h * a.w * a.c + p.c;
        float sum = 0;
        for (int oy = first_window(p.y); oy <= least(p.y / STRIDE, a.oh - 1); oy++)
            for (int ox = first_window(p.x); ox <= least(p.x / STRIDE, a.ow - 1); ox++) {
                const int64_t window = ((p.image * a.oh + oy) * a.ow + ox) * a.c + p.c;
                if (a.x[i] == a.y[window] && is_first(a, map, oy * STRIDE, ox * STRIDE, p.y, p.x))
                    sum += a.dy[window];
            }
        a.dx[i] = sum;
    }
}

static task<zn_max_pool_args> task_of(zn_device *d, const void *args, int64_t rows, bool gradient)
{
    task<zn_max_pool_args> t = { *static_cast<const zn_max_pool_args *>(args), 0 };
    t.units = rows * (gradient ? t.a.w : t.a.ow) * t.a.c;
    to_device(d, t.a.x);
    to_device(d, t.a.y);
    to_device(d, t.a.dy);
    to_device(d, t.a.dx);
    return t;
}

extern "C" {
void zn_cuda_max_pool(zn_device *d, const void *args, int64_t rows)
{
    const task<zn_max_pool_args> t = task_of(d, args, rows, false);
    launch(d, max_pool, dim3(grid_of(t.units)), THREADS, 0, t);
}

void zn_cuda_max_pool_grad(zn_device *d, const void *args, int64_t rows)
{
    const task<zn_max_pool_args> t = task_of(d, args, rows, true);
    launch(d, max_pool_grad, dim3(grid_of(t.units)), THREADS, 0, t);
}
}
