/* Kernels for the gradient of a convolution with respect to its weights: the contract.
 *
 *     dw[ky][kx][i][o] = sum over output pixels p of x[p * stride - pad + (ky,kx)][i] * dy[p][o]
 *
 * (The gradient with respect to the input is itself a convolution, see ops/conv/conv.c.) A kernel runs in
 * consecutive stages, each on all threads. The stages exchange data through one shared buffer.
 * kernels/ref/conv/conv_grad.c is the reference: tests/kernels compares every other kernel with it. */
#ifndef ZN_KERNELS_CONV_GRAD_H
#define ZN_KERNELS_CONV_GRAD_H

#include "kernels/conv.h"

typedef struct zn_conv_grad_args {
    zn_conv_shape s; /* shape of the forward convolution; up2 is false */
    const float *x;  /* [n][h][w][cin] */
    const float *dy; /* [n][oh][ow][cout] */
    float *dw;       /* [kh][kw][cin][cout] */
    bool sums;       /* only for kernels with `sums`: [cout] follow dw, the sums of dy over all pixels */
    void *shared;    /* shared_bytes, aligned to 64 */
    int stage;
    zn_type x_type, dy_type; /* other than F32 only for kernels with `narrow` */
    void *workspace;         /* workspace_bytes of the kernel, aligned to 64 */
} zn_conv_grad_args;

typedef struct zn_conv_grad_kernel {
    const char *name;  /* "winograd-grad-f32-neon" */
    zn_precision math; /* of the multiplications; fp32 on CPUs */
    uint32_t cpu;      /* ZN_CPU_ flags that the kernel needs */
    float tolerance;   /* relative RMS error against ref on normal random data */
    bool narrow;       /* x and dy may each be of the type of `math` instead of F32 */
    bool sums;         /* can add up dy, the gradient of a bias, while it reads it for the products */
    bool (*supports)(const zn_conv_shape *s);
    size_t (*shared_bytes)(const zn_conv_shape *s); /* enough with sums too */
    /* Optional: more bytes, for maps of these types. NULL: none. */
    size_t (*workspace_bytes)(const zn_conv_shape *s, zn_type x, zn_type dy);
    size_t (*scratch_bytes)(const zn_conv_shape *s); /* per thread */
    int (*stages)(const zn_conv_shape *s);
    int64_t (*units)(const zn_conv_shape *s, int stage); /* any split gives the same bits */
    void (*run)(const void *conv_grad_args, zn_range units);
    double (*flops)(const zn_conv_shape *s); /* operations actually executed */
} zn_conv_grad_kernel;

/* All kernels of this build, best first; NULL-terminated. The last one is ref and supports everything. */
extern const zn_conv_grad_kernel *const zn_conv_grad_kernels[];

/* Returns the first kernel that this CPU can run, that supports the shape, and whose math is the requested one or F32.
 * Never NULL. */
const zn_conv_grad_kernel *zn_conv_grad_choose(const zn_conv_shape *s, zn_precision math, uint32_t cpu);

/* The kernels compute partial sums over blocks of output rows: at most ZN_GRAD_BLOCKS blocks of equal height. This
 * gives work to many threads and a fixed order of summation. */
enum { ZN_GRAD_BLOCKS = 32 };
int zn_grad_rows(const zn_conv_shape *s);   /* output rows of a block */
int zn_grad_blocks(const zn_conv_shape *s); /* number of blocks in all images together */

#endif
