/* Grouped products of pixels that lie in shared memory. Included only by .cu files, after cuda.h. */
#ifndef ZN_CUDA_GROUP_PRODUCT_H
#define ZN_CUDA_GROUP_PRODUCT_H

#include "kernels/cuda/vector.h"

/* Each group has `deep` inputs and `out` outputs. Weights are [groups][out][deep], or [groups][deep][out] if `back`.
 * Outputs are ordered by group, or alternate between the groups. */
struct group_product {
    const float *w, *bias; /* bias: ordered by group, or NULL */
    int groups, deep, out;
    bool interleave, back;

    /* In shared memory the inputs of a group are followed by four spare floats, so that the lanes of a warp, which
     * read different groups, use different banks. */
    __device__ int row(void) const { return groups * (deep + 4); }
    __device__ int at(int group, int i) const { return group * (deep + 4) + i; }
};

/* Computes all outputs of `pixels` rows and calls store(pixel, output, value); neighbouring threads have neighbouring
 * outputs. V divides deep. */
template <int V, typename Store>
static __device__ void multiply_rows(const group_product &k, const float *rows, int pixels, Store store)
{
    enum { PIXELS = 8 }; /* per thread, which share weights */
    const int outs = k.groups * k.out, lanes = outs < THREADS ? outs : THREADS, teams = THREADS / lanes;
    const int team = (int)threadIdx.x / lanes;
    if (team >= teams)
        return;
    for (int o = (int)threadIdx.x % lanes; o < outs; o += lanes) {
        const int group = k.interleave ? o % k.groups : o / k.out, j = k.interleave ? o / k.groups : o % k.out;
        const float *w = k.w + (int64_t)group * k.out * k.deep + (k.back ? j : j * k.deep);
        const float start = k.bias ? k.bias[group * k.out + j] : 0;
        for (int first = team; first < pixels; first += PIXELS * teams) {
            const float *from[PIXELS];
            float sum[PIXELS];
#pragma unroll
            for (int p = 0; p < PIXELS; p++) {
                const int pixel = first + p * teams;
                from[p] = rows + (pixel < pixels ? pixel : first) * k.row() + k.at(group, 0);
                sum[p] = start;
            }
            for (int i = 0; i < k.deep; i += V) {
                floats<V> f;
                if (k.back)
                    for (int v = 0; v < V; v++)
                        f.v[v] = w[(int64_t)(i + v) * k.out];
                else
                    f = load<V>(w + i, 0);
#pragma unroll
                for (int p = 0; p < PIXELS; p++) {
                    const floats<V> x = load<V>(from[p] + i, 0);
#pragma unroll
                    for (int v = 0; v < V; v++)
                        sum[p] += f.v[v] * x.v[v];
                }
            }
#pragma unroll
            for (int p = 0; p < PIXELS; p++)
                if (first + p * teams < pixels)
                    store(first + p * teams, o, sum[p]);
        }
    }
}

#endif
