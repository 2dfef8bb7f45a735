/* Convolution with products of 16-bit numbers on Hopper GPUs, of maps of 16 bits, and of fp32 maps in full precision,
 * as three products of two parts of each number (conv_split.h). The transposed product is computed: rows are output
 * channels, columns are pixels, so that a matrix of weights is read for many pixels at once.
 *
 * A block stays on its multiprocessor and keeps the weights of 64 output channels in shared memory, unless there are
 * too many: then they are copied with each chunk of x. Four of its warps copy what a tile of 8 x HIGH pixels reads,
 * with the border, into one of several stages; two warpgroups take turns to multiply: one writes its result while the
 * other has the matrix unit. In a stage, a pixel is a line of 64 channels. Eight pixels that are neighbours in the
 * result are a group of lines for each tap (with a stride of 2, even columns come before odd ones), so every tap reads
 * the same stage, from another address.
 *
 * NORMED: what is read may be normalised (kernels/norm_conv.h). The warps that copy then change a stage in shared
 * memory when its pixels have arrived, one stage ahead of the multiplications.
 *
 * As in conv.cu, every sum has the same order for any position of its pixel and any tile. */
#include "kernels/cuda/basic/unpack.h"
#include "kernels/cuda/conv/conv_normed.h"
#include "kernels/cuda/conv/conv_split.h"
#include "kernels/cuda/early.h"

/* Shared memory: weights, stages, and for each turn a tile of results. */
template <typename P> struct wide_memory {
    char *weights, *stages, *results;
    ring r;
    split_words *words;
    __device__ wide_memory(const wide_task &w, char *start)
    {
        weights = start;
        stages = weights + w.kept * LINE;
        results = stages + w.stages * w.bytes;
        r = ring_at(results + P::RESULTS, w.stages);
        words = reinterpret_cast<split_words *>(results + P::RESULTS + RING_BYTES);
    }
};

/* Bytes of the ring and of the words after it; NORMED: and of a barrier for the pixels of each step. */
enum { WORDS_BYTES = RING_BYTES + sizeof(split_words), RAW_BYTES = RING_STEPS * 8 };
static_assert((int)sizeof(split_words) % 8 == 0, "barriers follow");

/* ---- copying ---- */

/* Starts the copies of a chunk of the channels that a tile reads. */
template <typename P>
static __device__ void copy_stage(const wide_task &w, const place &at, int chunk, char *stage, int thread)
{
    enum { PIECES = P::CHUNK / 8, STEP = WARPGROUP / PIECES };
    const zn_conv_shape &s = w.t.a.s;
    const int piece = thread % PIECES, channel = chunk * P::CHUNK + piece * 8, up = s.up2 && !P::UP ? 1 : 0;
    const int top = at.y * P::STRIDE - s.pad, left = at.x * P::STRIDE - s.pad;
    const int64_t image = (int64_t)at.image * s.h;
    const uint16_t *map = reinterpret_cast<const uint16_t *>(w.t.a.x);
    const unsigned to = shared_address(stage);
#pragma unroll 4
    for (int pixel = thread / PIECES; pixel < P::X_WIDE * P::X_HIGH; pixel += STEP) {
        const int y = pixel / P::X_WIDE, x = pixel % P::X_WIDE, iy = top + y, ix = left + x;
        const bool is_there = channel < s.cin && iy >= 0 && ix >= 0 && iy < s.h << up && ix < s.w << up;
        const int64_t from = ((image + (iy >> up)) * s.w + (ix >> up)) * s.cin + channel;
        copy_piece(to + piece_at(P::line_of(y, x), piece), map + (is_there ? from : 0), is_there);
    }
}

/* Starts the copies of rows of weights by a number of threads. */
[[maybe_unused]] static __device__ void copy_weights(const wide_task &w, int first, int rows, char *to, int thread,
                                                     int threads)
{
    const uint16_t *from =
        static_cast<const uint16_t *>(w.t.a.packed) + (int64_t)first * w.t.w.columns + first_column() + thread % 8 * 8;
    const unsigned start = shared_address(to);
    for (int row = thread / 8; row < rows; row += threads / 8)
        copy_piece(start + piece_at(row, thread % 8), from + (int64_t)row * w.t.w.columns, true);
}

/* The same in two parts: the numbers are on their way to registers while the stage is still in use. */
template <typename P>
static __device__ void split_stage(const wide_task &w, const place &at, int chunk, const wide_memory<P> &m, int step,
                                   int thread)
{
    split_part<P> part;
    part.load(w, at, chunk, thread);
    const int exponent = part.exponent(*m.words, step, thread);
    m.r.wait_empty(step);
    part.store(m.stages + step % w.stages * w.bytes, power_of_two(exponent), thread);
    if (thread == 0)
        m.words->units[step % w.stages] = power_of_two(-exponent);
}

