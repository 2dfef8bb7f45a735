/* Shared by conv.c and conv.cu. The convolution is a product of the patch matrix, [pixels][kh kw cin], with the
 * weights, [kh kw cin][cout], computed in tiles. Both dimensions of the weights are zero-padded to whole tiles. */
#ifndef ZN_CUDA_CONV_H
#define ZN_CUDA_CONV_H

#include "kernels/conv.h"

enum {
    ZN_CUDA_CONV_DEPTH = 32,  /* rows of weights at a time */
    ZN_CUDA_CONV_FEW = 8,     /* columns of a tile if cout is at most this */
    ZN_CUDA_CONV_COLUMNS = 64 /* columns of a tile otherwise */
};

static inline int zn_cuda_conv_rows(const zn_conv_shape *s)
{
    return (s->kh * s->kw * s->cin + ZN_CUDA_CONV_DEPTH - 1) / ZN_CUDA_CONV_DEPTH * ZN_CUDA_CONV_DEPTH;
}

static inline int zn_cuda_conv_tile(const zn_conv_shape *s)
{
    return s->cout <= ZN_CUDA_CONV_FEW ? ZN_CUDA_CONV_FEW : ZN_CUDA_CONV_COLUMNS;
}

static inline int zn_cuda_conv_columns(const zn_conv_shape *s)
{
    const int tile = zn_cuda_conv_tile(s);
    return (s->cout + tile - 1) / tile * tile;
}

#endif
