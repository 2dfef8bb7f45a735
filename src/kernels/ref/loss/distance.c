/* Mean absolute and Huber differences, and their gradients. */
#include "kernels/kernels.h"

#include <math.h>

void zn_k_distance(const void *args, zn_range r)
{
    const zn_distance_args *a = args;
    for (int64_t block = r.begin; block < r.end; block++) {
        const int64_t begin = block * ZN_REDUCE_BLOCK;
        const int64_t end = begin + ZN_REDUCE_BLOCK < a->count ? begin + ZN_REDUCE_BLOCK : a->count;
        double sum = 0;
        for (int64_t i = begin; i < end; i++) {
            const double d = fabs((double)a->a[i] - (double)a->b[i]), k = (double)a->knee;
            sum += d > k ? d - 0.5 * k : 0.5 * d * d / (k > 0 ? k : 1);
        }
        a->y[block] = (float)sum;
    }
}

void zn_k_distance_grad(const void *args, zn_range r)
{
    const zn_distance_args *a = args;
    const float scale = *a->dy / (float)a->count, k = a->knee;
    for (int64_t i = r.begin; i < r.end; i++) {
        const float d = a->a[i] - a->b[i];
        a->y[i] = scale * (d > k ? 1.0f : d < -k ? -1.0f : k > 0 ? d / k : 0.0f);
    }
}
