/* Weight gradient of a 1x1 convolution with many weights, fp32: the dense product x' dy over all pixels, split among
 * threads by input channels. Partial sums over blocks of pixels would each be as large as the weights. */
#include "kernels/conv_grad.h"
#include "kernels/dense.h"
#include "kernels/simd/vec.h"

extern const zn_conv_grad_kernel ZN_KERNEL(conv_grad_pointwise);
void ZN_KERNEL(dense_weight_grad)(const void *args, zn_range r);

enum { MANY = 1 << 16 };

static zn_dense_args product_of(const zn_conv_shape *s)
{
    return (zn_dense_args){ .rows = (int64_t)s->n * s->oh * s->ow, .k = s->cin, .n = s->cout };
}

static bool supports(const zn_conv_shape *s)
{
    return s->kh == 1 && s->kw == 1 && s->stride == 1 && s->pad == 0 && !s->up2 && s->cout % ZN_DENSE_COLUMNS == 0 &&
           s->cin > ZN_DENSE_INPUTS && (int64_t)s->cin * s->cout >= MANY;
}

static size_t shared_bytes(const zn_conv_shape *s)
{
    (void)s;
    return 0;
}

static size_t scratch_bytes(const zn_conv_shape *s)
{
    (void)s;
    return ZN_DENSE_SCRATCH;
}

static int stages(const zn_conv_shape *s)
{
    (void)s;
    return 1;
}

static int64_t units(const zn_conv_shape *s, int stage)
{
    (void)stage;
    const zn_dense_args a = product_of(s);
    return zn_dense_weight_grad_units(&a);
}

static void run(const void *args, zn_range r)
{
    const zn_conv_grad_args *g = args;
    zn_dense_args a = product_of(&g->s);
    a.x = g->x;
    a.dy = g->dy;
    a.y = g->dw;
    ZN_KERNEL(dense_weight_grad)(&a, r);
}

const zn_conv_grad_kernel ZN_KERNEL(conv_grad_pointwise) = {
    .name = "pointwise-grad-f32-" ZN_ISA_NAME,
    .math = ZN_PRECISION_F32,
    .cpu = VEC_CPU,
    .tolerance = 5e-6f,
    .supports = supports,
    .shared_bytes = shared_bytes,
    .scratch_bytes = scratch_bytes,
    .stages = stages,
    .units = units,
    .run = run,
    .flops = zn_conv_direct_flops,
};
