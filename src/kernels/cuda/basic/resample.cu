/* Nearest x2 upsampling, its gradient, and zero insertion; ref/basic/resample.c is the reference. Rows are numbered
 * over all images: large row / 2 is the small row because 2h is even. */
#include "kernels/cuda/early.h"
#include "kernels/cuda/index.h"
#include "kernels/cuda/vector.h"

extern "C" {
#include "kernels/kernels.h"
}

/* Kernels process N channels per thread: units and a.c count vectors of N floats. */

template <int N, typename A> __global__ void upsample2(task<zn_resample_args> t)
{
    wait_for_last();
    for (int64_t i = first_unit(); i < t.units; i += unit_step()) {
        const division channel = divide(i, t.a.c), column = divide(channel.quotient, 2 * t.a.w);
        const int64_t from = (column.quotient / 2 * t.a.w + column.rest / 2) * t.a.c + channel.rest;
        A::template store<N>(t.a.y, i, A::template load<N>(t.a.x, from));
    }
}

template <int N, typename A> __global__ void upsample2_grad(task<zn_resample_args> t)
{
    wait_for_last();
    const int64_t wide = (int64_t)2 * t.a.w * t.a.c;
    const float scale = t.a.mean ? 0.25f : 1;
    for (int64_t i = first_unit(); i < t.units; i += unit_step()) {
        const division channel = divide(i, t.a.c), column = divide(channel.quotient, t.a.w);
        const int64_t left = 2 * column.quotient * wide + (int64_t)2 * column.rest * t.a.c + channel.rest;
        const floats<N> p = A::template load<N>(t.a.x, left), q = A::template load<N>(t.a.x, left + t.a.c);
        const floats<N> r = A::template load<N>(t.a.x, left + wide),
                        s = A::template load<N>(t.a.x, left + wide + t.a.c);
        floats<N> y;
        for (int k = 0; k < N; k++)
            y.v[k] = scale * ((p.v[k] + q.v[k]) + (r.v[k] + s.v[k]));
        A::template store<N>(t.a.y, i, y);
    }
}

template <int N, typename A> __global__ void dilate2(task<zn_resample_args> t)
{
    wait_for_last();
    for (int64_t i = first_unit(); i < t.units; i += unit_step()) {
        const division channel = divide(i, t.a.c), column = divide(channel.quotient, 2 * t.a.w);
        const int64_t from = (column.quotient / 2 * t.a.w + column.rest / 2) * t.a.c + channel.rest;
        A::template store<N>(t.a.y, i,
                             column.quotient % 2 || column.rest % 2 ? floats<N>{} : A::template load<N>(t.a.x, from));
    }
}

/* Builds of a kernel: for four channels and for one. */
struct builds {
    void (*four)(task<zn_resample_args>), (*one)(task<zn_resample_args>);
};

/* width: pixels per row of the result; builds: by type. */
static void run(zn_device *d, const void *args, int64_t rows, int64_t width, const builds (&by_type)[3])
{
    task<zn_resample_args> t = { *static_cast<const zn_resample_args *>(args), 0 };
    to_device(d, t.a.x);
    to_device(d, t.a.y);
    const bool vectors = t.a.c % 4 == 0 && is_aligned(t.a.x) && is_aligned(t.a.y);
    const builds &b = by_type[t.a.type];
    t.a.c /= vectors ? 4 : 1;
    t.units = rows * width * t.a.c;
    launch_early(d, vectors ? b.four : b.one, dim3(grid_of(t.units)), THREADS, 0, t);
}

static int64_t width_of(const void *args) { return static_cast<const zn_resample_args *>(args)->w; }

#define BUILDS(name) /* in the order of zn_type */                                                                     \
    {                                                                                                                  \
        { name<4, as_f32>, name<1, as_f32> }, { name<4, as_bf16>, name<1, as_bf16> },                                  \
        {                                                                                                              \
            name<4, as_f16>, name<1, as_f16>                                                                           \
        }                                                                                                              \
    }

extern "C" {
void zn_cuda_upsample2(zn_device *d, const void *args, int64_t rows)
{
    static const builds all[] = BUILDS(upsample2);
    run(d, args, rows, 2 * width_of(args), all);
}

void zn_cuda_upsample2_grad(zn_device *d, const void *args, int64_t rows)
{
    static const builds all[] = BUILDS(upsample2_grad);
    run(d, args, rows, width_of(args), all);
}

void zn_cuda_dilate2(zn_device *d, const void *args, int64_t rows)
{
    static const builds all[] = BUILDS(dilate2);
    run(d, args, rows, 2 * width_of(args), all);
}
}
