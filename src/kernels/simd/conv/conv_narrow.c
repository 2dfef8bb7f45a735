/* 1x1 convolution from or to at most four channels, on vectors. */
#include "kernels/simd/conv/narrow.h"

extern const zn_conv_kernel ZN_KERNEL(conv_narrow);

static void run(const void *args, zn_range r) { narrow_run(args, r, spread_four, gather_some); }

const zn_conv_kernel ZN_KERNEL(conv_narrow) = {
    .name = "narrow-f32-" ZN_ISA_NAME,
    .math = ZN_PRECISION_F32,
    .cpu = VEC_CPU,
    .tolerance = 5e-6f,
    .supports = supports,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .scratch_bytes = scratch_bytes,
    .units = units,
    .run = run,
    .flops = zn_conv_direct_flops,
};
