/* Convolution on a GPU: the descriptors, and the layouts of the weights that conv.cu and conv_half.cu read. */
#include "kernels/cuda/conv/conv.h"

#include "base/convert.h"
#include "base/cpu.h"
#include "kernels/cuda/conv/conv_small.h"
#include "kernels/fp8.h"

#include <float.h>
#include <math.h>

/* Pixel indices are ints, also those of a shuffled map. */
static bool supports(const zn_conv_shape *s)
{
    const bool pointwise = s->kh * s->kw == 1 && s->stride == 1 && s->pad == 0 && !s->up2;
    return s->cin > 0 && (pointwise || !s->unshuffle) && (int64_t)s->n * s->h * s->w <= INT32_MAX / 4;
}

static size_t packed_bytes(const zn_conv_shape *s)
{
    const zn_cuda_weights p = zn_cuda_conv_weights(s);
    return sizeof(float) * (size_t)p.rows * (size_t)p.columns;
}

static void pack(const zn_conv_shape *s, const float *w, void *packed)
{
    const zn_cuda_weights p = zn_cuda_conv_weights(s);
    float *to = packed;
    for (int row = 0; row < p.rows; row++)
        for (int column = 0; column < p.columns; column++) {
            const int64_t from = zn_cuda_weight_at(s, &p, false, row, column);
            *to++ = from < 0 ? 0 : w[from];
        }
}

/* conv_few.cu */
static bool supports_few(const zn_conv_shape *s)
{
    return supports(s) && (s->cin == 3 || s->cin == 4) && s->kh == 3 && s->kw == 3 && s->stride == 1 && !s->up2 &&
           !s->shuffle && s->cout % ZN_CUDA_CONV_COLUMNS == 0;
}

/* Enough channels to fill a fragment, and what a tile of 8 x 16 pixels reads fits into shared memory. */
static bool supports_half(const zn_conv_shape *s)
{
    enum { LEAST = 16, SHARED = 80 << 10 }; /* numbers of 16 bits */
    const zn_conv_shape seen = zn_cuda_conv_seen(s);
    const int64_t pixel = zn_cuda_half_weights(s).chunk + 8;
    const int64_t part = (int64_t)(7 * seen.stride + seen.kh) * (15 * seen.stride + seen.kw) * pixel;
    return supports(s) && seen.cin >= LEAST && part + 3 * pixel * (ZN_CUDA_CONV_COLUMNS + 8) <= SHARED;
}

static bool supports_product(const zn_conv_shape *s) { return supports(s) && zn_cuda_conv_is_product(s); }

/* conv_thin.cu: the weights of 64 columns are in shared memory. */
static bool supports_thin(const zn_conv_shape *s)
{
    enum { MOST = 256, WEIGHTS = 1 << 17 };
    const bool pointwise =
        s->kh * s->kw == 1 && s->stride == 1 && !s->pad && !s->up2 && !s->unshuffle && s->h == s->oh && s->w == s->ow;
    return supports(s) && pointwise && (s->cin % 32 == 0 || s->cin == 16) && s->cin <= MOST &&
           (s->shuffle ? s->cout / 4 : s->cout) % 32 == 0 && s->cin * s->cout <= WEIGHTS;
}

/* conv_to_few.cu: the weights are in registers. */
static bool supports_to_few(const zn_conv_shape *s)
{
    return supports(s) && (s->cin == 32 || s->cin == 64) && s->cout <= ZN_CUDA_CONV_FEW && s->kh == 3 && s->kw == 3 &&
           s->stride == 1 && s->pad == 1 && !s->up2 && !s->shuffle && s->oh == s->h && s->ow == s->w;
}

/* conv_to_few_f32.cu: whole chunks, and weights are read four at a time. */
static bool supports_to_few_f32(const zn_conv_shape *s)
{
    return supports(s) && s->cin % ZN_CUDA_TO_FEW_CHUNK == 0 && s->cout <= 4 && s->kh == 3 && s->kw == 3 &&
           s->stride == 1 && s->pad == 1 && !s->up2 && !s->shuffle && !s->unshuffle && s->oh == s->h && s->ow == s->w;
}

enum { MOST_CHUNKS = 31 }; /* fewer than steps of the ring (lines.h) */

