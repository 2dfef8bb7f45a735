/* Masks for latents and for pixels. */
#include "pipeline/generate/mask.h"

#include "base/alloc.h"
#include "diffusion/flow.h"

#include <string.h>

enum { WHITE = 255 };

/* Sample i of an image, rounded to 8 bits. */
static int sample(const zn_image *image, size_t i)
{
    return image->bits == 8 ? ((const uint8_t *)image->pixels)[i]
                            : (((const uint16_t *)image->pixels)[i] * WHITE + 32767) / 65535;
}

/* Brightness of a pixel: the mean of its samples. */
static int brightness(const zn_image *image, size_t pixel)
{
    return (sample(image, 3 * pixel) + sample(image, 3 * pixel + 1) + sample(image, 3 * pixel + 2)) / 3;
}

zn_status zn_mask_shrink(const zn_image *mask, int scale, float **out)
{
    const size_t width = (size_t)(mask->width / scale), height = (size_t)(mask->height / scale);
    *out = zn_calloc(width * height, sizeof **out);
    if (!*out)
        return zn_alloc_for("a mask", width * height * sizeof **out, (void **)out);
    for (size_t y = 0; y < height * (size_t)scale; y++)
        for (size_t x = 0; x < width * (size_t)scale; x++)
            if (brightness(mask, y * (size_t)mask->width + x) > WHITE / 2)
                (*out)[y / (size_t)scale * width + x / (size_t)scale] = 1;
    return ZN_OK;
}

void zn_mask_restore(const float *mask, const float *clean, const float *noise, float sigma, float *x, int64_t pixels,
                     int channels)
{
    for (int64_t i = 0; i < pixels; i++)
        if (mask[i] == 0)
            zn_flow_mix(clean + i * channels, noise + i * channels, sigma, x + i * channels, channels);
}

void zn_mask_blend(const zn_image *mask, const zn_image *original, zn_image *result)
{
    uint8_t *to = result->pixels;
    const size_t pixels = (size_t)result->width * (size_t)result->height;
    for (size_t i = 0; i < pixels; i++)
        for (size_t c = 3 * i, share = (size_t)brightness(mask, i); c < 3 * i + 3; c++) {
            const size_t old = (size_t)sample(original, c);
            to[c] = (uint8_t)((share * to[c] + (WHITE - share) * old + WHITE / 2) / WHITE);
        }
    result->grey = 0;
}
