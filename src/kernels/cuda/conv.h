/* What conv.c and conv.cu agree on: the convolution is a product of the matrix of patches, [pixels][kh kw cin], with
 * the weights, [kh kw cin][cout], computed in tiles. Both sides of the weights are filled up with zeros to whole tiles.
 */
#ifndef ZN_CUDA_CONV_H
#define ZN_CUDA_CONV_H

#include "kernels/conv.h"

enum {
    ZN_CUDA_CONV_DEPTH = 32,  /* rows of weights at a time */
    ZN_CUDA_CONV_FEW = 8,     /* columns of a tile where there are no more */
    ZN_CUDA_CONV_COLUMNS = 64 /* and else */
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
