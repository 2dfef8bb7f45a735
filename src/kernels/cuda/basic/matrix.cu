/* The product with weights in their file format (kernels/matrix.h). Weights that are not of the type that is multiplied
 * are unpacked into scratch first: with the many rows of a transformer that costs a few percent of the product. */
#include "kernels/cuda/basic/blas.h"
#include "kernels/cuda/basic/product.h"
#include "kernels/cuda/basic/unpack.h"

extern "C" {
#include "kernels/matrix.h"
}

static void packed_to_device(zn_device *d, zn_packed &w)
{
    to_device(d, w.data);
    to_device(d, w.scales);
    to_device(d, w.biases);
}

static bool is_by_16(const void *address, size_t row_bytes)
{
    return (uintptr_t)address % 16 == 0 && row_bytes % 16 == 0;
}

/* Whether numbers of this type can be multiplied where they are. */
static bool is_ready(const zn_matrix_args &a)
{
    static const zn_dtype same[] = { ZN_F32, ZN_BF16, ZN_F16 }; /* by zn_type */
    const bool plain = !a.w.form.bits && !a.w.scales && !a.w.rotated && a.w.dtype == same[a.type];
    return plain && (a.type == ZN_TYPE_F32 || is_by_16(a.w.data, a.w.row_bytes));
}
static_assert(ZN_TYPE_F32 == 0 && ZN_TYPE_BF16 == 1 && ZN_TYPE_F16 == 2, "the order of the dtypes");

/* The weights as the product reads them; *stride: numbers between rows. */
static const void *weights_of(zn_device *d, const zn_matrix_args &a, int64_t *stride)
{
    *stride = is_ready(a) ? a.in : zn_matrix_stride(a.in);
    if (is_ready(a))
        return a.w.data;
    zn_cuda_unpack(d, a.w, a.out, a.in, *stride, a.type, a.shared);
    return a.shared;
}

static const void *inputs_of(zn_device *d, const zn_matrix_args &a, int64_t *stride)
{
    const size_t row = (size_t)a.in * zn_type_size(a.x_type);
    const bool ready = a.x_type == a.type && (a.type == ZN_TYPE_F32 || is_by_16(a.x, row));
    *stride = ready ? a.in : zn_matrix_stride(a.in);
    if (ready)
        return a.x;
    void *to = static_cast<char *>(a.shared) + zn_matrix_weight_bytes(&a);
    zn_cuda_convert_rows(d, a.x, a.x_type, a.rows, a.in, *stride, a.type, to);
    return to;
}

static rows_of factor(const void *from, int64_t stride, int64_t outers, int64_t inners)
{
    return rows_of{ static_cast<const float *>(from), stride, outers, inners,
                    stride % 4 == 0 && inners % 4 == 0 && (uintptr_t)from % 16 == 0 };
}

extern "C" void zn_cuda_matrix(zn_device *d, const void *args, int64_t)
{
    zn_matrix_args a = *static_cast<const zn_matrix_args *>(args);
    packed_to_device(d, a.w);
    to_device(d, a.x);
    to_device(d, a.bias);
    to_device(d, a.y);
    to_device(d, a.shared);
    int64_t x_stride, w_stride;
    const void *w = weights_of(d, a, &w_stride), *x = inputs_of(d, a, &x_stride);
    half_product p = {};
    p.x = x, p.x_stride = x_stride;
    p.w = w, p.w_stride = w_stride;
    p.rows = a.rows, p.depth = a.in, p.columns = a.out;
    p.type = a.type;
    p.bias = a.bias;
    p.y = a.y, p.y_type = a.y_type;
    if (a.type == ZN_TYPE_F32)
        launch_product(d,
                       product<rows_of, rows_of>{ factor(x, x_stride, a.rows, a.in), factor(w, w_stride, a.out, a.in),
                                                  a.rows, a.in, a.out, a.bias, a.y });
    else if (!zn_cuda_blas_product(d, p))
        zn_cuda_half_product(d, p);
}