/* The warps that copy: a stage for every chunk of every tile of this block. */
template <typename P> static __device__ void copy_all(const wide_task &w, const wide_memory<P> &m)
{
    const int thread = (int)threadIdx.x % WARPGROUP;
    const unsigned bytes =
        (w.bulk ? (unsigned)(P::X_WIDE * P::X_HIGH * LINE) : 0) + (w.bulk_weights ? (unsigned)(P::ROWS * LINE) : 0);
    int step = 0;
    for (int tile = (int)blockIdx.x; tile < w.tiles; tile += (int)gridDim.x) {
        const place at = place_of_tile<P>(w, tile);
        for (int chunk = 0; chunk < w.chunks; chunk++, step++) {
            char *stage = m.stages + step % w.stages * w.bytes;
            if constexpr (P::SPLIT) {
                split_stage<P>(w, at, chunk, m, step, thread);
            } else {
                m.r.wait_empty(step);
                if (!w.bulk)
                    copy_stage<P>(w, at, chunk, stage, thread);
            }
            if (!w.kept && !w.bulk_weights)
                copy_weights(w, chunk * P::ROWS, P::ROWS, stage + P::X_BYTES, thread, WARPGROUP);
            m.r.publish(step, thread == 0 ? bytes : 0);
            if (w.bulk && thread == 0)
                bulk_copy(stage, &w.x_map, chunk * P::CHUNK, at.x - w.t.a.s.pad, at.y - w.t.a.s.pad, at.image,
                          m.r.full_of(step));
            for (int i = 0; i < P::TAPS && w.bulk_weights && thread == 0; i++)
                bulk_copy(stage + P::X_BYTES + i * P::BOX * LINE, &w.w_map, first_column(),
                          chunk * P::ROWS + i * P::BOX, 0, 0, m.r.full_of(step));
        }
    }
}

/* ---- copying what is normalised ---- */

/* The steps of the warps that copy: a stage is empty, its pixels and weights are on their way, its pixels have arrived
 * (raw), it is normalised (full). */
template <typename P> struct normed_steps {
    const wide_task &w;
    const wide_memory<P> &m;
    uint64_t *raw;
    int thread;
    __device__ normed_steps(const wide_task &task, const wide_memory<P> &memory, int index)
        : w(task), m(memory), raw(reinterpret_cast<uint64_t *>(memory.words + 1)), thread(index)
    {
    }
    /* Called by one thread, before a barrier of the block. */
    __device__ void init(void) const
    {
        for (int i = 0; i < RING_STEPS; i++) {
            barrier_init(&m.r.full[i], WARPGROUP + 1);
            barrier_init(&m.r.empty[i], WARPGROUP / WARP);
            barrier_init(&raw[i], 1);
        }
        publish_shared();
    }
    __device__ int count(void) const
    {
        const int tiles = w.tiles - (int)blockIdx.x, each = (int)gridDim.x;
        return tiles > 0 ? (tiles + each - 1) / each * w.chunks : 0;
    }
    __device__ place place_of(int step) const
    {
        return place_of_tile<P>(w, (int)blockIdx.x + step / w.chunks * (int)gridDim.x);
    }
    /* Called by one thread: starts the copies of a step. */
    __device__ void start(int step) const
    {
        const place at = place_of(step);
        const int chunk = step % w.chunks, channel = chunk * P::CHUNK, pad = w.t.a.s.pad;
        const bool more = channel >= w.split;
        char *const stage = m.stages + step % w.stages * w.bytes;
        uint64_t *const landed = &raw[step % RING_STEPS];
        m.r.wait_empty(step);
        barrier_arrive_expecting(landed, P::X_WIDE * P::X_HIGH * LINE);
        bulk_copy(stage, more ? &w.more_map : &w.x_map, more ? channel - w.split : channel, at.x - pad, at.y - pad,
                  at.image, landed);
        if (w.kept) {
            barrier_arrive(m.r.full_of(step));
            return;
        }
        barrier_arrive_expecting(m.r.full_of(step), P::ROWS * LINE);
        for (int i = 0; i < P::TAPS; i++)
            bulk_copy(stage + P::X_BYTES + i * P::BOX * LINE, &w.w_map, first_column(), chunk * P::ROWS + i * P::BOX, 0,
                      0, m.r.full_of(step));
    }
    __device__ void normalise(int step) const
    {
        const place at = place_of(step);
        const int first = step % w.chunks * P::CHUNK + thread % 8 * 8;
        factors_of_piece f;
        f.load(reinterpret_cast<const factor *>(w.factors) + (int64_t)at.image * w.t.a.s.cin + first, w.silu);
        barrier_wait(&raw[step % RING_STEPS], step / RING_STEPS);
        normalise_tile<P>(m.stages + step % w.stages * w.bytes, w.t.a.s, at, f, w.silu, thread, WARPGROUP);
        publish_shared();
        barrier_arrive(m.r.full_of(step));
    }
    /* A stage is copied again as soon as it is read, after the next one has been normalised. */
    __device__ void run(void) const
    {
        const int steps = count(), ahead = w.stages - 1;
        for (int step = 0; step < ahead && step < steps && thread == 0; step++)
            start(step);
        for (int step = 0; step < steps; step++) {
            normalise(step);
            if (thread == 0 && step + ahead < steps)
                start(step + ahead);
            __syncwarp();
        }
    }
};

