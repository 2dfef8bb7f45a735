/* Maps of bf16 on the CPU. Sums and functions are fp32: a kernel widens what it reads and rounds what it writes.
 * Convolutions do so themselves (zn_conv_kernel.narrow). Here are the conversions, and kernels that run one of fp32
 * maps piece by piece: a piece is widened, computed and rounded while it is in the L1. */
#ifndef ZN_KERNELS_NARROW_H
#define ZN_KERNELS_NARROW_H

#include "kernels/kernels.h"

enum { ZN_NARROW_PIECE = 4096 }; /* floats; the channels of a pixel must fit */

/* y = x; units are elements. */
typedef struct zn_widen_args {
    const uint16_t *x;
    float *y;
} zn_widen_args;
void zn_k_widen(const void *widen_args, zn_range elements);

/* y = x rounded to nearest, ties to even; NaN stays NaN. */
typedef struct zn_round_args {
    const float *x;
    uint16_t *y;
} zn_round_args;
void zn_k_round(const void *round_args, zn_range elements);

/* body on maps of bf16; units are elements. Unary: without dy. */
typedef struct zn_narrow_unary_args {
    zn_unary_args a;
    zn_body body;
} zn_narrow_unary_args;
void zn_k_narrow_unary(const void *narrow_unary_args, zn_range elements);
typedef struct zn_narrow_binary_args {
    zn_binary_args a;
    zn_body body;
} zn_narrow_binary_args;
void zn_k_narrow_binary(const void *narrow_binary_args, zn_range elements);

/* As zn_k_rms_norm (mix.h), zn_k_norm_sums and zn_k_norm_apply (norm.h), with maps of x_type and y_type. */
void zn_k_narrow_rms_norm(const void *mix_args, zn_range pixels);
void zn_k_narrow_norm_sums(const void *norm_args, zn_range blocks);
void zn_k_narrow_norm_apply(const void *norm_args, zn_range pixels);

#endif
