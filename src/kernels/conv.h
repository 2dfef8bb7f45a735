/* Convolution kernels: the contract.
 *
 *     y = act( conv(x, w) + bias + residual )        tensors NHWC, weights [kh][kw][cin][cout], zero padding
 *
 * There are several convolution algorithms (direct, Winograd, matrix units), and each packs the weights in its own
 * way. A kernel is therefore described by a struct of functions. ops/conv/conv.c gets the best kernel from
 * zn_conv_choose, packs the weights once, and runs the kernel on the threads. kernels/ref/conv/conv.c is the reference:
 * tests/kernels compares every other kernel with it. */
#ifndef ZN_KERNELS_CONV_H
#define ZN_KERNELS_CONV_H

#include "base/threads.h"
#include "kernels/type.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <zenith/precision.h>

typedef struct zn_conv_shape {
    int n, h, w, cin; /* input [n][h][w][cin] */
    int cout, kh, kw; /* weights [kh][kw][cin][cout] */
    int stride, pad;  /* the same on both axes; pad is added on all four sides */
    bool up2;         /* the input is upsampled x2 (nearest) while it is read; h, w are the sizes before upsampling */
    int oh, ow;       /* output [n][oh][ow][cout] */
    /* Only if zn_conv_can_shuffle. unshuffle: x is [n][2h][2w][cin/4] and is read through a pixel unshuffle by 2.
     * shuffle: y and the residual are [n][2oh][2ow][cout/4] and are written through a pixel shuffle by 2. The result
     * has the same bits as two separate steps. */
    bool unshuffle, shuffle;
    int threads; /* threads that share the work, for kernels that adapt the size of their units; 0: two */
} zn_conv_shape;

typedef struct zn_conv_args {
    zn_conv_shape s;
    const float *x;
    const void *packed;    /* written by the same kernel's pack */
    const float *bias;     /* [cout] or NULL */
    const float *residual; /* shaped like y, or NULL; may be y itself, but not x */
    float *y;              /* must not be x */
    bool relu;
    zn_type x_type, residual_type, y_type; /* other than F32 only for kernels with `narrow` */
    void *workspace;                       /* workspace_bytes of the kernel */
    const float *mask; /* only for kernels with `masks`: shaped like y and of its type, not y itself, or NULL. Results
                        * where it is not above 0 become 0, as in zn_k_relu_grad. */
} zn_conv_args;

/* Whether the result is as large as what is read, through the up-sampling: not with zeros on one side only, as in
 * gradients of strided convolutions of odd maps. */
static inline bool zn_conv_keeps_size(const zn_conv_shape *s)
{
    return s->oh == s->h << (s->up2 ? 1 : 0) && s->ow == s->w << (s->up2 ? 1 : 0);
}

/* A causal convolution over `depth` frames: a result reads x of its own frame and of the depth - 1 before it. */
typedef struct zn_conv_frames_args {
    zn_conv_args a;      /* of the frames of x; packed: the weights of the newest frame, then of the one before, ... */
    const float *before; /* the depth - 1 frames before x, of x_type; NULL: zeros */
    int depth;
    float scale; /* x are codes (E4M3): what a code is multiplied with */
} zn_conv_frames_args;

/* Weights to pack with a launched kernel (pack_some, pack_on_device). flipped: w is [kh][kw][cout][cin] and is read as
 * zn_k_flip_weights writes it. */
typedef struct zn_conv_pack_args {
    zn_conv_shape s;
    const float *w;
    void *packed;
    bool flipped;
} zn_conv_pack_args;

/* What a convolution is used for: the input of zn_conv_choose. */
typedef struct zn_conv_wish {
    zn_precision math; /* DEFAULT: fp32 */
    uint32_t cpu;
    bool changing;   /* weights are packed again for every run: exclude kernels whose packing takes longer than it
                      * saves */
    bool whole;      /* the network is never cut into tiles, so small feature maps may use a specialised kernel */
    int64_t largest; /* pixels of the largest feature map of the network; small maps use a kernel with smaller units */
    bool grows;      /* the last feature map is as large as the largest */
    int lean; /* 1: packed weights take at most twice the memory of the weights; 2: also none are transformed f32 */
} zn_conv_wish;

/* For zn_conv_kernel.narrow. */
enum { ZN_CONV_NARROW_X = 1, ZN_CONV_NARROW_Y = 2 /* y and the residual */ };