/* ---- multiplying ---- */

/* Adds the products of a stage. */
template <typename P> static __device__ void multiply_stage(unsigned weights, unsigned stage, float (&sums)[P::SUMS])
{
    const unsigned group = P::STRIDE * P::X_WIDE * LINE;
    wgmma_begin();
#pragma unroll
    for (int tap = 0; tap < P::TAPS * P::TAPS; tap++) {
        const unsigned from = stage + (unsigned)P::line_of(tap / P::TAPS, tap % P::TAPS) * LINE;
#pragma unroll
        for (int k = 0; k < P::CHUNK / 16; k++, weights += 16 * LINE)
            P::T::multiply(sums, matrix_at(weights, 16, 8 * LINE), matrix_at(from + (unsigned)k * 32, 16, group));
    }
    wgmma_commit();
    wgmma_wait<0>();
}

template <typename P, bool NORMED> static __device__ void multiply_all(const wide_task &w, const wide_memory<P> &m)
{
    const int thread = (int)threadIdx.x % WARPGROUP, turn = (int)threadIdx.x / WARPGROUP;
    const unsigned weights = shared_address(m.weights), stages = shared_address(m.stages);
    const unsigned skip = (unsigned)P::line_of(phase_of<P>(w) / 2, phase_of<P>(w) % 2) * LINE; /* to the first tap */
    char *tile_memory = m.results + turn * P::PIXELS * LINE;
    [[maybe_unused]] split_rows rows = {};
    if constexpr (P::SPLIT)
        rows = split_rows_of(w, thread);
    copy_weights(w, 0, w.kept, m.weights, (int)threadIdx.x, TURNS * WARPGROUP);
    copy_commit();
    copy_wait<0>();
    publish_shared();
    meet(TURNS_MEET, TURNS * WARPGROUP);
    int step = turn * w.chunks;
    for (int tile = (int)blockIdx.x + turn * (int)gridDim.x; tile < w.tiles; tile += TURNS * (int)gridDim.x) {
        const place at = place_of_tile<P>(w, tile);
        float sums[P::SUMS] = {};
        uint4 mask[P::PIECES];
        if (!P::SPLIT && w.quick) {
            start_residual<P>(w, at, tile_memory, thread);
            load_mask<P>(w, at, mask, thread);
        }
        for (int chunk = 0; chunk < w.chunks; chunk++, step++) {
            m.r.wait_full(step);
            const unsigned stage = stages + (unsigned)(step % w.stages * w.bytes);
            const unsigned from = w.kept ? weights + (unsigned)(chunk * P::ROWS * LINE) : stage + P::X_BYTES;
            if constexpr (P::SPLIT) {
                multiply_parts<P>(from, stage + skip, rows.times(m.words->units[step % w.stages]), sums);
            } else {
                multiply_stage<P>(from, stage + skip, sums);
            }
            if (thread % WARP == 0)
                m.r.release(step);
        }
        step += (TURNS - 1) * w.chunks;
        if constexpr (P::SPLIT)
            write_floats<P>(w, at, sums, thread);
        else if (w.quick)
            write_quick<P, NORMED>(w, at, sums, mask, tile_memory, thread);
        else
            write_slow<P>(w, at, sums, thread);
    }
}

