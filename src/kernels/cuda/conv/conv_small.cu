/* Convolution as in conv_wgmma.cu, of small maps of many channels in networks that are never cut into tiles. Tiles are
 * too few there for all multiprocessors, and each would read all weights of its channels one chunk after the other.
 * Here thread blocks share the input channels of a tile. Each writes its sums to memory, and the one that is last adds
 * them up, in the order of the channels, and writes the result (zn_cuda_small_plan).
 *
 * What is read may be normalised in shared memory (kernels/norm_conv.h): each block computes the factors of its
 * channels from what was measured, while its first copies are on their way.
 *
 * A block has the weights of one chunk in shared memory, a part for each row of taps, and up to two chunks of pixels.
 * Its warpgroups have rows of the tile each. */
#include "kernels/cuda/basic/unpack.h"
#include "kernels/cuda/conv/conv_normed.h"
#include "kernels/cuda/conv/conv_wide.h"
#include "kernels/cuda/early.h"

extern "C" {
#include "kernels/cuda/conv/conv_small.h"
}

enum { GROUPS = 2 /* warpgroups */, SMALL_BLOCK = GROUPS * WARPGROUP, WORDS = 64 /* bytes of barriers and order */ };
static_assert((int)ZN_CUDA_SMALL_BLOCKS <= 2 * (int)ZN_CUDA_ARRIVED, "a counter for each tile");

struct small_task {
    wide_task w;
    int splits, each; /* blocks of a tile; chunks of a block, of which the last one may have fewer */
    float4 *partial;
    unsigned *arrived; /* blocks of each tile, 0 before and after */
    norm_source norm;
    CUtensorMap more_map; /* norm.n.more */
};

/* HIGH: rows of a warpgroup. */
template <typename T, int HIGH> struct small_tile {
    typedef wide_plan<T, 64, 1, HIGH> part;           /* of a warpgroup */
    typedef wide_plan<T, 64, 1, GROUPS * HIGH> whole; /* of a block */
    enum {
        PART_BYTES = part::BOX * LINE, /* of the weights of a row of taps */
        WEIGHTS = part::TAPS * PART_BYTES,
        RESULTS = part::PIXELS * LINE, /* of a warpgroup; in place of the first pixels */
        BARRIERS = part::TAPS + 2
    };
    static_assert((BARRIERS + 1) * 8 <= (int)WORDS, "words fit");
    static_assert((int)GROUPS * RESULTS <= (int)whole::X_BYTES, "results fit");
};

/* Shared memory: weights, one or two chunks of pixels, barriers, factors of all channels of the block. */
template <typename S> struct small_memory {
    char *weights, *pixels;
    uint64_t *weights_full, *pixels_full; /* of each row of taps; of each chunk of pixels */
    unsigned *order;                      /* how many blocks had arrived before this one */
    factor *factors;
    __device__ small_memory(char *start, int chunks)
    {
        weights = start;
        pixels = weights + S::WEIGHTS;
        weights_full = reinterpret_cast<uint64_t *>(pixels + (chunks > 1 ? 2 : 1) * S::whole::X_BYTES);
        pixels_full = weights_full + S::part::TAPS;
        order = reinterpret_cast<unsigned *>(pixels_full + 2);
        factors = reinterpret_cast<factor *>(reinterpret_cast<char *>(weights_full) + WORDS);
    }
};

/* ---- copying: by one thread ---- */

template <typename S>
static __device__ void start_weights(const small_task &t, const small_memory<S> &m, int chunk, int row)
{
    barrier_arrive_expecting(&m.weights_full[row], S::PART_BYTES);
    bulk_copy(m.weights + row * S::PART_BYTES, &t.w.w_map, first_column(), chunk * S::part::ROWS + row * S::part::BOX,
              0, 0, &m.weights_full[row]);
}

