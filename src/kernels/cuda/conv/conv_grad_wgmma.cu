/* The gradient of a 3x3 convolution's weights (conv_grad.h) on Hopper GPUs, with products of bf16 numbers and sums in
 * fp32. Rows are output channels, columns are input channels of the three taps of a row of the kernel: x moved by one
 * pixel is the same lines in shared memory from the next on. Three warpgroups have a row of the kernel each, and keep
 * their sums in registers until the block has seen its part of the pixels; four warps copy tiles of pixels for them,
 * and add up dy, the gradient of the bias, where it is wanted. */
#include "kernels/cuda/conv/conv_grad_tile.h"
#include "kernels/cuda/lines.h"

enum {
    TAPS = 3, /* in a row of the kernel, and rows */
    COPIERS = WARPGROUP,
    BLOCK = TAPS * WARPGROUP + COPIERS,
    TILE_WIDE = ZN_CUDA_GRAD_LINES_WIDE,
    TILE_HIGH = ZN_CUDA_GRAD_LINES_HIGH,
    X_WIDE = TILE_WIDE + TAPS - 1,
    X_HIGH = TILE_HIGH + TAPS - 1,
    X_BYTES = (X_WIDE * X_HIGH * LINE + 1023) / 1024 * 1024,
    STAGE = X_BYTES + TILE_WIDE * TILE_HIGH * LINE,
    STAGES = 5,
    CHANNELS = 64,
    SUMS = TAPS * CHANNELS / 2,
    TOTAL_BYTES = COPIERS / WARP * CHANNELS * 4 /* sums of dy of each warp that copies */
};

struct lines_task {
    grad_task t;
    CUtensorMap x, dy; /* if bulk copies bring them */
    bool bulk;
};

/* Copies a tile of x, with the border, and of dy. */
static __device__ void copy_tile_lines(const grad_task &t, const grad_place &at, int64_t tile, char *stage, int thread)
{
    const zn_conv_shape &s = t.a.s;
    const int map = t.across * t.down, image = (int)(tile / map), in_map = (int)(tile % map);
    const int oy = in_map / t.across * TILE_HIGH, ox = in_map % t.across * TILE_WIDE, piece = thread % 8;
    const int in = at.in + piece * 8, out = at.out + piece * 8;
#pragma unroll 4
    for (int pixel = thread / 8; pixel < X_WIDE * X_HIGH; pixel += COPIERS / 8) {
        const int iy = oy - s.pad + pixel / X_WIDE, ix = ox - s.pad + pixel % X_WIDE;
        const bool is_there = iy >= 0 && ix >= 0 && iy < s.h && ix < s.w;
        copy_eight<bf16_pair>(stage + piece_at(pixel, piece), t.a.x, t.a.x_type,
                              (((int64_t)image * s.h + iy) * s.w + ix) * s.cin + in, is_there ? s.cin - in : 0,
                              t.x_by_four);
    }
    stage += X_BYTES;
#pragma unroll 4
    for (int pixel = thread / 8; pixel < TILE_WIDE * TILE_HIGH; pixel += COPIERS / 8) {
        const int y = oy + pixel / TILE_WIDE, x = ox + pixel % TILE_WIDE;
        copy_eight<bf16_pair>(stage + piece_at(pixel, piece), t.a.dy, t.a.dy_type,
                              (((int64_t)image * s.oh + y) * s.ow + x) * s.cout + out,
                              y < s.oh && x < s.ow ? s.cout - out : 0, t.dy_by_four);
    }
}

/* The same by one thread, with bulk copies. */
static __device__ void start_tile_lines(const lines_task &l, const grad_place &at, int64_t tile, char *stage,
                                        uint64_t *full)
{
    const grad_task &t = l.t;
    const int map = t.across * t.down, image = (int)(tile / map), in_map = (int)(tile % map);
    const int oy = in_map / t.across * TILE_HIGH, ox = in_map % t.across * TILE_WIDE;
    bulk_copy(stage, &l.x, at.in, ox - t.a.s.pad, oy - t.a.s.pad, image, full);
    bulk_copy(stage + X_BYTES, &l.dy, at.out, ox, oy, image, full);
}

