/* Pixel shuffle and unshuffle. For even r, the r x r pixels of the large map that form one pixel of the small map
 * are processed four at a time: four of their channels are a 4x4 transposition. */
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

/* Processes four sub-pixels from i in groups of four channels; returns the number of channels done. `each`
 * sub-pixels are between channels. */
static int shuffle_four(const zn_shuffle_args *a, int64_t row, int x, int i, int each, const float *from)
{
    float *to[4];
    int k = 0;
    for (int j = 0; j < 4; j++)
        to[j] = a->y + large(a, row, x, i + j);
    for (; k + 4 <= a->c; k += 4) {
        float t[16];
        for (int j = 0; j < 4; j++)
            memcpy(t + 4 * j, from + (int64_t)(k + j) * each + i, sizeof(float) * 4);
        deinterleave4(to[0] + k, to[1] + k, to[2] + k, to[3] + k, t);
    }
    return k;
}

static int unshuffle_four(const zn_shuffle_args *a, int64_t row, int x, int i, int each, float *to)
{
    const float *from[4];
    int k = 0;
    for (int j = 0; j < 4; j++)
        from[j] = a->x + large(a, row, x, i + j);
    for (; k + 4 <= a->c; k += 4) {
        float t[16];
        interleave4(t, from[0] + k, from[1] + k, from[2] + k, from[3] + k);
        for (int j = 0; j < 4; j++)
            memcpy(to + (int64_t)(k + j) * each + i, t + 4 * j, sizeof(float) * 4);
    }
    return k;
}

void ZN_KERNEL(shuffle)(const void *args, zn_range r)
{
    const zn_shuffle_args *a = args;
    const int each = a->r * a->r;
    for (int64_t row = r.begin; row < r.end; row++)
        for (int x = 0; x < a->w; x++) {
            const float *from = a->x + (row * a->w + x) * a->c * each;
            int done = 0;
            for (int i = 0; i < each && each % 4 == 0; i += 4)
                done = shuffle_four(a, row, x, i, each, from);
            for (int k = done; k < a->c; k++)
                for (int i = 0; i < each; i++)
                    a->y[large(a, row, x, i) + k] = from[k * each + i];
        }
}

void ZN_KERNEL(unshuffle)(const void *args, zn_range r)
{
    const zn_shuffle_args *a = args;
    const int each = a->r * a->r;
    for (int64_t row = r.begin; row < r.end; row++)
        for (int x = 0; x < a->w; x++) {
            float *to = a->y + (row * a->w + x) * a->c * each;
            int done = 0;
            for (int i = 0; i < each && each % 4 == 0; i += 4)
                done = unshuffle_four(a, row, x, i, each, to);
            for (int k = done; k < a->c; k++)
                for (int i = 0; i < each; i++)
                    to[k * each + i] = a->x[large(a, row, x, i) + k];
        }
}
