/* Lists the weight-gradient kernels of this build, best first. To add one, add its extern and its line in the list. */
#include "kernels/conv_grad.h"

extern const zn_conv_grad_kernel zn_conv_grad_ref;
#if defined(ZN_CUDA_BUILT)
extern const zn_conv_grad_kernel zn_conv_grad_hopper_bf16, zn_conv_grad_cuda_product;
extern const zn_conv_grad_kernel zn_conv_grad_cuda_from_few, zn_conv_grad_cuda_to_few, zn_conv_grad_cuda_strided;
extern const zn_conv_grad_kernel zn_conv_grad_cuda_f32, zn_conv_grad_cuda_bf16, zn_conv_grad_cuda_tf32_as_f16,
    zn_conv_grad_cuda_tf32_as_bf16;
#endif
#if defined(__aarch64__)
extern const zn_conv_grad_kernel zn_conv_grad_winograd_neon, zn_conv_grad_pointwise_neon, zn_conv_grad_direct_neon;
#elif defined(__x86_64__)
extern const zn_conv_grad_kernel zn_conv_grad_winograd_avx512, zn_conv_grad_pointwise_avx512,
    zn_conv_grad_direct_avx512;
extern const zn_conv_grad_kernel zn_conv_grad_winograd_avx2, zn_conv_grad_pointwise_avx2, zn_conv_grad_direct_avx2;
extern const zn_conv_grad_kernel zn_conv_grad_winograd_sse2, zn_conv_grad_pointwise_sse2, zn_conv_grad_direct_sse2;
#else
extern const zn_conv_grad_kernel zn_conv_grad_winograd_generic, zn_conv_grad_pointwise_generic,
    zn_conv_grad_direct_generic;
#endif

const zn_conv_grad_kernel *const zn_conv_grad_kernels[] = {
#if defined(ZN_CUDA_BUILT)
    &zn_conv_grad_hopper_bf16,
    &zn_conv_grad_cuda_product,
    &zn_conv_grad_cuda_from_few,
    &zn_conv_grad_cuda_to_few,
    &zn_conv_grad_cuda_strided,
    &zn_conv_grad_cuda_bf16,
    &zn_conv_grad_cuda_tf32_as_f16,
    &zn_conv_grad_cuda_tf32_as_bf16,
    &zn_conv_grad_cuda_f32,
#endif
#if defined(__aarch64__)
    &zn_conv_grad_winograd_neon,
    &zn_conv_grad_pointwise_neon,
    &zn_conv_grad_direct_neon,
#elif defined(__x86_64__)
    &zn_conv_grad_winograd_avx512,
    &zn_conv_grad_pointwise_avx512,
    &zn_conv_grad_direct_avx512,
    &zn_conv_grad_winograd_avx2,
    &zn_conv_grad_pointwise_avx2,
    &zn_conv_grad_direct_avx2,
    &zn_conv_grad_winograd_sse2,
    &zn_conv_grad_pointwise_sse2,
    &zn_conv_grad_direct_sse2,
#else
    &zn_conv_grad_winograd_generic,
    &zn_conv_grad_pointwise_generic,
    &zn_conv_grad_direct_generic,
#endif
    &zn_conv_grad_ref,
    NULL,
};

const zn_conv_grad_kernel *zn_conv_grad_choose(const zn_conv_shape *s, zn_precision math, uint32_t cpu)
{
    for (const zn_conv_grad_kernel *const *k = zn_conv_grad_kernels; *k; k++)
        if (((*k)->cpu & ~cpu) == 0 && ((*k)->math == math || (*k)->math == ZN_PRECISION_F32) && (*k)->supports(s))
            return *k;
    return &zn_conv_grad_ref;
}
