/* Pictures of wavelets, corruptions of them, and plain filters to compare with (specification B6, B7).
 *
 *     zn_wavelet w[ZN_WAVELET_MAX];
 *     const int count = zn_wavelet_draw(&rng, 64, 64, w);
 *     zn_wavelet_image(w, count, 64, 64, 3, image);                    // grey in three channels, not clamped
 *     zn_add_gaussian(image, noise, pixels, 0.3f, noisy);
 *
 * Noise is given, not drawn, so that a run can be repeated and compared. Maps are [N,H,W,C]. */
#ifndef ZN_TRAIN_WAVELET_H
#define ZN_TRAIN_WAVELET_H

#include "base/rng.h"
#include "tensor/shape.h"

enum { ZN_WAVELET_MAX = 8 };

typedef enum zn_wavelet_type { ZN_WAVELET_GABOR, ZN_WAVELET_HAT, ZN_WAVELET_BELL, ZN_WAVELET_DOG } zn_wavelet_type;

typedef struct zn_wavelet {
    zn_wavelet_type type;
    float cx, cy;   /* centre, pixels */
    float s;        /* size, pixels */
    float w, theta; /* Gabor: radians for each pixel, direction */
    float amp;
} zn_wavelet;

/* Between 3 and ZN_WAVELET_MAX wavelets of a picture; returns how many. */
int zn_wavelet_draw(zn_rng *rng, int width, int height, zn_wavelet out[ZN_WAVELET_MAX]);
/* Their sum, the same in each channel. */
void zn_wavelet_image(const zn_wavelet *wavelets, int count, int width, int height, int channels, float *image);

/* y = x + deviation * noise. y may be x. */
void zn_add_gaussian(const float *x, const float *noise, int64_t count, float deviation, float *y);
/* y = x, and where u < p, magnitude is added (v > 0.5) or taken away. y may be x. */
void zn_add_shot(const float *x, const float *u, const float *v, int64_t count, float p, float magnitude, float *y);
/* Mean over the side x side neighbours that are inside the picture; side is odd. */
void zn_box_blur(const float *x, zn_shape map, int side, float *y);
/* Median of 3x3, the edge pixel repeated. */
void zn_median3(const float *x, zn_shape map, float *y);

#endif
