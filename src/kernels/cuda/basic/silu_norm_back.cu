/* All passes of the gradient in silu_norm.h in one launch, for maps of BF16 that are small: a thread block keeps a
 * group of one of them in its registers. */
#include "kernels/cuda/basic/silu_norm_grad.h"

/* How the threads share a group: each has four channels and every `lanes`-th pixel, up to PIECES of them. */
struct share {
    group g;
    int across, lanes, column, lane;
    int64_t first; /* the piece of the thread's first pixel, and how many are between its pixels */
    int64_t step;
    int pixels; /* of this thread */
};

static __device__ share share_of(const zn_silu_norm_args &a)
{
    const group g = group_of(a);
    const int across = g.width / ZN_SILU_NORM_PIECE, lanes = THREADS / across;
    const int column = (int)threadIdx.x % across, lane = (int)threadIdx.x / across;
    const int64_t row = a.c / ZN_SILU_NORM_PIECE;
    const int left = lane < lanes ? (int)a.pixels - lane : 0;
    return share{ g,           across,
                  lanes,       column,
                  lane,        (g.map * a.pixels + lane) * row + g.first / ZN_SILU_NORM_PIECE + column,
                  lanes * row, left > 0 ? (left + lanes - 1) / lanes : 0 };
}

typedef bf16_pair T;
typedef numbers<T, ZN_SILU_NORM_PIECE> piece;
typedef values<ZN_SILU_NORM_PIECE> four;

/* Shared memory: two sums of each of four channels for every thread, then two for each channel of the group, then what
 * dv is multiplied with. */
enum { BACK_SUMS = 2 * ZN_SILU_NORM_PIECE * APART, BACK_FLOATS = BACK_SUMS + 3 * 32 * ZN_SILU_NORM_PIECE };

template <int PIECES> __global__ void silu_norm_back(silu_norm_task t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    enum { N = ZN_SILU_NORM_PIECE };
    const zn_silu_norm_args &a = t.a;
    const share s = share_of(a);
    const int channel = s.g.first + s.column * N, lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const float *table = a.table + s.g.map * 4 * a.c;
    const float scale = table[2 * a.c + s.g.first], shift = table[3 * a.c + s.g.first]; /* those of the group */
    float *const merged_sums = zn_cuda_shared + BACK_SUMS, *const by = merged_sums + 2 * s.g.width;
    piece x[PIECES] = {}, dy[PIECES] = {};
#pragma unroll
    for (int i = 0; i < PIECES; i++)
        if (i < s.pixels) {
            x[i] = numbers_at<T, N>(a.x, s.first + i * s.step);
            dy[i] = numbers_at<T, N>(a.dy, s.first + i * s.step);
        }
    slope_of_v<N, ZN_TYPE_BF16> slope(t, s.g.map);
    slope.prepare(table + channel, channel / N);
    four dv[PIECES];
    two_sums<N> sum = {};
#pragma unroll
    for (int i = 0; i < PIECES; i++) {
        const four v = values_of(x[i]);
        dv[i] = values_of(dy[i]); /* 0 for pixels that are not there */
        slope.apply(dv[i], v, (uint32_t)(s.lane + i * s.lanes));
#pragma unroll
        for (int k = 0; k < N; k++) {
            sum.v[0][k] += dv[i].v[k] * (v.v[k] * scale + shift);
            sum.v[1][k] += dv[i].v[k];
        }
    }
#pragma unroll
    for (int i = 0; i < 2 * N; i++)
        zn_cuda_shared[i * APART + (int)threadIdx.x] = sum.v[i / N][i % N];
    __syncthreads();
    for (int i = warp; i < 2 * s.g.width; i += THREADS / 32) { /* which sum, then which channel */
        const int which = i / s.g.width, c = i % s.g.width;
        const float *from = zn_cuda_shared + (which * N + c % N) * APART + c / N;
        float all = 0;
        for (int k = lane; k < s.lanes; k += 32)
            all += from[k * s.across];
        all = sum_of_warp(all);
        if (lane == 0)
            merged_sums[i] = all;
    }
    __syncthreads();
    for (int c = (int)threadIdx.x; c < s.g.width; c += THREADS)
        by[c] =
            (float)write_sums(a, s.g.map, s.g.first + c, (double)merged_sums[c], (double)merged_sums[s.g.width + c]);
    __syncthreads();
    double mean = 0, mean_product = 0;
    for (int c = 0; c < s.g.width; c++) {
        mean_product += (double)by[c] * (double)merged_sums[c];
        mean += (double)by[c] * (double)merged_sums[s.g.width + c];
    }
    mean /= s.g.count;
    mean_product /= s.g.count;
    const float by_x = (float)(-(double)scale * (double)scale * mean_product),
                rest = (float)(-(double)scale * (mean + (double)shift * mean_product));
#pragma unroll
    for (int i = 0; i < PIECES; i++) {
        if (i >= s.pixels)
            break;
        const four v = values_of(x[i]);
        four more = {};
        if (a.more)
            more = values_of(numbers_at<T, N>(a.more, s.first + i * s.step));
#pragma unroll
        for (int k = 0; k < N; k++)
            dv[i].v[k] = slope.factor.v[k] * dv[i].v[k] + (by_x * v.v[k] + rest) + more.v[k];
        put<T>(a.y, s.first + i * s.step, dv[i]);
    }
}

/* ---- launching ---- */

/* As many pieces for each thread as its pixels need. */
extern "C" void zn_cuda_silu_norm_back(zn_device *d, const void *args, int64_t units)
{
    static_assert((int)ZN_SILU_NORM_THREADS == (int)THREADS && ZN_SILU_NORM_PIECES == 8,
                  "what zn_silu_norm_is_whole promises");
    static const silu_norm_kernel kernels[] = { silu_norm_back<1>, silu_norm_back<2>, silu_norm_back<4>,
                                                silu_norm_back<8> };
    const silu_norm_task t = task_of(d, args);
    const int64_t lanes = THREADS / (t.a.c / t.a.groups / ZN_SILU_NORM_PIECE),
                  pieces = (t.a.pixels + lanes - 1) / lanes;
    const int size = pieces <= 1 ? 0 : pieces <= 2 ? 1 : pieces <= 4 ? 2 : 3;
    launch(d, kernels[size], dim3((unsigned)units), THREADS, sizeof(float) * BACK_FLOATS, t);
}
