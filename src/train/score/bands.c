/* Energies of Haar bands, in double. */
#include "train/score/bands.h"

#include "base/alloc.h"
#include "base/fail.h"

#include <math.h>

enum { PLANES = 3 };

/* Less than this for each pixel is rounding of 8-bit samples: a grey image has no chroma. In units of [0,1]. */
static const double nothing = 1e-7;

/* Luma and the two chroma planes of an image. */
static void split(const float *image, int64_t pixels, double *planes)
{
    for (int64_t i = 0; i < pixels; i++) {
        const double r = (double)image[3 * i], g = (double)image[3 * i + 1], b = (double)image[3 * i + 2];
        const double y = 0.299 * r + 0.587 * g + 0.114 * b;
        planes[i] = y;
        planes[pixels + i] = (b - y) / 1.772;
        planes[2 * pixels + i] = (r - y) / 1.402;
    }
}

/* Returns the energy of the three details of every 2x2 square; the squares' means replace the plane. An odd last row or
 * column is left out. */
static double take_band(double *plane, int64_t h, int64_t w)
{
    double energy = 0;
    for (int64_t y = 0; y + 1 < h; y += 2)
        for (int64_t x = 0; x + 1 < w; x += 2) {
            const double *p = plane + y * w + x;
            const double top = p[0] + p[1], bottom = p[w] + p[w + 1], over = p[0] - p[1], under = p[w] - p[w + 1];
            const double across = (over + under) / 2, down = (top - bottom) / 2, both = (over - under) / 2;
            energy += across * across + down * down + both * both;
            plane[y / 2 * (w / 2) + x / 2] = (top + bottom) / 4;
        }
    return energy;
}

static double share(double result, double original, double pixels)
{
    return original > nothing * pixels ? result / original : NAN;
}

zn_status zn_bands_kept(const float *original, const float *result, zn_shape image, double luma[ZN_BANDS],
                        double chroma[ZN_BANDS])
{
    const int64_t pixels = image.dim[1] * image.dim[2];
    int64_t h = image.dim[1], w = image.dim[2];
    double *planes;
    ZN_TRY(zn_alloc_for("comparing images", sizeof *planes * (size_t)(2 * PLANES * pixels), (void **)&planes));
    split(original, pixels, planes);
    split(result, pixels, planes + PLANES * pixels);
    for (int band = 0; band < ZN_BANDS; band++, h /= 2, w /= 2) {
        double energy[2][PLANES];
        for (int i = 0; i < 2 * PLANES; i++)
            energy[i / PLANES][i % PLANES] = take_band(planes + i * pixels, h, w);
        luma[band] = share(energy[1][0], energy[0][0], (double)(h * w));
        chroma[band] = share(energy[1][1] + energy[1][2], energy[0][1] + energy[0][2], (double)(h * w));
    }
    zn_free(planes);
    return ZN_OK;
}
