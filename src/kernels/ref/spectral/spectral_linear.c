/* DeepSpectralLinear, pixel by pixel. */
#include "kernels/spectral.h"

enum { LANES = 16, SPARE = 128 };

/* Two buffers of d rows, for as many pixels as the vector builds process together, and two numbers per row and
 * stage. */
size_t zn_spectral_linear_scratch(int d, int depth)
{
    return sizeof(float) * ((size_t)d * (2 * LANES + 1 + 2 * (size_t)depth) + SPARE);
}

void zn_ref_spectral_linear(const void *spectral_linear_args, zn_range rows);

/* Offset of channel k of pixel x of a row: in the map itself, or in the map on the other side of the shuffle. */
static int64_t place(bool shuffled, int64_t row, int x, int wide, int channels, int k)
{
    if (!shuffled)
        return (row * wide + x) * channels + k;
    const int sub = k % 4;
    return (((row * 2 + sub / 2) * wide + x) * 2 + sub % 2) * (channels / 4) + k / 4;
}

void zn_ref_spectral_linear(const void *args, zn_range r)
{
    const zn_spectral_linear_args *a = args;
    float *t = r.scratch, *u = t + a->d;
    for (int64_t row = r.begin; row < r.end; row++)
        for (int x = 0; x < a->wide; x++) {
            for (int k = 0; k < a->d; k++)
                t[k] = k < a->cin ? a->x[place(a->shuffle_in, row, x, a->wide, a->cin, k)] : 0;
            for (int stage = 0; stage < a->depth; stage++) {
                const int32_t *from = a->from + (int64_t)stage * a->d;
                for (int k = 0; k < a->d; k++)
                    u[k] = a->s[(int64_t)stage * a->d + k] * t[from[k]];
                zn_wht_line(u, a->d);
                float *other = t;
                t = u;
                u = other;
            }
            for (int k = 0; k < a->cout; k++)
                a->y[place(a->shuffle_out, row, x, a->wide, a->cout, k)] = t[k] + a->bias[k];
        }
}
