/* Nearest x2 upsampling, its gradient, and zero insertion; ref/resample.c is the reference. Rows are numbered over all
 * images: large row / 2 is the small row because 2h is even. */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/index.h"
#include "kernels/cuda/vector.h"

extern "C" {
#include "kernels/kernels.h"
}

/* Kernels process N channels per thread: units and a.c count vectors of N floats. */

template <int N> __global__ void upsample2(task<zn_resample_args> t)
{
    for (int64_t i = first_unit(); i < t.units; i += unit_step()) {
        const division channel = divide(i, t.a.c), column = divide(channel.quotient, 2 * t.a.w);
        const int64_t from = (column.quotient / 2 * t.a.w + column.rest / 2) * t.a.c + channel.rest;
        store<N>(t.a.y, i, load<N>(t.a.x, from));
    }
}

template <int N> __global__ void upsample2_grad(task<zn_resample_args> t)
{
    const int64_t wide = (int64_t)2 * t.a.w * t.a.c;
    for (int64_t i = first_unit(); i < t.units; i += unit_step()) {
        const division channel = divide(i, t.a.c), column = divide(channel.quotient, t.a.w);
        const int64_t left = 2 * column.quotient * wide + (int64_t)2 * column.rest * t.a.c + channel.rest;
        const floats<N> p = load<N>(t.a.x, left), q = load<N>(t.a.x, left + t.a.c);
        const floats<N> r = load<N>(t.a.x, left + wide), s = load<N>(t.a.x, left + wide + t.a.c);
        floats<N> y;
        for (int k = 0; k < N; k++)
            y.v[k] = (p.v[k] + q.v[k]) + (r.v[k] + s.v[k]);
        store<N>(t.a.y, i, y);
    }
}

template <int N> __global__ void dilate2(task<zn_resample_args> t)
{
    for (int64_t i = first_unit(); i < t.units; i += unit_step()) {
        const division channel = divide(i, t.a.c), column = divide(channel.quotient, 2 * t.a.w);
        const int64_t from = (column.quotient / 2 * t.a.w + column.rest / 2) * t.a.c + channel.rest;
        store<N>(t.a.y, i, column.quotient % 2 || column.rest % 2 ? floats<N>{} : load<N>(t.a.x, from));
    }
}

/* Launches the build for four channels or for one. width: pixels per row of the result. */
static void run(zn_device *d, const void *args, int64_t rows, int64_t width, void (*four)(task<zn_resample_args>),
                void (*one)(task<zn_resample_args>))
{
    task<zn_resample_args> t = { *static_cast<const zn_resample_args *>(args), 0 };
    to_device(d, t.a.x);
    to_device(d, t.a.y);
    const bool vectors = t.a.c % 4 == 0 && is_aligned(t.a.x) && is_aligned(t.a.y);
    t.a.c /= vectors ? 4 : 1;
    t.units = rows * width * t.a.c;
    launch(d, vectors ? four : one, dim3(grid_of(t.units)), THREADS, 0, t);
}

static int64_t width_of(const void *args) { return static_cast<const zn_resample_args *>(args)->w; }

extern "C" {
void zn_cuda_upsample2(zn_device *d, const void *args, int64_t rows)
{
    run(d, args, rows, 2 * width_of(args), upsample2<4>, upsample2<1>);
}

void zn_cuda_upsample2_grad(zn_device *d, const void *args, int64_t rows)
{
    run(d, args, rows, width_of(args), upsample2_grad<4>, upsample2_grad<1>);
}

void zn_cuda_dilate2(zn_device *d, const void *args, int64_t rows)
{
    run(d, args, rows, 2 * width_of(args), dilate2<4>, dilate2<1>);
}
}
