/* Dropout by a hash of sample, layer and element index. */
#include "kernels/dropout.h"

void zn_k_dropout(const void *args, zn_range r)
{
    const zn_dropout_args *a = args;
    const uint32_t limit = zn_dropout_limit(a->share);
    const float factor = 1 / (1 - a->share);
    while (r.begin < r.end) {
        const int64_t sample = r.begin / a->each, end = (sample + 1) * a->each, stop = end < r.end ? end : r.end;
        const uint32_t key = zn_dropout_key(a->seeds[sample], a->place);
        for (int64_t i = r.begin; i < stop; i++)
            a->y[i] = zn_dropout_drops((uint32_t)(i - sample * a->each), key, limit) ? 0 : factor * a->x[i];
        r.begin = stop;
    }
}
