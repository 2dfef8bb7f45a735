/* Convolutions of single channels, for any side and stride; ref/conv/channel_conv.c is the reference. A thread computes
 * N channels of a pixel: units and a.c count vectors of N floats. */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/index.h"
#include "kernels/cuda/vector.h"

extern "C" {
#include "kernels/channel_conv.h"
}

/* Adds the products of vector `from` of x and vector `tap` of the weights. */
template <int N> static __device__ void add(const zn_channel_conv_args &a, int64_t from, int tap, floats<N> &sum)
{
    const floats<N> x = load<N>(a.x, from), w = load<N>(a.w, tap);
    for (int k = 0; k < N; k++)
        sum.v[k] += x.v[k] * w.v[k];
}

template <int N> __global__ void channel_conv(task<zn_channel_conv_args> t)
{
    const zn_channel_conv_args &a = t.a;
    for (int64_t i = first_unit(); i < t.units; i += unit_step()) {
        const division c = divide(i, a.c), x = divide(c.quotient, a.ow), y = divide(x.quotient, a.oh);
        const int top = y.rest * a.stride - a.pad, left = x.rest * a.stride - a.pad;
        floats<N> sum = {};
        for (int ky = 0; ky < a.side; ky++)
            for (int kx = 0; kx < a.side; kx++) {
                const int iy = top + ky, ix = left + kx;
                if (iy >= 0 && ix >= 0 && iy < a.h && ix < a.wide)
                    add<N>(a, ((y.quotient * a.h + iy) * a.wide + ix) * a.c + c.rest, (ky * a.side + kx) * a.c + c.rest,
                           sum);
            }
        store<N>(a.y, i, sum);
    }
}

template <int N> __global__ void channel_conv_grad(task<zn_channel_conv_args> t)
{
    const zn_channel_conv_args &a = t.a;
    for (int64_t i = first_unit(); i < t.units; i += unit_step()) {
        const division c = divide(i, a.c), x = divide(c.quotient, a.wide), y = divide(x.quotient, a.h);
        floats<N> sum = {};
        for (int ky = 0; ky < a.side; ky++)
            for (int kx = 0; kx < a.side; kx++) {
                const int py = y.rest + a.pad - ky, px = x.rest + a.pad - kx, oy = py / a.stride, ox = px / a.stride;
                if (py >= 0 && px >= 0 && py % a.stride == 0 && px % a.stride == 0 && oy < a.oh && ox < a.ow)
                    add<N>(a, ((y.quotient * a.oh + oy) * a.ow + ox) * a.c + c.rest, (ky * a.side + kx) * a.c + c.rest,
                           sum);
            }
        store<N>(a.y, i, sum);
    }
}

typedef void (*conv_kernel)(task<zn_channel_conv_args>);

static void run(zn_device *d, const void *args, int64_t pixels, conv_kernel four, conv_kernel one)
{
    task<zn_channel_conv_args> t = { *static_cast<const zn_channel_conv_args *>(args), 0 };
    to_device(d, t.a.x);
    to_device(d, t.a.w);
    to_device(d, t.a.y);
    const bool vectors = t.a.c % 4 == 0 && is_aligned(t.a.x) && is_aligned(t.a.w) && is_aligned(t.a.y);
    t.a.c /= vectors ? 4 : 1;
    t.units = pixels * t.a.c;
    launch(d, vectors ? four : one, dim3(grid_of(t.units)), THREADS, 0, t);
}

extern "C" {
void zn_cuda_channel_conv(zn_device *d, const void *args, int64_t rows)
{
    run(d, args, rows * static_cast<const zn_channel_conv_args *>(args)->ow, channel_conv<4>, channel_conv<1>);
}

void zn_cuda_channel_conv_grad(zn_device *d, const void *args, int64_t rows)
{
    run(d, args, rows * static_cast<const zn_channel_conv_args *>(args)->wide, channel_conv_grad<4>,
        channel_conv_grad<1>);
}
}
