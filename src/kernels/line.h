/* The spectral half of a Prune block (specification B1, D1), for the channels of one pixel at a time:
 *
 *     u = unit H e,   t = N(u),   s = scale .* t,   m = three taps of s,   z = unit H m
 *
 * N is the identity, the SRIG gate or a soft threshold. Without a norm the result is z. With a norm the result is
 * the group norm of r = max(z, 0). Its statistics are merged from those of each pixel, so the map is not read again.
 * A pixel whose mask is 0 in every block has e = 0; its only cost is writing the result.
 *
 * Order of the kernels: line, then with a norm line_stats and line_norm. Backward with a norm: line_sums and
 * line_means, then line_grad, and line_fold for the partial sums. The number of channels is a power of two. */
#ifndef ZN_KERNELS_LINE_H
#define ZN_KERNELS_LINE_H

#include "base/threads.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum zn_line_kind { ZN_LINE_PLAIN, ZN_LINE_SRIG, ZN_LINE_THRESHOLD } zn_line_kind;

typedef struct zn_line_args {
    const float *e;             /* [pixels][c] */
    const float *mask;          /* [pixels][c/8] or NULL, only with a norm; e is 0 where the mask is 0 */
    const float *scale, *mixer; /* [c], [3][c] */
    const float *w, *b;         /* SRIG: [c][5] and [c]; threshold: w [c] */
    const float *turned;        /* SRIG: transposed from w by line_turn */
    const float *gamma, *beta;  /* [c]; NULL: no norm */
    const float *dy;
    float *y;       /* forward: result; gradient: de */
    float *r;       /* with a norm: [pixels][c]; not written where all blocks are pruned */
    float *pruned;  /* with a norm: [pixels], 1 where all blocks are pruned, else 0 */
    float *moments; /* with a norm: [pixels][groups][2], mean of r and sum of squared deviations from it */
    float *stats;   /* with a norm: [n][groups][4], mean and 1/deviation; gradient: means of b and b xh, b = gamma dy */
    float *sums;    /* gradient, with a norm: [n][2][c], sums over pixels of dy and of dy xh, xh the normalised r */
    float *partial; /* gradient: [blocks][zn_line_rows][c]: scale, mixer, then SRIG taps and b, or the threshold */
    float *lines;   /* gradient, only on a GPU: [blocks][ZN_LINE_GPU_LINES][c] of scratch */
    int64_t n, pixels; /* images; pixels per image */
    int c, groups;
    float unit, eps;
    zn_line_kind kind;
} zn_line_args;

enum { ZN_LINE_PAD = 16, ZN_LINE_STRIP = 64, ZN_LINE_LINES = 20, ZN_LINE_GPU_LINES = 12 };
static inline int64_t zn_line_length(int c) { return c + 2 * ZN_LINE_PAD; } /* floats of a padded line */
static inline size_t zn_line_scratch(int c)                                 /* bytes per thread */
{
    return sizeof(float) * (size_t)(ZN_LINE_LINES * zn_line_length(c));
}
/* Number of parameter rows whose gradient is summed over pixels. */
static inline int zn_line_rows(zn_line_kind k) { return k == ZN_LINE_SRIG ? 10 : k == ZN_LINE_THRESHOLD ? 5 : 4; }
/* Pixels per block in the gradient. */
static inline int64_t zn_line_block(int64_t pixels) { return pixels <= 128 ? 4 : (pixels + 31) / 32; }
static inline int64_t zn_line_blocks(int64_t pixels)
{
    return (pixels + zn_line_block(pixels) - 1) / zn_line_block(pixels);
}
/* Blocks where a GPU may run the gradient, which needs more of them to be busy. */
static inline int64_t zn_line_parts(int64_t pixels, bool gpu)
{
    enum { MOST = 128 };
    const int64_t size = (pixels + MOST - 1) / MOST;
    return gpu ? (pixels + size - 1) / size : zn_line_blocks(pixels);
}
static inline int64_t zn_line_strips(const zn_line_args *a)
{
    return a->n * ((a->c + ZN_LINE_STRIP - 1) / ZN_LINE_STRIP);
}

void zn_k_line(const void *line_args, zn_range pixels);
void zn_k_line_stats(const void *line_args, zn_range images_groups);
void zn_k_line_norm(const void *line_args, zn_range pixels);
void zn_k_line_sums(const void *line_args, zn_range strips);
void zn_k_line_means(const void *line_args, zn_range images_groups);
void zn_k_line_grad(const void *line_args, zn_range blocks);

/* turned = six padded lines: the five taps of w [c][5], and the norm of each channel's taps. Units are channels. The
 * first and the last channel also write the padding. */
typedef struct zn_line_turn_args {
    const float *w;
    float *turned;
    int c;
} zn_line_turn_args;
void zn_k_line_turn(const void *line_turn_args, zn_range channels);

/* y[i] = sum of partial[block][i] in block order; units are pieces of ZN_LINE_FOLD floats out of `count`. */
typedef struct zn_line_fold_args {
    const float *partial;
    float *y;
    int64_t blocks, count;
} zn_line_fold_args;
enum { ZN_LINE_FOLD = 2048 };
void zn_k_line_fold(const void *line_fold_args, zn_range pieces);

/* Whether the mask prunes every block of a pixel. */
bool zn_line_is_pruned(const zn_line_args *a, int64_t pixel);

#endif
