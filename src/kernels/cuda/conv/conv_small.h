/* How thread blocks share the input channels of a small map (conv_small.cu). */
#ifndef ZN_CUDA_CONV_SMALL_H
#define ZN_CUDA_CONV_SMALL_H

#include "kernels/cuda/conv/conv.h"

/* Rows of a tile, which has eight columns; tiles of all maps; chunks of channels, of a block at most `each`; blocks of
 * a tile. One split: it does not pay. The same for any GPU. */
typedef struct zn_cuda_small {
    int rows, tiles, chunks, each, splits;
} zn_cuda_small;
enum { ZN_CUDA_SMALL_BLOCKS = 128 }; /* at most, with two or more for each tile */
static inline zn_cuda_small zn_cuda_small_plan(const zn_conv_shape *s)
{
    enum { WIDE = 8, MOST = 8 };
    const zn_cuda_weights w = zn_cuda_half_weights(s);
    zn_cuda_small p = { s->oh > 8 ? 16 : 8, 0, w.rows / (w.chunk * s->kh * s->kw), 0, 0 };
    p.tiles = s->n * ((s->ow + WIDE - 1) / WIDE) * ((s->oh + p.rows - 1) / p.rows);
    int64_t splits = ZN_CUDA_SMALL_BLOCKS / ((int64_t)p.tiles * (w.columns / ZN_CUDA_CONV_COLUMNS));
    splits = splits < MOST ? splits : (int64_t)MOST;
    splits = splits < 1 ? 1 : splits;
    p.each = (int)((p.chunks + splits - 1) / splits);
    p.splits = (p.chunks + p.each - 1) / p.each;
    return p;
}
/* Bytes of the blocks' sums. */
static inline size_t zn_cuda_small_bytes(const zn_conv_shape *s)
{
    const zn_cuda_small p = zn_cuda_small_plan(s);
    return sizeof(float) * (size_t)p.tiles * (size_t)(p.rows * 8) * (size_t)p.splits *
           (size_t)zn_cuda_half_weights(s).columns;
}

#endif
