/* Convolution on a GPU: the descriptors, and the layout of the weights that conv.cu reads. */
#include "kernels/cuda/conv.h"

#include "base/cpu.h"

#include <string.h>

/* Pixel indices are ints. */
static bool supports(const zn_conv_shape *s)
{
    return s->cin > 0 && !s->shuffle && !s->unshuffle && (int64_t)s->n * s->h * s->w <= INT32_MAX;
}

static size_t packed_bytes(const zn_conv_shape *s)
{
    return sizeof(float) * (size_t)zn_cuda_conv_rows(s) * (size_t)zn_cuda_conv_columns(s);
}

/* Rows [kh][kw][cin] of cout weights, zero-padded to whole tiles. */
static void pack(const zn_conv_shape *s, const float *w, void *packed)
{
    const size_t columns = (size_t)zn_cuda_conv_columns(s), used = sizeof(float) * (size_t)s->cout;
    memset(packed, 0, packed_bytes(s));
    for (size_t row = 0; row < (size_t)s->kh * (size_t)s->kw * (size_t)s->cin; row++)
        memcpy((float *)packed + row * columns, w + row * (size_t)s->cout, used);
}

static size_t scratch_bytes(const zn_conv_shape *s) { return (void)s, 0; }
static int64_t units(const zn_conv_shape *s) { return (int64_t)s->n * s->oh; }

static double padded_flops(const zn_conv_shape *s)
{
    return 2.0 * s->n * s->oh * s->ow * (double)zn_cuda_conv_rows(s) * zn_cuda_conv_columns(s);
}
static double three_flops(const zn_conv_shape *s) { return 3 * padded_flops(s); }

/* Keys of the launchers in the device's table. No CPU has ZN_CPU_CUDA, so these functions never run. */
void zn_k_conv_tf32x3(const void *conv_args, zn_range rows) { (void)conv_args, (void)rows; }
void zn_k_conv_tf32(const void *conv_args, zn_range rows) { (void)conv_args, (void)rows; }

/* Each number is the sum of two 11-bit numbers; three products make it as accurate as fp32. */
const zn_conv_kernel zn_conv_cuda_tf32x3 = { .name = "implicit-tf32x3-cuda",
                                             .math = ZN_MATH_F32,
                                             .cpu = ZN_CPU_CUDA,
                                             .tolerance = 2e-6f,
                                             .supports = supports,
                                             .packed_bytes = packed_bytes,
                                             .pack = pack,
                                             .scratch_bytes = scratch_bytes,
                                             .units = units,
                                             .run = zn_k_conv_tf32x3,
                                             .flops = three_flops };

/* One product of 11-bit numbers: the precision of f16 with the range of fp32. It serves both 16-bit types. */
#define ZN_CONV_CUDA_TF32(type)                                                                                        \
    {                                                                                                                  \
        .name = "implicit-tf32-cuda", .math = (type), .cpu = ZN_CPU_CUDA, .tolerance = 6e-4f, .supports = supports,    \
        .packed_bytes = packed_bytes, .pack = pack, .scratch_bytes = scratch_bytes, .units = units,                    \
        .run = zn_k_conv_tf32, .flops = padded_flops                                                                   \
    }
const zn_conv_kernel zn_conv_cuda_f16 = ZN_CONV_CUDA_TF32(ZN_MATH_F16);
const zn_conv_kernel zn_conv_cuda_bf16 = ZN_CONV_CUDA_TF32(ZN_MATH_BF16);
