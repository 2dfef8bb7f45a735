/* Causal convolution over frames on Hopper GPUs, of maps of 16 bits (conv_wgmma.cu: over one frame) or of FP8 codes.
 * Sums stay in registers over all frames of the kernel.
 *
 * The weights are too many to stay in shared memory, so two warpgroups share them: a block computes 64 channels of
 * 16x16 pixels, and each warpgroup has the left or the right half. One thread copies: a line of channels of what a tile
 * reads of a frame, with the border, into one ring, and the weights of three taps at a time into another. Frames before
 * the first are outside of the map, where the copy engine writes zeros. The same tile of the frames of a piece follow
 * each other, so that what several of them read comes from the cache.
 *
 * Sums have the order of conv_wgmma.cu, from the newest frame to the oldest. Those of codes begin anew for every chunk
 * of channels of a frame, because the matrix unit adds them with fewer bits than fp32 has; they are added in fp32, with
 * the scales of x and of the frame's weights. */
#include "kernels/cuda/conv/conv_wide.h"

enum {
    SQUARE = 2 * TILE_WIDE, /* side of a tile */
    X_SIDE = SQUARE + ZN_CUDA_WIDE_SIDE - 1,
    X_STAGES = 2,
    X_BYTES = X_SIDE * X_SIDE * LINE,
    X_STAGE = (X_BYTES + 1023) / 1024 * 1024,
    W_STAGE_BYTES = 96 << 10 /* of all stages of weights */
};

/* How a warpgroup writes its half is that of conv_wgmma.cu. */
template <typename T, int CHUNK_> struct frames_plan : wide_plan<T, CHUNK_, 1, SQUARE> {
    typedef wide_plan<T, CHUNK_, 1, SQUARE> wide;
    enum {
        CODES = T::BYTES == 1,
        STEPS = CHUNK_ * T::BYTES / 32,   /* products of a tap of a chunk */
        PARTS = LINE / T::BYTES / CHUNK_, /* chunks of a line of pixels */
        /* of a stage of weights; lines of codes have the inputs of a channel, others the channels of an input */
        W_BYTES = (CODES ? wide::TAPS * ZN_CUDA_CONV_COLUMNS : wide::BOX) * LINE,
        W_STAGES = W_STAGE_BYTES / W_BYTES,
        RESULTS = TURNS * wide::PIXELS * LINE,
        SHARED = X_STAGES * X_STAGE + W_STAGES * W_BYTES + RESULTS + 2 * RING_BYTES
    };
    /* The weights of a product in their stage. */
    static __device__ unsigned weights_at(int tap, int step)
    {
        return (unsigned)(CODES ? tap * ZN_CUDA_CONV_COLUMNS * LINE + step * 32 : (tap * STEPS + step) * 16 * LINE);
    }
};

struct frames_task {
    wide_task w;
    CUtensorMap before_map; /* the frames before x */
    int depth;              /* frames that a result reads */
    int kept;               /* frames before x that there are */
    /* codes: */
    float scale;          /* of x */
    const float *scales;  /* of the channels of the newest frame of the kernel */
    int64_t scales_apart; /* numbers from those to the scales of the frame before */
};

template <typename P> struct frames_memory {
    char *x, *weights, *results;
    ring x_ring, w_ring;
    __device__ explicit frames_memory(char *start)
    {
        x = start;
        weights = x + X_STAGES * X_STAGE;
        results = weights + P::W_STAGES * P::W_BYTES;
        x_ring = ring_at(results + P::RESULTS, X_STAGES);
        w_ring = ring_at(results + P::RESULTS + RING_BYTES, P::W_STAGES);
    }
    __device__ char *x_stage(int step) const { return x + step % X_STAGES * X_STAGE; }
    __device__ char *w_stage(int step) const { return weights + step % P::W_STAGES * P::W_BYTES; }
};

static __device__ place place_of_square(const wide_task &w, int tile)
{
    const int frames = w.t.a.s.n, in_map = tile / frames;
    return place{ tile % frames, in_map / w.t.across * SQUARE, in_map % w.t.across * SQUARE, first_column() };
}

/* ---- copying ---- */

/* Starts the copy of the weights of three taps: row `i` of the kernel, for a chunk of x of this age. */
template <typename P>
static __device__ void copy_row(const frames_task &f, char *to, int age, int chunk, int i, uint64_t *full)
{
    if constexpr (P::CODES)
        bulk_copy(to, &f.w.w_map, 0, first_column(), (chunk * P::TAPS + i) * P::TAPS, age, full);
    else
        bulk_copy(to, &f.w.w_map, first_column(), ((age * f.w.chunks + chunk) * P::TAPS + i) * P::BOX, 0, 0, full);
}

