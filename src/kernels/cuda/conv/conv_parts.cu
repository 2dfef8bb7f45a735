/* What convolutions need besides the product: packed weights, those of several convolutions at once, and flipped
 * weights. */
#include "kernels/cuda/cuda.h"

extern "C" {
#include "kernels/cuda/conv/conv.h"
#include "kernels/kernels.h"
}

#include "kernels/cuda/group.h"
#include "kernels/cuda/index.h"
#include "kernels/cuda/ptx.h"

struct pack_task {
    zn_conv_pack_args a;
    zn_cuda_weights p;
};

struct f32_number {
    typedef float stored;
    static __device__ float of(float x) { return x; }
};
template <typename PAIR> struct half_number {
    typedef uint16_t stored;
    static __device__ uint16_t of(float x) { return (uint16_t)PAIR::of(x, 0); }
};

template <typename N> struct conv_pack {
    pack_task t;
    __device__ void update(int64_t i) const
    {
        const division at = divide(i, t.p.columns);
        const int64_t from = zn_cuda_weight_at(&t.a.s, &t.p, t.a.flipped, (int)at.quotient, at.rest);
        static_cast<typename N::stored *>(t.a.packed)[i] = N::of(from < 0 ? 0 : t.a.w[from]);
    }
};

template <typename N> struct conv_pack_up {
    pack_task t;
    __device__ void update(int64_t i) const
    {
        const division at = divide(i, t.p.columns);
        static_cast<typename N::stored *>(t.a.packed)[i] =
            N::of(zn_cuda_up_weight(&t.a.s, &t.p, t.a.w, t.a.flipped, (int)at.quotient, at.rest));
    }
};

__global__ void flip_weights(task<zn_flip_args> t)
{
    const int64_t size = (int64_t)t.a.cin * t.a.cout;
    for (int64_t i = first_unit(); i < t.units; i += unit_step()) {
        const int64_t tap = i / size, o = i % size / t.a.cin, c = i % t.a.cin;
        t.a.y[i] = t.a.w[(t.a.taps - 1 - tap) * size + c * t.a.cout + o];
    }
}

/* PACK: one of the above. */
template <typename PACK>
static void pack(zn_device *d, const void *args, zn_cuda_weights (*layout)(const zn_conv_shape *))
{
    pack_task t = { *static_cast<const zn_conv_pack_args *>(args), zn_cuda_weights() };
    t.p = layout(&t.a.s);
    to_device(d, t.a.w);
    to_device(d, t.a.packed);
    submit(d, elements<PACK>{ { t }, (int64_t)t.p.rows * t.p.columns });
}

extern "C" {
void zn_cuda_conv_pack(zn_device *d, const void *args, int64_t)
{
    pack<conv_pack<f32_number>>(d, args, zn_cuda_conv_weights);
}
void zn_cuda_conv_pack_bf16(zn_device *d, const void *args, int64_t)
{
    pack<conv_pack<half_number<bf16_pair>>>(d, args, zn_cuda_half_weights);
}
void zn_cuda_conv_pack_product(zn_device *d, const void *args, int64_t)
{
    pack<conv_pack<half_number<bf16_pair>>>(d, args, zn_cuda_product_weights);
}
void zn_cuda_conv_pack_product_f16(zn_device *d, const void *args, int64_t)
{
    pack<conv_pack<half_number<f16_pair>>>(d, args, zn_cuda_product_weights);
}
void zn_cuda_conv_pack_up_bf16(zn_device *d, const void *args, int64_t)
{
    pack<conv_pack_up<half_number<bf16_pair>>>(d, args, zn_cuda_up_weights);
}
void zn_cuda_conv_pack_up_f16(zn_device *d, const void *args, int64_t)
{
    pack<conv_pack_up<half_number<f16_pair>>>(d, args, zn_cuda_up_weights);
}
void zn_cuda_conv_pack_f16(zn_device *d, const void *args, int64_t)
{
    pack<conv_pack<half_number<f16_pair>>>(d, args, zn_cuda_half_weights);
}

void zn_cuda_flip_weights(zn_device *d, const void *args, int64_t units)
{
    task<zn_flip_args> t = { *static_cast<const zn_flip_args *>(args), 0 };
    t.units = units * t.a.cin * t.a.cout;
    to_device(d, t.a.w);
    to_device(d, t.a.y);
    launch(d, flip_weights, dim3(grid_of(t.units)), THREADS, 0, t);
}
}
