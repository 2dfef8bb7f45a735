/* Rotary position embeddings. */
#include "kernels/rope.h"

void zn_k_rope(const void *args, zn_range r)
{
    const zn_rope_args *a = args;
    const int64_t pairs = a->pairs, step = a->halves ? 1 : 2, apart = a->halves ? pairs : 1;
    for (int64_t token = r.begin; token < r.end; token++) {
        const float *cosines = a->cos + token % a->period * pairs, *sines = a->sin + token % a->period * pairs;
        for (int64_t head = 0; head < a->heads; head++) {
            const int64_t first = (token * a->heads + head) * 2 * pairs;
            for (int64_t i = 0; i < pairs; i++) {
                const float c = cosines[i], s = a->back ? -sines[i] : sines[i];
                const float u = a->x[first + step * i], v = a->x[first + step * i + apart];
                a->y[first + step * i] = u * c - v * s;
                a->y[first + step * i + apart] = v * c + u * s;
            }
        }
    }
}
