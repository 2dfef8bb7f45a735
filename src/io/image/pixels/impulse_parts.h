/* What the two kinds of impulses share: samples, the census of cells, and what is put in the place of a wrong sample.
 */
#ifndef ZN_IMPULSE_PARTS_H
#define ZN_IMPULSE_PARTS_H

#include "io/image/pixels/pixels.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct zn_samples {
    const zn_image *image;
    int64_t row; /* samples from a pixel to the one below */
    int top;     /* full scale */
} zn_samples;

zn_samples zn_samples_of(const zn_image *image);

static inline int zn_sample_at(const zn_samples *s, int64_t i)
{
    return s->top == UINT8_MAX ? ((const uint8_t *)s->image->pixels)[i] : ((const uint16_t *)s->image->pixels)[i];
}

/* Offsets of the neighbours of a sample that are in the image; returns their number. */
int zn_sample_neighbours(const zn_samples *s, int64_t i, int64_t offset[8]);

/* Cells of 32x32 pixels by the share of samples that have a property. */
enum { ZN_CELL = 32, ZN_SHARES = 4096 };
typedef struct zn_cells {
    int64_t by_share[ZN_SHARES + 1];
} zn_cells;
/* The share that `part` of the cells do not exceed. */
double zn_cells_quantile(const zn_cells *cells, double part);

/* How near a pixel at (dx, dy), at most 2 each, is: exp(-d/2) of the squared distance. */
double zn_nearness(int dx, int dy);

/* Weighted means of a channel, of the differences of two others to a pixel's, and of their products. */
typedef struct zn_moments {
    double weight, v, a, b, va, vb, aa, bb, ab;
} zn_moments;
void zn_moments_add(zn_moments *m, double weight, double v, double a, double b);

/* The line through the moments: its value at differences 0, and its slopes, which are drawn towards those of grey
 * images: 0.9 together. A channel that says nothing has only differences of 0. */
typedef struct zn_line {
    double value, a, b;
} zn_line;
zn_line zn_moments_line(const zn_moments *m, bool has_a, bool has_b);

enum { ZN_SAMPLE_RIGHT, ZN_SAMPLE_WRONG, ZN_SAMPLE_FILLED };
/* A copy of the image with other values for samples whose state is ZN_SAMPLE_WRONG. `state` is used up. */
ZN_MUST_USE zn_status zn_impulses_replace(const zn_image *image, uint8_t *state, zn_image **out);

/* Impulses of random values: whether the image has this damage, and which samples are wrong. */
bool zn_random_impulses_suspected(const zn_samples *s);
ZN_MUST_USE zn_status zn_random_impulses_find(const zn_samples *s, uint8_t *state);

#endif