template <typename P, bool NORMED>
__global__ void __launch_bounds__(BLOCK, 1) conv_wgmma(const __grid_constant__ wide_task w)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    wait_for_last();
    extern __shared__ __align__(1024) char zn_cuda_lines[];
    const wide_memory<P> m(w, zn_cuda_lines);
    if (threadIdx.x == 0) {
        if (NORMED && w.factors)
            normed_steps<P>(w, m, 0).init();
        else
            m.r.init(WARPGROUP, WARPGROUP / WARP);
    }
    __syncthreads();
    if (threadIdx.x < TURNS * WARPGROUP) {
        if constexpr (P::SPLIT) /* two sets of sums */
            take_registers<192>();
        multiply_all<P, NORMED>(w, m);
    } else {
        if constexpr (P::SPLIT)
            give_registers<120>();
        if constexpr (NORMED)
            if (w.factors)
                return normed_steps<P>(w, m, (int)threadIdx.x % WARPGROUP).run();
        copy_all<P>(w, m);
    }
#else
    (void)w;
#endif
}

/* ---- launching ---- */

/* Keeps all weights if two stages fit besides them. */
template <typename P, bool NORMED> static bool plan_memory(const zn_device *d, wide_task &w)
{
    const int left = d->shared - WORDS_BYTES - (NORMED ? RAW_BYTES : 0) - P::RESULTS;
    w.kept = w.t.w.rows * LINE + 2 * P::X_BYTES <= left ? w.t.w.rows : 0;
    w.bytes = P::X_BYTES + (w.kept ? 0 : P::ROWS * LINE);
    w.stages = (left - w.kept * LINE) / w.bytes;
    w.stages = w.stages < MOST_STAGES ? w.stages : MOST_STAGES;
    return w.stages >= 2;
}

/* Describes the map beside x, if there is one. */
template <typename P> static bool map_more(wide_task &w)
{
    const zn_conv_shape &s = w.t.a.s;
    return !w.more || bulk_map(&w.more_map, w.more, w.t.a.x_type, s.n, s.h, s.w, s.cin - w.split, P::X_HIGH, P::X_WIDE);
}

/* must_fill: does not launch unless the tiles keep the GPU busy and are not half empty. */
template <typename P, bool NORMED = false> static bool launch_plan(zn_device *d, wide_task &w, bool must_fill)
{
    const zn_conv_shape &s = w.t.a.s;
    /* All blocks run at once: one more than there are multiprocessors would double the time. */
    const int blocks = w.t.w.columns / ZN_CUDA_CONV_COLUMNS, most = d->processors > blocks ? d->processors / blocks : 1;
    w.t.across = parts(P::UP ? s.w : s.ow, TILE_WIDE);
    w.t.down = parts(P::UP ? s.h : s.oh, P::TILE_ROWS);
    w.tiles = w.t.across * w.t.down * s.n;
    if (!plan_memory<P, NORMED>(d, w) ||
        (must_fill && (2 * (P::UP ? s.h : s.oh) <= P::TILE_ROWS || w.tiles * 10 < most * 9)))
        return false;
    w.bulk =
        !P::SPLIT && s.stride == 1 && (P::UP || !s.up2) &&
        bulk_map(&w.x_map, w.t.a.x, w.t.a.x_type, s.n, s.h, s.w, w.factors ? w.split : s.cin, P::X_HIGH, P::X_WIDE);
    const int64_t columns = w.t.w.columns, all = columns * w.t.w.rows;
    const int64_t weights[] = { columns, w.t.w.rows, 1, 1 }, apart[] = { columns, all, all };
    w.bulk_weights = !w.kept && bulk_describe(&w.w_map, w.t.a.packed, P::SPLIT ? ZN_TYPE_F16 : w.t.a.x_type, weights,
                                              apart, 1, P::BOX);
    if (NORMED && (!w.bulk || !(w.kept || w.bulk_weights) || !map_more<P>(w)))
        return false;
    const size_t shared =
        (size_t)(w.kept * LINE + w.stages * w.bytes + P::RESULTS + WORDS_BYTES + (NORMED ? RAW_BYTES : 0));
    launch_early(d, conv_wgmma<P, NORMED>, dim3((unsigned)(w.tiles < most ? w.tiles : most), (unsigned)blocks), BLOCK,
                 shared, w);
    return true;
}

template <typename T, int CHUNK> static void launch_size(zn_device *d, wide_task &w)
{
    if (w.t.a.s.stride == 2)
        launch_plan<wide_plan<T, CHUNK, 2, 8>>(d, w, true) || launch_plan<wide_plan<T, CHUNK, 2, 4>>(d, w, false);
    else
        launch_plan<wide_plan<T, CHUNK, 1, 16>>(d, w, true) || launch_plan<wide_plan<T, CHUNK, 1, 8>>(d, w, true) ||
            launch_plan<wide_plan<T, CHUNK, 1, 4>>(d, w, false);
}

