/* Shared by conv_grad.c and conv_grad.cu: how the gradient of the weights is divided into blocks.
 *
 * It is a product of x, transposed and moved by each tap, with dy: [taps cin][pixels] by [pixels][cout]. A thread block
 * computes a tile of the weights from a part of the pixels. The parts are added at the end, in order. */
#ifndef ZN_CUDA_CONV_GRAD_H
#define ZN_CUDA_CONV_GRAD_H

#include "kernels/conv_grad.h"
#include "kernels/cuda/conv/conv.h"

enum {
    ZN_CUDA_GRAD_WIDE = 16,      /* a tile of pixels is this wide, */
    ZN_CUDA_GRAD_HIGH = 4,       /* and this high */
    ZN_CUDA_GRAD_LINES_WIDE = 8, /* the same for conv_grad_wgmma.cu */
    ZN_CUDA_GRAD_LINES_HIGH = 16,
    ZN_CUDA_GRAD_FEW_WIDE = 32, /* and for conv_grad_few.cu */
    ZN_CUDA_GRAD_FEW_HIGH = 8,
    ZN_CUDA_GRAD_FEW_IN = 16,
    ZN_CUDA_GRAD_FEW_OUT = 8,
    ZN_CUDA_GRAD_BLOCKS = 132 /* blocks to aim at: one for each multiprocessor of a large GPU */
};

typedef struct zn_cuda_grad_plan {
    bool nine;         /* all taps of a 3x3 kernel in a block; otherwise one */
    int in, out;       /* channels of a tile of weights */
    int ways;          /* groups of warps in a block with sums of their own */
    int weight_tiles;  /* number of tiles of weights */
    int wide, high;    /* of a tile of pixels */
    int64_t tiles;     /* tiles of pixels */
    int64_t per_block; /* tiles of pixels that a block adds up */
    int64_t parts;     /* parts of the pixels */
} zn_cuda_grad_plan;

/* Floats of a part: its sums for the weights, then those of dy if they are wanted. */
static inline ZN_ON_BOTH int64_t zn_cuda_grad_part(const zn_conv_shape *s, bool sums)
{
    return (int64_t)s->kh * s->kw * s->cin * s->cout + (sums ? s->cout : 0);
}

/* Into how many parts to divide the pixels: the blocks run in rounds of ZN_CUDA_GRAD_BLOCKS, and a round that is not
 * full takes as long. Each part has sums that have to be added, 3 % of the time. */
static inline int64_t zn_cuda_grad_parts(int weight_tiles)
{
    int64_t best = 1;
    double least = 1e30;
    for (int64_t parts = 1; parts <= ZN_CUDA_GRAD_BLOCKS; parts++) {
        const int64_t rounds = (weight_tiles * parts + ZN_CUDA_GRAD_BLOCKS - 1) / ZN_CUDA_GRAD_BLOCKS;
        const double time = (double)rounds / (double)parts + 0.03 * (double)rounds;
        if (time < least) {
            least = time;
            best = parts;
        }
    }
    return best;
}

/* Divides the pixels, for the tiles of a plan. */
static inline void zn_cuda_grad_divide(const zn_conv_shape *s, zn_cuda_grad_plan *p)
{
    p->weight_tiles = (s->cin + p->in - 1) / p->in * ((s->cout + p->out - 1) / p->out) * (p->nine ? 1 : s->kh * s->kw);
    p->tiles = (int64_t)s->n * ((s->oh + p->high - 1) / p->high) * ((s->ow + p->wide - 1) / p->wide);
    const int64_t wanted = zn_cuda_grad_parts(p->weight_tiles);
    p->per_block = (p->tiles + wanted - 1) / wanted;
    p->parts = (p->tiles + p->per_block - 1) / p->per_block;
}

static inline zn_cuda_grad_plan zn_cuda_grad_plan_of(const zn_conv_shape *given)
{
    const zn_conv_shape folded = zn_cuda_conv_folded(given), *s = &folded;
    zn_cuda_grad_plan p;
    p.nine = s->kh == 3 && s->kw == 3 && s->stride <= 2;
    p.in = s->cin <= ZN_CUDA_GRAD_FEW_IN ? ZN_CUDA_GRAD_FEW_IN : 64;
    p.out = s->cout <= ZN_CUDA_GRAD_FEW_OUT && p.in == 64 ? ZN_CUDA_GRAD_FEW_OUT : 64;
    p.ways = p.in < 64 ? 4 : p.out < 64 ? 2 : 1;
    p.wide = ZN_CUDA_GRAD_WIDE;
    p.high = ZN_CUDA_GRAD_HIGH;
    zn_cuda_grad_divide(s, &p);
    return p;
}

/* For conv_grad_wgmma.cu. */
static inline zn_cuda_grad_plan zn_cuda_grad_lines_plan(const zn_conv_shape *s)
{
    zn_cuda_grad_plan p;
    p.nine = true;
    p.in = p.out = 64;
    p.ways = 1;
    p.wide = ZN_CUDA_GRAD_LINES_WIDE;
    p.high = ZN_CUDA_GRAD_LINES_HIGH;
    zn_cuda_grad_divide(s, &p);
    return p;
}

/* For conv_grad_few.cu, whose tiles are of the wide map: the output, or the input. */
static inline zn_cuda_grad_plan zn_cuda_grad_few_plan(const zn_conv_shape *s, int in, int out)
{
    zn_cuda_grad_plan p;
    p.nine = true;
    p.in = in;
    p.out = out;
    p.ways = 1;
    p.wide = ZN_CUDA_GRAD_FEW_WIDE;
    p.high = ZN_CUDA_GRAD_FEW_HIGH;
    zn_cuda_grad_divide(s, &p);
    return p;
}

static inline zn_cuda_grad_plan zn_cuda_grad_from_few_plan(const zn_conv_shape *s)
{
    return zn_cuda_grad_few_plan(s, s->cin, 64);
}

static inline zn_cuda_grad_plan zn_cuda_grad_to_few_plan(const zn_conv_shape *s)
{
    zn_conv_shape over_input = *s;
    over_input.oh = s->h;
    over_input.ow = s->w;
    return zn_cuda_grad_few_plan(&over_input, 64, s->cout);
}

#endif