template <typename S>
static __device__ void start_pixels(const small_task &t, const small_memory<S> &m, const place &at, int chunk, int slot)
{
    const int pad = t.w.t.a.s.pad, channel = chunk * S::part::CHUNK;
    const bool more = t.norm.n.more && channel >= t.norm.n.split;
    barrier_arrive_expecting(&m.pixels_full[slot], S::whole::X_WIDE * S::whole::X_HIGH * LINE);
    bulk_copy(m.pixels + slot * S::whole::X_BYTES, more ? &t.more_map : &t.w.x_map,
              more ? channel - t.norm.n.split : channel, at.x - pad, at.y - pad, at.image, &m.pixels_full[slot]);
}

/* ---- normalising ---- */

/* Chunk `i` of the block, which has arrived. */
template <typename S>
static __device__ void normalise_chunk(const small_task &t, const small_memory<S> &m, const place &at, int i)
{
    const bool silu = t.norm.n.act == ZN_ACT_SILU;
    factors_of_piece f;
    f.load(m.factors + i * S::part::CHUNK + threadIdx.x % 8 * 8, silu);
    normalise_tile<typename S::whole>(m.pixels + i % 2 * S::whole::X_BYTES, t.w.t.a.s, at, f, silu, (int)threadIdx.x,
                                      SMALL_BLOCK);
    publish_shared();
    __syncthreads();
}

/* ---- multiplying ---- */

/* Adds the products of a row of taps. */
template <typename P> static __device__ void multiply_row(unsigned weights, unsigned pixels, float (&sums)[P::SUMS])
{
    const unsigned group = P::X_WIDE * LINE;
    wgmma_begin();
#pragma unroll
    for (int tap = 0; tap < P::TAPS; tap++)
#pragma unroll
        for (int k = 0; k < P::CHUNK / 16; k++, weights += 16 * LINE)
            P::T::multiply(sums, matrix_at(weights, 16, 8 * LINE),
                           matrix_at(pixels + (unsigned)tap * LINE + (unsigned)k * 32, 16, group));
    wgmma_commit();
}

/* All chunks of a block. What has been read is copied anew for the next chunk. */
template <typename S>
static __device__ void multiply_chunks(const small_task &t, const small_memory<S> &m, const place &at, int first,
                                       int count, float (&sums)[S::part::SUMS])
{
    typedef typename S::part P;
    const int group = (int)threadIdx.x / WARPGROUP;
    const unsigned weights = shared_address(m.weights);
    for (int i = 0; i < count; i++) {
        const unsigned pixels =
            shared_address(m.pixels) + (unsigned)(i % 2 * S::whole::X_BYTES + group * P::TILE_ROWS * P::X_WIDE * LINE);
        const bool more = i + 1 < count;
        barrier_wait(&m.pixels_full[i % 2], i / 2);
        if (t.norm.is_there())
            normalise_chunk(t, m, at, i);
#pragma unroll
        for (int row = 0; row < P::TAPS; row++) {
            barrier_wait(&m.weights_full[row], i);
            multiply_row<P>(weights + (unsigned)(row * S::PART_BYTES), pixels + (unsigned)(row * P::X_WIDE * LINE),
                            sums);
            if (more && row > 0) {
                wgmma_wait<1>();
                __syncthreads();
                if (threadIdx.x == 0)
                    start_weights(t, m, first + i + 1, row - 1);
            }
        }
        wgmma_wait<0>();
        if (more) {
            __syncthreads();
            if (threadIdx.x == 0) {
                start_weights(t, m, first + i + 1, P::TAPS - 1);
                if (i + 2 < count)
                    start_pixels(t, m, at, first + i + 2, i % 2);
            }
        }
    }
}

/* ---- adding up ---- */

/* Where the sums of a block of this tile begin, for this thread. */
template <typename P> static __device__ float4 *sums_left(const small_task &t, int split)
{
    const int64_t block = ((int64_t)blockIdx.y * gridDim.x + blockIdx.x) * t.splits + split;
    return t.partial + (block * (P::SUMS / 4) * SMALL_BLOCK + threadIdx.x);
}