/* Whether a block adds up dy: those with the first input channels do. */
static __device__ bool adds_dy(const grad_task &t, const grad_place &at) { return t.a.sums && at.in == 0; }

/* Adds the pixels of a tile of dy: a thread has eight channels of every 16th pixel. */
static __device__ void add_tile(const char *dy, int thread, float (&totals)[8])
{
#pragma unroll
    for (int row = 0; row < TILE_WIDE * TILE_HIGH; row += COPIERS / 8) {
        const uint4 v = *reinterpret_cast<const uint4 *>(dy + piece_at(row + thread / 8, thread % 8));
        const uint32_t pairs[] = { v.x, v.y, v.z, v.w };
#pragma unroll
        for (int i = 0; i < 8; i++)
            totals[i] += i % 2 ? bf16_pair::high(pairs[i / 2]) : bf16_pair::low(pairs[i / 2]);
    }
}

/* Writes the sums of all threads that copy, always in the same order, after the block's sums for the weights. */
static __device__ void write_totals(const grad_task &t, const grad_place &at, float (&totals)[8], float *all,
                                    int thread)
{
    const zn_conv_shape &s = t.a.s;
    const int lane = thread % WARP;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        totals[i] += __shfl_xor_sync(0xffffffffu, totals[i], 8);
        totals[i] += __shfl_xor_sync(0xffffffffu, totals[i], 16);
        if (lane < 8)
            all[thread / WARP * CHANNELS + lane * 8 + i] = totals[i];
    }
    meet(1, COPIERS);
    if (thread >= CHANNELS || at.out + thread >= s.cout)
        return;
    float sum = 0;
    for (int i = 0; i < COPIERS / WARP; i++)
        sum += all[i * CHANNELS + thread];
    static_cast<float *>(t.a.shared)[(blockIdx.x + 1) * zn_cuda_grad_part(&s, true) - s.cout + at.out + thread] = sum;
}

/* Adds up stages that were copied some time ago, so that it never waits for a copy that has only begun. */
[[maybe_unused]] static __device__ void copy_all(const lines_task &l, const grad_place &at, const ring &r, char *stages)
{
    enum { BYTES = (X_WIDE * X_HIGH + TILE_WIDE * TILE_HIGH) * LINE, LAG = STAGES - 1 };
    const int count = (int)(at.end - at.begin), thread = (int)threadIdx.x - TAPS * WARPGROUP;
    const bool adds = adds_dy(l.t, at);
    float totals[8] = {};
    for (int step = 0; step < count + (adds ? LAG : 0); step++) {
        char *stage = stages + step % STAGES * STAGE;
        if (step < count) {
            r.wait_empty(step);
            if (!l.bulk)
                copy_tile_lines(l.t, at, at.begin + step, stage, thread);
            r.publish(step, l.bulk && thread == 0 ? BYTES : 0);
            if (l.bulk && thread == 0)
                start_tile_lines(l, at, at.begin + step, stage, r.full_of(step));
        }
        if (!adds || step < LAG)
            continue;
        r.wait_full(step - LAG);
        add_tile(stages + (step - LAG) % STAGES * STAGE + X_BYTES, thread, totals);
        __syncwarp();
        if (thread % WARP == 0)
            r.release(step - LAG);
    }
    if (adds)
        write_totals(l.t, at, totals, reinterpret_cast<float *>(stages + STAGES * STAGE + RING_BYTES), thread);
}

