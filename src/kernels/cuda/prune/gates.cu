/* Block gates (a thread takes one block of eight channels), and three taps over channels. ref/prune/gates.c and
 * ref/basic/mix.c are the reference. */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/index.h"
#include "kernels/cuda/vector.h"

extern "C" {
#include "kernels/gates.h"
#include "kernels/mix.h"
}

enum { BLOCK = ZN_GATE_BLOCK, LANES = 32, TEAMS = THREADS / LANES };

static int64_t parts(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* ---- block gates; units are blocks of channels, over all pixels ---- */

struct gate_task {
    zn_gate_args a;
    int64_t units;
    int blocks;   /* per pixel */
    bool aligned; /* a block can be read four floats at a time */
};

static gate_task gate_task_of(zn_device *d, const void *args, int64_t pixels)
{
    gate_task t = {};
    t.a = *static_cast<const zn_gate_args *>(args);
    const float **inputs[] = { &t.a.x, &t.a.w, &t.a.v, &t.a.eps, &t.a.dm, &t.a.mask, &t.a.dy };
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        to_device(d, *inputs[i]);
    to_device(d, t.a.y);
    to_device(d, t.a.partial);
    t.blocks = t.a.c / BLOCK;
    t.units = pixels * t.blocks;
    t.aligned = is_aligned(t.a.x) && is_aligned(t.a.dy) && is_aligned(t.a.y);
    return t;
}

struct eight {
    float v[BLOCK];
};

static __device__ eight load_block(const float *from, int64_t i, bool aligned)
{
    eight b;
    if (aligned) {
        const floats<4> low = load<4>(from, 2 * i), high = load<4>(from, 2 * i + 1);
        for (int k = 0; k < 4; k++) {
            b.v[k] = low.v[k];
            b.v[4 + k] = high.v[k];
        }
    } else {
        for (int k = 0; k < BLOCK; k++)
            b.v[k] = from[i * BLOCK + k];
    }
    return b;
}

static __device__ void store_block(float *to, int64_t i, bool aligned, const eight &b)
{
    if (aligned) {
        store<4>(to, 2 * i, floats<4>{ { b.v[0], b.v[1], b.v[2], b.v[3] } });
        store<4>(to, 2 * i + 1, floats<4>{ { b.v[4], b.v[5], b.v[6], b.v[7] } });
    } else {
        for (int k = 0; k < BLOCK; k++)
            to[i * BLOCK + k] = b.v[k];
    }
}

static __device__ float energy_of(const eight &x)
{
    float e = 0;
    for (int k = 0; k < BLOCK; k++)
        e += fabsf(x.v[k]);
    return e;
}

/* The soft value of block i before any noise is applied to its mask, and the mask. */
static __device__ float mask_of(const zn_gate_args &a, float score, int64_t i, float *soft)
{
    const float noise = a.eps && a.mode == ZN_GATE_SOFT ? a.temperature * a.eps[i] : 0;
    const float v = 0.2f * score + 0.5f + noise;
    *soft = v < 0 ? 0 : v > 1 ? 1 : v;
    if (a.mode == ZN_GATE_SOFT)
        return *soft;
    return a.mode == ZN_GATE_HARD ? (score > 0 ? 1.0f : 0.0f) : (*soft > 0.5f ? 1.0f : 0.0f);
}

static __device__ float score_gradient(const gate_task &t, int64_t i, int b, const eight &x, float *energy)
{
    float soft;
    *energy = energy_of(x);
    mask_of(t.a, t.a.w[b] * *energy + t.a.v[b], i, &soft);
    return t.a.mode != ZN_GATE_HARD && soft > 0 && soft < 1 ? 0.2f * t.a.dm[i] : 0;
}

__global__ void gate_mask(gate_task t)
{
    for (int64_t i = first_unit(); i < t.units; i += unit_step()) {
        const int b = divide(i, t.blocks).rest;
        const float score = t.a.w[b] * energy_of(load_block(t.a.x, i, t.aligned)) + t.a.v[b];
        float soft;
        t.a.y[i] = mask_of(t.a, score, i, &soft);
    }
}

__global__ void gate_mask_grad(gate_task t)
{
    for (int64_t i = first_unit(); i < t.units; i += unit_step()) {
        const int b = divide(i, t.blocks).rest;
        eight x = load_block(t.a.x, i, t.aligned);
        float energy;
        const float ds = score_gradient(t, i, b, x, &energy) * t.a.w[b];
        for (int k = 0; k < BLOCK; k++)
            x.v[k] = ds * (x.v[k] > 0 ? 1.0f : x.v[k] < 0 ? -1.0f : 0.0f);
        store_block(t.a.y, i, t.aligned, x);
    }
}

__global__ void gate_apply(gate_task t)
{
    for (int64_t i = first_unit(); i < t.units; i += unit_step()) {
        eight x = load_block(t.a.x, i, t.aligned);
        const float mask = t.a.mask[i];
        for (int k = 0; k < BLOCK; k++)
            x.v[k] *= mask;
        store_block(t.a.y, i, t.aligned, x);
    }
}

__global__ void gate_apply_mask_grad(gate_task t)
{
    for (int64_t i = first_unit(); i < t.units; i += unit_step()) {
        const eight x = load_block(t.a.x, i, t.aligned), dy = load_block(t.a.dy, i, t.aligned);
        float sum = 0;
        for (int k = 0; k < BLOCK; k++)
            sum += dy.v[k] * x.v[k];
        t.a.y[i] = sum;
    }
}

/* The sum of the values of the threads with the same lane, in the order of the teams; valid in team 0. `sums` holds one
 * number per thread. All threads must call it. */
static __device__ float sum_teams(float value, float *sums)
{
    __syncthreads();
    sums[threadIdx.x] = value;
    __syncthreads();
    float all = 0;
    for (int k = 0; k < TEAMS && (int)threadIdx.x < LANES; k++)
        all += sums[k * LANES + (int)threadIdx.x];
    return all;
}

/* A thread block sums LANES blocks of channels over ZN_MIX_BLOCK pixels. */
__global__ void gate_mask_param_grad(gate_task t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    const int b = (int)blockIdx.y * LANES + (int)threadIdx.x % LANES;
    const int64_t begin = (int64_t)blockIdx.x * ZN_MIX_BLOCK;
    const int64_t end = begin + ZN_MIX_BLOCK < t.a.pixels ? begin + ZN_MIX_BLOCK : t.a.pixels;
    float dw = 0, dv = 0;
    for (int64_t p = begin + threadIdx.x / LANES; p < end && b < t.blocks; p += TEAMS) {
        const int64_t i = p * t.blocks + b;
        float energy;
        const float ds = score_gradient(t, i, b, load_block(t.a.x, i, t.aligned), &energy);
        dw += ds * energy;
        dv += ds;
    }
    dw = sum_teams(dw, zn_cuda_shared);
    dv = sum_teams(dv, zn_cuda_shared);
    if ((int)threadIdx.x < LANES && b < t.blocks) {
        t.a.partial[(int64_t)blockIdx.x * 2 * t.blocks + b] = dw;
        t.a.partial[((int64_t)blockIdx.x * 2 + 1) * t.blocks + b] = dv;
    }
}

/* ---- three taps over channels; units are elements ---- */

__global__ void taps(task<zn_mix_args> t)
{
    const float *left = t.a.w, *centre = left + t.a.c, *right = centre + t.a.c, *x = t.a.x;
    for (int64_t i = first_unit(); i < t.units; i += unit_step()) {
        const int k = divide(i, t.a.c).rest;
        float y = centre[k] * x[i];
        y += k > 0 ? left[k] * x[i - 1] : 0;
        y += k + 1 < t.a.c ? right[k] * x[i + 1] : 0;
        t.a.y[i] = y;
    }
}

__global__ void taps_grad(task<zn_mix_args> t)
{
    const float *left = t.a.w, *centre = left + t.a.c, *right = centre + t.a.c, *dy = t.a.dy;
    for (int64_t i = first_unit(); i < t.units; i += unit_step()) {
        const int k = divide(i, t.a.c).rest;
        float dx = centre[k] * dy[i];
        dx += k + 1 < t.a.c ? left[k + 1] * dy[i + 1] : 0;
        dx += k > 0 ? right[k - 1] * dy[i - 1] : 0;
        t.a.y[i] = dx;
    }
}

/* A thread block sums LANES channels over one block of t.units pixels. */
__global__ void taps_param_grad(task<zn_mix_args> t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    const int c = t.a.c, k = (int)blockIdx.y * LANES + (int)threadIdx.x % LANES;
    const int64_t begin = (int64_t)blockIdx.x * t.units;
    const int64_t end = begin + t.units < t.a.pixels ? begin + t.units : t.a.pixels;
    float sum[3] = {};
    for (int64_t p = begin + threadIdx.x / LANES; p < end && k < c; p += TEAMS) {
        const float *x = t.a.x + p * c + k, dy = t.a.dy[p * c + k];
        sum[0] += k > 0 ? dy * x[-1] : 0;
        sum[1] += dy * x[0];
        sum[2] += k + 1 < c ? dy * x[1] : 0;
    }
    for (int i = 0; i < 3; i++) {
        const float all = sum_teams(sum[i], zn_cuda_shared);
        if ((int)threadIdx.x < LANES && k < c)
            t.a.partial[((int64_t)blockIdx.x * 3 + i) * c + k] = all;
    }
}

static task<zn_mix_args> mix_task_of(zn_device *d, const void *args)
{
    task<zn_mix_args> t = { *static_cast<const zn_mix_args *>(args), 0 };
    to_device(d, t.a.x);
    to_device(d, t.a.dy);
    to_device(d, t.a.w);
    to_device(d, t.a.y);
    to_device(d, t.a.partial);
    t.units = t.a.pixels * t.a.c;
    return t;
}

static void launch_gate(zn_device *d, void (*kernel)(gate_task), const void *args, int64_t pixels)
{
    const gate_task t = gate_task_of(d, args, pixels);
    launch(d, kernel, dim3(grid_of(t.units)), THREADS, 0, t);
}

extern "C" {
void zn_cuda_gate_mask(zn_device *d, const void *args, int64_t units) { launch_gate(d, gate_mask, args, units); }
void zn_cuda_gate_mask_grad(zn_device *d, const void *args, int64_t units)
{
    launch_gate(d, gate_mask_grad, args, units);
}
void zn_cuda_gate_apply(zn_device *d, const void *args, int64_t units) { launch_gate(d, gate_apply, args, units); }
void zn_cuda_gate_apply_mask_grad(zn_device *d, const void *args, int64_t units)
{
    launch_gate(d, gate_apply_mask_grad, args, units);
}

void zn_cuda_gate_mask_param_grad(zn_device *d, const void *args, int64_t units)
{
    const gate_task t = gate_task_of(d, args, 0);
    launch(d, gate_mask_param_grad, dim3((unsigned)units, (unsigned)parts(t.blocks, LANES)), THREADS,
           sizeof(float) * THREADS, t);
}

void zn_cuda_taps(zn_device *d, const void *args, int64_t)
{
    const task<zn_mix_args> t = mix_task_of(d, args);
    launch(d, taps, dim3(grid_of(t.units)), THREADS, 0, t);
}

void zn_cuda_taps_grad(zn_device *d, const void *args, int64_t)
{
    const task<zn_mix_args> t = mix_task_of(d, args);
    launch(d, taps_grad, dim3(grid_of(t.units)), THREADS, 0, t);
}

void zn_cuda_taps_param_grad(zn_device *d, const void *args, int64_t units)
{
    task<zn_mix_args> t = mix_task_of(d, args);
    t.units = parts(t.a.pixels, units);
    launch(d, taps_param_grad, dim3((unsigned)units, (unsigned)parts(t.a.c, LANES)), THREADS, sizeof(float) * THREADS,
           t);
}
}
