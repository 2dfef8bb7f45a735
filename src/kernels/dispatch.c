/* Lists the convolution kernels of this build, best first. To add one, add its extern and its line in the list. */
#include "kernels/conv.h"

extern const zn_conv_kernel zn_conv_ref;
#if defined(ZN_CUDA_BUILT)
extern const zn_conv_kernel zn_conv_hopper_up_f16, zn_conv_hopper_up_bf16, zn_conv_hopper_fp8;
extern const zn_conv_kernel zn_conv_hopper_f16, zn_conv_hopper_bf16, zn_conv_hopper_small_bf16;
extern const zn_conv_kernel zn_conv_cuda_product, zn_conv_cuda_rows;
extern const zn_conv_kernel zn_conv_cuda_thin_f16, zn_conv_cuda_thin_bf16;
extern const zn_conv_kernel zn_conv_cuda_to_few_f16, zn_conv_cuda_to_few_bf16;
extern const zn_conv_kernel zn_conv_cuda_to_few_f32, zn_conv_hopper_split_up, zn_conv_hopper_split;
extern const zn_conv_kernel zn_conv_cuda_tf32x3, zn_conv_cuda_f16, zn_conv_cuda_bf16;
extern const zn_conv_kernel zn_conv_cuda_few_as_f16, zn_conv_cuda_few_as_bf16;
extern const zn_conv_kernel zn_conv_cuda_tf32_as_f16, zn_conv_cuda_tf32_as_bf16;
#endif
#if defined(__aarch64__)
extern const zn_conv_kernel zn_conv_bf16, zn_conv_i8_as_f16, zn_conv_i8_as_bf16, zn_conv_direct_bf16;
extern const zn_conv_kernel zn_conv_from_few_neon, zn_conv_to_few_neon;
extern const zn_conv_kernel zn_conv_point_bf16, zn_conv_bf16x3, zn_conv_pointwise_neon;
extern const zn_conv_kernel zn_conv_narrow_arm;
extern const zn_conv_kernel zn_conv_up_neon, zn_conv_small4_neon, zn_conv_small2_neon, zn_conv_winograd_neon,
    zn_conv_narrow_neon;
extern const zn_conv_kernel zn_conv_direct_neon;
#elif defined(__x86_64__)
extern const zn_conv_kernel zn_conv_amx_bf16;
extern const zn_conv_kernel zn_conv_to_few_avx512, zn_conv_up_avx512, zn_conv_small4_avx512, zn_conv_small2_avx512,
    zn_conv_winograd_avx512, zn_conv_narrow_avx512, zn_conv_direct_avx512;
extern const zn_conv_kernel zn_conv_to_few_avx2, zn_conv_up_avx2, zn_conv_small4_avx2, zn_conv_small2_avx2,
    zn_conv_winograd_avx2, zn_conv_narrow_avx2, zn_conv_direct_avx2;
extern const zn_conv_kernel zn_conv_to_few_sse2, zn_conv_up_sse2, zn_conv_small4_sse2, zn_conv_small2_sse2,
    zn_conv_winograd_sse2, zn_conv_narrow_sse2, zn_conv_direct_sse2;
#else
extern const zn_conv_kernel zn_conv_to_few_generic, zn_conv_up_generic, zn_conv_small4_generic, zn_conv_small2_generic,
    zn_conv_winograd_generic, zn_conv_narrow_generic, zn_conv_direct_generic;
#endif

