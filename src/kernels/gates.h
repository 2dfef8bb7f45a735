/* Gates of the Prune models, and the tiled spectral mixing of the trainable Lite block. */
#ifndef ZN_KERNELS_GATES_H
#define ZN_KERNELS_GATES_H

#include "base/threads.h"
#include "kernels/type.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ZN_GATE_BLOCK = 8 }; /* channels that are kept or pruned as one block */
typedef enum zn_gate_mode {
    ZN_GATE_SOFT, /* m = clamp(0.2 s + 0.5 + T eps, 0, 1) */
    ZN_GATE_HARD, /* m = [s > 0], no gradient through the mask */
    ZN_GATE_STE   /* m = [p > 0.5], p = clamp(0.2 s + 0.5, 0, 1); straight-through gradient */
} zn_gate_mode;

/* s = w[b] * sum of |x| over block b + v[b]. Units are pixels (blocks of ZN_MIX_BLOCK pixels for param_grad). */
typedef struct zn_gate_args {
    const float *x, *w, *v;
    const float *eps;  /* [pixels][blocks] or NULL */
    const float *dm;   /* gradients: gradient of the mask, [pixels][blocks] */
    const float *mask; /* apply: [pixels][blocks] */
    const float *dy;
    float *y;
    float *partial; /* [blocks of pixels][2][c/8] */
    int64_t pixels;
    int c;
    float temperature;
    zn_gate_mode mode;
} zn_gate_args;
void zn_k_gate_mask(const void *gate_args, zn_range pixels);      /* y = mask */
void zn_k_gate_mask_grad(const void *gate_args, zn_range pixels); /* y = dx from dm */
void zn_k_gate_mask_param_grad(const void *gate_args, zn_range blocks);
/* y = mask x for each block of channels. The gradient of the mask is the sum of dy x over the block. */
void zn_k_gate_apply(const void *gate_args, zn_range pixels);
void zn_k_gate_apply_mask_grad(const void *gate_args, zn_range pixels);

/* Depthwise 3x3 followed by a gate: y = mask e for each block of channels. e is the depthwise sum (zero padding,
 * weights [c][3][3]); it is not computed where the mask is 0. Units are pixels. Units of the weight gradient are
 * strips of channels of an image, with the strip as inner index; it needs zn_sparse_scratch bytes per thread. */
typedef struct zn_sparse_args {
    const float *x, *w, *dy;
    const float *turned;  /* [9][zn_sparse_row(c)], transposed from w by sparse_turn; unused by the weight gradient */
    const float *mask;    /* [n][h][wide][c/8], or NULL: all ones */
    const uint64_t *open; /* [n][h][wide][zn_sparse_words(c)], computed from the mask by sparse_look; NULL without a
                           * mask */
    float *y;             /* forward: y; gradient: dx from dy */
    float *partial;       /* weight gradient: [n][9*c] */
    int n, h, wide, c;    /* c a multiple of ZN_GATE_BLOCK */
} zn_sparse_args;
/* Rows of transposed weights are padded by one cache line, so that their stride is not a power of two. */
static inline int64_t zn_sparse_row(int c) { return (int64_t)c + 16; }
typedef struct zn_sparse_turn_args {
    const float *w;
    float *turned;
    int c;
} zn_sparse_turn_args;
void zn_k_sparse_turn(const void *sparse_turn_args, zn_range channels);

/* Summary of a mask, so that kernels do not have to read nine masks per pixel: one bit for each block of channels,
 * followed by a word of these flags. */
enum {
    ZN_SPARSE_ANY = 1,   /* at least one block is open */
    ZN_SPARSE_PLAIN = 2, /* every mask is 0 or 1 */
    ZN_SPARSE_FULL = 4   /* every mask is 1 */
};
static inline int64_t zn_sparse_words(int c) { return (c / ZN_GATE_BLOCK + 63) / 64 + 1; } /* words per pixel */
typedef struct zn_sparse_look_args {
    const float *mask;
    uint64_t *open;
    int c;
} zn_sparse_look_args;
void zn_k_sparse_look(const void *sparse_look_args, zn_range pixels);