/* Leaves the sums in memory; true in the block that is the last of its tile. */
template <typename S>
static __device__ bool leave_sums(const small_task &t, const small_memory<S> &m, const float (&sums)[S::part::SUMS])
{
    unsigned *const arrived = &t.arrived[blockIdx.y * gridDim.x + blockIdx.x];
    float4 *const to = sums_left<typename S::part>(t, (int)blockIdx.z);
#pragma unroll
    for (int i = 0; i < S::part::SUMS / 4; i++)
        to[i * SMALL_BLOCK] = make_float4(sums[4 * i], sums[4 * i + 1], sums[4 * i + 2], sums[4 * i + 3]);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0)
        *m.order = atomicAdd(arrived, 1u);
    __syncthreads();
    const bool last = *m.order == (unsigned)t.splits - 1;
    if (last && threadIdx.x == 0)
        *arrived = 0; /* for the next convolution */
    __threadfence();
    return last;
}

template <typename P> static __device__ void add_sums(const small_task &t, float (&sums)[P::SUMS])
{
#pragma unroll
    for (int i = 0; i < P::SUMS; i++)
        sums[i] = 0;
#pragma unroll 2
    for (int split = 0; split < t.splits; split++) {
        const float4 *from = sums_left<P>(t, split);
        float4 v[P::SUMS / 4];
#pragma unroll
        for (int i = 0; i < P::SUMS / 4; i++)
            v[i] = __ldcg(from + i * SMALL_BLOCK);
#pragma unroll
        for (int i = 0; i < P::SUMS / 4; i++) {
            sums[4 * i] += v[i].x;
            sums[4 * i + 1] += v[i].y;
            sums[4 * i + 2] += v[i].z;
            sums[4 * i + 3] += v[i].w;
        }
    }
}

template <typename S> __global__ void __launch_bounds__(SMALL_BLOCK, 1) conv_small(const __grid_constant__ small_task t)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    wait_for_last();
    typedef typename S::part P;
    extern __shared__ __align__(1024) char zn_cuda_lines[];
    const small_memory<S> m(zn_cuda_lines, t.each);
    const int first = (int)blockIdx.z * t.each, left = t.w.chunks - first, count = left < t.each ? left : t.each;
    place at = place_of_tile<typename S::whole>(t.w, (int)blockIdx.x);
    if (threadIdx.x == 0) {
        for (int i = 0; i < S::BARRIERS; i++)
            barrier_init(&m.weights_full[i], 1);
        publish_shared();
        start_pixels(t, m, at, first, 0);
        for (int row = 0; row < P::TAPS; row++)
            start_weights(t, m, first, row);
        if (count > 1)
            start_pixels(t, m, at, first + 1, 1);
    }
    if (t.norm.is_there())
        make_factors(t.norm, at.image, first * P::CHUNK, (first + count) * P::CHUNK,
                     reinterpret_cast<float2 *>(m.factors + t.each * P::CHUNK), m.factors);
    __syncthreads();
    float sums[P::SUMS] = {};
    multiply_chunks(t, m, at, first, count, sums);
    if (!leave_sums(t, m, sums))
        return;
    const int thread = (int)threadIdx.x % WARPGROUP, group = (int)threadIdx.x / WARPGROUP;
    char *const tile = m.pixels + group * S::RESULTS;
    uint4 mask[P::PIECES];
    at.y += group * P::TILE_ROWS;
    if (t.w.quick) {
        start_residual<P>(t.w, at, tile, thread);
        load_mask<P>(t.w, at, mask, thread);
    }
    add_sums<P>(t, sums);
    if (t.w.quick)
        write_quick<P, true>(t.w, at, sums, mask, tile, thread);
    else
        write_slow<P>(t.w, at, sums, thread);
#else
    (void)t;
#endif
}

/* ---- launching ---- */

