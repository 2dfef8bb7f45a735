/* The Lite block (specification A1) in three passes over memory, without transpositions:
 *
 *     rows     t = M(gate) along W of (x grouped-to ci channels)    reads x, writes t
 *     columns  t = M(gate) along H of t                             a quarter of the channels, in strips of columns
 *     expand   y = x + t grouped-to c channels                      reads t and x, writes y, one pixel after the other
 *
 * The last two as one would read and write x and y in strips of columns too, whose rows lie far apart and often in the
 * same sets of the caches: that takes half as long again.
 * M(g) = (1/n) H diag(g) H with the Walsh-Hadamard matrix H. Four groups are usual, any number will do. */
#ifndef ZN_KERNELS_LITE_H
#define ZN_KERNELS_LITE_H

#include "base/threads.h"

#include <stddef.h>
#include <stdint.h>

typedef struct zn_lite_args {
    const float *x;     /* [n][h][wide][c]; expand: may be y */
    const float *t;     /* columns, expand: [n][h][wide][ci]; columns: may be y */
    const float *w, *b; /* rows: [groups][ci/groups][c/groups], [ci]; expand: [groups][c/groups][ci/groups], [c] */
    const float *gate;  /* rows: [wide]; columns: [h] */
    float *y;           /* rows, columns: t; expand: y */
    int n, h, wide, c, ci, groups;
} zn_lite_args;

size_t zn_lite_scratch(const zn_lite_args *a);

/* Units are rows n*h. */
void zn_k_lite_rows(const void *lite_args, zn_range rows);

/* Units are strips of zn_lite_strip columns, zn_lite_strips of them. */
int zn_lite_strip(const zn_lite_args *a);
int64_t zn_lite_strips(const zn_lite_args *a);
void zn_k_lite_columns(const void *lite_args, zn_range strips);

/* Units are pixels n*h*wide. */
void zn_k_lite_expand(const void *lite_args, zn_range pixels);

#endif
