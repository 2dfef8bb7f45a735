/* The gradient of a 3x3 convolution's weights (conv_grad.h) between a map of few channels and a wide one, in bf16 with
 * sums in fp32: the first layer of an encoder, and the last one of a decoder. It takes as long as reading the wide map.
 *
 * Rows of the product are the taps and channels of the few, columns are 64 channels of the wide map, and the sum is
 * over the pixels of that map. If the few are the input, pixel p of dy is multiplied with x at p + tap - pad; if they
 * are dy, pixel p of x with dy at p - tap + pad, which are the same products for flipped taps. A row of ones, after the
 * others, adds up the wide map: the gradient of the bias in the first case. */
#include "kernels/cuda/conv/conv_grad_tile.h"
#include "kernels/cuda/half.h"

enum {
    SIDE = 3,
    TAPS = SIDE * SIDE,
    TILE_WIDE = ZN_CUDA_GRAD_FEW_WIDE,
    TILE_HIGH = ZN_CUDA_GRAD_FEW_HIGH,
    PIXELS = TILE_WIDE * TILE_HIGH,
    STEP = 16, /* pixels of a row that a warp multiplies at a time */
    CHANNELS = 64,
    ROW = CHANNELS + 8, /* numbers of a pixel in shared memory: avoids bank conflicts between the rows of a matrix */
    STAGES = 3,
    STAGE = PIXELS * ROW,
    WARPS = THREADS / WARP
};

template <int FEW> struct few_plan {
    enum {
        ROWS = (TAPS * FEW + 1 + 15) / 16 * 16,
        FRAGMENTS = ROWS / 16,
        /* The few channels of a tile with its border: planes [shift][channel][row][column], where the second shift has
         * every number one column further left, so that two neighbours of any column can be read at once. */
        HIGH = TILE_HIGH + SIDE - 1,
        WIDE = TILE_WIDE + SIDE - 1,
        LINE = WIDE + 2,
        PLANE = HIGH * LINE,
        NUMBERS = HIGH * WIDE * FEW, /* of a tile */
        EACH = (NUMBERS + THREADS - 1) / THREADS,
        FLOATS = WARPS * ROWS * CHANNELS, /* sums of all warps at the end */
        HALVES = STAGES * STAGE + 2 * 2 * FEW * PLANE,
        BYTES = 2 * HALVES > 4 * FLOATS ? 2 * HALVES : 4 * FLOATS
    };
    static_assert(LINE % 2 == 0 && PLANE % 2 == 0, "pairs are aligned");
};

struct few_task {
    grad_task t;
    const uint16_t *map; /* the wide map, [n][h][w][channels] */
    int h, w, channels;
    const float *few; /* the other one */
    zn_type few_type;
    int few_h, few_w;
    int lead;     /* rows and columns of it before those of the wide map */
    bool flipped; /* the few are dy */
};

struct corner {
    int image, y, x;
};
static __device__ corner corner_of(const few_task &f, int64_t tile)
{
    const int map = f.t.across * f.t.down, in_map = (int)(tile % map);
    return corner{ (int)(tile / map), in_map / f.t.across * TILE_HIGH, in_map % f.t.across * TILE_WIDE };
}

/* Starts the copies of a tile of the wide map. */
static __device__ void copy_map(const few_task &f, int64_t tile, uint16_t *to)
{
    const corner at = corner_of(f, tile);
    const int piece = (int)threadIdx.x % 8, channel = (int)blockIdx.y * CHANNELS + piece * 8;
    for (int pixel = (int)threadIdx.x / 8; pixel < PIXELS; pixel += THREADS / 8) {
        const int y = at.y + pixel / TILE_WIDE, x = at.x + pixel % TILE_WIDE;
        const bool is_there = y < f.h && x < f.w && channel < f.channels;
        const int64_t from = (((int64_t)at.image * f.h + y) * f.w + x) * f.channels + channel;
        copy_async<16>(reinterpret_cast<float *>(to + pixel * ROW + piece * 8),
                       reinterpret_cast<const float *>(f.map + (is_there ? from : 0)), is_there);
    }
}

/* Loads a thread's share of the few channels of a tile, and stores it. */
template <int FEW> static __device__ void load_few(const few_task &f, int64_t tile, float (&mine)[few_plan<FEW>::EACH])
{
    typedef few_plan<FEW> P;
    const corner at = corner_of(f, tile);
#pragma unroll
    for (int i = 0; i < P::EACH; i++) {
        const int number = (int)threadIdx.x + i * THREADS, pixel = number / FEW;
        const int y = at.y - f.lead + pixel / P::WIDE, x = at.x - f.lead + pixel % P::WIDE;
        const bool is_there = number < P::NUMBERS && y >= 0 && x >= 0 && y < f.few_h && x < f.few_w;
        const int64_t from = (((int64_t)at.image * f.few_h + y) * f.few_w + x) * FEW + number % FEW;
        mine[i] = is_there ? read_number(f.few, from, f.few_type) : 0;
    }
}