/* Hopper: x is read in pieces of eight channels, and rounded before if it is fp32. */
static bool supports_wide(const zn_conv_shape *s)
{
    return supports_half(s) && s->kh == ZN_CUDA_WIDE_SIDE && s->kw == ZN_CUDA_WIDE_SIDE && s->stride <= 2 &&
           s->cin <= MOST_CHUNKS * zn_cuda_half_weights(s).chunk && s->cin % 8 == 0 && s->cout > ZN_CUDA_CONV_FEW;
}

/* The same through an up-sampling. */
static bool supports_up(const zn_conv_shape *s)
{
    return s->up2 && s->pad == 1 && s->stride == 1 && s->oh == 2 * s->h && s->ow == 2 * s->w && supports_wide(s);
}

/* Full precision, always in chunks of the same size. */
static bool supports_split(const zn_conv_shape *s)
{
    return supports_wide(s) && s->cin <= MOST_CHUNKS * ZN_CUDA_SPLIT_CHUNK;
}
static bool supports_split_up(const zn_conv_shape *s) { return supports_up(s) && supports_split(s); }

/* Small maps, most of whose weights would be read by few blocks (conv_small.cu). The order of sums depends on the size
 * of the map. */
static bool supports_small(const zn_conv_shape *s)
{
    return supports_wide(s) && s->stride == 1 && !s->up2 && zn_cuda_half_weights(s).chunk == 64 &&
           zn_cuda_small_plan(s).splits > 1;
}
static bool small_pays(const zn_conv_shape *s, const zn_conv_wish *wish)
{
    enum { SMALL = 1 << 10 };
    return wish->whole && !wish->changing && (int64_t)s->n * s->oh * s->ow <= SMALL;
}

/* Whether maps can be normalised and measured in whole tiles of this many rows. */
static bool has_whole_tiles(const zn_conv_shape *s, int rows)
{
    enum { WIDE = 8 };
    const int w = s->up2 ? s->w : s->ow, h = s->up2 ? s->h : s->oh;
    return s->pad == 1 && s->stride == 1 && s->cin % 64 == 0 && s->cout % 64 == 0 && w % WIDE == 0 && h % rows == 0 &&
           s->oh == (s->up2 ? 2 : 1) * s->h && s->ow == (s->up2 ? 2 : 1) * s->w;
}
static int measures(const zn_conv_shape *s)
{
    const int rows = zn_cuda_wide_rows(s);
    return has_whole_tiles(s, rows) ? s->oh * s->ow / (rows * 8) : 0;
}
static int measures_small(const zn_conv_shape *s)
{
    const int rows = zn_cuda_small_plan(s).rows / 2;
    return has_whole_tiles(s, 2 * rows) ? s->oh * s->ow / (rows * 8) : 0;
}

/* Over frames: on small maps, blocks that compute 256 pixels would leave multiprocessors idle. */
static bool takes_frames(const zn_conv_shape *s)
{
    enum { LEAST = 1 << 14 };
    return supports_wide(s) && s->stride == 1 && s->pad == 1 && !s->up2 && s->cout % 8 == 0 &&
           (int64_t)s->h * s->w >= LEAST;
}

/* The same for codes, which are copied in pieces of 16 bytes. */
static bool takes_codes(const zn_conv_shape *s) { return takes_frames(s) && s->cin % 16 == 0; }

/* Channels of x are copied in groups of eight. */
static unsigned narrow_half(const zn_conv_shape *s)
{
    return ZN_CONV_NARROW_Y | (zn_cuda_conv_seen(s).cin % 8 == 0 ? ZN_CONV_NARROW_X : 0);
}
static unsigned narrow_result(const zn_conv_shape *s) { return (void)s, ZN_CONV_NARROW_Y; }

static size_t half_bytes(const zn_conv_shape *s)
{
    const zn_cuda_weights p = zn_cuda_half_weights(s);
    return sizeof(uint16_t) * (size_t)p.rows * (size_t)p.columns;
}

static void pack_half(const zn_conv_shape *s, zn_cuda_weights p, const float *w, void *packed, uint16_t (*round)(float))
{
    uint16_t *to = packed;
    for (int row = 0; row < p.rows; row++)
        for (int column = 0; column < p.columns; column++) {
            const int64_t from = zn_cuda_weight_at(s, &p, false, row, column);
            *to++ = from < 0 ? 0 : round(w[from]);
        }
}
static void pack_bf16(const zn_conv_shape *s, const float *w, void *to)
{
    pack_half(s, zn_cuda_half_weights(s), w, to, zn_f32_to_bf16);
}
static void pack_f16(const zn_conv_shape *s, const float *w, void *to)
{
    pack_half(s, zn_cuda_half_weights(s), w, to, zn_f32_to_f16);
}
static void pack_product(const zn_conv_shape *s, const float *w, void *to)
{
    pack_half(s, zn_cuda_product_weights(s), w, to, zn_f32_to_bf16);
}
static void pack_product_f16(const zn_conv_shape *s, const float *w, void *to)
{
    pack_half(s, zn_cuda_product_weights(s), w, to, zn_f32_to_f16);
}