/* clang-format off */
const zn_conv_kernel *const zn_conv_kernels[] = {
#if defined(ZN_CUDA_BUILT)
    &zn_conv_hopper_up_f16,
    &zn_conv_hopper_up_bf16,
    &zn_conv_hopper_small_bf16,
    &zn_conv_hopper_f16,
    &zn_conv_hopper_bf16,
    &zn_conv_cuda_thin_f16,
    &zn_conv_cuda_thin_bf16,
    &zn_conv_cuda_to_few_f16,
    &zn_conv_cuda_to_few_bf16,
    &zn_conv_cuda_product,
    &zn_conv_cuda_rows,
    &zn_conv_cuda_f16,
    &zn_conv_cuda_bf16,
    &zn_conv_cuda_few_as_f16,
    &zn_conv_cuda_few_as_bf16,
    &zn_conv_cuda_tf32_as_f16,
    &zn_conv_cuda_tf32_as_bf16,
    &zn_conv_cuda_to_few_f32,
    &zn_conv_hopper_split_up,
    &zn_conv_hopper_split,
    &zn_conv_cuda_tf32x3,
#endif
#if defined(__aarch64__)
    &zn_conv_bf16,
    &zn_conv_i8_as_f16,
    &zn_conv_i8_as_bf16,
    &zn_conv_direct_bf16,
    &zn_conv_from_few_neon,
    &zn_conv_to_few_neon,
    &zn_conv_point_bf16,
    &zn_conv_bf16x3,
    &zn_conv_pointwise_neon,
    &zn_conv_up_neon,
    &zn_conv_small4_neon,
    &zn_conv_small2_neon,
    &zn_conv_winograd_neon,
    &zn_conv_narrow_arm,
    &zn_conv_narrow_neon,
    &zn_conv_direct_neon,
#elif defined(__x86_64__)
    &zn_conv_amx_bf16,
    &zn_conv_to_few_avx512,
    &zn_conv_up_avx512,
    &zn_conv_small4_avx512,
    &zn_conv_small2_avx512,
    &zn_conv_winograd_avx512,
    &zn_conv_narrow_avx512,
    &zn_conv_direct_avx512,
    &zn_conv_to_few_avx2,
    &zn_conv_up_avx2,
    &zn_conv_small4_avx2,
    &zn_conv_small2_avx2,
    &zn_conv_winograd_avx2,
    &zn_conv_narrow_avx2,
    &zn_conv_direct_avx2,
    &zn_conv_to_few_sse2,
    &zn_conv_up_sse2,
    &zn_conv_small4_sse2,
    &zn_conv_small2_sse2,
    &zn_conv_winograd_sse2,
    &zn_conv_narrow_sse2,
    &zn_conv_direct_sse2,
#else
    &zn_conv_to_few_generic,
    &zn_conv_up_generic,
    &zn_conv_small4_generic,
    &zn_conv_small2_generic,
    &zn_conv_winograd_generic,
    &zn_conv_narrow_generic,
    &zn_conv_direct_generic,
#endif
    &zn_conv_ref,
    NULL,
};
/* clang-format on */

/* Twice the weights at both levels: at the second, conv_small and conv_up leave themselves out, and rows and columns
 * that are filled up may double the weights of small layers, which do not matter. Nor do weights for 16 bits that are
 * small beside a frame of the result: another kernel would need maps of floats. */
static bool is_lean(const zn_conv_kernel *k, const zn_conv_shape *s)
{
    enum { MARGIN = 4096, SMALL_SHARE = 16 };
    const size_t packed = k->packed_bytes(s);
    const size_t weights = sizeof(float) * (size_t)s->kh * (size_t)s->kw * (size_t)s->cin * (size_t)s->cout;
    const size_t frame = sizeof(float) * (size_t)s->oh * (size_t)s->ow * (size_t)s->cout;
    return packed <= 2 * weights + MARGIN || (k->math != ZN_PRECISION_F32 && packed * SMALL_SHARE <= frame);
}

const zn_conv_kernel *zn_conv_choose(const zn_conv_shape *s, zn_conv_wish wish)
{
    for (const zn_conv_kernel *const *k = zn_conv_kernels; *k; k++)
        if (((*k)->cpu & ~wish.cpu) == 0 && ((*k)->math == wish.math || (*k)->math == ZN_PRECISION_F32) &&
            (*k)->supports(s) && (!(*k)->pays || (*k)->pays(s, &wish)) && (!wish.lean || is_lean(*k, s)))
            return *k;
    return &zn_conv_ref;
}

const zn_conv_kernel *zn_conv_of_codes(const zn_conv_shape *s, uint32_t cpu)
{
#if defined(ZN_CUDA_BUILT)
    if ((zn_conv_hopper_fp8.cpu & ~cpu) == 0 && zn_conv_hopper_fp8.supports(s))
        return &zn_conv_hopper_fp8;
#endif
    return (void)s, (void)cpu, NULL;
}
