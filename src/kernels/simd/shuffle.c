/* Pixel shuffle and unshuffle. For r = 2 a pixel of the small map is four of the large one, interleaved channel by
 * channel, so four channels are a 4x4 transposition. */
#include "kernels/mix.h"
#include "kernels/simd/vec_math.h"

void ZN_KERNEL(shuffle)(const void *args, zn_range r);
void ZN_KERNEL(unshuffle)(const void *args, zn_range r);

/* Offset of the sub-pixel i of small pixel x in `row`, in the large map. */
static int64_t large(const zn_shuffle_args *a, int64_t row, int x, int i)
{
    const int64_t y = row * a->r + i / a->r;
    return ((y * a->w + x) * a->r + i % a->r) * a->c;
}

void ZN_KERNEL(shuffle)(const void *args, zn_range r)
{
    const zn_shuffle_args *a = args;
    const int each = a->r * a->r;
    for (int64_t row = r.begin; row < r.end; row++)
        for (int x = 0; x < a->w; x++) {
            const float *from = a->x + (row * a->w + x) * a->c * each;
            float *to = a->y;
            int k = 0;
            if (a->r == 2) {
                float *p = to + large(a, row, x, 0), *q = to + large(a, row, x, 2);
                for (; k + 4 <= a->c; k += 4)
                    deinterleave4(p + k, p + a->c + k, q + k, q + a->c + k, from + 4 * k);
            }
            for (; k < a->c; k++)
                for (int i = 0; i < each; i++)
                    to[large(a, row, x, i) + k] = from[k * each + i];
        }
}

void ZN_KERNEL(unshuffle)(const void *args, zn_range r)
{
    const zn_shuffle_args *a = args;
    const int each = a->r * a->r;
    for (int64_t row = r.begin; row < r.end; row++)
        for (int x = 0; x < a->w; x++) {
            const float *from = a->x;
            float *to = a->y + (row * a->w + x) * a->c * each;
            int k = 0;
            if (a->r == 2) {
                const float *p = from + large(a, row, x, 0), *q = from + large(a, row, x, 2);
                for (; k + 4 <= a->c; k += 4)
                    interleave4(to + 4 * k, p + k, p + a->c + k, q + k, q + a->c + k);
            }
            for (; k < a->c; k++)
                for (int i = 0; i < each; i++)
                    to[k * each + i] = from[large(a, row, x, i) + k];
        }
}