static size_t up_bytes(const zn_conv_shape *s)
{
    const zn_cuda_weights p = zn_cuda_up_weights(s);
    return sizeof(uint16_t) * (size_t)p.rows * (size_t)p.columns;
}

static void pack_up(const zn_conv_shape *s, const float *w, void *packed, uint16_t (*round)(float))
{
    const zn_cuda_weights p = zn_cuda_up_weights(s);
    uint16_t *to = packed;
    for (int row = 0; row < p.rows; row++)
        for (int column = 0; column < p.columns; column++)
            *to++ = round(zn_cuda_up_weight(s, &p, w, false, row, column));
}
static void pack_up_bf16(const zn_conv_shape *s, const float *w, void *to) { pack_up(s, w, to, zn_f32_to_bf16); }
static void pack_up_f16(const zn_conv_shape *s, const float *w, void *to) { pack_up(s, w, to, zn_f32_to_f16); }

/* ---- full precision in two parts ---- */

static size_t split_bytes(const zn_conv_shape *s)
{
    const zn_cuda_weights p = zn_cuda_split_weights(s);
    return zn_cuda_split_bytes(&p) + sizeof(float) * (size_t)p.columns;
}
static size_t split_up_bytes(const zn_conv_shape *s)
{
    const zn_cuda_weights p = zn_cuda_split_up_weights(s);
    return zn_cuda_split_bytes(&p) + sizeof(float) * (size_t)p.columns;
}

/* An element of the weights before they are split. */
typedef float (*weight_of)(const zn_conv_shape *s, const zn_cuda_weights *p, const float *w, int row, int column);
static float plain_weight(const zn_conv_shape *s, const zn_cuda_weights *p, const float *w, int row, int column)
{
    const int64_t from = zn_cuda_weight_at(s, p, false, row, column);
    return from < 0 ? 0 : w[from];
}
static float up_weight(const zn_conv_shape *s, const zn_cuda_weights *p, const float *w, int row, int column)
{
    return zn_cuda_up_weight(s, p, w, false, row, column);
}

/* The power of two by which numbers are divided so that the largest of them is between 1 and 2. */
static float split_scale(float largest)
{
    int exponent = 1;
    if (largest > 0 && isfinite(largest))
        frexpf(largest, &exponent);
    return fmaxf(ldexpf(1, exponent - 1), FLT_MIN);
}

static void pack_parts(const zn_conv_shape *s, zn_cuda_weights p, const float *w, void *packed, weight_of weight)
{
    const int rows = p.rows / ZN_CUDA_SPLIT_PARTS;
    float *scales = (float *)((char *)packed + zn_cuda_split_bytes(&p));
    for (int column = 0; column < p.columns; column++) {
        float largest = 0;
        for (int row = 0; row < rows; row++)
            largest = fmaxf(largest, fabsf(weight(s, &p, w, row, column)));
        scales[column] = split_scale(largest);
    }
    for (int row = 0; row < rows; row++)
        for (int column = 0; column < p.columns; column++) {
            const float x = weight(s, &p, w, row, column) / scales[column];
            const uint16_t high = zn_f32_to_f16(x);
            uint16_t *to = (uint16_t *)packed + zn_cuda_split_row(row) * p.columns + column;
            *to = high;
            to[(int64_t)ZN_CUDA_SPLIT_CHUNK * p.columns] = zn_f32_to_f16((x - zn_f16_to_f32(high)) * ZN_CUDA_SPLIT_LOW);
        }
}
static void pack_split(const zn_conv_shape *s, const float *w, void *to)
{
    pack_parts(s, zn_cuda_split_weights(s), w, to, plain_weight);
}
static void pack_split_up(const zn_conv_shape *s, const float *w, void *to)
{
    pack_parts(s, zn_cuda_split_up_weights(s), w, to, up_weight);
}

static size_t code_bytes(const zn_conv_shape *s)
{
    const zn_cuda_weights p = zn_cuda_code_weights(s);
    return zn_cuda_code_bytes(&p) + sizeof(float) * (size_t)p.columns;
}

