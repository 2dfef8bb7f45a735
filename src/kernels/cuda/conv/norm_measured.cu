/* Group norm of maps that were measured while they were written (kernels/norm_conv.h): one pass. A thread block has 64
 * channels of some pixels, and computes their factors itself, unless what was measured is so much that a launch of its
 * own merges it first. */
#include "kernels/cuda/conv/conv_normed.h"
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/early.h"

/* Where the numbers of a source begin that a group reads, and how many of its channels are there. */
struct group_source {
    const float *at;
    int channels;
    float pixels; /* of a part */
    __device__ group_source(const norm_source &s, bool more, int64_t map, int first, int width)
    {
        const zn_measured &m = more ? s.more : s.x;
        const int begin = more ? s.split() : 0, low = max(first, begin), high = min(first + width, begin + m.c);
        at = m.at + map * m.blocks * 2 * m.c + (low - begin);
        channels = max(high - low, 0);
        pixels = (float)(s.n.pixels / m.blocks);
    }
};

/* Sums of a group of a map over what this thread reads, relative to `near`: of the means, and of the squares. */
static __device__ void add_source(const zn_measured &m, const group_source &g, float near, float &off, float &squares)
{
    const unsigned wide = (unsigned)g.channels, count = wide * (unsigned)m.blocks;
#pragma unroll 8
    for (unsigned i = threadIdx.x; i < count; i += THREADS) {
        const unsigned block = i / wide;
        const float *const at = g.at + (int64_t)block * 2 * m.c + (i - block * wide);
        const float d = at[0] - near;
        off += g.pixels * d;
        squares += at[m.c] + g.pixels * d * d;
    }
}

/* The factors of a group of a map, by a thread block. Everything is read at once, and only once. */
static __global__ void __launch_bounds__(THREADS, 1) merge(norm_source s)
{
    wait_for_last();
    __shared__ float2 warps[THREADS / WARP];
    const int64_t map = blockIdx.x / (unsigned)s.n.groups;
    const int width = s.n.c / s.n.groups, first = (int)(blockIdx.x % (unsigned)s.n.groups) * width;
    const int last = first + width, own_channel = first + (int)threadIdx.x;
    const factor own = own_channel < last ? own_factor(s.n, map, own_channel) : factor{};
    const group_source x(s, false, map, first, width);
    float2 sum = {};
    float near = 0;
    if (s.n.more) {
        const group_source more(s, true, map, first, width);
        near = *(x.channels ? x.at : more.at);
        add_source(s.more, more, near, sum.x, sum.y);
    } else {
        near = *x.at;
    }
    add_source(s.x, x, near, sum.x, sum.y);
    sum = make_float2(sum_of_warp(sum.x), sum_of_warp(sum.y));
    if (threadIdx.x % WARP == 0)
        warps[threadIdx.x / WARP] = sum;
    __syncthreads();
    float2 all = {};
    for (int i = 0; i < THREADS / WARP; i++)
        all.x += warps[i].x, all.y += warps[i].y;
    const float count = (float)s.n.pixels * (float)width, off = all.x / count;
    const float rate = 1 / sqrtf(fmaxf(all.y / count - off * off, 0) + s.n.eps);
    factor *const to = reinterpret_cast<factor *>(s.n.table) + map * s.n.c;
    for (int c = own_channel; c < last; c += THREADS)
        to[c] = whole_factor(c == own_channel ? own : own_factor(s.n, map, c), near + off, rate);
}

void merge_measured(zn_device *d, const norm_source &s)
{
    launch_early(d, merge, dim3((unsigned)(s.n.n * s.n.groups)), THREADS, 0, s);
}

/* ---- one pass ---- */

enum { CHUNK = 64, PIECES = CHUNK / 8, LANES = THREADS / PIECES, FLIGHT = 4, BLOCKS = 1056, MERGES = 16 };

struct measured_task {
    norm_source s;
    int parts; /* of a map's pixels */
    bool merged;
};

static __global__ void __launch_bounds__(THREADS, 4) norm_measured(measured_task t)
{
    wait_for_last();
    extern __shared__ __align__(16) float zn_cuda_shared[];
    factor *const factors = reinterpret_cast<factor *>(zn_cuda_shared);
    const zn_norm_args &n = t.s.n;
    const int64_t map = blockIdx.z;
    const int begin = (int)blockIdx.y * CHUNK, split = t.s.split(), piece = (int)threadIdx.x % PIECES * 8;
    const bool more = begin >= split, silu = n.act == ZN_ACT_SILU;
    const int row = more ? n.c - split : split, size = ((int)n.pixels + t.parts - 1) / t.parts;
    const int first = (int)blockIdx.x * size, last = min(first + size, (int)n.pixels);
    const uint16_t *const x = reinterpret_cast<const uint16_t *>(more ? n.more : n.x) + map * n.pixels * row +
                              (more ? begin - split : begin) + piece;
    uint16_t *const y = reinterpret_cast<uint16_t *>(n.y) + map * n.pixels * n.c + begin + piece;
    factors_of_piece f;
    if (t.merged) {
        f.load(reinterpret_cast<const factor *>(n.table) + map * n.c + begin + piece, silu);
    } else {
        make_factors(t.s, map, begin, begin + CHUNK, reinterpret_cast<float2 *>(factors + CHUNK), factors);
        __syncthreads();
        f.load(factors + piece, silu);
    }
    for (int p = first + (int)threadIdx.x / PIECES; p < last; p += FLIGHT * LANES) {
        uint4 v[FLIGHT];
#pragma unroll
        for (int i = 0; i < FLIGHT; i++)
            if (p + i * LANES < last)
                v[i] = *reinterpret_cast<const uint4 *>(x + (int64_t)(p + i * LANES) * row);
#pragma unroll
        for (int i = 0; i < FLIGHT; i++)
            if (p + i * LANES < last)
                *reinterpret_cast<uint4 *>(y + (int64_t)(p + i * LANES) * n.c) = normed<bf16_pair>(v[i], f, silu);
    }
}

extern "C" void zn_cuda_norm_measured(zn_device *d, const void *args, int64_t)
{
    const zn_norm_conv_args &a = *static_cast<const zn_norm_conv_args *>(args);
    measured_task t = { norm_source_of(d, a), 1, a.x.blocks > MERGES || a.more.blocks > MERGES };
    zn_norm_args &n = t.s.n;
    if (n.x_type != ZN_TYPE_BF16 || n.y_type != ZN_TYPE_BF16)
        return zn_cuda_check(d, cudaErrorInvalidValue, "maps of 16 bits");
    to_device(d, n.x);
    to_device(d, n.y);
    const int64_t chunks = n.n * (n.c / CHUNK), most = n.pixels / (FLIGHT * LANES);
    while (t.parts * 2 <= most && t.parts * chunks < BLOCKS)
        t.parts *= 2;
    if (t.merged)
        merge_measured(d, t.s);
    const size_t shared = sizeof(factor) * CHUNK + sizeof(float2) * (size_t)group_span_most(t.s, CHUNK);
    launch_early(d, norm_measured, dim3((unsigned)t.parts, (unsigned)(n.c / CHUNK), (unsigned)n.n), THREADS, shared, t);
}
