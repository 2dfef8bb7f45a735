/* The Lite block (specification A1) in two passes over memory, without transpositions:
 *
 *     rows     t = M(gate) along W of (x grouped-to ci channels)          reads x, writes t
 *     columns  y = x + (M(gate) along H of t) grouped-to c channels       reads t and x, writes y
 *
 * M(g) = (1/n) H diag(g) H with the Walsh-Hadamard matrix H. Four groups are usual, any number will do. */
#ifndef ZN_KERNELS_LITE_H
#define ZN_KERNELS_LITE_H

#include "base/threads.h"

#include <stddef.h>
#include <stdint.h>

typedef struct zn_lite_args {
    const float *x;     /* [n][h][wide][c]; columns: may be y */
    const float *t;     /* columns: [n][h][wide][ci] */
    const float *w, *b; /* rows: [groups][ci/groups][c/groups], [ci]; columns: [groups][c/groups][ci/groups], [c] */
    const float *gate;  /* rows: [wide]; columns: [h] */
    float *y;           /* rows: t; columns: y */
    int n, h, wide, c, ci, groups;
} zn_lite_args;

size_t zn_lite_scratch(const zn_lite_args *a);

/* Units are rows n*h. */
void zn_k_lite_rows(const void *lite_args, zn_range rows);

/* Units are strips of zn_lite_strip columns, zn_lite_strips of them. */
int zn_lite_strip(const zn_lite_args *a);
int64_t zn_lite_strips(const zn_lite_args *a);
void zn_k_lite_columns(const void *lite_args, zn_range strips);

#endif