static float code_scale(const zn_conv_shape *s, const float *w, int column)
{
    float most = 0;
    for (int64_t i = 0; column < s->cout && i < (int64_t)s->kh * s->kw * s->cin; i++)
        most = fmaxf(most, fabsf(w[i * s->cout + column]));
    return most < ZN_E4M3_LEAST ? 1 : most / ZN_E4M3_MOST;
}

static void pack_codes(const zn_conv_shape *s, const float *w, void *packed)
{
    const zn_cuda_weights p = zn_cuda_code_weights(s);
    const int taps = s->kh * s->kw;
    uint8_t *to = packed;
    float *scales = (float *)(to + zn_cuda_code_bytes(&p));
    for (int column = 0; column < p.columns; column++)
        scales[column] = code_scale(s, w, column);
    for (int row = 0; row < p.rows; row++)
        for (int column = 0; column < p.columns; column++, to += ZN_CUDA_CODE_LINE) {
            float line[ZN_CUDA_CODE_LINE] = { 0 };
            const int first = row / taps * p.chunk, left = s->cin - first, count = left < p.chunk ? left : p.chunk;
            for (int i = 0; i < count && column < s->cout; i++)
                line[i] = w[((int64_t)(row % taps) * s->cin + first + i) * s->cout + column] / scales[column];
            zn_to_e4m3(to, line, 1, ZN_CUDA_CODE_LINE);
        }
}

static size_t product_bytes(const zn_conv_shape *s) { return sizeof(uint16_t) * (size_t)s->cin * (size_t)s->cout; }
static size_t rounded_x(const zn_conv_shape *s, zn_type x)
{
    return zn_cuda_rounded_bytes(x, (int64_t)s->n * s->h * s->w * s->cin);
}
static size_t small_workspace(const zn_conv_shape *s, zn_type x) { return zn_cuda_small_bytes(s) + rounded_x(s, x); }
/* The bias too. */
static size_t product_workspace(const zn_conv_shape *s, zn_type x)
{
    return rounded_x(s, x) + zn_cuda_rounded_bytes(ZN_TYPE_F32, s->cout);
}
static unsigned narrow_both(const zn_conv_shape *s) { return (void)s, ZN_CONV_NARROW_X | ZN_CONV_NARROW_Y; }

/* The order of its sums may depend on the number of pixels, which tiles must not. */
static bool has_no_tiles(const zn_conv_shape *s, const zn_conv_wish *wish)
{
    return (void)s, wish->whole || wish->changing;
}

/* Gradients may be too small for f16, and not all layouts can be packed on the GPU. */
static bool never_changes(const zn_conv_shape *s, const zn_conv_wish *wish) { return (void)s, !wish->changing; }

/* cuBLASLt is better at more channels, except on small maps; the size of a map must not matter where tiles are cut. It
 * has no shuffle. */
static bool thin_pays(const zn_conv_shape *s, const zn_conv_wish *wish)
{
    enum { FEW = 1 << 13, SOME = 1 << 15, SMALL = 1 << 15 };
    const int64_t weights = (int64_t)s->cin * s->cout, pixels = (int64_t)s->n * s->h * s->w;
    const bool plain = s->cout >= 2 * s->cin && (weights <= FEW || (wish->whole && weights <= SOME && pixels <= SMALL));
    return !wish->changing && (s->shuffle || plain);
}

static size_t scratch_bytes(const zn_conv_shape *s) { return (void)s, 0; }
static int64_t units(const zn_conv_shape *s) { return (int64_t)s->n * s->oh; }

static double padded_flops(const zn_conv_shape *s)
{
    const zn_cuda_weights p = zn_cuda_conv_weights(s);
    return 2.0 * s->n * s->oh * s->ow * (double)p.rows * p.columns;
}
static double half_flops(const zn_conv_shape *s)
{
    const zn_cuda_weights p = zn_cuda_half_weights(s);
    return 2.0 * s->n * s->oh * s->ow * (double)p.rows * p.columns;
}
static double up_flops(const zn_conv_shape *s)
{
    const zn_cuda_weights p = zn_cuda_up_weights(s);
    return 2.0 * s->n * s->h * s->w * (double)p.rows * p.columns;
}
static double split_flops(const zn_conv_shape *s)
{
    const zn_cuda_weights p = zn_cuda_split_weights(s);
    return 3.0 / ZN_CUDA_SPLIT_PARTS * 2 * s->n * s->oh * s->ow * (double)p.rows * p.columns;
}
static double split_up_flops(const zn_conv_shape *s)
{
    const zn_cuda_weights p = zn_cuda_split_up_weights(s);
    return 3.0 / ZN_CUDA_SPLIT_PARTS * 2 * s->n * s->h * s->w * (double)p.rows * p.columns;
}
static double three_flops(const zn_conv_shape *s) { return 3 * padded_flops(s); }

