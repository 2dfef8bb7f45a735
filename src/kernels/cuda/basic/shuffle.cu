/* Rearrangements: pixel shuffle and unshuffle, patches, selection of channels; ref/basic/shuffle.c is the reference. */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/index.h"
#include "kernels/cuda/vector.h"

extern "C" {
#include "kernels/mix.h"
}

/* ---- pixel shuffle: a thread moves the r*r values of one channel of a small pixel ---- */

/* Position of value (ry, rx) of small pixel `pixel` and channel c in the large map. */
static __device__ int64_t large_index(const zn_shuffle_args &a, int64_t pixel, int c, int ry, int rx)
{
    const division at = divide(pixel, a.w);
    return ((at.quotient * a.r + ry) * a.w * a.r + (int64_t)at.rest * a.r + rx) * a.c + c;
}

__global__ void unshuffle(task<zn_shuffle_args> t)
{
    for (int64_t i = first_unit(); i < t.units; i += unit_step()) {
        const division at = divide(i, t.a.c);
        for (int k = 0; k < t.a.r * t.a.r; k++)
            t.a.y[i * t.a.r * t.a.r + k] = t.a.x[large_index(t.a, at.quotient, at.rest, k / t.a.r, k % t.a.r)];
    }
}

__global__ void shuffle(task<zn_shuffle_args> t)
{
    for (int64_t i = first_unit(); i < t.units; i += unit_step()) {
        const division at = divide(i, t.a.c);
        for (int k = 0; k < t.a.r * t.a.r; k++)
            t.a.y[large_index(t.a, at.quotient, at.rest, k / t.a.r, k % t.a.r)] = t.a.x[i * t.a.r * t.a.r + k];
    }
}

/* By 2: the four values are one access on the small side. */
__global__ void unshuffle2(task<zn_shuffle_args> t)
{
    for (int64_t i = first_unit(); i < t.units; i += unit_step()) {
        const division at = divide(i, t.a.c);
        floats<4> v;
        for (int k = 0; k < 4; k++)
            v.v[k] = t.a.x[large_index(t.a, at.quotient, at.rest, k / 2, k % 2)];
        store<4>(t.a.y, i, v);
    }
}

__global__ void shuffle2(task<zn_shuffle_args> t)
{
    for (int64_t i = first_unit(); i < t.units; i += unit_step()) {
        const division at = divide(i, t.a.c);
        const floats<4> v = load<4>(t.a.x, i);
        for (int k = 0; k < 4; k++)
            t.a.y[large_index(t.a, at.quotient, at.rest, k / 2, k % 2)] = v.v[k];
    }
}

/* ---- patches: runs of r*c floats, N per access; a.c counts vectors of N floats ---- */

/* Element i of a map of patches [row][x][ry][run] is element (row, ry, x, run) of the large map. */
static __device__ int64_t patch_index(const zn_shuffle_args &a, int64_t i)
{
    const int run = a.r * a.c;
    const division at = divide(i, run), ry = divide(at.quotient, a.r), x = divide(ry.quotient, a.w);
    return ((x.quotient * a.r + ry.rest) * a.w + x.rest) * run + at.rest;
}

template <int N> __global__ void space_to_depth(task<zn_shuffle_args> t)
{
    for (int64_t i = first_unit(); i < t.units; i += unit_step())
        store<N>(t.a.y, i, load<N>(t.a.x, patch_index(t.a, i)));
}

template <int N> __global__ void depth_to_space(task<zn_shuffle_args> t)
{
    for (int64_t i = first_unit(); i < t.units; i += unit_step())
        store<N>(t.a.y, patch_index(t.a, i), load<N>(t.a.x, i));
}

static task<zn_shuffle_args> task_of(zn_device *d, const void *args)
{
    task<zn_shuffle_args> t = { *static_cast<const zn_shuffle_args *>(args), 0 };
    to_device(d, t.a.x);
    to_device(d, t.a.y);
    return t;
}

typedef void (*shuffle_kernel)(task<zn_shuffle_args>);

static void run_patches(zn_device *d, const void *args, int64_t rows, shuffle_kernel four, shuffle_kernel one)
{
    task<zn_shuffle_args> t = task_of(d, args);
    const bool vectors = t.a.c % 4 == 0 && is_aligned(t.a.x) && is_aligned(t.a.y);
    t.a.c /= vectors ? 4 : 1;
    t.units = rows * t.a.w * t.a.r * t.a.r * t.a.c;
    launch(d, vectors ? four : one, dim3(grid_of(t.units)), THREADS, 0, t);
}

