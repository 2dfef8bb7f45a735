/* The dense product and its gradients (kernels/dense.h). */
#include "kernels/cuda/basic/product.h"

extern "C" {
#include "kernels/dense.h"
}

/* A matrix [outers][inners], or [inners][outers] for columns_of. */
template <typename F> static F factor(zn_device *d, const float *from, int64_t stride, int64_t outers, int64_t inners)
{
    to_device(d, from);
    return F{ from, stride, outers, inners, stride % 4 == 0 && (uintptr_t)from % 16 == 0 };
}

extern "C" {
void zn_cuda_dense(zn_device *d, const void *args, int64_t)
{
    zn_dense_args a = *static_cast<const zn_dense_args *>(args);
    to_device(d, a.bias);
    to_device(d, a.y);
    launch_product(d, product<rows_of, columns_of>{ factor<rows_of>(d, a.x, a.k, a.rows, a.k),
                                                    factor<columns_of>(d, a.w, a.n, a.n, a.k), a.rows, a.k, a.n, a.bias,
                                                    a.y });
}

void zn_cuda_dense_grad(zn_device *d, const void *args, int64_t)
{
    zn_dense_args a = *static_cast<const zn_dense_args *>(args);
    to_device(d, a.y);
    launch_product(d,
                   product<rows_of, rows_of>{ factor<rows_of>(d, a.dy, a.n, a.rows, a.n),
                                              factor<rows_of>(d, a.w, a.n, a.k, a.n), a.rows, a.n, a.k, nullptr, a.y });
}

void zn_cuda_dense_weight_grad(zn_device *d, const void *args, int64_t)
{
    zn_dense_args a = *static_cast<const zn_dense_args *>(args);
    to_device(d, a.y);
    launch_product(d, product<columns_of, columns_of>{ factor<columns_of>(d, a.x, a.k, a.k, a.rows),
                                                       factor<columns_of>(d, a.dy, a.n, a.n, a.rows), a.k, a.rows, a.n,
                                                       nullptr, a.y });
}
}
