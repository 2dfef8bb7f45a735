/* Shared by the convolutions of a GPU. They multiply the matrix of patches, [pixels][kh kw cin], with the weights,
 * [kh kw cin][cout], in tiles. Both dimensions of the packed weights are zero-padded to whole tiles.
 *
 * A pixel unshuffle before a 1x1 convolution makes it a 2x2 convolution with stride 2; a pixel shuffle after one
 * exchanges columns. Weights are packed in the order in which the maps are stored. */
#ifndef ZN_CUDA_CONV_H
#define ZN_CUDA_CONV_H

#include "kernels/conv.h"

#if defined(__CUDACC__)
#define ZN_ON_BOTH __host__ __device__
#else
#define ZN_ON_BOTH
#endif

enum {
    ZN_CUDA_CONV_DEPTH = 32,   /* rows of weights at a time */
    ZN_CUDA_CONV_FEW = 8,      /* columns of a tile if cout is at most this */
    ZN_CUDA_CONV_COLUMNS = 64, /* columns of a tile otherwise */
    ZN_CUDA_TO_FEW_CHUNK = 16, /* channels at a time in conv_to_few_f32.cu */
    ZN_CUDA_WIDE_SIDE = 3      /* of the kernels that conv_wgmma.cu multiplies with */
};

/* The layout of packed weights. */
typedef struct zn_cuda_weights {
    int rows, columns;
    int chunk; /* rows are [chunk of cin][tap][channel of the chunk]; 0: [tap][channel] */
} zn_cuda_weights;

/* A 1x1 convolution of low maps, such as rows of tokens, as one of a map of 16 columns, which tiles cover without
 * waste: its pixels lie one after the other. */
static inline zn_conv_shape zn_cuda_conv_folded(const zn_conv_shape *s)
{
    enum { WIDE = 16, LOW = 8 };
    const int64_t pixels = (int64_t)s->n * s->h * s->w;
    zn_conv_shape folded = *s;
    if (s->kh * s->kw == 1 && s->stride == 1 && !s->pad && s->h == s->oh && s->w == s->ow && !s->up2 && !s->unshuffle &&
        !s->shuffle && s->h < LOW && pixels % WIDE == 0) {
        folded.n = 1;
        folded.w = folded.ow = WIDE;
        folded.h = folded.oh = (int)(pixels / WIDE);
    }
    return folded;
}

/* The convolution that a kernel computes: a pixel unshuffle is a part of it. */
static inline zn_conv_shape zn_cuda_conv_seen(const zn_conv_shape *s)
{
    zn_conv_shape seen = zn_cuda_conv_folded(s);
    if (s->unshuffle) {
        seen.unshuffle = false;
        seen.kh = seen.kw = seen.stride = 2;
        seen.h *= 2;
        seen.w *= 2;
        seen.cin /= 4;
    }
    return seen;
}

static inline int zn_cuda_conv_columns(const zn_conv_shape *s)
{
    const int tile = s->cout <= ZN_CUDA_CONV_FEW ? ZN_CUDA_CONV_FEW : ZN_CUDA_CONV_COLUMNS;
    return (s->cout + tile - 1) / tile * tile;
}

static inline zn_cuda_weights zn_cuda_conv_weights(const zn_conv_shape *s)
{
    const int rows = s->kh * s->kw * s->cin;
    const zn_cuda_weights p = { (rows + ZN_CUDA_CONV_DEPTH - 1) / ZN_CUDA_CONV_DEPTH * ZN_CUDA_CONV_DEPTH,
                                zn_cuda_conv_columns(s), 0 };
    return p;
}

/* For products of 16-bit numbers: the chunk with fewer zeros in it. */
static inline zn_cuda_weights zn_cuda_half_weights(const zn_conv_shape *s)
{
    const zn_conv_shape seen = zn_cuda_conv_seen(s);
    const int chunk = (seen.cin - 1) % 64 < 32 ? 32 : 64;
    const zn_cuda_weights p = { (seen.cin + chunk - 1) / chunk * chunk * seen.kh * seen.kw, zn_cuda_conv_columns(s),
                                chunk };
    return p;
}

