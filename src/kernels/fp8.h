/* Products of FP8 numbers (E4M3: a sign, 4 bits of exponent and 3 of mantissa, magnitudes up to 448). Every row of both
 * factors has a scale of its own, so that its largest number becomes 448:
 *
 *     scale[p] = max over i of |x[p][i]| / 448          code[p][i] = E4M3 of x[p][i] * (448 / max)
 *     y[p][j]  = scale_x[p] scale_w[j] * sum over i of code_x[p][i] code_w[j][i]
 *
 * Products of codes are exact in fp32. Codes are rounded to nearest, ties to even. A number that is not finite makes
 * its row NaN. ref/basic/fp8.c defines the results. */
#ifndef ZN_KERNELS_FP8_H
#define ZN_KERNELS_FP8_H

#include "base/threads.h"
#include "kernels/type.h"

#include <stdint.h>

/* The largest code; and rows whose numbers are all smaller than this are zeros, with a scale of 1. */
#define ZN_E4M3_MOST  448.0f
#define ZN_E4M3_LEAST 1e-30f

/* Codes of a row, or the numbers that they stand for. Units are rows. */
typedef struct zn_quantise_args {
    const float *x;
    const float *gate; /* or NULL; otherwise the numbers are silu(gate) * x */
    void *y;
    float *scales; /* [rows], for codes */
    int c;
    zn_type x_type, gate_type; /* F32 on the CPU */
    zn_type y_type;            /* E4M3: codes; F32: code * scale */
} zn_quantise_args;
void zn_k_quantise(const void *quantise_args, zn_range rows);

/* Codes of c numbers; returns their scale. */
float zn_quantise_row(const float *x, int c, uint8_t *codes);

/* y [rows][out]; in: at most ZN_FP8_DEPTH. Units are rows. */
typedef struct zn_matrix_fp8_args {
    const uint8_t *x, *w; /* codes [rows][in], [out][in] */
    const float *x_scales, *w_scales;
    float *y;
    int64_t rows;
    int in, out;
    zn_type y_type; /* F32 on the CPU */
    void *shared;   /* on a device: zn_matrix_fp8_shared bytes */
} zn_matrix_fp8_args;
void zn_k_matrix_fp8(const void *matrix_fp8_args, zn_range rows);

enum { ZN_FP8_DEPTH = 16384, ZN_FP8_STEP = 16 }; /* longest row; its length is a multiple of STEP, and so is `out` */

/* For GPUs without FP8: both factors in bf16, which holds every code. */
static inline size_t zn_matrix_fp8_weights(int in, int out) { return ((size_t)in * (size_t)out * 2 + 255) / 256 * 256; }
static inline size_t zn_matrix_fp8_shared(int64_t rows, int in, int out)
{
    return zn_matrix_fp8_weights(in, out) + (size_t)rows * (size_t)in * 2;
}

#endif
