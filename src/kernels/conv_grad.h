/* Kernels for the gradient of a convolution with respect to its weights: the contract.
 *
 *     dw[ky][kx][i][o] = sum over output pixels p of x[p * stride - pad + (ky,kx)][i] * dy[p][o]
 *
 * (The gradient with respect to the input is a convolution itself, see ops/conv/conv.c.) A kernel works in stages, one
 * after the other, each over threads; what passes between them lies in one shared block. kernels/ref/conv_grad.c is the
 * definition of right: tests/kernels compares every other one with it. */
#ifndef ZN_KERNELS_CONV_GRAD_H
#define ZN_KERNELS_CONV_GRAD_H

#include "kernels/conv.h"

typedef struct zn_conv_grad_args {
    zn_conv_shape s; /* of the forward convolution; up2 is false */
    const float *x;  /* [n][h][w][cin] */
    const float *dy; /* [n][oh][ow][cout] */
    float *dw;       /* [kh][kw][cin][cout] */
    void *shared;    /* shared_bytes, aligned to 64 */
    int stage;
} zn_conv_grad_args;

typedef struct zn_conv_grad_kernel {
    const char *name; /* "winograd-grad-f32-neon" */
    uint32_t cpu;     /* ZN_CPU_ flags it needs */
    float tolerance;  /* relative RMS error against ref on normal random data */
    bool (*supports)(const zn_conv_shape *s);
    size_t (*shared_bytes)(const zn_conv_shape *s);
    size_t (*scratch_bytes)(const zn_conv_shape *s); /* for each thread */
    int (*stages)(const zn_conv_shape *s);
    int64_t (*units)(const zn_conv_shape *s, int stage); /* any split gives the same bits */
    void (*run)(const void *conv_grad_args, zn_range units);
    double (*flops)(const zn_conv_shape *s); /* really executed */
} zn_conv_grad_kernel;

/* All kernels of this build, best first; NULL-terminated. The last one is ref and supports everything. */
extern const zn_conv_grad_kernel *const zn_conv_grad_kernels[];

/* The first kernel that this CPU has and that supports the shape. Never NULL. */
const zn_conv_grad_kernel *zn_conv_grad_choose(const zn_conv_shape *s, uint32_t cpu);

/* Partial sums over blocks of output rows, so that there is work for many threads and one order of summing: at most
 * ZN_GRAD_BLOCKS blocks of equal height. */
enum { ZN_GRAD_BLOCKS = 32 };
int zn_grad_rows(const zn_conv_shape *s);   /* of a block */
int zn_grad_blocks(const zn_conv_shape *s); /* blocks of all images together */

#endif
