/* The gradient of a convolution's weights (conv_grad.h). A block walks over tiles of 4 x 16 pixels. Asynchronous copies
 * of the next tile of x, with its border, and of dy overlap with the products of the current one. All nine taps of a
 * 3x3 kernel read the same tile of x; their sums stay in registers until the last tile. Other kernels have one tap per
 * block and a tile of x without a border.
 *
 * Numbers are split as in tf32.h. Full precision adds the sums of 16 pixels in fp32, because the matrix unit
 * truncates. */
#include "kernels/cuda/conv/conv_grad_tile.h"

/* SPLIT: full precision. */
template <int WARPS_M_, int WARPS_N_, int NF_, int TAPS_, int STRIDE_, bool SPLIT_>
struct grad_plan : grad_shape<WARPS_M_, WARPS_N_, NF_, TAPS_, STRIDE_> {
    typedef grad_shape<WARPS_M_, WARPS_N_, NF_, TAPS_, STRIDE_> S;
    enum {
        SPLIT = SPLIT_,
        /* Row lengths in shared memory avoid bank conflicts between the lanes of a fragment. */
        X_ROW = S::IN + 8 / S::STRIDE,
        Y_ROW = S::OUT == 8 ? 8 : S::OUT + 8,
        X_FLOATS = S::X_HIGH * S::X_WIDE * X_ROW,
        STAGE = X_FLOATS + HIGH * WIDE * Y_ROW
    };
};

/* Adds the products of a tile to the sums of this warp. */
template <typename P> static __device__ void multiply_tile(const float *stage, float sums[P::TAPS][P::NF][4])
{
    const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP, g = lane / 4, q = lane % 4;
    const int m = warp / P::WARPS_N % P::WARPS_M, n = warp % P::WARPS_N, way = warp / (P::WARPS_M * P::WARPS_N);
    const float *x = stage + q * P::STRIDE * P::X_ROW + m * 16 + g;
    const float *dy = stage + P::X_FLOATS + q * P::Y_ROW + n * P::NF * 8 + g;
    for (int row = way; row < HIGH; row += P::WAYS) {
        float bh[WIDE / 8][P::NF][2], bl[WIDE / 8][P::NF][2];
#pragma unroll
        for (int i = 0; i < WIDE / 4 * P::NF; i++) { /* four pixels by eight channels */
            const int k = i / P::NF, f = i % P::NF;
            split(dy[(row * WIDE + k * 4) * P::Y_ROW + f * 8], bh[k / 2][f][k % 2], bl[k / 2][f][k % 2]);
        }
#pragma unroll
        for (int tap = 0; tap < P::TAPS; tap++) {
            const float *from = x + ((row * P::STRIDE + tap / P::SIDE) * P::X_WIDE + tap % P::SIDE) * P::X_ROW;
            float fresh[P::NF][4] = {};
            float(*to)[4] = P::SPLIT ? fresh : sums[tap];
#pragma unroll
            for (int k = 0; k < WIDE / 8; k++) {
                const float *at = from + k * 8 * P::STRIDE * P::X_ROW;
                float ah[4], al[4];
                split(at[0], ah[0], al[0]);
                split(at[8], ah[1], al[1]);
                split(at[4 * P::STRIDE * P::X_ROW], ah[2], al[2]);
                split(at[4 * P::STRIDE * P::X_ROW + 8], ah[3], al[3]);
#pragma unroll
                for (int f = 0; f < P::NF; f++) {
                    if (P::SPLIT) { /* the small products first */
                        multiply_add(to[f], al, bh[k][f]);
                        multiply_add(to[f], ah, bl[k][f]);
                    }
                    multiply_add(to[f], ah, bh[k][f]);
                }
            }
#pragma unroll
            for (int i = 0; i < P::NF * 4 && P::SPLIT; i++)
                sums[tap][i / 4][i % 4] += fresh[i / 4][i % 4];
        }
    }
}

template <typename P> __global__ void __launch_bounds__(THREADS, 1) conv_grad(grad_task t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    const grad_place at = place_of<P>(t);
    float sums[P::TAPS][P::NF][4] = {};
    copy_tile<P, to_floats, P::X_ROW, P::Y_ROW>(t, at, at.begin, zn_cuda_shared);
    copy_commit();
    for (int64_t i = at.begin; i < at.end; i++) {
        float *now = zn_cuda_shared + (i - at.begin) % 2 * P::STAGE,
              *next = zn_cuda_shared + (i + 1 - at.begin) % 2 * P::STAGE;
        copy_wait<0>();  /* tile i has arrived for this thread, */
        __syncthreads(); /* for all threads, and all have read the previous tile */
        if (i + 1 < at.end)
            copy_tile<P, to_floats, P::X_ROW, P::Y_ROW>(t, at, i + 1, next);
        copy_commit();
        multiply_tile<P>(now, sums);
    }
    write_sums<P>(t, at, sums);
}

/* ---- launching ---- */

template <typename P> static void launch_plan(zn_device *d, const grad_task &t)
{
    launch_grad(d, conv_grad<P>, sizeof(float) * 2 * P::STAGE, t);
}

template <int TAPS, int STRIDE, bool SPLIT> static void launch_channels(zn_device *d, const grad_task &t)
{
    if (t.p.in == ZN_CUDA_GRAD_FEW_IN)
        launch_plan<grad_plan<1, 2, 4, TAPS, STRIDE, SPLIT>>(d, t);
    else if (t.p.out == ZN_CUDA_GRAD_FEW_OUT)
        launch_plan<grad_plan<4, 1, 1, TAPS, STRIDE, SPLIT>>(d, t);
    else
        launch_plan<grad_plan<4, 2, 4, TAPS, STRIDE, SPLIT>>(d, t);
}

template <bool SPLIT> static void launch_taps(zn_device *d, const grad_task &t)
{
    if (!t.p.nine)
        launch_channels<1, 1, SPLIT>(d, t);
    else if (t.a.s.stride == 1)
        launch_channels<9, 1, SPLIT>(d, t);
    else
        launch_channels<9, 2, SPLIT>(d, t);
}

extern "C" {
void zn_cuda_conv_grad_tf32x3(zn_device *d, const void *args, int64_t)
{
    run_grad(d, args, zn_cuda_grad_plan_of, launch_taps<true>);
}
void zn_cuda_conv_grad_tf32(zn_device *d, const void *args, int64_t)
{
    run_grad(d, args, zn_cuda_grad_plan_of, launch_taps<false>);
}
}