/* The thread that copies. */
template <typename P> static __device__ void copy_all(const frames_task &f, const frames_memory<P> &m)
{
    int x_step = 0, w_step = 0;
    for (int tile = (int)blockIdx.x; tile < f.w.tiles; tile += (int)gridDim.x) {
        const place at = place_of_square(f.w, tile);
        for (int age = 0; age < f.depth; age++) {
            const int frame = at.image - age;
            const bool is_kept = frame < 0 && f.kept > 0;
            for (int chunk = 0; chunk < f.w.chunks; chunk++) {
                if (chunk % P::PARTS == 0) {
                    m.x_ring.wait_empty(x_step);
                    m.x_ring.publish(x_step, X_BYTES);
                    bulk_copy(m.x_stage(x_step), is_kept ? &f.before_map : &f.w.x_map, chunk * P::CHUNK, at.x - 1,
                              at.y - 1, is_kept ? frame + f.kept : frame, m.x_ring.full_of(x_step));
                    x_step++;
                }
                for (int i = 0; i < P::TAPS; i++, w_step++) {
                    m.w_ring.wait_empty(w_step);
                    m.w_ring.publish(w_step, P::W_BYTES);
                    copy_row<P>(f, m.w_stage(w_step), age, chunk, i, m.w_ring.full_of(w_step));
                }
            }
        }
    }
}

/* ---- multiplying ---- */

/* Adds the products of three taps; x: the first of them. */
template <typename P> static __device__ void multiply_row(unsigned weights, unsigned x, float (&sums)[P::SUMS])
{
    wgmma_begin();
#pragma unroll
    for (int tap = 0; tap < P::TAPS; tap++)
#pragma unroll
        for (int k = 0; k < P::STEPS; k++)
            P::T::multiply(sums, matrix_at(weights + P::weights_at(tap, k), 16, 8 * LINE),
                           matrix_at(x + (unsigned)(tap * LINE + k * 32), 16, X_SIDE * LINE));
    wgmma_commit();
    wgmma_wait<0>();
}

/* Adds the products of a chunk; x: the first tap. */
template <typename P>
static __device__ void multiply_chunk(const frames_memory<P> &m, unsigned x, int &w_step, float (&sums)[P::SUMS])
{
    for (int i = 0; i < P::TAPS; i++, w_step++) {
        m.w_ring.wait_full(w_step);
        multiply_row<P>(shared_address(m.w_stage(w_step)), x + (unsigned)(i * X_SIDE * LINE), sums);
        if (threadIdx.x % WARP == 0)
            m.w_ring.release(w_step);
    }
}

/* The same for codes. row: the first of the two channels of this thread. */
template <typename P>
static __device__ void multiply_codes(const frames_task &f, const frames_memory<P> &m, unsigned x, int &w_step, int age,
                                      int row, float (&sums)[P::SUMS])
{
    const float *scales = f.scales + age * f.scales_apart + row;
    const float low = f.scale * __ldg(scales), high = f.scale * __ldg(scales + 8);
    float part[P::SUMS] = {};
    multiply_chunk<P>(m, x, w_step, part);
#pragma unroll
    for (int i = 0; i < P::SUMS; i++)
        sums[i] += (i / 2 % 2 ? high : low) * part[i];
}

template <typename P> static __device__ void multiply_all(const frames_task &f, const frames_memory<P> &m)
{
    const int thread = (int)threadIdx.x % WARPGROUP, half = (int)threadIdx.x / WARPGROUP;
    const int row = first_column() + thread / WARP * 16 + thread % WARP / 4;
    const uint4 no_mask[P::PIECES] = {};
    char *tile_memory = m.results + half * P::PIXELS * LINE;
    int x_step = 0, w_step = 0;
    for (int tile = (int)blockIdx.x; tile < f.w.tiles; tile += (int)gridDim.x) {
        place at = place_of_square(f.w, tile);
        at.x += half * TILE_WIDE;
        float sums[P::SUMS] = {};
        if (f.w.quick)
            start_residual<P>(f.w, at, tile_memory, thread);
        for (int age = 0; age < f.depth; age++)
            for (int chunk = 0; chunk < f.w.chunks; chunk++) {
                const int part = chunk % P::PARTS;
                if (part == 0)
                    m.x_ring.wait_full(x_step);
                const unsigned x = shared_address(m.x_stage(x_step)) +
                                   (unsigned)(half * TILE_WIDE * LINE + part * P::CHUNK * P::T::BYTES);
                if constexpr (P::CODES)
                    multiply_codes<P>(f, m, x, w_step, age, row, sums);
                else
                    multiply_chunk<P>(m, x, w_step, sums);
                if (part + 1 < P::PARTS && chunk + 1 < f.w.chunks)
                    continue;
                if (thread % WARP == 0)
                    m.x_ring.release(x_step);
                x_step++;
            }
        if (f.w.quick)
            write_quick<P>(f.w, at, sums, no_mask, tile_memory, thread);
        else
            write_slow<P>(f.w, at, sums, thread);
    }
}