template <typename T, int HIGH> static bool launch_small(zn_device *d, small_task &t, const zn_cuda_small &plan)
{
    typedef small_tile<T, HIGH> S;
    typedef typename S::whole P;
    wide_task &w = t.w;
    const zn_conv_shape &s = w.t.a.s;
    const int64_t columns = w.t.w.columns, all = columns * w.t.w.rows;
    const int64_t weights[] = { columns, w.t.w.rows, 1, 1 }, apart[] = { columns, all, all };
    w.t.across = parts(s.ow, TILE_WIDE);
    w.t.down = parts(s.oh, P::TILE_ROWS);
    w.tiles = w.t.across * w.t.down * s.n;
    const zn_norm_args &n = t.norm.n;
    const int split = n.more ? n.split : s.cin;
    if (!bulk_map(&w.x_map, w.t.a.x, w.t.a.x_type, s.n, s.h, s.w, split, P::X_HIGH, P::X_WIDE) ||
        (n.more && !bulk_map(&t.more_map, n.more, w.t.a.x_type, s.n, s.h, s.w, s.cin - split, P::X_HIGH, P::X_WIDE)) ||
        !bulk_describe(&w.w_map, w.t.a.packed, w.t.a.x_type, weights, apart, 1, P::BOX))
        return false;
    const size_t shared =
        (size_t)(S::WEIGHTS + (plan.each > 1 ? 2 : 1) * P::X_BYTES) + WORDS +
        (t.norm.is_there()
             ? sizeof(factor) * (size_t)(plan.each * P::CHUNK + group_span_most(t.norm, plan.each * P::CHUNK))
             : 0);
    const dim3 grid((unsigned)w.tiles, (unsigned)(columns / ZN_CUDA_CONV_COLUMNS), (unsigned)plan.splits);
    launch_early(d, conv_small<S>, grid, SMALL_BLOCK, shared, t);
    return true;
}

extern "C" void zn_cuda_conv_wgmma_bf16(zn_device *d, const void *args, int64_t units);

static bool launch_task(zn_device *d, small_task &t, const zn_cuda_small &plan)
{
    return plan.rows == 16 ? launch_small<bf16_wide, 8>(d, t, plan) : launch_small<bf16_wide, 4>(d, t, plan);
}

static small_task small_task_of(zn_device *d, const zn_conv_args *args, const zn_cuda_small &plan)
{
    small_task t = {};
    t.w.t = conv_task_of(d, args, zn_cuda_half_weights);
    zn_conv_args &a = t.w.t.a;
    to_device(d, a.workspace);
    t.splits = plan.splits;
    t.each = plan.each;
    t.partial = static_cast<float4 *>(a.workspace);
    t.arrived = d->arrived;
    char *const after = static_cast<char *>(a.workspace) + zn_cuda_small_bytes(&args->s);
    a.x = static_cast<const float *>(
        zn_cuda_rounded(d, a.x, a.x_type, (int64_t)a.s.n * a.s.h * a.s.w * a.s.cin, ZN_TYPE_BF16, after));
    a.x_type = ZN_TYPE_BF16;
    t.w.chunks = plan.chunks;
    t.w.quick = a.y_type != ZN_TYPE_F32 && (!a.residual || a.residual_type == a.y_type) && a.s.cout % 8 == 0 &&
                ((uintptr_t)a.y | (uintptr_t)a.residual | (uintptr_t)a.mask) % 16 == 0;
    return t;
}

extern "C" {
void zn_cuda_conv_small_bf16(zn_device *d, const void *args, int64_t units)
{
    const zn_conv_args *a = static_cast<const zn_conv_args *>(args);
    const zn_cuda_small plan = zn_cuda_small_plan(&a->s);
    small_task t = small_task_of(d, a, plan);
    if (!launch_task(d, t, plan))
        zn_cuda_conv_wgmma_bf16(d, args, units);
}

void zn_cuda_norm_conv_small(zn_device *d, const void *args, int64_t)
{
    const zn_norm_conv_args *a = static_cast<const zn_norm_conv_args *>(args);
    const zn_cuda_small plan = zn_cuda_small_plan(&a->a.s);
    small_task t = small_task_of(d, &a->a, plan);
    t.norm = norm_source_of(d, *a);
    t.w.measured = a->measured;
    to_device(d, t.w.measured);
    if (!has_narrow_maps(a->a) || !launch_task(d, t, plan))
        zn_cuda_check(d, cudaErrorInvalidValue, "maps of 16 bits");
}
}
