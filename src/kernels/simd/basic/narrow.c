/* Conversions between fp32 and bf16, in loops that compilers vectorise. */
#include "kernels/narrow.h"
#include "kernels/simd/vec.h"

void ZN_KERNEL(widen)(const void *args, zn_range r);
void ZN_KERNEL(round)(const void *args, zn_range r);

void ZN_KERNEL(widen)(const void *args, zn_range r)
{
    const zn_widen_args *a = args;
    const uint16_t *restrict x = a->x;
    float *restrict y = a->y;
    for (int64_t i = r.begin; i < r.end; i++) {
        const uint32_t bits = (uint32_t)x[i] << 16;
        memcpy(y + i, &bits, sizeof bits);
    }
}

void ZN_KERNEL(round)(const void *args, zn_range r)
{
    const zn_round_args *a = args;
    const float *restrict x = a->x;
    uint16_t *restrict y = a->y;
    for (int64_t i = r.begin; i < r.end; i++) {
        uint32_t bits;
        memcpy(&bits, x + i, sizeof bits);
        const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16, quiet = bits >> 16 | 0x40;
        y[i] = (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded);
    }
}