/* ---- selection ---- */

__global__ void select_channels(task<zn_select_args> t)
{
    for (int64_t i = first_unit(); i < t.units; i += unit_step()) {
        const division at = divide(i, t.a.cout);
        const int from = t.a.from[at.rest];
        t.a.y[i] = from < 0 ? 0 : t.a.x[at.quotient * t.a.cin + from];
    }
}

/* Each thread sums all results that come from its channel, in order. Lists in shared memory chain them: first[c] is the
 * first of channel c and next[k] the one after k, or -1. */
__global__ void select_grad(task<zn_select_args> t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    int *first = reinterpret_cast<int *>(zn_cuda_shared), *next = first + t.a.cin;
    for (int c = (int)threadIdx.x; c < t.a.cin; c += (int)blockDim.x) {
        int head = -1;
        for (int k = t.a.cout - 1; k >= 0; k--)
            if (t.a.from[k] == c) {
                next[k] = head;
                head = k;
            }
        first[c] = head;
    }
    __syncthreads();
    for (int64_t i = first_unit(); i < t.units; i += unit_step()) {
        const division at = divide(i, t.a.cin);
        float sum = 0;
        for (int k = first[at.rest]; k >= 0; k = next[k])
            sum += t.a.x[at.quotient * t.a.cout + k];
        t.a.y[i] = sum;
    }
}

static task<zn_select_args> select_of(zn_device *d, const void *args)
{
    task<zn_select_args> t = { *static_cast<const zn_select_args *>(args), 0 };
    to_device(d, t.a.x);
    to_device(d, t.a.y);
    to_device(d, t.a.from);
    return t;
}

__global__ void indices(task<zn_indices_args> t)
{
    for (int64_t i = first_unit(); i < t.units; i += unit_step()) {
        const float value = t.a.table[i];
        t.a.indices[i] = value >= 0 && value < (float)t.a.limit ? (int32_t)value : -1;
    }
}

extern "C" {
void zn_cuda_unshuffle(zn_device *d, const void *args, int64_t rows)
{
    task<zn_shuffle_args> t = task_of(d, args);
    t.units = rows * t.a.w * t.a.c;
    launch(d, t.a.r == 2 && is_aligned(t.a.y) ? unshuffle2 : unshuffle, dim3(grid_of(t.units)), THREADS, 0, t);
}

void zn_cuda_shuffle(zn_device *d, const void *args, int64_t rows)
{
    task<zn_shuffle_args> t = task_of(d, args);
    t.units = rows * t.a.w * t.a.c;
    launch(d, t.a.r == 2 && is_aligned(t.a.x) ? shuffle2 : shuffle, dim3(grid_of(t.units)), THREADS, 0, t);
}

void zn_cuda_space_to_depth(zn_device *d, const void *args, int64_t rows)
{
    run_patches(d, args, rows, space_to_depth<4>, space_to_depth<1>);
}

void zn_cuda_depth_to_space(zn_device *d, const void *args, int64_t rows)
{
    run_patches(d, args, rows, depth_to_space<4>, depth_to_space<1>);
}

void zn_cuda_select(zn_device *d, const void *args, int64_t pixels)
{
    task<zn_select_args> t = select_of(d, args);
    t.units = pixels * t.a.cout;
    launch(d, select_channels, dim3(grid_of(t.units)), THREADS, 0, t);
}

/* Few thread blocks, because each makes the lists. */
void zn_cuda_select_grad(zn_device *d, const void *args, int64_t pixels)
{
    task<zn_select_args> t = select_of(d, args);
    t.units = pixels * t.a.cin;
    const unsigned all = grid_of(t.units), few = (unsigned)d->processors * 8;
    launch(d, select_grad, dim3(all < few ? all : few), THREADS, sizeof(int) * (size_t)(t.a.cin + t.a.cout), t);
}

void zn_cuda_indices(zn_device *d, const void *args, int64_t units)
{
    task<zn_indices_args> t = { *static_cast<const zn_indices_args *>(args), units };
    to_device(d, t.a.table);
    to_device(d, t.a.indices);
    launch(d, indices, dim3(grid_of(units)), THREADS, 0, t);
}
}
