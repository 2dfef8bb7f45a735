/* 1x1 convolution in fp32 on the bf16 matrix unit (BFMMLA). Every value is a sum of two bf16, x = high + low, with
 * 16 bits in total. A product is high high + low high + high low, summed in fp32; low low is below the rounding
 * error. Three BFMMLA take the time of 12 multiply-adds, where FMLA takes that of 16. The error is 4.4e-6 of the
 * result.
 *
 * An infinity results in NaN, as do values that bf16 rounds to infinity (beyond 3.39e38). */
#include "base/cpu.h"

enum { HALVES = 2 };
#include "kernels/arm/conv/point_walk.h"

extern const zn_conv_kernel zn_conv_bf16x3;

/* Counted in multiply-adds of the fp32 pipes. */
static double flops(const zn_conv_shape *s) { return 0.75 * zn_conv_direct_flops(s); }

/* Three matrix instructions, one slot each, for sixteen products; and for each input its high part, the difference
 * and the low part. */
static double slots(const zn_conv_shape *s) { return (double)pixels_of(s) * s->cin * (4 * 3 / 16.0 * s->cout + 3); }

const zn_conv_kernel zn_conv_bf16x3 = {
    .name = "pointwise-bf16x3",
    .math = ZN_PRECISION_F32,
    .cpu = ZN_CPU_NEON | ZN_CPU_BF16,
    .tolerance = 5e-6f,
    .supports = supports,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .scratch_bytes = scratch_bytes,
    .units = units,
    .run = run,
    .flops = flops,
    .slots = slots,
};
