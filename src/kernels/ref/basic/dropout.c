/* Dropout by a hash of sample, layer and element index. */
#include "kernels/dropout.h"

/* The final rounds of MurmurHash3: every bit of the result depends on every bit of h. */
static inline uint32_t scrambled(uint32_t h)
{
    h = (h ^ h >> 16) * 0x85ebca6bu;
    h = (h ^ h >> 13) * 0xc2b2ae35u;
    return h ^ h >> 16;
}

void zn_k_dropout(const void *args, zn_range r)
{
    const zn_dropout_args *a = args;
    const uint32_t limit = (uint32_t)((double)a->share * 0x1p32);
    const float factor = 1 / (1 - a->share);
    while (r.begin < r.end) {
        const int64_t sample = r.begin / a->each, end = (sample + 1) * a->each, stop = end < r.end ? end : r.end;
        const uint32_t key = scrambled(scrambled((uint32_t)a->seeds[sample]) + a->place);
        for (int64_t i = r.begin; i < stop; i++) {
            const uint32_t chance = scrambled((uint32_t)(i - sample * a->each) * 0x9e3779b1u ^ key);
            a->y[i] = chance < limit ? 0 : factor * a->x[i];
        }
        r.begin = stop;
    }
}