/* Keys of the launchers in the device's table. No CPU has ZN_CPU_CUDA, so these functions never run. */
void zn_k_conv_tf32x3(const void *conv_args, zn_range rows) { (void)conv_args, (void)rows; }
void zn_k_conv_tf32(const void *conv_args, zn_range rows) { (void)conv_args, (void)rows; }
void zn_k_conv_few(const void *conv_args, zn_range rows) { (void)conv_args, (void)rows; }
void zn_k_conv_wgmma_bf16(const void *conv_args, zn_range rows) { (void)conv_args, (void)rows; }
void zn_k_conv_wgmma_f16(const void *conv_args, zn_range rows) { (void)conv_args, (void)rows; }
void zn_k_conv_small_bf16(const void *conv_args, zn_range rows) { (void)conv_args, (void)rows; }
void zn_k_norm_conv(const void *norm_conv_args, zn_range rows) { (void)norm_conv_args, (void)rows; }
void zn_k_norm_conv_small(const void *norm_conv_args, zn_range rows) { (void)norm_conv_args, (void)rows; }
void zn_k_norm_conv_up(const void *norm_conv_args, zn_range rows) { (void)norm_conv_args, (void)rows; }
void zn_k_conv_up_bf16(const void *conv_args, zn_range rows) { (void)conv_args, (void)rows; }
void zn_k_conv_up_f16(const void *conv_args, zn_range rows) { (void)conv_args, (void)rows; }
void zn_k_conv_split(const void *conv_args, zn_range rows) { (void)conv_args, (void)rows; }
void zn_k_conv_split_up(const void *conv_args, zn_range rows) { (void)conv_args, (void)rows; }
void zn_k_conv_frames_bf16(const void *conv_frames_args, zn_range rows) { (void)conv_frames_args, (void)rows; }
void zn_k_conv_frames_f16(const void *conv_frames_args, zn_range rows) { (void)conv_frames_args, (void)rows; }
void zn_k_conv_frames_fp8(const void *conv_frames_args, zn_range rows) { (void)conv_frames_args, (void)rows; }
void zn_k_conv_pack_up_bf16(const void *conv_pack_args, zn_range unit) { (void)conv_pack_args, (void)unit; }
void zn_k_conv_pack_up_f16(const void *conv_pack_args, zn_range unit) { (void)conv_pack_args, (void)unit; }
void zn_k_conv_bf16(const void *conv_args, zn_range rows) { (void)conv_args, (void)rows; }
void zn_k_conv_f16(const void *conv_args, zn_range rows) { (void)conv_args, (void)rows; }
void zn_k_conv_pack_bf16(const void *conv_pack_args, zn_range unit) { (void)conv_pack_args, (void)unit; }
void zn_k_conv_pack_f16(const void *conv_pack_args, zn_range unit) { (void)conv_pack_args, (void)unit; }
void zn_k_conv_pack(const void *conv_pack_args, zn_range unit) { (void)conv_pack_args, (void)unit; }
void zn_k_conv_pack_product(const void *conv_pack_args, zn_range unit) { (void)conv_pack_args, (void)unit; }
void zn_k_conv_product(const void *conv_args, zn_range rows) { (void)conv_args, (void)rows; }
void zn_k_conv_pack_product_f16(const void *conv_pack_args, zn_range unit) { (void)conv_pack_args, (void)unit; }
void zn_k_conv_thin_bf16(const void *conv_args, zn_range rows) { (void)conv_args, (void)rows; }
void zn_k_conv_thin_f16(const void *conv_args, zn_range rows) { (void)conv_args, (void)rows; }
void zn_k_conv_to_few_bf16(const void *conv_args, zn_range rows) { (void)conv_args, (void)rows; }
void zn_k_conv_to_few_f16(const void *conv_args, zn_range rows) { (void)conv_args, (void)rows; }
void zn_k_conv_to_few_f32(const void *conv_args, zn_range rows) { (void)conv_args, (void)rows; }
void zn_k_conv_rows(const void *conv_args, zn_range rows) { (void)conv_args, (void)rows; }