template <int FEW> static __device__ void store_few(const float (&mine)[few_plan<FEW>::EACH], uint16_t *planes)
{
    typedef few_plan<FEW> P;
#pragma unroll
    for (int i = 0; i < P::EACH; i++) {
        const int number = (int)threadIdx.x + i * THREADS, pixel = number / FEW, column = pixel % P::WIDE;
        uint16_t *to = planes + number % FEW * P::PLANE + pixel / P::WIDE * P::LINE + column;
        const uint16_t bits = (uint16_t)bf16_pair::of(mine[i], 0);
        if (number < P::NUMBERS)
            to[0] = bits;
        if (number < P::NUMBERS && column > 0)
            to[FEW * P::PLANE - 1] = bits;
    }
}

/* A thread's rows of the product: where their numbers begin in the planes, or which pair takes their place. */
template <int FEW> struct few_rows {
    int offset[few_plan<FEW>::FRAGMENTS][2];
    uint32_t fixed[few_plan<FEW>::FRAGMENTS][2];
    bool reads[few_plan<FEW>::FRAGMENTS][2];

    __device__ few_rows(bool flipped)
    {
        typedef few_plan<FEW> P;
        enum { ONES = 0x3f803f80 };
        const int lane = (int)threadIdx.x % WARP;
#pragma unroll
        for (int i = 0; i < P::FRAGMENTS * 2; i++) {
            const int row = i * 8 + lane / 4, given = row / FEW, tap = flipped ? TAPS - 1 - given : given;
            const int kx = tap % SIDE, start = kx % 2 * FEW * P::PLANE + row % FEW * P::PLANE + tap / SIDE * P::LINE;
            reads[i / 2][i % 2] = row < TAPS * FEW;
            offset[i / 2][i % 2] = row < TAPS * FEW ? start + kx / 2 * 2 + lane % 4 * 2 : 0;
            fixed[i / 2][i % 2] = row == TAPS * FEW ? ONES : 0;
        }
    }
    __device__ uint32_t pair(const uint16_t *planes, int fragment, int half, int further) const
    {
        const uint32_t read = *reinterpret_cast<const uint32_t *>(planes + offset[fragment][half] +
                                                                  (reads[fragment][half] ? further : 0));
        return reads[fragment][half] ? read : fixed[fragment][half];
    }
};

/* Adds the products of a tile to the sums of this warp. */
template <int FEW>
static __device__ void multiply_tile(const uint16_t *map, const uint16_t *planes, const few_rows<FEW> &rows,
                                     float (&sums)[few_plan<FEW>::FRAGMENTS][CHANNELS / 8][4])
{
    typedef few_plan<FEW> P;
    for (int step = (int)threadIdx.x / WARP; step < PIXELS / STEP; step += WARPS) {
        const int row = step / (TILE_WIDE / STEP), column = step % (TILE_WIDE / STEP) * STEP;
        const int from = row * P::LINE + column;
        uint32_t b[CHANNELS / 8][2];
        load_right<CHANNELS / 8, ROW>(map + step * STEP * ROW, b);
#pragma unroll
        for (int m = 0; m < P::FRAGMENTS; m++) {
            const uint32_t a[4] = { rows.pair(planes, m, 0, from), rows.pair(planes, m, 1, from),
                                    rows.pair(planes, m, 0, from + 8), rows.pair(planes, m, 1, from + 8) };
#pragma unroll
            for (int n = 0; n < CHANNELS / 8; n++)
                bf16_pair::multiply_add(sums[m][n], a, b[n]);
        }
    }
}

