/* Kernels that do several steps of a transformer's block in one pass over its tokens. They are for GPUs, where the
 * memory traffic of every pass counts; a CPU, whose caches hold a token, runs the steps one by one. */
#ifndef ZN_KERNELS_TOKEN_H
#define ZN_KERNELS_TOKEN_H

#include "base/threads.h"
#include "kernels/rope.h"
#include "kernels/type.h"

#include <stdbool.h>
#include <stdint.h>

enum { ZN_GATED_NORM_MOST = 4096 }; /* channels */

/* y = residual + factor * (x / sqrt(mean over channels of x^2 + eps) * w), where factor is scale, or 1 + scale. Units
 * are tokens. With a limit above 0, scale is limit * tanh(scale / limit). */
typedef struct zn_gated_norm_args {
    const float *x, *w, *scale;
    const float *residual; /* or NULL */
    float *y;
    int c;
    float eps;
    float limit;                   /* or 0 */
    bool plus_one;                 /* the factor is 1 + scale */
    zn_type x_type, residual_type; /* F32 on the CPU */
    zn_type y_type;                /* F32 on the CPU, or E4M3: y are codes (kernels/fp8.h) */
    float *scales;                 /* of the codes, one for each token */
} zn_gated_norm_args;
void zn_k_gated_norm(const void *gated_norm_args, zn_range tokens);

/* rope.x / sqrt(mean over a head's channels of x^2 + eps) * w, rotated as zn_k_rope does. Units are tokens. */
typedef struct zn_norm_rope_args {
    zn_rope_args rope;
    const float *w; /* for each channel of a head */
    float eps;
} zn_norm_rope_args;
void zn_k_norm_rope(const void *norm_rope_args, zn_range tokens);
/* Channels of a head that this kernel takes: powers of two. */
enum { ZN_NORM_ROPE_LEAST = 16, ZN_NORM_ROPE_MOST = 128 };

/* y = silu(a) * b, zn_binary_args; units are elements. */
void zn_k_silu_multiply(const void *binary_args, zn_range elements);

#endif