/* Adds the products of a tile, 16 pixels at a time: two rows. */
static __device__ void multiply_tile(unsigned stage, int ky, float (&sums)[SUMS])
{
    unsigned x = stage + (unsigned)(ky * X_WIDE * LINE), dy = stage + X_BYTES;
    wgmma_begin();
#pragma unroll
    for (int row = 0; row < TILE_HIGH; row += 2, x += 2 * X_WIDE * LINE, dy += 2 * TILE_WIDE * LINE)
        bf16_wide::multiply_turned(sums, matrix_at(dy, LINE, TILE_WIDE * LINE), matrix_at(x, LINE, X_WIDE * LINE));
    wgmma_commit();
    wgmma_wait<0>();
}

/* Writes the sums of this thread to the block's part: [part][tap][cin][cout]. */
static __device__ void write_row(const grad_task &t, const grad_place &at, int ky, const float (&sums)[SUMS])
{
    const zn_conv_shape &s = t.a.s;
    const int thread = (int)threadIdx.x % WARPGROUP, lane = thread % WARP;
    float *to = static_cast<float *>(t.a.shared) + blockIdx.x * zn_cuda_grad_part(&s, t.a.sums);
#pragma unroll
    for (int i = 0; i < SUMS; i++) {
        const int column = i / 4 * 8 + lane % 4 * 2 + i % 2, tap = ky * TAPS + column / CHANNELS;
        const int c = at.in + column % CHANNELS, o = at.out + thread / WARP * 16 + lane / 4 + i % 4 / 2 * 8;
        if (c < s.cin && o < s.cout)
            to[((int64_t)tap * s.cin + c) * s.cout + o] = sums[i];
    }
}

[[maybe_unused]] static __device__ void multiply_all(const grad_task &t, const grad_place &at, const ring &r,
                                                     const char *stages)
{
    const int ky = (int)threadIdx.x / WARPGROUP, count = (int)(at.end - at.begin);
    float sums[SUMS] = {};
    for (int step = 0; step < count; step++) {
        r.wait_full(step);
        multiply_tile(shared_address(stages + step % STAGES * STAGE), ky, sums);
        if (threadIdx.x % WARP == 0)
            r.release(step);
    }
    write_row(t, at, ky, sums);
}

struct lines_shape {
    enum { IN = CHANNELS, OUT = CHANNELS };
};

__global__ void __launch_bounds__(BLOCK, 1) conv_grad_wgmma(const __grid_constant__ lines_task l)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ __align__(1024) char zn_cuda_lines[];
    const ring r = ring_at(zn_cuda_lines + STAGES * STAGE, STAGES);
    const grad_place at = place_of<lines_shape>(l.t);
    if (threadIdx.x == 0)
        r.init(COPIERS, (TAPS * WARPGROUP + (adds_dy(l.t, at) ? COPIERS : 0)) / WARP);
    __syncthreads();
    if (threadIdx.x < TAPS * WARPGROUP)
        multiply_all(l.t, at, r, zn_cuda_lines);
    else
        copy_all(l, at, r, zn_cuda_lines);
#else
    (void)l;
#endif
}

static void launch_lines(zn_device *d, const grad_task &t)
{
    const zn_conv_shape &s = t.a.s;
    lines_task l = { t, CUtensorMap(), CUtensorMap(), false };
    l.bulk = bulk_map(&l.x, t.a.x, t.a.x_type, s.n, s.h, s.w, s.cin, X_HIGH, X_WIDE) &&
             bulk_map(&l.dy, t.a.dy, t.a.dy_type, s.n, s.oh, s.ow, s.cout, TILE_HIGH, TILE_WIDE);
    launch(d, conv_grad_wgmma, dim3((unsigned)t.p.parts, (unsigned)t.p.weight_tiles), BLOCK,
           (size_t)(STAGES * STAGE + RING_BYTES + TOTAL_BYTES), l);
}

/* Maps of fp32 are rounded first: the threads that copy are not fast enough for it. */
static void launch_rounded(zn_device *d, const grad_task &given)
{
    launch_lines(d, rounded_task(d, given, true, true));
}

extern "C" {
void zn_cuda_conv_grad_wgmma(zn_device *d, const void *args, int64_t)
{
    run_grad(d, args, zn_cuda_grad_lines_plan, launch_rounded);
}
}
