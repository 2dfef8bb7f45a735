/* 1x1 convolution with bf16 operands on the matrix unit (BFMMLA) and fp32 sums: conv_bf16x3.c with only the high
 * halves, a third of its products. The error is 2.4e-3 of the result. A map of bf16 is read as it is. */
#include "base/cpu.h"

enum { HALVES = 1 };
#include "kernels/arm/conv/point_walk.h"

extern const zn_conv_kernel zn_conv_point_bf16;

static unsigned narrow(const zn_conv_shape *s)
{
    (void)s;
    return ZN_CONV_NARROW_X;
}

static bool rearranges(const zn_conv_shape *s) { return s->cin > 0; }

const zn_conv_kernel zn_conv_point_bf16 = {
    .name = "pointwise-bf16",
    .math = ZN_PRECISION_BF16,
    .cpu = ZN_CPU_NEON | ZN_CPU_BF16,
    .tolerance = 2.7e-3f,
    .narrow = narrow,
    .supports = supports,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .rearranges = rearranges,
    .scratch_bytes = scratch_bytes,
    .units = units,
    .run = run,
    .flops = zn_conv_direct_flops,
};
