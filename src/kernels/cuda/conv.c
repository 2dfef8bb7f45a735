/* Convolution on a GPU: the descriptors, and the layout of the weights that conv.cu reads. */
#include "kernels/cuda/conv.h"

#include "base/cpu.h"

/* Pixel indices are ints, also those of a shuffled map. */
static bool supports(const zn_conv_shape *s)
{
    const bool pointwise = s->kh * s->kw == 1 && s->stride == 1 && s->pad == 0 && !s->up2;
    return s->cin > 0 && (pointwise || !s->unshuffle) && (int64_t)s->n * s->h * s->w <= INT32_MAX / 4;
}

static size_t packed_bytes(const zn_conv_shape *s)
{
    const zn_cuda_weights p = zn_cuda_conv_weights(s);
    return sizeof(float) * (size_t)p.rows * (size_t)p.columns;
}

static void pack(const zn_conv_shape *s, const float *w, void *packed)
{
    const zn_cuda_weights p = zn_cuda_conv_weights(s);
    float *to = packed;
    for (int row = 0; row < p.rows; row++)
        for (int column = 0; column < p.columns; column++) {
            const int64_t from = zn_cuda_weight_at(s, &p, false, row, column);
            *to++ = from < 0 ? 0 : w[from];
        }
}

static size_t scratch_bytes(const zn_conv_shape *s) { return (void)s, 0; }
static int64_t units(const zn_conv_shape *s) { return (int64_t)s->n * s->oh; }

static double padded_flops(const zn_conv_shape *s)
{
    const zn_cuda_weights p = zn_cuda_conv_weights(s);
    return 2.0 * s->n * s->oh * s->ow * (double)p.rows * p.columns;
}
static double three_flops(const zn_conv_shape *s) { return 3 * padded_flops(s); }

/* Keys of the launchers in the device's table. No CPU has ZN_CPU_CUDA, so these functions never run. */
void zn_k_conv_tf32x3(const void *conv_args, zn_range rows) { (void)conv_args, (void)rows; }
void zn_k_conv_tf32(const void *conv_args, zn_range rows) { (void)conv_args, (void)rows; }
void zn_k_conv_pack(const void *conv_pack_args, zn_range unit) { (void)conv_pack_args, (void)unit; }

/* Each number is the sum of two 11-bit numbers; three products make it as accurate as fp32. */
const zn_conv_kernel zn_conv_cuda_tf32x3 = { .name = "implicit-tf32x3-cuda",
                                             .math = ZN_MATH_F32,
                                             .cpu = ZN_CPU_CUDA,
                                             .tolerance = 2e-6f,
                                             .supports = supports,
                                             .packed_bytes = packed_bytes,
                                             .pack = pack,
                                             .pack_there = zn_k_conv_pack,
                                             .scratch_bytes = scratch_bytes,
                                             .units = units,
                                             .run = zn_k_conv_tf32x3,
                                             .flops = three_flops };

/* One product of 11-bit numbers: the precision of f16 with the range of fp32. It serves both 16-bit types. */
#define ZN_CONV_CUDA_TF32(type)                                                                                        \
    {                                                                                                                  \
        .name = "implicit-tf32-cuda", .math = (type), .cpu = ZN_CPU_CUDA, .tolerance = 6e-4f, .supports = supports,    \
        .packed_bytes = packed_bytes, .pack = pack, .pack_there = zn_k_conv_pack, .scratch_bytes = scratch_bytes,      \
        .units = units, .run = zn_k_conv_tf32, .flops = padded_flops                                                   \
    }
const zn_conv_kernel zn_conv_cuda_f16 = ZN_CONV_CUDA_TF32(ZN_MATH_F16);
const zn_conv_kernel zn_conv_cuda_bf16 = ZN_CONV_CUDA_TF32(ZN_MATH_BF16);
