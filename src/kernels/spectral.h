/* Walsh-Hadamard kernels. A tensor is viewed as [outer][n][inner]. The transform runs along n, which must be a power
 * of two. inner is contiguous (channels for rows and columns of an image, 1 for the channel axis itself).
 *
 * H is the unnormalised matrix in natural order, H[i][j] = (-1)^popcount(i & j); H H = n I. */
#ifndef ZN_KERNELS_SPECTRAL_H
#define ZN_KERNELS_SPECTRAL_H

#include "base/threads.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct zn_wht_args {
    const float *x;
    float *y;          /* may be x */
    const float *gate; /* [n] or NULL: y = scale * H (gate .* H x) instead of scale * H x */
    float scale;
    int64_t outer, n, inner;
} zn_wht_args;

/* Floats of a contiguous run that are transformed together. Runs are wide if n is small, because memory is faster in
 * long accesses. */
int64_t zn_wht_run(const zn_wht_args *a);
/* Floats of neighbouring lines that the vector builds process at once. */
enum { ZN_WHT_CHUNK = 4096 };

/* Number of units; each thread needs zn_wht_scratch bytes. */
int64_t zn_wht_units(const zn_wht_args *a);
int64_t zn_wht_grain(const zn_wht_args *a); /* smallest number of units worth giving to a thread */
size_t zn_wht_scratch(const zn_wht_args *a);
void zn_k_wht(const void *wht_args, zn_range units);

/* dgate[k] = scale * sum over all other axes of (H dy)[k] * (H x)[k]; partial sums for each unit, [units][n]. */
typedef struct zn_gate_grad_args {
    zn_wht_args t; /* x, n, inner, outer, scale */
    const float *dy;
    float *partial;
} zn_gate_grad_args;
void zn_k_gate_grad(const void *gate_grad_args, zn_range units);

/* One in-place transform over n rows of `inner` floats, `stride` floats apart. */
void zn_wht_rows(float *x, int64_t n, int64_t inner, int64_t stride);
/* One transform of n contiguous floats. */
void zn_wht_line(float *x, int64_t n);

/* DeepSpectralLinear (specification A4). The cin channels of each pixel are zero-padded to d (a power of two) and
 * transformed `depth` times by x <- H (s_k .* P_k x). The first cout channels are kept and the bias is added. The
 * pixels form a map [rows][wide]. With shuffle_in, x has four times as many pixels and cin/4 channels, and is read
 * through a pixel unshuffle. With shuffle_out, y is the pixel shuffle of the result. Units are rows. */
typedef struct zn_spectral_linear_args {
    const float *x, *s, *bias; /* s [depth][d], bias [cout] */
    const int32_t *from;       /* [depth][d]: (P_k x)[j] = x[from[k][j]] */
    float *y;
    int wide, cin, cout, d, depth;
    bool shuffle_in, shuffle_out;
} zn_spectral_linear_args;
size_t zn_spectral_linear_scratch(int d, int depth);
void zn_k_spectral_linear(const void *spectral_linear_args, zn_range rows);

/* Natural index of sequency position k: that row of H has exactly k sign changes. */
int64_t zn_wht_sequency(int64_t k, int64_t n);

#endif
