/* Compute precision: the one type from the options of a handle down to the kernels. */
#ifndef ZN_PRECISION_H
#define ZN_PRECISION_H

#include <zenith/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Compute precision of multiplications; everything else is always fp32. The 16-bit ones allow what is faster: on ARM
 * f16 is fixed-point arithmetic of 15 bits on the int8 matrix unit, and bf16 the same except for large feature maps and
 * 1x1 layers, where it is bf16 on the matrix unit; on x86 bf16 is AMX, on a GPU both are TF32. int8 applies to the
 * matrices of transformers whose weights are quantised: their inputs are rounded to 8 bits for each row and 32
 * channels. fp8 (E4M3) applies to the products of Z-Image's transformer: each row of weights and inputs gets a scale,
 * layers that need more precision stay bf16 (zn_generator_calibrate), and so does everything else; a GPU with FP8 units
 * is faster by it, a CPU is not. On Hopper GPUs it also applies to convolutions over frames after norms, in decoders of
 * clips. A layer that has nothing faster (f16 on x86) is computed in fp32. */
typedef enum zn_precision {
    ZN_PRECISION_DEFAULT, /* fp32; when training, the recipe's; when generating, int8 */
    ZN_PRECISION_F32,
    ZN_PRECISION_BF16,
    ZN_PRECISION_F16,
    ZN_PRECISION_INT8, /* not for training */
    ZN_PRECISION_FP8   /* for generating, and for clips (zn_video) */
} zn_precision;

/* "f32", "bf16", "f16", "int8", "fp8"; NULL for any other number, so names can be listed from ZN_PRECISION_F32 on. */
ZN_API const char *zn_precision_name(int precision);

#ifdef __cplusplus
}
#endif
#endif
