/* Which convolution kernels this build has, best first. To add one: its line in the list and its extern above it. */
#include "kernels/conv.h"

#include <string.h>

extern const zn_conv_kernel zn_conv_ref;
#if defined(ZN_CUDA_BUILT)
extern const zn_conv_kernel zn_conv_cuda_tf32x3, zn_conv_cuda_f16, zn_conv_cuda_bf16;
#endif
#if defined(__aarch64__)
extern const zn_conv_kernel zn_conv_bf16, zn_conv_i8_as_f16, zn_conv_i8_as_bf16;
extern const zn_conv_kernel zn_conv_from_few_neon, zn_conv_to_few_neon;
extern const zn_conv_kernel zn_conv_point_bf16, zn_conv_bf16x3, zn_conv_pointwise_neon;
extern const zn_conv_kernel zn_conv_winograd_neon, zn_conv_narrow_neon, zn_conv_direct_neon;
#elif defined(__x86_64__)
extern const zn_conv_kernel zn_conv_amx_bf16;
extern const zn_conv_kernel zn_conv_winograd_avx512, zn_conv_narrow_avx512, zn_conv_direct_avx512;
extern const zn_conv_kernel zn_conv_winograd_avx2, zn_conv_narrow_avx2, zn_conv_direct_avx2;
extern const zn_conv_kernel zn_conv_winograd_sse2, zn_conv_narrow_sse2, zn_conv_direct_sse2;
#endif

const zn_conv_kernel *const zn_conv_kernels[] = {
#if defined(ZN_CUDA_BUILT)
    &zn_conv_cuda_f16,      &zn_conv_cuda_bf16,
    &zn_conv_cuda_tf32x3,
#endif
#if defined(__aarch64__)
    &zn_conv_bf16,          &zn_conv_i8_as_f16,
    &zn_conv_i8_as_bf16,    &zn_conv_from_few_neon,
    &zn_conv_to_few_neon,   &zn_conv_point_bf16,
    &zn_conv_bf16x3,        &zn_conv_pointwise_neon,
    &zn_conv_winograd_neon, &zn_conv_narrow_neon,
    &zn_conv_direct_neon,
#elif defined(__x86_64__)
    &zn_conv_amx_bf16,      &zn_conv_winograd_avx512,
    &zn_conv_narrow_avx512, &zn_conv_direct_avx512,
    &zn_conv_winograd_avx2, &zn_conv_narrow_avx2,
    &zn_conv_direct_avx2,   &zn_conv_winograd_sse2,
    &zn_conv_narrow_sse2,   &zn_conv_direct_sse2,
#endif
    &zn_conv_ref,           NULL,
};

#if defined(__aarch64__)
enum {
    /* Digits of weights take eight times as long as the transforms of fp32: on a Neoverse-V1 that is saved again from
     * so many output pixels on. */
    DIGITS_PAY = 1 << 15,
    /* What small maps get wrong passes through the rest of a network, and they take little of its time: the coarsest
     * kernel is for maps that have at least an eighth of the pixels of the largest. */
    COARSE_SHARE = 8,
};

static bool worth_it(const zn_conv_kernel *k, const zn_conv_shape *s, zn_conv_wish wish)
{
    if (k == &zn_conv_bf16)
        return (int64_t)s->h * s->w * COARSE_SHARE >= wish.largest;
    const bool digits = k == &zn_conv_i8_as_f16 || k == &zn_conv_i8_as_bf16;
    return !(digits && wish.changing && (int64_t)s->n * s->oh * s->ow < DIGITS_PAY);
}
#else
static bool worth_it(const zn_conv_kernel *k, const zn_conv_shape *s, zn_conv_wish wish)
{
    (void)k, (void)s, (void)wish;
    return true;
}
#endif

/* Winograd's weights are seven times as many: where there are few tiles, reading them takes longer than multiplying
 * directly, and memory is short before time is. More so where they are transformed for every run. */
enum { FEW_TILES = 4, FEW_CHANGING = 16, TILE_SIDE = 6, MANY_WEIGHTS = 1 << 14 };

static bool too_few_tiles(const zn_conv_kernel *k, const zn_conv_shape *s, zn_conv_wish wish)
{
    const int64_t across = (s->ow + TILE_SIDE - 1) / TILE_SIDE, down = (s->oh + TILE_SIDE - 1) / TILE_SIDE;
    return wish.whole && strncmp(k->name, "winograd", 8) == 0 &&
           s->n * across * down <= (wish.changing ? FEW_CHANGING : FEW_TILES) &&
           (int64_t)s->cin * s->cout >= MANY_WEIGHTS;
}

const zn_conv_kernel *zn_conv_choose(const zn_conv_shape *s, zn_conv_wish wish)
{
    for (const zn_conv_kernel *const *k = zn_conv_kernels; *k; k++)
        if (((*k)->cpu & ~wish.cpu) == 0 && ((*k)->math == wish.math || (*k)->math == ZN_MATH_F32) &&
            (*k)->supports(s) && worth_it(*k, s, wish) && !too_few_tiles(*k, s, wish))
            return *k;
    return &zn_conv_ref;
}
