/* The gradient of a convolution's weights on a GPU: the descriptors. */
#include "kernels/cuda/conv/conv_grad.h"

#include "base/cpu.h"

/* Pixel indices are ints. */
static bool supports(const zn_conv_shape *s) { return !s->up2 && (int64_t)s->n * s->h * s->w <= INT32_MAX; }

/* With a stride of 2, two tiles of x in both types would not fit into shared memory. */
static bool supports_half(const zn_conv_shape *s)
{
    return supports(s) && !(zn_cuda_grad_plan_of(s).nine && s->stride > 1);
}

static bool supports_product(const zn_conv_shape *s) { return supports(s) && zn_cuda_conv_is_product(s); }

static size_t shared_bytes(const zn_conv_shape *s)
{
    const zn_cuda_grad_plan p = zn_cuda_grad_plan_of(s);
    return sizeof(float) * (size_t)(p.parts * p.ways * s->kh * s->kw * s->cin * s->cout);
}

/* Hopper: whole pieces of eight channels, and enough of them to fill a tile of weights. */
static bool supports_lines(const zn_conv_shape *s)
{
    return supports(s) && s->kh == 3 && s->kw == 3 && s->stride == 1 && s->cin % 8 == 0 && s->cout % 8 == 0 &&
           s->cin > ZN_CUDA_GRAD_FEW_IN && s->cout > ZN_CUDA_GRAD_FEW_OUT;
}

static size_t lines_bytes(const zn_conv_shape *s)
{
    return sizeof(float) * (size_t)(zn_cuda_grad_lines_plan(s).parts * zn_cuda_grad_part(s, true));
}

/* A stride of 2, and the same channels; tiles of x fit into shared memory in 16 bits. */
static bool supports_strided(const zn_conv_shape *s)
{
    return supports(s) && s->kh == 3 && s->kw == 3 && s->stride == 2 && s->cin % 8 == 0 && s->cout % 8 == 0 &&
           s->cin > ZN_CUDA_GRAD_FEW_IN && s->cout > ZN_CUDA_GRAD_FEW_OUT;
}

/* conv_grad_few.cu: three or four channels on one side, whole pieces of eight on the other. */
static bool supports_few(const zn_conv_shape *s, int few, int wide)
{
    return supports(s) && s->kh == 3 && s->kw == 3 && s->stride == 1 && s->pad <= 2 && (few == 3 || few == 4) &&
           wide % 8 == 0 && wide > ZN_CUDA_GRAD_FEW_IN;
}
static bool supports_from_few(const zn_conv_shape *s) { return supports_few(s, s->cin, s->cout); }
static bool supports_to_few(const zn_conv_shape *s) { return supports_few(s, s->cout, s->cin); }
static size_t from_few_bytes(const zn_conv_shape *s)
{
    return sizeof(float) * (size_t)(zn_cuda_grad_from_few_plan(s).parts * zn_cuda_grad_part(s, true));
}
static size_t to_few_bytes(const zn_conv_shape *s)
{
    return sizeof(float) * (size_t)(zn_cuda_grad_to_few_plan(s).parts * zn_cuda_grad_part(s, false));
}
static size_t rounded_dy(const zn_conv_shape *s, zn_type x, zn_type dy)
{
    return (void)x, zn_cuda_rounded_bytes(dy, (int64_t)s->n * s->oh * s->ow * s->cout);
}
static size_t rounded_x(const zn_conv_shape *s, zn_type x, zn_type dy)
{
    return (void)dy, zn_cuda_rounded_bytes(x, (int64_t)s->n * s->h * s->w * s->cin);
}

/* x and dy, if they are rounded first. */
static size_t rounded(const zn_conv_shape *s, zn_type x, zn_type dy)
{
    return zn_cuda_rounded_bytes(x, (int64_t)s->n * s->h * s->w * s->cin) +
           zn_cuda_rounded_bytes(dy, (int64_t)s->n * s->oh * s->ow * s->cout);
}

static int one_stage(const zn_conv_shape *s) { return (void)s, 1; }
static size_t scratch_bytes(const zn_conv_shape *s) { return (void)s, 0; }
static int stages(const zn_conv_shape *s) { return (void)s, 2; }
static int64_t units(const zn_conv_shape *s, int stage) { return (void)s, (void)stage, 1; }
static double three_flops(const zn_conv_shape *s) { return 3 * zn_conv_direct_flops(s); }

/* Keys of the launchers in the device's table. No CPU has ZN_CPU_CUDA, so these functions never run. */
void zn_k_conv_grad_tf32x3(const void *conv_grad_args, zn_range unit) { (void)conv_grad_args, (void)unit; }
void zn_k_conv_grad_wgmma(const void *conv_grad_args, zn_range unit) { (void)conv_grad_args, (void)unit; }
void zn_k_conv_grad_bf16(const void *conv_grad_args, zn_range unit) { (void)conv_grad_args, (void)unit; }
void zn_k_conv_grad_strided(const void *conv_grad_args, zn_range unit) { (void)conv_grad_args, (void)unit; }
void zn_k_conv_grad_from_few(const void *conv_grad_args, zn_range unit) { (void)conv_grad_args, (void)unit; }
void zn_k_conv_grad_to_few(const void *conv_grad_args, zn_range unit) { (void)conv_grad_args, (void)unit; }
void zn_k_conv_grad_tf32(const void *conv_grad_args, zn_range unit) { (void)conv_grad_args, (void)unit; }
void zn_k_conv_grad_product(const void *conv_grad_args, zn_range unit) { (void)conv_grad_args, (void)unit; }