/* A 3x3 convolution of a map that is up-sampled by 2 reads each of its pixels several times. It is the same as four
 * convolutions of 2x2 of the small map, one for each phase of the result, whose weights are sums: 4 products instead of
 * 9. Rows are [chunk of cin][tap of 2x2][channel of the chunk], columns are [phase][cout]. */
static inline zn_cuda_weights zn_cuda_up_weights(const zn_conv_shape *s)
{
    zn_cuda_weights p = zn_cuda_half_weights(s);
    p.rows = p.rows / (s->kh * s->kw) * 4;
    p.columns *= 4;
    return p;
}

/* Rows of the tiles, eight pixels wide, by which conv_wgmma.cu measures a result (kernels/norm_conv.h): as many as keep
 * this number of multiprocessors busy. The same for any GPU. */
static inline int zn_cuda_wide_rows(const zn_conv_shape *s)
{
    enum { PROCESSORS = 132, WIDE = 8, MOST = 16, LEAST = 4 };
    const int blocks = (s->up2 ? 4 : 1) * zn_cuda_conv_columns(s) / ZN_CUDA_CONV_COLUMNS;
    const int64_t most = PROCESSORS > blocks ? PROCESSORS / blocks : 1;
    const int w = s->up2 ? s->w : s->ow, h = s->up2 ? s->h : s->oh;
    int rows = MOST;
    while (rows > LEAST &&
           (2 * h <= rows || (int64_t)s->n * ((w + WIDE - 1) / WIDE) * ((h + rows - 1) / rows) * 10 < most * 9))
        rows /= 2;
    return rows;
}

/* For full precision: each number is multiplied by a power of two and becomes a sum of two numbers of f16, the second
 * of which is stored 2^11 times as large. Rows are [chunk of cin][tap][part][channel of the chunk]; then a float for
 * each column, by which its results are multiplied. */
enum { ZN_CUDA_SPLIT_CHUNK = 32, ZN_CUDA_SPLIT_PARTS = 2 };
#define ZN_CUDA_SPLIT_LOW 0x1p11f

static inline zn_cuda_weights zn_cuda_split_weights(const zn_conv_shape *s)
{
    const int chunks = (s->cin + ZN_CUDA_SPLIT_CHUNK - 1) / ZN_CUDA_SPLIT_CHUNK;
    const zn_cuda_weights p = { chunks * s->kh * s->kw * ZN_CUDA_SPLIT_PARTS * ZN_CUDA_SPLIT_CHUNK,
                                zn_cuda_conv_columns(s), ZN_CUDA_SPLIT_CHUNK };
    return p;
}
static inline zn_cuda_weights zn_cuda_split_up_weights(const zn_conv_shape *s)
{
    zn_cuda_weights p = zn_cuda_split_weights(s);
    p.rows = p.rows / (s->kh * s->kw) * 4;
    p.columns *= 4;
    return p;
}
/* Where the first part of a row of the weights is. */
static inline int64_t zn_cuda_split_row(int row)
{
    return row / ZN_CUDA_SPLIT_CHUNK * ZN_CUDA_SPLIT_PARTS * ZN_CUDA_SPLIT_CHUNK + row % ZN_CUDA_SPLIT_CHUNK;
}
static inline ZN_ON_BOTH size_t zn_cuda_split_bytes(const zn_cuda_weights *p) /* without the floats */
{
    return sizeof(uint16_t) * (size_t)p->rows * (size_t)p->columns;
}

/* The taps of 3 that fall on tap 0 or 1 of a phase, in a row or a column. */
static inline ZN_ON_BOTH int zn_cuda_up_first(int phase, int tap) { return tap == 0 ? 0 : 1 + phase; }
static inline ZN_ON_BOTH int zn_cuda_up_count(int phase, int tap) { return phase == tap ? 1 : 2; }

