/* Wavelets drawn and put on an image. */
#include "train/data/wavelet.h"

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
