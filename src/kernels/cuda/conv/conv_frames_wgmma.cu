/* Causal convolution over frames on Hopper GPUs, of maps of 16 bits (conv_wgmma.cu: over one frame). Sums stay in
 * registers over all frames of the kernel.
 *
 * The weights are too many to stay in shared memory, so two warpgroups share them: a block computes 64 channels of
 * 16x16 pixels, and each warpgroup has the left or the right half. One thread copies: 64 channels of what a tile reads
 * of a frame, with the border, into one ring, and the weights of three taps at a time into another. Frames before the
 * first are outside of the map, where the copy engine writes zeros. The same tile of the frames of a piece follow each
 * other, so that what several of them read comes from the cache.
 *
 * Sums have the order of conv_wgmma.cu, from the newest frame to the oldest. */
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
        PARTS = LINE / 2 / CHUNK_,  /* chunks of a line of pixels */
        W_BYTES = wide::BOX * LINE, /* of a stage of weights */
        W_STAGES = W_STAGE_BYTES / W_BYTES,
        RESULTS = TURNS * wide::PIXELS * LINE,
        SHARED = X_STAGES * X_STAGE + W_STAGES * W_BYTES + RESULTS + 2 * RING_BYTES
    };
};

struct frames_task {
    wide_task w;
    CUtensorMap before_map; /* the frames before x */
    int depth;              /* frames that a result reads */
    int kept;               /* frames before x that there are */
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

/* The thread that copies. */
template <typename P> static __device__ void copy_all(const frames_task &f, const frames_memory<P> &m)
{
    int x_step = 0, w_step = 0;
    for (int tile = (int)blockIdx.x; tile < f.w.tiles; tile += (int)gridDim.x) {
        const place at = place_of_square(f.w, tile);
        for (int age = 0, row = 0; age < f.depth; age++) {
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
                for (int i = 0; i < P::TAPS; i++, row += P::BOX, w_step++) {
                    m.w_ring.wait_empty(w_step);
                    m.w_ring.publish(w_step, P::W_BYTES);
                    bulk_copy(m.w_stage(w_step), &f.w.w_map, first_column(), row, 0, 0, m.w_ring.full_of(w_step));
                }
            }
        }
    }
}

/* Adds the products of three taps; x: the first of them. */
template <typename P> static __device__ void multiply_row(unsigned weights, unsigned x, float (&sums)[P::SUMS])
{
    wgmma_begin();
#pragma unroll
    for (int tap = 0; tap < P::TAPS; tap++)
#pragma unroll
        for (int k = 0; k < P::CHUNK / 16; k++, weights += 16 * LINE)
            P::T::multiply(sums, matrix_at(weights, 16, 8 * LINE),
                           matrix_at(x + (unsigned)(tap * LINE + k * 32), 16, X_SIDE * LINE));
    wgmma_commit();
    wgmma_wait<0>();
}

template <typename P> static __device__ void multiply_all(const frames_task &f, const frames_memory<P> &m)
{
    const int thread = (int)threadIdx.x % WARPGROUP, half = (int)threadIdx.x / WARPGROUP;
    const bool releases = thread % WARP == 0;
    const uint4 no_mask[P::PIECES] = {};
    char *tile_memory = m.results + half * P::PIXELS * LINE;
    int x_step = 0, w_step = 0;
    for (int tile = (int)blockIdx.x; tile < f.w.tiles; tile += (int)gridDim.x) {
        place at = place_of_square(f.w, tile);
        at.x += half * TILE_WIDE;
        float sums[P::SUMS] = {};
        start_residual<P>(f.w, at, tile_memory, thread);
        for (int age = 0; age < f.depth; age++)
            for (int chunk = 0; chunk < f.w.chunks; chunk++) {
                const int part = chunk % P::PARTS;
                if (part == 0)
                    m.x_ring.wait_full(x_step);
                const unsigned x =
                    shared_address(m.x_stage(x_step)) + (unsigned)(half * TILE_WIDE * LINE + part * P::CHUNK * 2);
                for (int i = 0; i < P::TAPS; i++, w_step++) {
                    m.w_ring.wait_full(w_step);
                    multiply_row<P>(shared_address(m.w_stage(w_step)), x + (unsigned)(i * X_SIDE * LINE), sums);
                    if (releases)
                        m.w_ring.release(w_step);
                }
                if (part + 1 < P::PARTS && chunk + 1 < f.w.chunks)
                    continue;
                if (releases)
                    m.x_ring.release(x_step);
                x_step++;
            }
        write_quick<P>(f.w, at, sums, no_mask, tile_memory, thread);
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

template <typename P> static void launch_plan(zn_device *d, frames_task &f, const float *before)
{
    wide_task &w = f.w;
    const zn_conv_shape &s = w.t.a.s;
    const int blocks = w.t.w.columns / ZN_CUDA_CONV_COLUMNS, most = d->processors > blocks ? d->processors / blocks : 1;
    const int64_t columns = w.t.w.columns, rows = (int64_t)w.t.w.rows * f.depth, all = columns * rows;
    const int64_t weights[] = { columns, rows, 1, 1 }, apart[] = { columns, all, all };
    const zn_type type = w.t.a.x_type;
    w.t.across = parts(s.ow, SQUARE);
    w.t.down = parts(s.oh, SQUARE);
    w.tiles = w.t.across * w.t.down * s.n;
    const bool described =
        bulk_map(&w.x_map, w.t.a.x, type, s.n, s.h, s.w, s.cin, X_SIDE, X_SIDE) &&
        (!f.kept || bulk_map(&f.before_map, before, type, f.kept, s.h, s.w, s.cin, X_SIDE, X_SIDE)) &&
        bulk_describe(&w.w_map, w.t.a.packed, type, weights, apart, 1, P::BOX);
    zn_cuda_check(d, described ? cudaSuccess : cudaErrorInvalidValue, "a convolution over frames");
    launch(d, conv_frames_wgmma<P>, dim3((unsigned)(w.tiles < most ? w.tiles : most), (unsigned)blocks), BLOCK,
           P::SHARED, f);
}

template <typename T> static void run(zn_device *d, const void *args)
{
    const zn_conv_frames_args *from = static_cast<const zn_conv_frames_args *>(args);
    const float *before = from->before;
    frames_task f = {};
    f.w.t = conv_task_of(d, &from->a, zn_cuda_half_weights);
    f.w.chunks = (f.w.t.a.s.cin + f.w.t.w.chunk - 1) / f.w.t.w.chunk;
    f.depth = from->depth;
    f.kept = before ? from->depth - 1 : 0;
    to_device(d, before);
    if (f.w.t.w.chunk == 64)
        launch_plan<frames_plan<T, 64>>(d, f, before);
    else
        launch_plan<frames_plan<T, 32>>(d, f, before);
}

extern "C" {
void zn_cuda_conv_frames_bf16(zn_device *d, const void *args, int64_t) { run<bf16_wide>(d, args); }
void zn_cuda_conv_frames_f16(zn_device *d, const void *args, int64_t) { run<f16_wide>(d, args); }
}