template <typename P>
__global__ void __launch_bounds__(BLOCK, 1) conv_frames_wgmma(const __grid_constant__ frames_task f)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ __align__(1024) char zn_cuda_lines[];
    const frames_memory<P> m(zn_cuda_lines);
    if (threadIdx.x == 0) {
        m.x_ring.init(1, TURNS * WARPGROUP / WARP);
        m.w_ring.init(1, TURNS * WARPGROUP / WARP);
    }
    __syncthreads();
    if (threadIdx.x < TURNS * WARPGROUP)
        multiply_all<P>(f, m);
    else if (threadIdx.x == TURNS * WARPGROUP)
        copy_all<P>(f, m);
#else
    (void)f;
#endif
}

/* ---- launching ---- */

static bool describe_weights(frames_task &f, int box)
{
    wide_task &w = f.w;
    const int64_t columns = w.t.w.columns, rows = (int64_t)w.t.w.rows * f.depth, all = columns * rows;
    const int64_t size[] = { columns, rows, 1, 1 }, apart[] = { columns, all, all };
    return bulk_describe(&w.w_map, w.t.a.packed, w.t.a.x_type, size, apart, 1, box);
}

/* Sets the scales too. */
static bool describe_codes(frames_task &f)
{
    wide_task &w = f.w;
    const int64_t columns = w.t.w.columns, bytes = (int64_t)zn_cuda_code_bytes(&w.t.w),
                  each = bytes + columns * (int64_t)sizeof(float);
    const int64_t size[] = { ZN_CUDA_CODE_LINE, columns, w.t.w.rows, f.depth },
                  apart[] = { ZN_CUDA_CODE_LINE, ZN_CUDA_CODE_LINE * columns, each };
    f.scales = reinterpret_cast<const float *>(static_cast<const char *>(w.t.a.packed) + bytes);
    f.scales_apart = each / (int64_t)sizeof(float);
    return bulk_describe(&w.w_map, w.t.a.packed, ZN_TYPE_E4M3, size, apart, ZN_CUDA_WIDE_SIDE, ZN_CUDA_CONV_COLUMNS);
}

template <typename P> static void launch_plan(zn_device *d, frames_task &f, const float *before)
{
    wide_task &w = f.w;
    const zn_conv_shape &s = w.t.a.s;
    const int blocks = w.t.w.columns / ZN_CUDA_CONV_COLUMNS, most = d->processors > blocks ? d->processors / blocks : 1;
    const zn_type type = w.t.a.x_type;
    w.t.across = parts(s.ow, SQUARE);
    w.t.down = parts(s.oh, SQUARE);
    w.tiles = w.t.across * w.t.down * s.n;
    const bool described =
        bulk_map(&w.x_map, w.t.a.x, type, s.n, s.h, s.w, s.cin, X_SIDE, X_SIDE) &&
        (!f.kept || bulk_map(&f.before_map, before, type, f.kept, s.h, s.w, s.cin, X_SIDE, X_SIDE)) &&
        (P::CODES ? describe_codes(f) : describe_weights(f, P::BOX));
    zn_cuda_check(d, described ? cudaSuccess : cudaErrorInvalidValue, "a convolution over frames");
    launch(d, conv_frames_wgmma<P>, dim3((unsigned)(w.tiles < most ? w.tiles : most), (unsigned)blocks), BLOCK,
           P::SHARED, f);
}

/* P, Q: for chunks of 32 or 96 channels, and larger ones. */
template <typename P, typename Q>
static void run(zn_device *d, const void *args, zn_cuda_weights (*layout)(const zn_conv_shape *))
{
    const zn_conv_frames_args *from = static_cast<const zn_conv_frames_args *>(args);
    const float *before = from->before;
    frames_task f = {};
    f.w.t = conv_task_of(d, &from->a, layout);
    const zn_conv_args &a = f.w.t.a;
    f.w.chunks = (a.s.cin + f.w.t.w.chunk - 1) / f.w.t.w.chunk;
    f.w.quick = a.y_type != ZN_TYPE_F32 && (!a.residual || a.residual_type == a.y_type) && a.s.cout % 8 == 0 &&
                ((uintptr_t)a.y | (uintptr_t)a.residual) % 16 == 0;
    f.depth = from->depth;
    f.kept = before ? from->depth - 1 : 0;
    f.scale = from->scale;
    to_device(d, before);
    if (f.w.t.w.chunk == Q::CHUNK)
        launch_plan<Q>(d, f, before);
    else
        launch_plan<P>(d, f, before);
}

extern "C" {
void zn_cuda_conv_frames_bf16(zn_device *d, const void *args, int64_t)
{
    run<frames_plan<bf16_wide, 32>, frames_plan<bf16_wide, 64>>(d, args, zn_cuda_half_weights);
}
void zn_cuda_conv_frames_f16(zn_device *d, const void *args, int64_t)
{
    run<frames_plan<f16_wide, 32>, frames_plan<f16_wide, 64>>(d, args, zn_cuda_half_weights);
}
void zn_cuda_conv_frames_fp8(zn_device *d, const void *args, int64_t)
{
    run<frames_plan<e4m3_wide, 96>, frames_plan<e4m3_wide, 128>>(d, args, zn_cuda_code_weights);
}
}