/* Each number is the sum of two 11-bit numbers; three products make it as accurate as fp32. */
const zn_conv_kernel zn_conv_cuda_tf32x3 = { .name = "implicit-tf32x3-cuda",
                                             .math = ZN_PRECISION_F32,
                                             .cpu = ZN_CPU_CUDA,
                                             .tolerance = 2e-6f,
                                             .masks = true,
                                             .supports = supports,
                                             .packed_bytes = packed_bytes,
                                             .pack = pack,
                                             .pack_on_device = zn_k_conv_pack,
                                             .scratch_bytes = scratch_bytes,
                                             .units = units,
                                             .run = zn_k_conv_tf32x3,
                                             .flops = three_flops };

/* Without the matrix unit, to at most 4 channels. */
const zn_conv_kernel zn_conv_cuda_to_few_f32 = { .name = "to-few-f32-cuda",
                                                 .math = ZN_PRECISION_F32,
                                                 .cpu = ZN_CPU_CUDA,
                                                 .tolerance = 2e-6f,
                                                 .supports = supports_to_few_f32,
                                                 .packed_bytes = packed_bytes,
                                                 .pack = pack,
                                                 .pack_on_device = zn_k_conv_pack,
                                                 .scratch_bytes = scratch_bytes,
                                                 .units = units,
                                                 .run = zn_k_conv_to_few_f32,
                                                 .flops = zn_conv_direct_flops };

/* Two parts of f16, on Hopper GPUs, where their products are twice as fast as those of TF32. */
#define ZN_CONV_SPLIT(title, can, bytes, packs, body, count)                                                           \
    {                                                                                                                  \
        .name = (title), .math = ZN_PRECISION_F32, .cpu = ZN_CPU_CUDA | ZN_CPU_HOPPER, .tolerance = 2e-6f,             \
        .supports = (can), .pays = never_changes, .packed_bytes = (bytes), .pack = (packs),                            \
        .scratch_bytes = scratch_bytes, .units = units, .run = (body), .flops = (count)                                \
    }
const zn_conv_kernel zn_conv_hopper_split =
    ZN_CONV_SPLIT("wgmma-f16x3-cuda", supports_split, split_bytes, pack_split, zn_k_conv_split, split_flops);
const zn_conv_kernel zn_conv_hopper_split_up = ZN_CONV_SPLIT("wgmma-up-f16x3-cuda", supports_split_up, split_up_bytes,
                                                             pack_split_up, zn_k_conv_split_up, split_up_flops);

/* 1x1 convolutions: by a library, or where tiles need the same bits for any number of pixels by a kernel of ours. */
#define ZN_CONV_PRODUCT(title, worth, body)                                                                            \
    {                                                                                                                  \
        .name = (title), .math = ZN_PRECISION_BF16, .cpu = ZN_CPU_CUDA, .tolerance = 5e-3f,                            \
        .supports = supports_product, .narrow = narrow_both, .pays = (worth), .packed_bytes = product_bytes,           \
        .pack = pack_product, .pack_on_device = zn_k_conv_pack_product, .scratch_bytes = scratch_bytes,                \
        .workspace_bytes = product_workspace, .units = units, .run = (body), .flops = zn_conv_direct_flops             \
    }
const zn_conv_kernel zn_conv_cuda_product = ZN_CONV_PRODUCT("product-bf16-cuda", has_no_tiles, zn_k_conv_product);
const zn_conv_kernel zn_conv_cuda_rows = ZN_CONV_PRODUCT("rows-bf16-cuda", NULL, zn_k_conv_rows);

/* Likewise where channels are few; with a shuffle too. */
#define ZN_CONV_THIN(title, type, error, packs, packs_on_device, body)                                                 \
    {                                                                                                                  \
        .name = (title), .math = (type), .cpu = ZN_CPU_CUDA, .tolerance = (error), .supports = supports_thin,          \
        .narrow = narrow_both, .pays = thin_pays, .packed_bytes = product_bytes, .pack = (packs),                      \
        .pack_on_device = (packs_on_device), .scratch_bytes = scratch_bytes, .workspace_bytes = rounded_x,             \
        .units = units, .run = (body), .flops = zn_conv_direct_flops                                                   \
    }
const zn_conv_kernel zn_conv_cuda_thin_bf16 =
    ZN_CONV_THIN("thin-bf16-cuda", ZN_PRECISION_BF16, 5e-3f, pack_product, zn_k_conv_pack_product, zn_k_conv_thin_bf16);
