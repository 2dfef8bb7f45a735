/* The Lite block (specification A1) in three passes over memory, without transpositions:
 *
 *     rows     t = M(gate) along W of (x grouped-to ci channels)    reads x, writes t
 *     columns  t = M(gate) along H of t                             a quarter of the channels, in strips of columns
 *     expand   y = x + t grouped-to c channels                      reads t and x, writes y, pixel by pixel
 *
 * Merging the last two passes would also access x and y in strips of columns. Their rows are far apart and often map
 * to the same cache sets, which makes it 1.5x as slow.
 *
 * If only these three passes use t, it is stored in bands of a few columns, [n][wide/band][h + 1][band][ci]. A band
 * is contiguous and fits the L2 cache, and its rows do not share L1 sets. M(g) = (1/n) H diag(g) H, where H is the
 * Walsh-Hadamard matrix. Four groups are usual; any number works. */
#ifndef ZN_KERNELS_LITE_H
#define ZN_KERNELS_LITE_H

#include "base/threads.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct zn_lite_args {
    const float *x;     /* [n][h][wide][c]; expand: may be y */
    const float *t;     /* columns, expand: [n][h][wide][ci]; columns: may be y */
    const float *w, *b; /* rows: [groups][ci/groups][c/groups], [ci]; expand: [groups][c/groups][ci/groups], [c] */
    const float *gate;  /* rows: [wide]; columns: [h] */
    float *y;           /* rows, columns: t; expand: y */
    int n, h, wide, c, ci, groups;
    int band; /* pixels per band of t, divides wide; 0: t is [n][h][wide][ci] */
} zn_lite_args;

/* The band width for maps of this size, or 0 if bands are not used. */
static inline int zn_lite_band(int64_t h, int64_t wide, int64_t ci)
{
    enum { BAND = 4 }; /* what expand processes at once; more slows down columns, fewer slows down rows */
    return ci % 16 == 0 && ci <= 128 && h >= 64 && wide >= 64 && wide / 8 % BAND == 0 ? BAND : 0;
}

/* Floats from one band to the next. One row of zeros is added; otherwise the pixels of a row would map to the same
 * cache set. */
static inline int64_t zn_lite_apart(const zn_lite_args *a) { return (int64_t)(a->h + 1) * a->band * a->ci; }

/* Offset in floats of pixel x in t, for a row counted over all images. */
static inline int64_t zn_lite_at(const zn_lite_args *a, int64_t row, int64_t x)
{
    if (!a->band)
        return (row * a->wide + x) * a->ci;
    return (row / a->h * (a->wide / a->band) + x / a->band) * zn_lite_apart(a) +
           (row % a->h * a->band + x % a->band) * a->ci;
}

/* Writes the row of zeros after the last row of a band. */
static inline void zn_lite_end_band(const zn_lite_args *a, float *band)
{
    const int64_t row = (int64_t)a->band * a->ci;
    memset(band + a->h * row, 0, sizeof(float) * (size_t)row);
}

/* The unit that computes the last row of an image also finishes its bands. */
static inline void zn_lite_end_bands(const zn_lite_args *a, int64_t row)
{
    for (int x = 0; a->band && row % a->h == a->h - 1 && x < a->wide; x += a->band)
        zn_lite_end_band(a, a->y + zn_lite_at(a, row - a->h + 1, x));
}

size_t zn_lite_scratch(const zn_lite_args *a);

/* Units are rows n*h. */
void zn_k_lite_rows(const void *lite_args, zn_range rows);

/* Units are strips of zn_lite_strip columns, or bands; zn_lite_strips of them. */
int zn_lite_strip(const zn_lite_args *a);
int64_t zn_lite_strips(const zn_lite_args *a);
void zn_k_lite_columns(const void *lite_args, zn_range strips);

/* Units are pixels n*h*wide. */
void zn_k_lite_expand(const void *lite_args, zn_range pixels);

#endif
