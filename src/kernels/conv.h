/* Convolution kernels: the contract.
 *
 *     y = act( conv(x, w) + bias + residual )        tensors NHWC, weights [kh][kw][cin][cout], zero padding
 *
 * There are several ways to convolve (direct, Winograd, matrix units), each with its own packing of the weights, so a
 * kernel here is a descriptor. ops/conv/conv.c asks zn_conv_choose for the best one, packs once, and runs it over
 * threads. kernels/ref/conv.c is the definition of right: tests/kernels compares every other one with it. */
#ifndef ZN_KERNELS_CONV_H
#define ZN_KERNELS_CONV_H

#include "base/threads.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct zn_conv_shape {
    int n, h, w, cin; /* input [n][h][w][cin] */
    int cout, kh, kw; /* weights [kh][kw][cin][cout] */
    int stride, pad;  /* the same on both axes; pad on all four sides */
    bool up2;         /* the input is read through a nearest x2 up-sampling (h, w are the small sizes) */
    int oh, ow;       /* output [n][oh][ow][cout] */
    /* Only where zn_conv_can_shuffle: x is [n][2h][2w][cin/4], read through a pixel unshuffle by 2; y and the residual
     * are [n][2oh][2ow][cout/4], written through a pixel shuffle by 2. The bits are those of two separate steps. */
    bool unshuffle, shuffle;
    int threads; /* that will share the work, for kernels whose pieces may be larger or smaller; 0: two */
} zn_conv_shape;

typedef struct zn_conv_args {
    zn_conv_shape s;
    const float *x;
    const void *packed;    /* made by the same kernel's pack */
    const float *bias;     /* [cout] or NULL */
    const float *residual; /* like y, or NULL; may be y itself, not x */
    float *y;              /* never x */
    bool relu;
} zn_conv_args;

/* Precision of the multiplications; sums are always fp32 or better than the stated tolerance. */
typedef enum zn_math { ZN_MATH_F32, ZN_MATH_BF16, ZN_MATH_F16 } zn_math;

/* What a convolution is for. */
typedef struct zn_conv_wish {
    zn_math math;
    uint32_t cpu;
    bool changing;   /* weights are packed anew for every run: no kernel whose packing takes longer than it saves */
    bool whole;      /* the network is never cut into tiles, so small maps may get a kernel of their own */
    int64_t largest; /* pixels of the largest map of the network: small maps get a finer kernel */
} zn_conv_wish;

typedef struct zn_conv_kernel {
    const char *name; /* "winograd6-f32-neon" */
    zn_math math;
    uint32_t cpu;    /* ZN_CPU_ flags it needs */
    float tolerance; /* relative RMS error against ref on normal random data */
    bool (*supports)(const zn_conv_shape *s);
    /* Optional: whether it costs less than the kernels after it in the list. NULL: always. */
    bool (*pays)(const zn_conv_shape *s, const zn_conv_wish *wish);
    size_t (*packed_bytes)(const zn_conv_shape *s);
    void (*pack)(const zn_conv_shape *s, const float *w,
                 void *packed);                      /* the same bytes for any n, map size, threads */
    size_t (*scratch_bytes)(const zn_conv_shape *s); /* for each thread */
    int64_t (*units)(const zn_conv_shape *s);        /* independent pieces of work; any split gives the same bits */
    void (*run)(const void *conv_args, zn_range units);
    double (*flops)(const zn_conv_shape *s); /* really executed, multiply and add separately */
    double (*slots)(const zn_conv_shape *s); /* optional: issue slots (ops/slots.h); NULL: half of flops */
    /* Optional: side of the squares of outputs that are computed together, so that their rounding depends on all inputs
     * of the square. Squares start at the origin, or one position before it when up2. NULL: every output by itself. */
    int (*block)(const zn_conv_shape *s);
} zn_conv_kernel;

static inline int zn_conv_threads(const zn_conv_shape *s) { return s->threads > 0 ? s->threads : 2; }

/* Whether a 1x1 convolution with these channels on the side of the shuffle may be one with it. */
static inline bool zn_conv_can_shuffle(int64_t channels) { return channels % 32 == 0; }
/* Floats before sub-pixel i < 4 of pixel x in a row, in a map [2 rows][2 wide][c]. */
static inline int64_t zn_conv_sub_pixel(int64_t row, int64_t wide, int64_t x, int i, int c)
{
    return ((2 * row + i / 2) * 2 * wide + 2 * x + i % 2) * c;
}

/* Whether the tiles of a Winograd kernel are too few to pay. Its weights are seven times as many: where there are few
 * tiles, reading them takes longer than multiplying directly, and memory is short before time is. More so where they
 * are transformed for every run. */
static inline bool zn_conv_has_few_tiles(const zn_conv_shape *s, const zn_conv_wish *wish)
{
    enum { FEW_TILES = 4, FEW_CHANGING = 16, TILE_SIDE = 6, MANY_WEIGHTS = 1 << 14 };
    const int64_t across = (s->ow + TILE_SIDE - 1) / TILE_SIDE, down = (s->oh + TILE_SIDE - 1) / TILE_SIDE;
    return wish->whole && s->n * across * down <= (wish->changing ? FEW_CHANGING : FEW_TILES) &&
           (int64_t)s->cin * s->cout >= MANY_WEIGHTS;
}

/* Multiply and add counted separately, as if computed directly on the up-sampled map. */
double zn_conv_direct_flops(const zn_conv_shape *s);

/* All kernels of this build, best first; NULL-terminated. The last one is ref and supports everything. */
extern const zn_conv_kernel *const zn_conv_kernels[];

/* The first kernel that this CPU has, that supports the shape and pays, and whose math is the one wished for or F32.
 * Never NULL. */
const zn_conv_kernel *zn_conv_choose(const zn_conv_shape *s, zn_conv_wish wish);

#endif