typedef struct zn_conv_kernel {
    const char *name;  /* "winograd6-f32-neon" */
    zn_precision math; /* of the multiplications, not DEFAULT; sums are fp32 or better than the tolerance */
    uint32_t cpu;      /* ZN_CPU_ flags that the kernel needs */
    float tolerance;   /* relative RMS error against ref on normal random data */
    bool masks;        /* can apply a mask to its results */
    /* Optional: which maps may be of the type of `math`, or BF16 if that is F32, instead of F32. NULL: none. */
    unsigned (*narrow)(const zn_conv_shape *s);
    bool (*supports)(const zn_conv_shape *s);
    /* Optional: whether this kernel costs less than the kernels after it in the list. NULL: always. */
    bool (*pays)(const zn_conv_shape *s, const zn_conv_wish *wish);
    size_t (*packed_bytes)(const zn_conv_shape *s);
    void (*pack)(const zn_conv_shape *s, const float *w,
                 void *packed); /* the same bytes for any n, map size and thread count */
    /* Optional: the same for weights that never change, which may take longer and gives more exact results. */
    void (*pack_constant)(const zn_conv_shape *s, const float *w, void *packed);
    /* Optional: whether packed is only the weights in another order, as numbers of the type of `math` (F32 or BF16),
     * and zeros (coded.h). NULL: no. */
    bool (*rearranges)(const zn_conv_shape *s);
    /* Optional, both or neither: pack in units, any split of which gives the same bytes, and so fast that weights of 8
     * bits may stay as they are stored and be packed in every run. */
    int64_t (*pack_units)(const zn_conv_shape *s);
    void (*pack_some)(const void *conv_pack_args, zn_range units); /* not flipped */
    /* Devices, where pack cannot read weights that change between runs: the same with zn_launch, in one unit. */
    void (*pack_on_device)(const void *conv_pack_args, zn_range unit);
    size_t (*scratch_bytes)(const zn_conv_shape *s); /* per thread */
    /* Optional: bytes that all threads share, for a map x of this type. NULL: none. */
    size_t (*workspace_bytes)(const zn_conv_shape *s, zn_type x);
    int64_t (*units)(const zn_conv_shape *s); /* number of independent units of work; any split gives the same
                                               * bits */
    void (*run)(const void *conv_args, zn_range units);
    /* Both or neither: runs a convolution over frames at once, if all maps have the type of `math` (FP8: if x has; y
     * and residual have any); and whether it can for this shape of a frame. */
    void (*run_frames)(const void *conv_frames_args, zn_range units);
    bool (*takes_frames)(const zn_conv_shape *s);
    /* Both or neither: runs a convolution that normalises what it reads and measures what it writes (norm_conv.h), if
     * all maps have the type of `math`; and in how many blocks it measures a map of its result, for a shape that it can
     * do this for, else 0. */
    void (*run_normed)(const void *norm_conv_args, zn_range units);
    int (*measures)(const zn_conv_shape *s);
    double (*flops)(const zn_conv_shape *s); /* operations actually executed; multiply and add count separately */
    double (*slots)(const zn_conv_shape *s); /* optional: issue slots (ops/slots.h); NULL: half of flops */
    /* Optional: side of the square of outputs that the kernel computes together. The rounding of each output then
     * depends on all inputs of its square. Squares start at the origin, or one position before it if up2. NULL:
     * every output is computed separately. */
    int (*block)(const zn_conv_shape *s);
} zn_conv_kernel;

static inline int zn_conv_threads(const zn_conv_shape *s) { return s->threads > 0 ? s->threads : 2; }

/* Whether a 1x1 convolution can include the pixel (un)shuffle, given the channels on the shuffled side. */
static inline bool zn_conv_can_shuffle(int64_t channels) { return channels % 32 == 0; }
/* Offset in floats of sub-pixel i < 4 of pixel x in a row, in a map [2 rows][2 wide][c]. */
static inline int64_t zn_conv_sub_pixel(int64_t row, int64_t wide, int64_t x, int i, int c)
{
    return ((2 * row + i / 2) * 2 * wide + 2 * x + i % 2) * c;
}

/* Whether there are too few tiles for a Winograd kernel to be faster. Its transformed weights are seven times as
 * many. With few tiles, loading them takes longer than a direct convolution, because memory bandwidth is the
 * bottleneck. The limit is higher when the weights are transformed for every run. */
static inline bool zn_conv_has_few_tiles(const zn_conv_shape *s, const zn_conv_wish *wish)
{
    enum { FEW_TILES = 4, FEW_CHANGING = 16, TILE_SIDE = 6, MANY_WEIGHTS = 1 << 14 };
    const int64_t across = (s->ow + TILE_SIDE - 1) / TILE_SIDE, down = (s->oh + TILE_SIDE - 1) / TILE_SIDE;
    return wish->whole && s->n * across * down <= (wish->changing ? FEW_CHANGING : FEW_TILES) &&
           (int64_t)s->cin * s->cout >= MANY_WEIGHTS;
}

/* FLOPs of a direct convolution on the upsampled map; multiply and add count separately. */
double zn_conv_direct_flops(const zn_conv_shape *s);

/* All kernels of this build, best first; NULL-terminated. The last one is ref and supports everything. */
extern const zn_conv_kernel *const zn_conv_kernels[];

/* Returns the first kernel that this CPU can run, that supports the shape, that pays, and whose math is the
 * requested one or F32. Never NULL. */
const zn_conv_kernel *zn_conv_choose(const zn_conv_shape *s, zn_conv_wish wish);
/* The kernel for a convolution over frames of FP8 codes, which has run_frames but no run; NULL: there is none. It gives
 * each output channel of each frame of the weights a scale, its largest magnitude / 448. */
const zn_conv_kernel *zn_conv_of_codes(const zn_conv_shape *s, uint32_t cpu);

#endif
