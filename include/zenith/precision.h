/* Compute precision: the one type from the options of a handle down to the kernels. */
#ifndef ZN_PRECISION_H
#define ZN_PRECISION_H

#include <zenith/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Compute precision of multiplications. Sums, inputs, results and parameters are fp32; feature maps between layers may
 * be stored in 16 bits. A layer without faster arithmetic in the requested precision (f16 on x86) is computed in fp32.
 *
 * - f16: on ARM fixed-point arithmetic of 15 bits on the int8 matrix unit.
 * - bf16: on ARM the same except for large feature maps and 1x1 layers, which use the bf16 matrix unit; on x86 AMX.
 * - On a GPU f16 and bf16 are the matrix unit's own types; layers of few channels use TF32.
 * - int8: for the matrices of transformers whose weights are quantised. Inputs are rounded to 8 bits for each row and
 *   32 channels.
 * - fp8 (E4M3): for the products of Z-Image's transformer. Each row of weights and inputs gets a scale; layers that
 *   need more precision stay bf16 (zn_generator_calibrate), and so does everything else. GPUs with FP8 units are faster
 *   with it, CPUs are not. On Hopper GPUs also for convolutions over frames after norms, in decoders of videos. */
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