const zn_conv_kernel zn_conv_cuda_thin_f16 = ZN_CONV_THIN("thin-f16-cuda", ZN_PRECISION_F16, 6e-4f, pack_product_f16,
                                                          zn_k_conv_pack_product_f16, zn_k_conv_thin_f16);

/* 3x3 to at most 8 channels. */
#define ZN_CONV_TO_FEW(title, type, error, packs, packs_on_device, body)                                               \
    {                                                                                                                  \
        .name = (title), .math = (type), .cpu = ZN_CPU_CUDA, .tolerance = (error), .supports = supports_to_few,        \
        .narrow = narrow_both, .pays = never_changes, .packed_bytes = half_bytes, .pack = (packs),                     \
        .pack_on_device = (packs_on_device), .scratch_bytes = scratch_bytes, .workspace_bytes = rounded_x,             \
        .units = units, .run = (body), .flops = half_flops                                                             \
    }
const zn_conv_kernel zn_conv_cuda_to_few_bf16 =
    ZN_CONV_TO_FEW("to-few-bf16-cuda", ZN_PRECISION_BF16, 5e-3f, pack_bf16, zn_k_conv_pack_bf16, zn_k_conv_to_few_bf16);
const zn_conv_kernel zn_conv_cuda_to_few_f16 =
    ZN_CONV_TO_FEW("to-few-f16-cuda", ZN_PRECISION_F16, 6e-4f, pack_f16, zn_k_conv_pack_f16, zn_k_conv_to_few_f16);

const zn_conv_kernel zn_conv_cuda_bf16 = { .name = "halo-bf16-cuda",
                                           .math = ZN_PRECISION_BF16,
                                           .cpu = ZN_CPU_CUDA,
                                           .tolerance = 5e-3f,
                                           .masks = true,
                                           .supports = supports_half,
                                           .narrow = narrow_half,
                                           .packed_bytes = half_bytes,
                                           .pack = pack_bf16,
                                           .pack_on_device = zn_k_conv_pack_bf16,
                                           .scratch_bytes = scratch_bytes,
                                           .units = units,
                                           .run = zn_k_conv_bf16,
                                           .flops = half_flops };

const zn_conv_kernel zn_conv_cuda_f16 = { .name = "halo-f16-cuda",
                                          .math = ZN_PRECISION_F16,
                                          .cpu = ZN_CPU_CUDA,
                                          .tolerance = 6e-4f,
                                          .masks = true,
                                          .supports = supports_half,
                                          .narrow = narrow_half,
                                          .pays = never_changes,
                                          .packed_bytes = half_bytes,
                                          .pack = pack_f16,
                                          .pack_on_device = zn_k_conv_pack_f16,
                                          .scratch_bytes = scratch_bytes,
                                          .units = units,
                                          .run = zn_k_conv_f16,
                                          .flops = half_flops };

/* The same weights as above, for the matrix instructions of Hopper GPUs. */
#define ZN_CONV_HOPPER(title, type, error, packs, packs_on_device, worth, body, over, ...)                             \
    {                                                                                                                  \
        .name = (title), .math = (type), .cpu = ZN_CPU_CUDA | ZN_CPU_HOPPER, .tolerance = (error), .masks = true,      \
        .supports = supports_wide, .narrow = narrow_half, .pays = (worth), .packed_bytes = half_bytes,                 \
        .pack = (packs), .pack_on_device = (packs_on_device), .scratch_bytes = scratch_bytes,                          \
        .workspace_bytes = rounded_x, .units = units, .run = (body), .run_frames = (over),                             \
        .takes_frames = takes_frames, .flops = half_flops, __VA_ARGS__                                                 \
    }
const zn_conv_kernel zn_conv_hopper_bf16 =
    ZN_CONV_HOPPER("wgmma-bf16-cuda", ZN_PRECISION_BF16, 5e-3f, pack_bf16, zn_k_conv_pack_bf16, NULL,
                   zn_k_conv_wgmma_bf16, zn_k_conv_frames_bf16, .run_normed = zn_k_norm_conv, .measures = measures);
const zn_conv_kernel zn_conv_hopper_f16 =
    ZN_CONV_HOPPER("wgmma-f16-cuda", ZN_PRECISION_F16, 6e-4f, pack_f16, zn_k_conv_pack_f16, never_changes,
                   zn_k_conv_wgmma_f16, zn_k_conv_frames_f16, .run_normed = NULL);

