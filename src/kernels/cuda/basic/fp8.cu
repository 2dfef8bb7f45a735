/* FP8 (kernels/fp8.h): codes of rows, and their product by cuBLASLt. ref/basic/fp8.c is the reference. */
#include "kernels/cuda/basic/fp8.h"

#include "kernels/cuda/basic/blas.h"
#include "kernels/cuda/basic/unpack.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/rows.h"

enum { FOUR = 4, WARPS = THREADS / 32 };

/* ---- codes ---- */

/* A thread block per row, which is read once: its numbers wait in shared memory until the largest one is known. */
template <int N> __global__ void quantise(zn_quantise_args a)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    float *numbers = zn_cuda_shared + WARPS;
    const int each = a.c / N;
    const int64_t first = (int64_t)blockIdx.x * each;
    float largest = 0;
    for (int i = (int)threadIdx.x; i < each; i += THREADS) {
        floats<N> v = load_as<N>(a.x, first + i, a.x_type);
        if (a.gate) {
            const floats<N> g = load_as<N>(a.gate, first + i, a.gate_type);
            for (int k = 0; k < N; k++)
                v.v[k] *= quick_silu(g.v[k]);
        }
        for (int k = 0; k < N; k++)
            largest = fmaxf(largest, fabsf(v.v[k]));
        store<N>(numbers, i, v);
    }
    largest = largest_of_block(largest, zn_cuda_shared);
    const float inverse = inverse_of_codes(largest);
    for (int i = (int)threadIdx.x; i < each; i += THREADS)
        store_codes<N>(a.y, first + i, load<N>(numbers, i), inverse);
    if (threadIdx.x == 0)
        a.scales[blockIdx.x] = scale_of_codes(largest);
}

extern "C" void zn_cuda_quantise(zn_device *d, const void *args, int64_t rows)
{
    zn_quantise_args a = *static_cast<const zn_quantise_args *>(args);
    to_device(d, a.x);
    to_device(d, a.gate);
    to_device(d, a.y);
    to_device(d, a.scales);
    const bool fours = a.c % FOUR == 0 && is_aligned(a.x) && is_aligned(a.gate) && is_aligned(a.y);
    launch(d, fours ? quantise<FOUR> : quantise<1>, dim3((unsigned)rows), THREADS,
           sizeof(float) * (size_t)(WARPS + a.c), a);
}

/* ---- the product ---- */

/* y *= x_scales[row] * w_scales[column]: for a product of codes without scales. */
struct scaling {
    float *y;
    zn_type type;
    const float *x_scales, *w_scales;
    int64_t rows;
    int64_t columns;
    template <int N> __device__ void at(int64_t row, int64_t column) const
    {
        const int64_t i = (row * columns + column) / N;
        floats<N> v = load_as<N>(y, i, type);
        const floats<N> w = load<N>(w_scales, column / N);
        for (int k = 0; k < N; k++)
            v.v[k] *= x_scales[row] * w.v[k];
        store_as<N>(y, i, type, v);
    }
};

static const void *as_bf16_rows(zn_device *d, const uint8_t *codes, int64_t rows, int64_t columns, void *to)
{
    zn_packed m = {};
    m.data = codes;
    m.row_bytes = (size_t)columns;
    m.dtype = ZN_F8_E4M3;
    zn_cuda_unpack(d, m, rows, columns, columns, ZN_TYPE_BF16, to);
    return to;
}

/* The codes in bf16, which holds them exactly. */
static void multiply_as_bf16(zn_device *d, const zn_matrix_fp8_args &a, half_product p)
{
    p.type = ZN_TYPE_BF16;
    p.w = as_bf16_rows(d, a.w, a.out, a.in, a.shared);
    p.x = as_bf16_rows(d, a.x, a.rows, a.in, static_cast<char *>(a.shared) + zn_matrix_fp8_weights(a.in, a.out));
    if (!zn_cuda_blas_product(d, p))
        zn_cuda_half_product(d, p);
}

/* cuBLASLt with a scale for each row and column; if the GPU or the library has no such product, then without scales,
 * or at last in bf16, and the scales afterwards. */
extern "C" void zn_cuda_matrix_fp8(zn_device *d, const void *args, int64_t)
{
    zn_matrix_fp8_args a = *static_cast<const zn_matrix_fp8_args *>(args);
    to_device(d, a.x);
    to_device(d, a.w);
    to_device(d, a.x_scales);
    to_device(d, a.w_scales);
    to_device(d, a.y);
    to_device(d, a.shared);
    half_product p = {};
    p.x = a.x, p.x_stride = a.in, p.x_scales = a.x_scales;
    p.w = a.w, p.w_stride = a.in, p.w_scales = a.w_scales;
    p.rows = a.rows, p.depth = a.in, p.columns = a.out;
    p.type = ZN_TYPE_E4M3;
    p.y = a.y, p.y_type = a.y_type;
    if (zn_cuda_blas_product(d, p))
        return;
    p.x_scales = p.w_scales = nullptr;
    if (!zn_cuda_blas_product(d, p))
        multiply_as_bf16(d, a, p);
    launch_rows(d, scaling{ a.y, a.y_type, a.x_scales, a.w_scales, a.rows, a.out },
                is_aligned(a.y) && is_aligned(a.w_scales));
}