static inline ZN_ON_BOTH float zn_cuda_up_weight(const zn_conv_shape *s, const zn_cuda_weights *p, const float *w,
                                                 bool flipped, int row, int column)
{
    const int block = 4 * p->chunk, tap = row % block / p->chunk, i = row / block * p->chunk + row % p->chunk;
    const int each = p->columns / 4, phase = column / each, o = column % each;
    const int y = zn_cuda_up_first(phase / 2, tap / 2), x = zn_cuda_up_first(phase % 2, tap % 2);
    float sum = 0;
    if (i >= s->cin || o >= s->cout)
        return 0;
    for (int ky = y; ky < y + zn_cuda_up_count(phase / 2, tap / 2); ky++)
        for (int kx = x; kx < x + zn_cuda_up_count(phase % 2, tap % 2); kx++) {
            const int k = ky * s->kw + kx;
            sum += flipped ? w[((int64_t)(s->kh * s->kw - 1 - k) * s->cout + o) * s->cin + i]
                           : w[((int64_t)k * s->cin + i) * s->cout + o];
        }
    return sum;
}

/* For products of FP8 codes (E4M3): [chunk of cin][tap][column][128 codes of the chunk], then a scale for each column.
 * `rows` counts lines of 128 codes of a column. */
static inline zn_cuda_weights zn_cuda_code_weights(const zn_conv_shape *s)
{
    const int chunk = s->cin % 96 == 0 && s->cin % 128 != 0 ? 96 : 128; /* 32 of them are multiplied at a time */
    const zn_cuda_weights p = { (s->cin + chunk - 1) / chunk * s->kh * s->kw, zn_cuda_conv_columns(s), chunk };
    return p;
}
enum { ZN_CUDA_CODE_LINE = 128 };
static inline size_t zn_cuda_code_bytes(const zn_cuda_weights *p) /* without the scales */
{
    return (size_t)p->rows * (size_t)p->columns * ZN_CUDA_CODE_LINE;
}

/* For products of matrices: [cin][cout], as they are. */
static inline zn_cuda_weights zn_cuda_product_weights(const zn_conv_shape *s)
{
    const zn_cuda_weights p = { s->cin, s->cout, 0 };
    return p;
}

/* Whether it is a product of matrices whose rows are whole pieces of 16 bytes. */
static inline bool zn_cuda_conv_is_product(const zn_conv_shape *s)
{
    enum { LEAST = 16 };
    return s->kh * s->kw == 1 && s->stride == 1 && !s->pad && !s->up2 && !s->unshuffle && !s->shuffle &&
           s->h == s->oh && s->w == s->ow && s->cin % 8 == 0 && s->cout % 8 == 0 && s->cin >= LEAST && s->cout >= LEAST;
}

/* Room for a map of `count` numbers in 16 bits if it has others. */
static inline size_t zn_cuda_rounded_bytes(zn_type type, int64_t count)
{
    return type == ZN_TYPE_F32 ? ((size_t)count * sizeof(uint16_t) + 63) / 64 * 64 : 0;
}

/* The index in w of an element of the packed weights; -1: zero. flipped: see zn_conv_pack_args. */
static inline ZN_ON_BOTH int64_t zn_cuda_weight_at(const zn_conv_shape *s, const zn_cuda_weights *p, bool flipped,
                                                   int row, int column)
{
    const int cin = s->unshuffle ? s->cin / 4 : s->cin, taps = s->unshuffle ? 4 : s->kh * s->kw;
    int tap, i, o = column;
    if (p->chunk) {
        const int block = taps * p->chunk;
        tap = row % block / p->chunk;
        i = row / block * p->chunk + row % p->chunk;
    } else {
        tap = row / cin;
        i = row % cin;
    }
    if (tap >= taps || i >= cin || column >= s->cout)
        return -1;
    if (s->unshuffle) {
        i = 4 * i + tap;
        tap = 0;
    }
    if (s->shuffle)
        o = column % (s->cout / 4) * 4 + column / (s->cout / 4);
    if (flipped)
        return ((int64_t)(s->kh * s->kw - 1 - tap) * s->cout + o) * s->cin + i;
    return ((int64_t)tap * s->cin + i) * s->cout + o;
}

#endif
