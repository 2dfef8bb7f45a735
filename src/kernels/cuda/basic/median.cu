/* 3x3 median and its gradient, one thread per element; ref/basic/median.c is the reference and explains the method. */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/index.h"

extern "C" {
#include "kernels/kernels.h"
}

static __device__ float lower(float a, float b) { return a < b ? a : b; }
static __device__ float higher(float a, float b) { return a < b ? b : a; }
static __device__ float middle(float a, float b, float c) { return higher(lower(a, b), lower(higher(a, b), c)); }

/* Median of the 3x3 values v. */
static __device__ float median9(const float v[9])
{
    float low[3], mid[3], high[3];
    for (int i = 0; i < 3; i++) {
        low[i] = lower(lower(v[i], v[3 + i]), v[6 + i]);
        mid[i] = middle(v[i], v[3 + i], v[6 + i]);
        high[i] = higher(higher(v[i], v[3 + i]), v[6 + i]);
    }
    return middle(higher(higher(low[0], low[1]), low[2]), middle(mid[0], mid[1], mid[2]),
                  lower(lower(high[0], high[1]), high[2]));
}

/* Position of neighbour k of (y, x), with edge pixels repeated. */
struct place {
    int y, x;
};
static __device__ place neighbour(const zn_median_args &a, int y, int x, int k)
{
    const int ny = y + k / 3 - 1, nx = x + k % 3 - 1;
    return { ny < 0 ? 0 : ny < a.h ? ny : a.h - 1, nx < 0 ? 0 : nx < a.w ? nx : a.w - 1 };
}

/* map: channel c of one image, begins at its first pixel. */
static __device__ void values_around(const zn_median_args &a, const float *map, int y, int x, float v[9])
{
    for (int k = 0; k < 9; k++) {
        const place p = neighbour(a, y, x, k);
        v[k] = map[((int64_t)p.y * a.w + p.x) * a.c];
    }
}

__global__ void median3(task<zn_median_args> t)
{
    for (int64_t i = first_unit(); i < t.units; i += unit_step()) {
        const division c = divide(i, t.a.c), x = divide(c.quotient, t.a.w), y = divide(x.quotient, t.a.h);
        float v[9];
        values_around(t.a, t.a.x + y.quotient * t.a.h * t.a.w * t.a.c + c.rest, y.rest, x.rest, v);
        t.a.y[i] = median9(v);
    }
}

/* Whether the gradient of the median at (y, x) goes to position `to`: to the first neighbour that equals it. */
static __device__ bool goes_to(const zn_median_args &a, const float *map, int y, int x, place to)
{
    float v[9];
    values_around(a, map, y, x, v);
    const float median = median9(v);
    for (int k = 0; k < 9; k++)
        if (v[k] == median) {
            const place p = neighbour(a, y, x, k);
            return p.y == to.y && p.x == to.x;
        }
    return false;
}

/* Sums in the order of the positions whose median it may be. */
__global__ void median3_grad(task<zn_median_args> t)
{
    for (int64_t i = first_unit(); i < t.units; i += unit_step()) {
        const division c = divide(i, t.a.c), x = divide(c.quotient, t.a.w), y = divide(x.quotient, t.a.h);
        const int64_t image = y.quotient * t.a.h * t.a.w * t.a.c + c.rest;
        float sum = 0;
        for (int k = 0; k < 9; k++) {
            const int ny = y.rest + k / 3 - 1, nx = x.rest + k % 3 - 1;
            if (ny >= 0 && ny < t.a.h && nx >= 0 && nx < t.a.w &&
                goes_to(t.a, t.a.x + image, ny, nx, { y.rest, x.rest }))
                sum += t.a.dy[image + ((int64_t)ny * t.a.w + nx) * t.a.c];
        }
        t.a.y[i] = sum;
    }
}

static void run(zn_device *d, const void *args, int64_t rows, void (*kernel)(task<zn_median_args>))
{
    task<zn_median_args> t = { *static_cast<const zn_median_args *>(args), 0 };
    to_device(d, t.a.x);
    to_device(d, t.a.dy);
    to_device(d, t.a.y);
    t.units = rows * t.a.w * t.a.c;
    launch(d, kernel, dim3(grid_of(t.units)), THREADS, 0, t);
}

extern "C" {
void zn_cuda_median3(zn_device *d, const void *args, int64_t rows) { run(d, args, rows, median3); }

void zn_cuda_median3_grad(zn_device *d, const void *args, int64_t images)
{
    run(d, args, images * static_cast<const zn_median_args *>(args)->h, median3_grad);
}
}
