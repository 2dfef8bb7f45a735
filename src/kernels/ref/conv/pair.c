/* The product of two maps of F32; see pair.h. */
#include "kernels/pair.h"

#include "base/convert.h"

void zn_k_pair_product(const void *args, zn_range r)
{
    const zn_pair_args *a = args;
    for (int64_t p = r.begin; p < r.end; p++)
        for (int j = 0; j < a->cout; j++) {
            float sum = a->bias[j];
            for (int i = 0; i < a->split + a->rest; i++) {
                const float x = i < a->split ? a->x[p * a->split + i] : a->more[p * a->rest + i - a->split];
                sum += x * zn_bf16_to_f32(a->w[(int64_t)i * a->cout + j]);
            }
            a->y[p * a->cout + j] = sum;
        }
}
