/* Elementwise kernels; ref/basic/elementwise.c is the reference. */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/group.h"
#include "kernels/cuda/vector.h"

extern "C" {
#include "kernels/kernels.h"
#include "kernels/token.h"
}

/* y[i] = f(p[i], q[i]); a, b: parameters of the function. */
struct map_task {
    const float *p, *q;
    float *y;
    float a, b;
    const float *scalar; /* replaces a unless NULL */
    int64_t units;
    zn_type type;
};

/* ---- functions of no input, one input and two ---- */

struct fill {
    enum { INPUTS = 0 };
    static __device__ float of(float, float, float value, float) { return value; }
};

struct one {
    enum { INPUTS = 1 };
};
struct copy : one {
    static __device__ float of(float x, float, float, float) { return x; }
};
struct relu : one { /* written so that NaN passes through */
    static __device__ float of(float x, float, float, float) { return x < 0 ? 0 : x; }
};
struct soft_clamp : one {
    static __device__ float of(float x, float, float limit, float) { return limit * tanhf(x / limit); }
};
struct clamp : one {
    static __device__ float of(float x, float, float low, float high)
    {
        const float v = x < low ? low : x;
        return v > high ? high : v;
    }
};
struct gelu : one {
    static __device__ float of(float x, float, float, float) { return 0.5f * x * (1 + erff(x * 0.70710678f)); }
};
struct silu : one {
    static __device__ float of(float x, float, float, float) { return x / (1 + expf(-x)); }
};
struct positive : one {
    static __device__ float of(float x, float, float, float) { return x > 0 ? 1 : 0; }
};
struct scale : one {
    static __device__ float of(float x, float, float factor, float) { return factor * x; }
};
struct exponential : one {
    static __device__ float of(float x, float, float, float) { return expf(x); }
};

struct two {
    enum { INPUTS = 2 };
};
struct add : two {
    static __device__ float of(float p, float q, float, float) { return p + q; }
};
struct sub : two {
    static __device__ float of(float p, float q, float, float) { return p - q; }
};
struct multiply : two {
    static __device__ float of(float p, float q, float, float) { return p * q; }
};
struct relu_grad : two {
    static __device__ float of(float y, float dy, float, float) { return y > 0 ? dy : 0; }
};
struct soft_clamp_grad : two {
    static __device__ float of(float y, float dy, float limit, float)
    {
        const float t = y / limit;
        return dy * (1 - t * t);
    }
};
struct clamp_grad : two {
    static __device__ float of(float x, float dy, float low, float high) { return x < low || x > high ? 0 : dy; }
};
struct gelu_grad : two {
    static __device__ float of(float x, float dy, float, float)
    {
        const float cdf = 0.5f * (1 + erff(x * 0.70710678f)), pdf = 0.39894228f * expf(-0.5f * x * x);
        return dy * (cdf + x * pdf);
    }
};
struct silu_multiply : two {
    static __device__ float of(float x, float y, float, float) { return x / (1 + expf(-x)) * y; }
};
struct silu_grad : two {
    static __device__ float of(float x, float dy, float, float)
    {
        const float s = 1 / (1 + expf(-x));
        return dy * (s + x * s * (1 - s));
    }
};

/* ---- one thread for N elements ---- */

template <typename F, int N, typename A> __global__ void map(map_task t)
{
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    const float a = t.scalar ? *t.scalar : t.a;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < t.units / N; i += step) {
        floats<N> p = {}, q = {}, y;
        if (F::INPUTS > 0)
            p = A::template load<N>(t.p, i);
        if (F::INPUTS > 1)
            q = A::template load<N>(t.q, i);
        for (int k = 0; k < N; k++)
            y.v[k] = F::of(p.v[k], q.v[k], a, t.b);
        A::template store<N>(t.y, i, y);
    }
}

template <typename F, typename A> static void launch_map(zn_device *d, const map_task &t)
{
    const bool vectors = t.units % 4 == 0 && is_aligned(t.p) && is_aligned(t.q) && is_aligned(t.y);
    launch(d, vectors ? map<F, 4, A> : map<F, 1, A>, dim3(grid_of(vectors ? t.units / 4 : t.units)), THREADS, 0, t);
}

template <typename F> struct grouped_map {
    map_task t;

    __device__ void update(int64_t i) const
    {
        t.y[i] = F::of(F::INPUTS > 0 ? t.p[i] : 0, F::INPUTS > 1 ? t.q[i] : 0, t.scalar ? *t.scalar : t.a, t.b);
    }
};