/* Adds the sums of all warps in order, and writes the block's part: [tap][cin][cout], then the sums of dy. */
template <int FEW>
static __device__ void write_part(const few_task &f, const float (&sums)[few_plan<FEW>::FRAGMENTS][CHANNELS / 8][4],
                                  float *all)
{
    typedef few_plan<FEW> P;
    const zn_conv_shape &s = f.t.a.s;
    const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
    __syncthreads(); /* all have read the last tile */
#pragma unroll
    for (int i = 0; i < P::FRAGMENTS * (CHANNELS / 8) * 4; i++) {
        const int m = i / 4 / (CHANNELS / 8), n = i / 4 % (CHANNELS / 8);
        all[(warp * P::ROWS + m * 16 + lane / 4 + i % 4 / 2 * 8) * CHANNELS + n * 8 + lane % 4 * 2 + i % 2] =
            sums[m][n][i % 4];
    }
    __syncthreads();
    float *part = static_cast<float *>(f.t.a.shared) + blockIdx.x * zn_cuda_grad_part(&s, f.t.a.sums);
    const int count = (TAPS * FEW + (f.t.a.sums ? 1 : 0)) * CHANNELS;
    for (int i = (int)threadIdx.x; i < count; i += THREADS) {
        const int row = i / CHANNELS, channel = (int)blockIdx.y * CHANNELS + i % CHANNELS;
        float sum = 0;
        for (int k = 0; k < WARPS; k++)
            sum += all[k * P::ROWS * CHANNELS + i];
        if (channel < f.channels)
            part[f.flipped ? (row / FEW * s.cin + channel) * FEW + row % FEW : row * f.channels + channel] = sum;
    }
}

template <int FEW> __global__ void __launch_bounds__(THREADS, 1) conv_grad_few(few_task f)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    typedef few_plan<FEW> P;
    uint16_t *stages = reinterpret_cast<uint16_t *>(zn_cuda_shared), *planes = stages + STAGES * STAGE;
    const int64_t begin = blockIdx.x * f.t.p.per_block, last = begin + f.t.p.per_block;
    const int64_t count = (last < f.t.p.tiles ? last : f.t.p.tiles) - begin;
    const few_rows<FEW> rows(f.flipped);
    float sums[P::FRAGMENTS][CHANNELS / 8][4] = {}, mine[P::EACH];
    for (int i = 0; i < STAGES - 1; i++) {
        if (i < count)
            copy_map(f, begin + i, stages + i * STAGE);
        copy_commit();
    }
    load_few<FEW>(f, begin, mine);
    store_few<FEW>(mine, planes);
    for (int64_t i = 0; i < count; i++) {
        const int64_t next = i + STAGES - 1;
        copy_wait<STAGES - 2>(); /* tile i has arrived for this thread, */
        __syncthreads();         /* for all threads, and all have read the previous one */
        if (next < count)
            copy_map(f, begin + next, stages + next % STAGES * STAGE);
        copy_commit();
        if (i + 1 < count)
            load_few<FEW>(f, begin + i + 1, mine);
        multiply_tile<FEW>(stages + i % STAGES * STAGE, planes + i % 2 * (2 * FEW * P::PLANE), rows, sums);
        if (i + 1 < count)
            store_few<FEW>(mine, planes + (i + 1) % 2 * (2 * FEW * P::PLANE));
    }
    copy_wait<0>();
    write_part<FEW>(f, sums, zn_cuda_shared);
}

/* ---- launching ---- */

template <int FEW> static void launch_few(zn_device *d, const few_task &f)
{
    launch(d, conv_grad_few<FEW>, dim3((unsigned)f.t.p.parts, (unsigned)f.t.p.weight_tiles), THREADS,
           few_plan<FEW>::BYTES, f);
}

static void launch_input(zn_device *d, const grad_task &given)
{
    const grad_task t = rounded_task(d, given, false, true);
    const zn_conv_shape &s = t.a.s;
    few_task f = {
        t, reinterpret_cast<const uint16_t *>(t.a.dy), s.oh, s.ow, s.cout, t.a.x, t.a.x_type, s.h, s.w, s.pad, false
    };
    s.cin == 3 ? launch_few<3>(d, f) : launch_few<4>(d, f);
}

static void launch_output(zn_device *d, const grad_task &given)
{
    const grad_task t = rounded_task(d, given, true, false);
    const zn_conv_shape &s = t.a.s;
    few_task f = { t,           reinterpret_cast<const uint16_t *>(t.a.x),
                   s.h,         s.w,
                   s.cin,       t.a.dy,
                   t.a.dy_type, s.oh,
                   s.ow,        SIDE - 1 - s.pad,
                   true };
    f.t.across = (s.w + TILE_WIDE - 1) / TILE_WIDE;
    f.t.down = (s.h + TILE_HIGH - 1) / TILE_HIGH;
    s.cout == 3 ? launch_few<3>(d, f) : launch_few<4>(d, f);
}

extern "C" {
void zn_cuda_conv_grad_from_few(zn_device *d, const void *args, int64_t)
{
    run_grad(d, args, zn_cuda_grad_from_few_plan, launch_input);
}
void zn_cuda_conv_grad_to_few(zn_device *d, const void *args, int64_t)
{
    run_grad(d, args, zn_cuda_grad_to_few_plan, launch_output);
}
}