const zn_conv_kernel zn_conv_hopper_small_bf16 = { .name = "wgmma-small-bf16-cuda",
                                                   .math = ZN_PRECISION_BF16,
                                                   .cpu = ZN_CPU_CUDA | ZN_CPU_HOPPER,
                                                   .tolerance = 5e-3f,
                                                   .masks = true,
                                                   .supports = supports_small,
                                                   .narrow = narrow_half,
                                                   .pays = small_pays,
                                                   .packed_bytes = half_bytes,
                                                   .pack = pack_bf16,
                                                   .pack_on_device = zn_k_conv_pack_bf16,
                                                   .scratch_bytes = scratch_bytes,
                                                   .workspace_bytes = small_workspace,
                                                   .units = units,
                                                   .run = zn_k_conv_small_bf16,
                                                   .run_normed = zn_k_norm_conv_small,
                                                   .measures = measures_small,
                                                   .flops = half_flops };

/* Of codes, over frames only (zn_conv_of_codes). */
const zn_conv_kernel zn_conv_hopper_fp8 = { .name = "wgmma-fp8-cuda",
                                            .math = ZN_PRECISION_FP8,
                                            .cpu = ZN_CPU_CUDA | ZN_CPU_HOPPER,
                                            .tolerance = 5e-3f,
                                            .supports = takes_codes,
                                            .narrow = narrow_result,
                                            .packed_bytes = code_bytes,
                                            .pack = pack_codes,
                                            .scratch_bytes = scratch_bytes,
                                            .units = units,
                                            .run_frames = zn_k_conv_frames_fp8,
                                            .takes_frames = takes_codes,
                                            .flops = half_flops };

#define ZN_CONV_UP(title, type, error, packs, packs_on_device, worth, body, ...)                                       \
    {                                                                                                                  \
        .name = (title), .math = (type), .cpu = ZN_CPU_CUDA | ZN_CPU_HOPPER, .tolerance = (error), .masks = true,      \
        .supports = supports_up, .narrow = narrow_half, .pays = (worth), .packed_bytes = up_bytes, .pack = (packs),    \
        .pack_on_device = (packs_on_device), .scratch_bytes = scratch_bytes, .workspace_bytes = rounded_x,             \
        .units = units, .run = (body), .flops = up_flops, __VA_ARGS__                                                  \
    }
const zn_conv_kernel zn_conv_hopper_up_bf16 =
    ZN_CONV_UP("wgmma-up-bf16-cuda", ZN_PRECISION_BF16, 5e-3f, pack_up_bf16, zn_k_conv_pack_up_bf16, NULL,
               zn_k_conv_up_bf16, .run_normed = zn_k_norm_conv_up, .measures = measures);
const zn_conv_kernel zn_conv_hopper_up_f16 =
    ZN_CONV_UP("wgmma-up-f16-cuda", ZN_PRECISION_F16, 6e-4f, pack_up_f16, zn_k_conv_pack_up_f16, never_changes,
               zn_k_conv_up_f16, .run_normed = NULL);

/* One product of 11-bit numbers: the precision of f16 with the range of fp32. It serves both 16-bit types where the
 * kernels above do not. */
#define ZN_CONV_CUDA_TF32(title, type, can, body)                                                                      \
    {                                                                                                                  \
        .name = (title), .math = (type), .cpu = ZN_CPU_CUDA, .tolerance = 6e-4f, .masks = true, .supports = (can),     \
        .narrow = narrow_result, .packed_bytes = packed_bytes, .pack = pack, .pack_on_device = zn_k_conv_pack,         \
        .scratch_bytes = scratch_bytes, .units = units, .run = (body), .flops = padded_flops                           \
    }
const zn_conv_kernel zn_conv_cuda_few_as_f16 =
    ZN_CONV_CUDA_TF32("few-tf32-cuda", ZN_PRECISION_F16, supports_few, zn_k_conv_few);
const zn_conv_kernel zn_conv_cuda_few_as_bf16 =
    ZN_CONV_CUDA_TF32("few-tf32-cuda", ZN_PRECISION_BF16, supports_few, zn_k_conv_few);
const zn_conv_kernel zn_conv_cuda_tf32_as_f16 =
    ZN_CONV_CUDA_TF32("implicit-tf32-cuda", ZN_PRECISION_F16, supports, zn_k_conv_tf32);
const zn_conv_kernel zn_conv_cuda_tf32_as_bf16 =
    ZN_CONV_CUDA_TF32("implicit-tf32-cuda", ZN_PRECISION_BF16, supports, zn_k_conv_tf32);
