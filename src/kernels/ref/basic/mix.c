/* Products along channels, three taps over channels, RMS norm. */
#include "kernels/mix.h"

#include "base/convert.h"

#include <math.h>
#include <string.h>

/* Pixels of a block. */
static void block_range(const zn_mix_args *a, int64_t block, int64_t *begin, int64_t *end)
{
    const int64_t size = zn_sum_block(a->pixels);
    *begin = block * size;
    *end = *begin + size < a->pixels ? *begin + size : a->pixels;
}

void zn_k_add_channels(const void *args, zn_range r)
{
    const zn_mix_args *a = args;
    for (int64_t p = r.begin; p < r.end; p++)
        for (int k = 0; k < a->c; k++)
            a->y[p * a->c + k] = a->x[p * a->c + k] + a->b[k];
}

void zn_k_copy_channels(const void *args, zn_range r)
{
    const zn_channel_copy_args *a = args;
    for (int64_t p = r.begin; p < r.end; p++) {
        float *y = a->y + p * a->to;
        if (a->clear)
            memset(y, 0, sizeof(float) * (size_t)a->to);
        memcpy(y + a->skip, a->x + p * a->from, sizeof(float) * (size_t)a->count);
    }
}

void zn_k_scale_channels(const void *args, zn_range r)
{
    const zn_mix_args *a = args;
    for (int64_t p = r.begin; p < r.end; p++)
        for (int k = 0; k < a->c; k++)
            a->y[p * a->c + k] = a->w[k] * a->x[p * a->c + k];
}

void zn_k_scale_channels_grad(const void *args, zn_range r)
{
    const zn_mix_args *a = args;
    for (int64_t block = r.begin; block < r.end; block++) {
        float *sum = a->partial + block * a->c;
        int64_t begin, end;
        block_range(a, block, &begin, &end);
        memset(sum, 0, sizeof(float) * (size_t)a->c);
        for (int64_t p = begin; p < end; p++)
            for (int k = 0; k < a->c; k++)
                sum[k] += a->x[p * a->c + k] * a->dy[p * a->c + k];
    }
}

void zn_k_taps(const void *args, zn_range r)
{
    const zn_mix_args *a = args;
    const float *left = a->w, *centre = left + a->c, *right = centre + a->c;
    for (int64_t p = r.begin; p < r.end; p++) {
        const float *x = a->x + p * a->c;
        float *y = a->y + p * a->c;
        for (int k = 0; k < a->c; k++)
            y[k] = centre[k] * x[k];
        for (int k = 1; k < a->c; k++)
            y[k] += left[k] * x[k - 1];
        for (int k = 0; k + 1 < a->c; k++)
            y[k] += right[k] * x[k + 1];
    }
}

void zn_k_taps_grad(const void *args, zn_range r)
{
    const zn_mix_args *a = args;
    const float *left = a->w, *centre = left + a->c, *right = centre + a->c;
    for (int64_t p = r.begin; p < r.end; p++) {
        const float *dy = a->dy + p * a->c;
        float *dx = a->y + p * a->c;
        for (int k = 0; k < a->c; k++)
            dx[k] = centre[k] * dy[k];
        for (int k = 0; k + 1 < a->c; k++)
            dx[k] += left[k + 1] * dy[k + 1];
        for (int k = 1; k < a->c; k++)
            dx[k] += right[k - 1] * dy[k - 1];
    }
}

void zn_k_taps_param_grad(const void *args, zn_range r)
{
    const zn_mix_args *a = args;
    for (int64_t block = r.begin; block < r.end; block++) {
        float *left = a->partial + block * 3 * a->c, *centre = left + a->c, *right = centre + a->c;
        int64_t begin, end;
        block_range(a, block, &begin, &end);
        memset(left, 0, sizeof(float) * 3 * (size_t)a->c);
        for (int64_t p = begin; p < end; p++) {
            const float *x = a->x + p * a->c, *dy = a->dy + p * a->c;
            for (int k = 0; k < a->c; k++)
                centre[k] += dy[k] * x[k];
            for (int k = 1; k < a->c; k++)
                left[k] += dy[k] * x[k - 1];
            for (int k = 0; k + 1 < a->c; k++)
                right[k] += dy[k] * x[k + 1];
        }
    }
}

/* 1 / sqrt(mean of squares + eps), at most `most` */
static float inverse_rms(const zn_mix_args *a, const float *x)
{
    float sum = 0;
    for (int k = 0; k < a->c; k++)
        sum += x[k] * x[k];
    const float s = 1.0f / sqrtf(sum / (float)a->c + a->eps);
    return s > a->most ? a->most : s; /* NaN passes through */
}

void zn_ref_rms_norm(const void *args, zn_range r)
{
    const zn_mix_args *a = args;
    for (int64_t p = r.begin; p < r.end; p++) {
        const float *x = a->x + p * a->c, s = inverse_rms(a, x);
        for (int k = 0; k < a->c; k++)
            a->y[p * a->c + k] = x[k] * s * a->w[k];
    }
}

void zn_k_rms_norm_silu(const void *args, zn_range r)
{
    const zn_mix_args *a = args;
    for (int64_t p = r.begin; p < r.end; p++) {
        const float *x = a->x + p * a->c, s = inverse_rms(a, x);
        for (int k = 0; k < a->c; k++) {
            const float y = x[k] * s * a->w[k], result = y / (1 + expf(-y));
            if (a->y_type == ZN_TYPE_E4M3)
                zn_to_e4m3((uint8_t *)a->y + p * a->c + k, &(float){ result * a->inverse }, 1, 1);
            else
                a->y[p * a->c + k] = result;
        }
    }
}

/* dx = s (w dy) - x s^3 / c * sum(w dy x), the second term only where s is not limited; dw += dy x s */
static void rms_norm_back(const zn_mix_args *a, int64_t p, float *dw)
{
    const float *x = a->x + p * a->c, *dy = a->dy + p * a->c, s = inverse_rms(a, x);
    float dot = 0;
    for (int k = 0; k < a->c; k++) {
        dot += a->w[k] * dy[k] * x[k];
        dw[k] += dy[k] * x[k] * s;
    }
    const float back = s < a->most ? dot * s * s * s / (float)a->c : 0;
    for (int k = 0; k < a->c; k++)
        a->y[p * a->c + k] = s * a->w[k] * dy[k] - x[k] * back;
}

void zn_ref_rms_norm_grad(const void *args, zn_range r)
{
    const zn_mix_args *a = args;
    for (int64_t block = r.begin; block < r.end; block++) {
        float *dw = a->partial + block * a->c;
        int64_t begin, end;
        block_range(a, block, &begin, &end);
        memset(dw, 0, sizeof(float) * (size_t)a->c);
        for (int64_t p = begin; p < end; p++)
            rms_norm_back(a, p, dw);
    }
}