template <typename T, int CHUNK> static void launch_up(zn_device *d, wide_task &w)
{
    launch_plan<wide_plan<T, CHUNK, 1, 16, true>>(d, w, true) ||
        launch_plan<wide_plan<T, CHUNK, 1, 8, true>>(d, w, true) ||
        launch_plan<wide_plan<T, CHUNK, 1, 4, true>>(d, w, false);
}

/* Rounds maps of fp32 first: in the threads that copy it would take longer than the multiplications. */
template <typename T> static void run(zn_device *d, const void *args, zn_type type, bool up)
{
    wide_task w = {};
    w.t = conv_task_of(d, args, up ? zn_cuda_up_weights : zn_cuda_half_weights);
    zn_conv_args &a = w.t.a;
    to_device(d, a.workspace);
    a.x = static_cast<const float *>(
        zn_cuda_rounded(d, a.x, a.x_type, (int64_t)a.s.n * a.s.h * a.s.w * a.s.cin, type, a.workspace));
    a.x_type = type;
    w.chunks = (a.s.cin + w.t.w.chunk - 1) / w.t.w.chunk;
    w.quick = a.y_type != ZN_TYPE_F32 && (!a.residual || a.residual_type == a.y_type) && a.s.cout % 8 == 0 &&
              ((uintptr_t)a.y | (uintptr_t)a.residual | (uintptr_t)a.mask) % 16 == 0;
    const bool large = w.t.w.chunk == 64;
    if (up)
        large ? launch_up<T, 64>(d, w) : launch_up<T, 32>(d, w);
    else
        large ? launch_size<T, 64>(d, w) : launch_size<T, 32>(d, w);
}

static void run_split(zn_device *d, const void *args, bool up)
{
    wide_task w = {};
    w.t = conv_task_of(d, args, up ? zn_cuda_split_up_weights : zn_cuda_split_weights);
    w.chunks = parts(w.t.a.s.cin, w.t.w.chunk);
    if (up)
        launch_up<split_wide, ZN_CUDA_SPLIT_CHUNK>(d, w);
    else
        launch_size<split_wide, ZN_CUDA_SPLIT_CHUNK>(d, w);
}

/* ---- what is normalised ---- */

template <int ROWS, bool UP> static bool launch_normed(zn_device *d, wide_task &w)
{
    return launch_plan<wide_plan<bf16_wide, 64, 1, ROWS, UP>, true>(d, w, false);
}

template <bool UP> static void run_normed(zn_device *d, const void *args)
{
    const zn_norm_conv_args &given = *static_cast<const zn_norm_conv_args *>(args);
    const norm_source s = norm_source_of(d, given);
    const int rows = zn_cuda_wide_rows(&given.a.s);
    wide_task w = {};
    w.t = conv_task_of(d, &given.a, UP ? zn_cuda_up_weights : zn_cuda_half_weights);
    w.chunks = w.t.a.s.cin / w.t.w.chunk;
    w.quick = true;
    w.measured = given.measured;
    to_device(d, w.measured);
    if (s.is_there()) {
        merge_measured(d, s);
        w.factors = reinterpret_cast<const float2 *>(s.n.table);
        w.more = s.n.more;
        w.split = s.split();
        w.silu = s.n.act == ZN_ACT_SILU;
    }
    const bool done = has_narrow_maps(given.a) && (rows == 16  ? launch_normed<16, UP>(d, w)
                                                   : rows == 8 ? launch_normed<8, UP>(d, w)
                                                               : launch_normed<4, UP>(d, w));
    if (!done)
        zn_cuda_check(d, cudaErrorInvalidValue, "maps of 16 bits");
}

extern "C" {
void zn_cuda_norm_conv(zn_device *d, const void *args, int64_t) { run_normed<false>(d, args); }
void zn_cuda_norm_conv_up(zn_device *d, const void *args, int64_t) { run_normed<true>(d, args); }
void zn_cuda_conv_split(zn_device *d, const void *args, int64_t) { run_split(d, args, false); }
void zn_cuda_conv_split_up(zn_device *d, const void *args, int64_t) { run_split(d, args, true); }
void zn_cuda_conv_wgmma_bf16(zn_device *d, const void *args, int64_t) { run<bf16_wide>(d, args, ZN_TYPE_BF16, false); }
void zn_cuda_conv_wgmma_f16(zn_device *d, const void *args, int64_t) { run<f16_wide>(d, args, ZN_TYPE_F16, false); }
void zn_cuda_conv_up_bf16(zn_device *d, const void *args, int64_t) { run<bf16_wide>(d, args, ZN_TYPE_BF16, true); }
void zn_cuda_conv_up_f16(zn_device *d, const void *args, int64_t) { run<f16_wide>(d, args, ZN_TYPE_F16, true); }
}
