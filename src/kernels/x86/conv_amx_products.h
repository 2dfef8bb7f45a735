/* The tile products of a convolution on AMX (conv_amx_bf16.c), and the results that are written from their sums:
 *
 *     work w = { .now.c = ..., .before.c = ..., .past = ... };
 *     zn_conv_amx_begin(p);
 *     for each group of tiles:
 *         w.now = where its results belong;
 *         zn_conv_amx_product(a, p, &operands, next, &w);     // writes the results of the group before meanwhile
 *         exchange w.now and w.before;
 *     zn_conv_amx_end(a, &w); */
#ifndef ZN_KERNELS_X86_CONV_AMX_PRODUCTS_H
#define ZN_KERNELS_X86_CONV_AMX_PRODUCTS_H

#include "kernels/x86/conv_amx_plan.h"

/* Memory to prefetch in each step of a product. */
typedef struct ahead {
    const char *from;
    int64_t bytes;
} ahead;

/* Where a tile of sums is stored: `count` pixels from y[at], `step` values apart. */
typedef struct target {
    int64_t at, step;
    int count;
} target;

enum {
    PAIR_OUTPUTS = 2 * TILE_ROWS,
    TILE_VALUES = TILE_ROWS * TILE_ROWS,
    COUT_VALUES = TILE_SUMS * TILE_VALUES,
    SUM_VALUES = 2 * COUT_VALUES,
};

/* The sums of up to four tiles of positions for the `lanes` outputs from `cout`. The first `done` of `pixels` have been
 * written. */
typedef struct sums {
    float *c; /* [2][TILE_SUMS][TILE_ROWS][TILE_ROWS]: 16 outputs at a time */
    target to[TILE_SUMS];
    int cout, lanes, done, pixels;
} sums;

/* A thread's sums: those being computed, and those before them, which are written while the tile unit works. */
typedef struct work {
    sums now, before;
    bool past;
} work;

/* What is multiplied: tiles of positions, whose values begin at at[0..3], with the weights of 16 outputs; or the first
 * two of them with the weights of 32. */
typedef struct operands {
    const char *at[TILE_SUMS], *weights;
    int64_t line, stride; /* bytes from one row of values, or one position, to the next */
    int64_t low;          /* bytes from there to the low parts of the values; 0: there are none */
    int tiles;
    bool pair;
} operands;

/* Configures the tiles of this thread. */
void zn_conv_amx_begin(const plan *p);
/* Computes w->now.c, the sums over the whole kernel, prefetches `next`, and writes the results of w->before. */
void zn_conv_amx_product(const zn_conv_args *a, const plan *p, const operands *o, ahead next, work *w);
/* Releases the tiles, and writes the results of w->before. */
void zn_conv_amx_end(const zn_conv_args *a, work *w);

#endif