#define ZN_CONV_GRAD_CUDA(title, type, error, can, body, operations)                                                   \
    {                                                                                                                  \
        .name = (title), .math = (type), .cpu = ZN_CPU_CUDA, .tolerance = (error), .supports = (can), .narrow = true,  \
        .shared_bytes = shared_bytes, .scratch_bytes = scratch_bytes, .stages = stages, .units = units, .run = (body), \
        .flops = (operations)                                                                                          \
    }
const zn_conv_grad_kernel zn_conv_grad_cuda_f32 =
    ZN_CONV_GRAD_CUDA("grad-tf32x3-cuda", ZN_PRECISION_F32, 2e-6f, supports, zn_k_conv_grad_tf32x3, three_flops);
const zn_conv_grad_kernel zn_conv_grad_cuda_bf16 = ZN_CONV_GRAD_CUDA(
    "grad-bf16-cuda", ZN_PRECISION_BF16, 5e-3f, supports_half, zn_k_conv_grad_bf16, zn_conv_direct_flops);
/* Gradients may be too small for f16; TF32 has its precision. */
const zn_conv_grad_kernel zn_conv_grad_cuda_tf32_as_f16 =
    ZN_CONV_GRAD_CUDA("grad-tf32-cuda", ZN_PRECISION_F16, 6e-4f, supports, zn_k_conv_grad_tf32, zn_conv_direct_flops);
const zn_conv_grad_kernel zn_conv_grad_cuda_tf32_as_bf16 =
    ZN_CONV_GRAD_CUDA("grad-tf32-cuda", ZN_PRECISION_BF16, 6e-4f, supports, zn_k_conv_grad_tf32, zn_conv_direct_flops);

#define ZN_CONV_GRAD_ROUNDED(title, adds, can, parts_of, room, body)                                                   \
    {                                                                                                                  \
        .name = (title), .math = ZN_PRECISION_BF16, .cpu = ZN_CPU_CUDA, .tolerance = 5e-3f, .supports = (can),         \
        .narrow = true, .sums = (adds), .shared_bytes = (parts_of), .workspace_bytes = (room),                         \
        .scratch_bytes = scratch_bytes, .stages = stages, .units = units, .run = (body), .flops = zn_conv_direct_flops \
    }
const zn_conv_grad_kernel zn_conv_grad_cuda_strided = ZN_CONV_GRAD_ROUNDED(
    "grad-strided-bf16-cuda", false, supports_strided, shared_bytes, rounded, zn_k_conv_grad_strided);
const zn_conv_grad_kernel zn_conv_grad_cuda_from_few = ZN_CONV_GRAD_ROUNDED(
    "grad-from-few-bf16-cuda", true, supports_from_few, from_few_bytes, rounded_dy, zn_k_conv_grad_from_few);
const zn_conv_grad_kernel zn_conv_grad_cuda_to_few = ZN_CONV_GRAD_ROUNDED(
    "grad-to-few-bf16-cuda", false, supports_to_few, to_few_bytes, rounded_x, zn_k_conv_grad_to_few);

const zn_conv_grad_kernel zn_conv_grad_hopper_bf16 = { .name = "grad-wgmma-bf16-cuda",
                                                       .math = ZN_PRECISION_BF16,
                                                       .cpu = ZN_CPU_CUDA | ZN_CPU_HOPPER,
                                                       .tolerance = 5e-3f,
                                                       .supports = supports_lines,
                                                       .narrow = true,
                                                       .sums = true,
                                                       .shared_bytes = lines_bytes,
                                                       .workspace_bytes = rounded,
                                                       .scratch_bytes = scratch_bytes,
                                                       .stages = stages,
                                                       .units = units,
                                                       .run = zn_k_conv_grad_wgmma,
                                                       .flops = zn_conv_direct_flops };

/* Its workspace also serves grad-bf16-cuda, which takes its place where cuBLASLt cannot be loaded. */
const zn_conv_grad_kernel zn_conv_grad_cuda_product = { .name = "grad-product-bf16-cuda",
                                                        .math = ZN_PRECISION_BF16,
                                                        .cpu = ZN_CPU_CUDA,
                                                        .tolerance = 5e-3f,
                                                        .supports = supports_product,
                                                        .narrow = true,
                                                        .shared_bytes = shared_bytes,
                                                        .workspace_bytes = rounded,
                                                        .scratch_bytes = scratch_bytes,
                                                        .stages = one_stage,
                                                        .units = units,
                                                        .run = zn_k_conv_grad_product,
                                                        .flops = zn_conv_direct_flops };
