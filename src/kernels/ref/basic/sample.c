/* Factors, shifts and sums per sample. */
#include "kernels/sample.h"

void zn_k_modulate(const void *args, zn_range r)
{
    const zn_sample_args *a = args;
    for (int64_t p = r.begin; p < r.end; p++) {
        const float *restrict scale = a->scale + p / a->pixels * a->c;
        const float *restrict shift = a->shift ? a->shift + p / a->pixels * a->c : 0;
        const float *x = a->x + p * a->c;
        float *y = a->y + p * a->c;
        if (shift)
            for (int k = 0; k < a->c; k++)
                y[k] = x[k] * (1 + scale[k]) + shift[k];
        else
            for (int k = 0; k < a->c; k++)
                y[k] = x[k] * (1 + scale[k]);
    }
}

/* Sums have a few thousand terms, so they are in double. */
void zn_k_sample_sum(const void *args, zn_range r)
{
    const zn_sample_args *a = args;
    const int64_t parts = zn_sample_parts(a->c);
    for (int64_t unit = r.begin; unit < r.end; unit++) {
        const int64_t sample = unit / parts;
        const int first = (int)(unit % parts) * ZN_SAMPLE_CHANNELS;
        const int width = a->c - first < ZN_SAMPLE_CHANNELS ? a->c - first : ZN_SAMPLE_CHANNELS;
        double sum[ZN_SAMPLE_CHANNELS] = { 0 };
        for (int64_t p = sample * a->pixels; p < (sample + 1) * a->pixels; p++) {
            const float *x = a->x + p * a->c + first, *other = a->other ? a->other + p * a->c + first : 0;
            if (other)
                for (int k = 0; k < width; k++)
                    sum[k] += (double)(x[k] * other[k]);
            else
                for (int k = 0; k < width; k++)
                    sum[k] += (double)x[k];
        }
        for (int k = 0; k < width; k++)
            a->y[sample * a->c + first + k] = (float)(sum[k] * (double)a->factor);
    }
}

void zn_k_spread(const void *args, zn_range r)
{
    const zn_sample_args *a = args;
    for (int64_t p = r.begin; p < r.end; p++)
        for (int k = 0; k < a->c; k++)
            a->y[p * a->c + k] = a->factor * a->x[p / a->pixels * a->c + k];
}
