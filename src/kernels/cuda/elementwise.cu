/* Elementwise kernels and upsampling; ref/elementwise.c and ref/resample.c are the reference. */
#include "kernels/cuda/cuda.h"

extern "C" {
#include "kernels/kernels.h"
}

/* ---- y[i] = f(x[i]) ---- */

struct relu {
    static __device__ float of(float x, float, float) { return x < 0 ? 0 : x; } /* written so that NaN passes through */
};
struct soft_clamp {
    static __device__ float of(float x, float limit, float) { return limit * tanhf(x / limit); }
};
struct clamp {
    static __device__ float of(float x, float low, float high)
    {
        const float v = x < low ? low : x;
        return v > high ? high : v;
    }
};
struct gelu {
    static __device__ float of(float x, float, float) { return 0.5f * x * (1 + erff(x * 0.70710678f)); }
};
struct silu {
    static __device__ float of(float x, float, float) { return x / (1 + expf(-x)); }
};
struct positive {
    static __device__ float of(float x, float, float) { return x > 0 ? 1 : 0; }
};
struct scale {
    static __device__ float of(float x, float factor, float) { return factor * x; }
};
struct exponential {
    static __device__ float of(float x, float, float) { return expf(x); }
};

template <typename F> __global__ void unary(task<zn_unary_args> t)
{
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < t.units; i += step)
        t.a.y[i] = F::of(t.a.x[i], t.a.a, t.a.b);
}

template <typename F> static void run_unary(zn_device *d, const void *args, int64_t units)
{
    task<zn_unary_args> t = { *static_cast<const zn_unary_args *>(args), units };
    to_device(d, t.a.x);
    to_device(d, t.a.y);
    launch(d, unary<F>, dim3(grid_of(units)), THREADS, 0, t);
}

/* ---- y[i] = f(a[i], b[i]) ---- */

struct add {
    static __device__ float of(float a, float b) { return a + b; }
};
struct sub {
    static __device__ float of(float a, float b) { return a - b; }
};
struct multiply {
    static __device__ float of(float a, float b) { return a * b; }
};

template <typename F> __global__ void binary(task<zn_binary_args> t)
{
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < t.units; i += step)
        t.a.y[i] = F::of(t.a.a[i], t.a.b[i]);
}

template <typename F> static void run_binary(zn_device *d, const void *args, int64_t units)
{
    task<zn_binary_args> t = { *static_cast<const zn_binary_args *>(args), units };
    to_device(d, t.a.a);
    to_device(d, t.a.b);
    to_device(d, t.a.y);
    launch(d, binary<F>, dim3(grid_of(units)), THREADS, 0, t);
}

/* ---- nearest x2 ---- */

/* Units are elements of the large map here. Rows are numbered over all images; large row / 2 is the small row
 * because 2h is even. */
__global__ void upsample2(task<zn_resample_args> t)
{
    const int64_t step = (int64_t)gridDim.x * blockDim.x, wide = (int64_t)2 * t.a.w;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < t.units; i += step) {
        const int64_t c = i % t.a.c, column = i / t.a.c % wide, row = i / t.a.c / wide;
        t.a.y[i] = t.a.x[(row / 2 * t.a.w + column / 2) * t.a.c + c];
    }
}

extern "C" {
void zn_cuda_relu(zn_device *d, const void *args, int64_t units) { run_unary<relu>(d, args, units); }
void zn_cuda_soft_clamp(zn_device *d, const void *args, int64_t units) { run_unary<soft_clamp>(d, args, units); }
void zn_cuda_clamp(zn_device *d, const void *args, int64_t units) { run_unary<clamp>(d, args, units); }
void zn_cuda_gelu(zn_device *d, const void *args, int64_t units) { run_unary<gelu>(d, args, units); }
void zn_cuda_silu(zn_device *d, const void *args, int64_t units) { run_unary<silu>(d, args, units); }
void zn_cuda_positive(zn_device *d, const void *args, int64_t units) { run_unary<positive>(d, args, units); }
void zn_cuda_scale(zn_device *d, const void *args, int64_t units) { run_unary<scale>(d, args, units); }
void zn_cuda_exp(zn_device *d, const void *args, int64_t units) { run_unary<exponential>(d, args, units); }
void zn_cuda_add(zn_device *d, const void *args, int64_t units) { run_binary<add>(d, args, units); }
void zn_cuda_sub(zn_device *d, const void *args, int64_t units) { run_binary<sub>(d, args, units); }
void zn_cuda_multiply(zn_device *d, const void *args, int64_t units) { run_binary<multiply>(d, args, units); }

void zn_cuda_upsample2(zn_device *d, const void *args, int64_t units)
{
    task<zn_resample_args> t = { *static_cast<const zn_resample_args *>(args), 0 };
    t.units = units * 2 * t.a.w * t.a.c;
    to_device(d, t.a.x);
    to_device(d, t.a.y);
    launch(d, upsample2, dim3(grid_of(t.units)), THREADS, 0, t);
}
}