template <typename F> static void run_map(zn_device *d, map_task t)
{
    to_device(d, t.p);
    to_device(d, t.q);
    to_device(d, t.y);
    to_device(d, t.scalar);
    if (d->grouping && t.type == ZN_TYPE_F32) {
        submit(d, elements<grouped_map<F>>{ { t }, t.units });
        return;
    }
    if (t.type == ZN_TYPE_F32)
        launch_map<F, as_f32>(d, t);
    else if (t.type == ZN_TYPE_BF16)
        launch_map<F, as_bf16>(d, t);
    else
        launch_map<F, as_f16>(d, t);
}

template <typename F> static void run_unary(zn_device *d, const void *args, int64_t units)
{
    const zn_unary_args *a = static_cast<const zn_unary_args *>(args);
    run_map<F>(d,
               { F::INPUTS > 0 ? a->x : NULL, F::INPUTS > 1 ? a->dy : NULL, a->y, a->a, a->b, NULL, units, a->type });
}

template <typename F> static void run_binary(zn_device *d, const void *args, int64_t units)
{
    const zn_binary_args *a = static_cast<const zn_binary_args *>(args);
    run_map<F>(d, { a->a, a->b, a->y, 0, 0, NULL, units, a->type });
}

extern "C" {
void zn_cuda_copy(zn_device *d, const void *args, int64_t units) { run_unary<copy>(d, args, units); }
void zn_cuda_fill(zn_device *d, const void *args, int64_t units) { run_unary<fill>(d, args, units); }
void zn_cuda_relu(zn_device *d, const void *args, int64_t units) { run_unary<relu>(d, args, units); }
void zn_cuda_relu_grad(zn_device *d, const void *args, int64_t units) { run_unary<relu_grad>(d, args, units); }
void zn_cuda_soft_clamp(zn_device *d, const void *args, int64_t units) { run_unary<soft_clamp>(d, args, units); }
void zn_cuda_soft_clamp_grad(zn_device *d, const void *args, int64_t units)
{
    run_unary<soft_clamp_grad>(d, args, units);
}
void zn_cuda_clamp(zn_device *d, const void *args, int64_t units) { run_unary<clamp>(d, args, units); }
void zn_cuda_clamp_grad(zn_device *d, const void *args, int64_t units) { run_unary<clamp_grad>(d, args, units); }
void zn_cuda_gelu(zn_device *d, const void *args, int64_t units) { run_unary<gelu>(d, args, units); }
void zn_cuda_gelu_grad(zn_device *d, const void *args, int64_t units) { run_unary<gelu_grad>(d, args, units); }
void zn_cuda_silu(zn_device *d, const void *args, int64_t units) { run_unary<silu>(d, args, units); }
void zn_cuda_silu_multiply(zn_device *d, const void *args, int64_t units) { run_binary<silu_multiply>(d, args, units); }
void zn_cuda_silu_grad(zn_device *d, const void *args, int64_t units) { run_unary<silu_grad>(d, args, units); }
void zn_cuda_positive(zn_device *d, const void *args, int64_t units) { run_unary<positive>(d, args, units); }
void zn_cuda_scale(zn_device *d, const void *args, int64_t units) { run_unary<scale>(d, args, units); }
void zn_cuda_exp(zn_device *d, const void *args, int64_t units) { run_unary<exponential>(d, args, units); }
void zn_cuda_add(zn_device *d, const void *args, int64_t units) { run_binary<add>(d, args, units); }
void zn_cuda_sub(zn_device *d, const void *args, int64_t units) { run_binary<sub>(d, args, units); }
void zn_cuda_multiply(zn_device *d, const void *args, int64_t units) { run_binary<multiply>(d, args, units); }

void zn_cuda_multiply_scalar(zn_device *d, const void *args, int64_t units)
{
    const zn_binary_args *a = static_cast<const zn_binary_args *>(args);
    run_map<scale>(d, { a->a, NULL, a->y, 0, 0, a->b, units, a->type });
}

void zn_cuda_accumulate(zn_device *d, const void *args, int64_t units)
{
    const zn_unary_args *a = static_cast<const zn_unary_args *>(args);
    run_map<add>(d, { a->y, a->x, a->y, 0, 0, NULL, units, a->type });
}
}
