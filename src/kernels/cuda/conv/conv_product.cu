/* 1x1 convolutions, and the gradient of their weights, as products of matrices of bf16 numbers, by cuBLASLt where it is
 * there. Maps of fp32 are rounded once, into the kernel's workspace. */
#include "kernels/cuda/basic/blas.h"
#include "kernels/cuda/basic/unpack.h"

extern "C" {
#include "kernels/conv_grad.h"
#include "kernels/cuda/conv/conv.h"
#include "kernels/pair.h"

void zn_cuda_conv_grad_bf16(zn_device *d, const void *args, int64_t units);
}

static int64_t pixels_of(const zn_conv_shape &s) { return (int64_t)s.n * s.h * s.w; }

static char *after(void *workspace, zn_type type, int64_t count)
{
    return static_cast<char *>(workspace) + zn_cuda_rounded_bytes(type, count);
}

/* Whether tiles of a small product are at most two for each multiprocessor: the library, which needs its bias in 16
 * bits, takes longer then. */
static bool is_small(const zn_device *d, const zn_conv_shape &s)
{
    enum { ROWS = 32, COLUMNS = 64 };
    return (pixels_of(s) + ROWS - 1) / ROWS * ((s.cout + COLUMNS - 1) / COLUMNS) <= 2 * d->processors;
}

/* whole: sums may depend on the number of rows, so the library may compute the product. */
static void multiply(zn_device *d, const void *args, bool whole)
{
    zn_conv_args a = *static_cast<const zn_conv_args *>(args);
    to_device(d, a.x);
    to_device(d, a.packed);
    to_device(d, a.bias);
    to_device(d, a.residual);
    to_device(d, a.y);
    to_device(d, a.workspace);
    const int64_t rows = pixels_of(a.s), count = rows * a.s.cin;
    half_product p = {};
    p.x = zn_cuda_rounded(d, a.x, a.x_type, count, ZN_TYPE_BF16, a.workspace), p.x_stride = a.s.cin;
    p.w = a.packed, p.w_stride = a.s.cout;
    p.rows = rows, p.depth = a.s.cin, p.columns = a.s.cout;
    p.turned = true;
    p.type = ZN_TYPE_BF16;
    p.bias = a.bias;
    p.residual = a.residual, p.residual_type = a.residual_type;
    p.relu = a.relu;
    p.y = a.y, p.y_type = a.y_type;
    if (whole && zn_cuda_half_product_few(d, p))
        return;
    const bool library = whole && !is_small(d, a.s);
    if (library && a.bias && a.y_type != ZN_TYPE_F32 && zn_cuda_blas_is_there(d))
        p.narrow_bias =
            zn_cuda_rounded(d, a.bias, ZN_TYPE_F32, a.s.cout, ZN_TYPE_BF16, after(a.workspace, a.x_type, count));
    if (!library || !zn_cuda_blas_product(d, p))
        zn_cuda_half_product(d, p);
}

extern "C" void zn_cuda_pair_product(zn_device *d, const void *args, int64_t)
{
    zn_pair_args a = *static_cast<const zn_pair_args *>(args);
    to_device(d, a.x);
    to_device(d, a.more);
    to_device(d, a.w);
    to_device(d, a.bias);
    to_device(d, a.y);
    if (a.type == ZN_TYPE_F32)
        to_device(d, a.workspace);
    const int64_t count = a.rows * a.split;
    half_product p = {};
    p.x = zn_cuda_rounded(d, a.x, a.type, count, ZN_TYPE_BF16, a.workspace), p.x_stride = a.split;
    p.more = zn_cuda_rounded(d, a.more, a.type, a.rows * a.rest, ZN_TYPE_BF16, after(a.workspace, a.type, count)),
    p.split = a.split;
    p.w = a.w, p.w_stride = a.cout;
    p.rows = a.rows, p.depth = a.split + a.rest, p.columns = a.cout;
    p.turned = true;
    p.type = ZN_TYPE_BF16;
    p.bias = a.bias;
    p.y = a.y, p.y_type = a.type;
    if (!zn_cuda_half_product_few(d, p)) /* networks with pairs are never cut into tiles */
        zn_cuda_half_product(d, p);
}

extern "C" {
void zn_cuda_conv_product(zn_device *d, const void *args, int64_t) { multiply(d, args, true); }
void zn_cuda_conv_rows(zn_device *d, const void *args, int64_t) { multiply(d, args, false); }
}

/* dw = x turned by dy. */
static bool multiply_turned(zn_device *d, zn_conv_grad_args a)
{
    to_device(d, a.x);
    to_device(d, a.dy);
    to_device(d, a.dw);
    to_device(d, a.workspace);
    const int64_t pixels = pixels_of(a.s);
    half_product p = {};
    p.x = zn_cuda_rounded(d, a.x, a.x_type, pixels * a.s.cin, ZN_TYPE_BF16, a.workspace), p.x_stride = a.s.cin;
    p.w = zn_cuda_rounded(d, a.dy, a.dy_type, pixels * a.s.cout, ZN_TYPE_BF16,
                          after(a.workspace, a.x_type, pixels * a.s.cin)),
    p.w_stride = a.s.cout;
    p.rows = a.s.cin, p.depth = pixels, p.columns = a.s.cout;
    p.turned = p.x_turned = true;
    p.type = ZN_TYPE_BF16;
    p.y = a.dw;
    return zn_cuda_blas_product(d, p);
}

extern "C" void zn_cuda_conv_grad_product(zn_device *d, const void *args, int64_t units)
{
    zn_conv_grad_args a = *static_cast<const zn_conv_grad_args *>(args);
    if (zn_cuda_blas_is_there(d) && multiply_turned(d, a))
        return;
    for (a.stage = 0; a.stage < 2; a.stage++)
        zn_cuda_conv_grad_bf16(d, &a, units);
}
