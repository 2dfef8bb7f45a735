/* Images of wavelets (specification B6); corrupt.h and filters.h have what is done to them.
 *
 *     zn_wavelet w[ZN_WAVELET_MAX];
 *     const int count = zn_wavelet_draw(&rng, 64, 64, w);
 *     zn_wavelet_image(w, count, 64, 64, 3, image);                    // grey in three channels, not clamped */
#ifndef ZN_TRAIN_WAVELET_H
#define ZN_TRAIN_WAVELET_H

#include "base/rng.h"

enum { ZN_WAVELET_MAX = 8 };

typedef enum zn_wavelet_type { ZN_WAVELET_GABOR, ZN_WAVELET_HAT, ZN_WAVELET_BELL, ZN_WAVELET_DOG } zn_wavelet_type;

typedef struct zn_wavelet {
    zn_wavelet_type type;
    float cx, cy;   /* centre, pixels */
    float s;        /* size, pixels */
    float w, theta; /* Gabor: radians for each pixel, direction */
    float amp;
} zn_wavelet;

/* Between 3 and ZN_WAVELET_MAX wavelets of an image; returns how many. */
int zn_wavelet_draw(zn_rng *rng, int width, int height, zn_wavelet out[ZN_WAVELET_MAX]);
/* Their sum, the same in each channel. */
void zn_wavelet_image(const zn_wavelet *wavelets, int count, int width, int height, int channels, float *image);

#endif
