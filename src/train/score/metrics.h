/* Metrics on float maps of any range, for training and experiments. (8-bit images: zn_image_compare.)
 *
 *     double mse = zn_mean_square(a, b, count), psnr = zn_psnr(mse, 1), ssim;
 *     ZN_TRY(zn_ssim(a, b, ZN_SHAPE(1, h, w, 3), 1, &ssim)); */
#ifndef ZN_TRAIN_METRICS_H
#define ZN_TRAIN_METRICS_H

#include "tensor/shape.h"

double zn_mean_square(const float *a, const float *b, int64_t count); /* of a - b */
double zn_psnr(double mean_square, double range);                     /* dB; infinity when equal */

/* Structural similarity of [N,H,W,C], mean over images, channels and the valid positions of an 11x11 Gaussian window
 * (sigma 1.5), K1 0.01, K2 0.03. Sides of at least 11. */
ZN_MUST_USE zn_status zn_ssim(const float *a, const float *b, zn_shape map, double range, double *out);
/* The same with zeros around the map, one window for every pixel, as PyTorch programs often have it. */
ZN_MUST_USE zn_status zn_ssim_padded(const float *a, const float *b, zn_shape map, double range, double *out);
/* The same over five scales, each half of the one before; sides of at least 176. */
ZN_MUST_USE zn_status zn_ms_ssim(const float *a, const float *b, zn_shape map, double range, double *out);

#endif