enum { ZN_SPARSE_STRIP = 64 };
static inline int64_t zn_sparse_strips(const zn_sparse_args *a) /* strips per image */
{
    return (a->c + ZN_SPARSE_STRIP - 1) / ZN_SPARSE_STRIP;
}
/* Rows are processed in bands of about ZN_SPARSE_BAND pixels. */
enum { ZN_SPARSE_BAND = 320 };
static inline int zn_sparse_rows(int h, int wide)
{
    const int rows = ZN_SPARSE_BAND / wide > 1 ? ZN_SPARSE_BAND / wide : 1;
    return rows < h ? rows : h;
}
static inline size_t zn_sparse_scratch(int h, int wide)
{
    const size_t rows = (size_t)zn_sparse_rows(h, wide), across = (size_t)wide + 2;
    return sizeof(float) * (ZN_SPARSE_STRIP * (rows + 2) * across + 3 * rows * across);
}
void zn_k_sparse_depthwise(const void *sparse_args, zn_range pixels);
void zn_k_sparse_depthwise_grad(const void *sparse_args, zn_range pixels);
void zn_k_sparse_depthwise_weight_grad(const void *sparse_args, zn_range strips);

/* Spectral neighbourhood gate (SRIG): y = u * G(u), three iterations over windows of five channels. */
typedef struct zn_srig_args {
    const float *u, *w, *b; /* w [c][5], b [c] */
    const float *dy;
    float *y;       /* forward: y; gradient: du */
    float *partial; /* [pixels][6*c]: dw then db */
    float *lines;   /* only on a GPU: scratch, [blocks][ZN_SRIG_GPU_LINES][c] */
    int64_t pixels;
    int c;
} zn_srig_args;
enum { ZN_SRIG_GPU_LINES = 12, ZN_SRIG_GPU_BLOCKS = 128 }; /* at most so many blocks; param_grad: its own units */
size_t zn_srig_scratch(int c);
void zn_k_srig(const void *srig_args, zn_range pixels);
void zn_k_srig_grad(const void *srig_args, zn_range pixels);
void zn_k_srig_param_grad(const void *srig_args, zn_range blocks); /* blocks of ZN_MIX_BLOCK pixels, [blocks][6*c] */

/* Mixing in tiles of P along an axis of [outer][n][inner]. For each tile: c = Q a, c *= gate[k][ch], soft threshold
 * by |th[k][ch]|, a = Q c, with Q orthonormal. Tiles begin at offset + k P; the ends are extended by reflection.
 * gate and th are [P][channels]; channel = position in inner modulo channels, and channels divides inner. A unit is
 * a strip of whole pixels along the axis. Each thread needs zn_tile_mix_scratch bytes. */
typedef struct zn_tile_mix_args {
    const float *x, *gate, *th, *dy;
    float *y;       /* forward: y; gradient: dx */
    float *partial; /* [blocks][2][P][channels]: gradients of gate, then of th */
    int64_t outer, n, inner;
    int channels, p, offset;
} zn_tile_mix_args;

/* A strip, or the part of it in one tile. */
typedef struct zn_strip {
    int64_t at, wide;    /* offset of the first float; floats per position */
    int64_t left, tiles; /* positions of the first tile before the start of the line; number of tiles */
} zn_strip;
int64_t zn_tile_mix_units(const zn_tile_mix_args *a);
size_t zn_tile_mix_scratch(const zn_tile_mix_args *a);
zn_strip zn_tile_mix_strip(const zn_tile_mix_args *a, int64_t unit);
int64_t zn_tile_mix_reflect(int64_t i, int64_t n); /* source position of extended position i */
void zn_k_tile_mix(const void *tile_mix_args, zn_range units);
/* Computes all three gradients in one pass. Units are zn_sum_blocks(units) blocks of units. */
void zn_k_tile_mix_grad(const void *tile_mix_args, zn_range blocks);

/* The same along rows, then along columns of [n][h][wide][channels], then GELU of the result. Each square tile of P
 * x P is computed independently. gate[0] and th[0] apply to rows. Units are tiles. */
typedef struct zn_tile_square_args {
    const float *x, *gate[2], *th[2];
    float *y;
    int n, h, wide, channels, p, offset;
    zn_type type; /* of x and y; 16 bits: only on a device, and only if zn_tile_square_takes_half */
} zn_tile_square_args;
static inline bool zn_tile_square_takes_half(int channels, int p) { return p == 32 && channels % 8 == 0; }
int64_t zn_tile_square_units(const zn_tile_square_args *a);
size_t zn_tile_square_scratch(const zn_tile_square_args *a);

/* Position of a unit: its image, and the position of its first row and column in the map (may be negative). */
typedef struct zn_tile_square {
    int64_t image, y, x;
} zn_tile_square;
zn_tile_square zn_tile_square_at(const zn_tile_square_args *a, int64_t unit);
void zn_k_tile_square(const void *tile_square_args, zn_range tiles);

#endif
