/* Nearest x2 upsampling, its gradient, and zero insertion (the gradient of a stride). */
#include "kernels/kernels.h"

#include <string.h>

void zn_k_upsample2(const void *args, zn_range r)
{
    const zn_resample_args *a = args;
    for (int64_t row = r.begin; row < r.end; row++) {
        /* rows are numbered over all images; large row / 2 is the small row because 2h is even */
        const float *x = a->x + (row / 2) * a->w * a->c;
        float *y = a->y + row * 2 * a->w * a->c;
        for (int64_t i = 0; i < 2 * a->w; i++)
            memcpy(y + i * a->c, x + i / 2 * a->c, sizeof(float) * (size_t)a->c);
    }
}

void zn_k_upsample2_grad(const void *args, zn_range r)
{
    const zn_resample_args *a = args;
    const int64_t large = (int64_t)2 * a->w * a->c;
    const float scale = a->mean ? 0.25f : 1;
    for (int64_t row = r.begin; row < r.end; row++) {
        const float *top = a->x + 2 * row * large, *bottom = top + large;
        float *y = a->y + row * a->w * a->c;
        for (int64_t i = 0; i < a->w; i++)
            for (int64_t c = 0; c < a->c; c++) {
                const int64_t left = 2 * i * a->c + c, right = left + a->c;
                y[i * a->c + c] = scale * ((top[left] + top[right]) + (bottom[left] + bottom[right]));
            }
    }
}

void zn_k_dilate2(const void *args, zn_range r)
{
    const zn_resample_args *a = args;
    const int64_t large = (int64_t)2 * a->w * a->c;
    for (int64_t row = r.begin; row < r.end; row++) {
        float *y = a->y + row * large;
        memset(y, 0, sizeof(float) * (size_t)large);
        if (row % 2)
            continue;
        const float *x = a->x + row / 2 * a->w * a->c;
        for (int64_t i = 0; i < a->w; i++)
            memcpy(y + 2 * i * a->c, x + i * a->c, sizeof(float) * (size_t)a->c);
    }
}
