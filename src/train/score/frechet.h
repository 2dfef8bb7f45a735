/* The Frechet distance of two sets of feature vectors, each taken as a normal distribution: the idea of FID.
 *
 *     zn_spread a = { .width = 320 }, b = { .width = 320 };
 *     ZN_TRY(zn_spread_add(&a, features));                   // for each image of a set
 *     ZN_TRY(zn_frechet_distance(&a, &b, &distance));
 *     zn_spread_free(&a); */
#ifndef ZN_TRAIN_FRECHET_H
#define ZN_TRAIN_FRECHET_H

#include <stdint.h>
#include <zenith/status.h>

/* Sums over vectors, in double; zeros but for the width are the empty set. */
typedef struct zn_spread {
    int width;
    int64_t count;
    double *sum;      /* [width] */
    double *products; /* [width][width], of pairs of features; the lower triangle */
} zn_spread;

ZN_MUST_USE zn_status zn_spread_add(zn_spread *s, const float *features);
void zn_spread_free(zn_spread *s);

/* |mean a - mean b|^2 + trace(A + B - 2 (A B)^(1/2)) of the covariances A and B. Sets of at least two vectors. */
ZN_MUST_USE zn_status zn_frechet_distance(const zn_spread *a, const zn_spread *b, double *out);

#endif
