#include "train/wavelet.h"

#include <math.h>

static float between(zn_rng *rng, float low, float high) { return low + (high - low) * zn_rng_uniform(rng); }
static int one_of(zn_rng *rng, int count) { return (int)(zn_rng_next(rng) % (uint64_t)count); }

int zn_wavelet_draw(zn_rng *rng, int width, int height, zn_wavelet out[ZN_WAVELET_MAX])
{
    const int count = 3 + one_of(rng, ZN_WAVELET_MAX - 2);
    for (int i = 0; i < count; i++) {
        out[i].type = (zn_wavelet_type)one_of(rng, 4);
        out[i].cx = between(rng, 0.1f, 0.9f) * (float)width;
        out[i].cy = between(rng, 0.1f, 0.9f) * (float)height;
        out[i].s = between(rng, 20, 80);
        out[i].w = between(rng, 0.05f, 0.3f);
        out[i].theta = between(rng, 0, 3.14159265f);
        out[i].amp = between(rng, 0.3f, 0.8f);
    }
    return count;
}

static float value(const zn_wavelet *k, float dx, float dy)
{
    const float rr = dx * dx + dy * dy, ss = k->s * k->s, bell = expf(-rr / (2 * ss));
    switch (k->type) {
    case ZN_WAVELET_GABOR:
        return k->amp * cosf(k->w * (dx * cosf(k->theta) + dy * sinf(k->theta))) * bell;
    case ZN_WAVELET_HAT:
        return k->amp * (1 - rr / ss) * bell;
    case ZN_WAVELET_BELL:
        return k->amp * bell;
    default:
        return k->amp * (bell - 0.5f * expf(-rr / (8 * ss)));
    }
}

void zn_wavelet_image(const zn_wavelet *wavelets, int count, int width, int height, int channels, float *image)
{
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) {
            float sum = 0;
            for (int i = 0; i < count; i++)
                sum += value(&wavelets[i], (float)x - wavelets[i].cx, (float)y - wavelets[i].cy);
            for (int c = 0; c < channels; c++)
                image[((int64_t)y * width + x) * channels + c] = sum;
        }
}

void zn_add_gaussian(const float *x, const float *noise, int64_t count, float deviation, float *y)
{
    for (int64_t i = 0; i < count; i++)
        y[i] = x[i] + deviation * noise[i];
}

void zn_add_shot(const float *x, const float *u, const float *v, int64_t count, float p, float magnitude, float *y)
{
    for (int64_t i = 0; i < count; i++)
        y[i] = u[i] < p ? x[i] + (v[i] > 0.5f ? magnitude : -magnitude) : x[i];
}

/* The value c channels of one pixel further, seen from pixel (y, x) of image n. */
static float pixel(const float *x, zn_shape s, int64_t n, int64_t row, int64_t column, int64_t c)
{
    return x[((n * s.dim[1] + row) * s.dim[2] + column) * s.dim[3] + c];
}

static int64_t clamp(int64_t v, int64_t low, int64_t high) { return v < low ? low : v > high ? high : v; }

static float mean_around(const float *x, zn_shape s, int64_t i, int64_t reach)
{
    const int64_t c = i % s.dim[3], column = i / s.dim[3] % s.dim[2], row = i / s.dim[3] / s.dim[2] % s.dim[1];
    const int64_t n = i / s.dim[3] / s.dim[2] / s.dim[1];
    const int64_t top = clamp(row - reach, 0, row), bottom = clamp(row + reach, 0, s.dim[1] - 1);
    const int64_t left = clamp(column - reach, 0, column), right = clamp(column + reach, 0, s.dim[2] - 1);
    double sum = 0;
    for (int64_t y = top; y <= bottom; y++)
        for (int64_t k = left; k <= right; k++)
            sum += (double)pixel(x, s, n, y, k, c);
    return (float)(sum / (double)((bottom - top + 1) * (right - left + 1)));
}

void zn_box_blur(const float *x, zn_shape map, int side, float *y)
{
    for (int64_t i = 0; i < zn_shape_count(map); i++)
        y[i] = mean_around(x, map, i, side / 2);
}

static float median_around(const float *x, zn_shape s, int64_t i)
{
    const int64_t c = i % s.dim[3], column = i / s.dim[3] % s.dim[2], row = i / s.dim[3] / s.dim[2] % s.dim[1];
    const int64_t n = i / s.dim[3] / s.dim[2] / s.dim[1];
    float v[9];
    for (int k = 0; k < 9; k++) { /* sorted as they come */
        const float next =
            pixel(x, s, n, clamp(row + k / 3 - 1, 0, s.dim[1] - 1), clamp(column + k % 3 - 1, 0, s.dim[2] - 1), c);
        int at = k;
        for (; at > 0 && v[at - 1] > next; at--)
            v[at] = v[at - 1];
        v[at] = next;
    }
    return v[4];
}

void zn_median3(const float *x, zn_shape map, float *y)
{
    for (int64_t i = 0; i < zn_shape_count(map); i++)
        y[i] = median_around(x, map, i);
}
