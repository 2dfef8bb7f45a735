/* Metrics on float maps of any range, for training and experiments. (8-bit images: zn_image_compare.)
 *
 *     double mse = zn_mean_square(a, b, count), psnr = zn_psnr(mse, 1), ms_ssim;
 *     ZN_TRY(zn_ms_ssim(a, b, ZN_SHAPE(1, h, w, 3), 1, &ms_ssim)); */
#ifndef ZN_TRAIN_METRICS_H
#define ZN_TRAIN_METRICS_H

#include "tensor/shape.h"

double zn_mean_square(const float *a, const float *b, int64_t count); /* of a - b */
double zn_psnr(double mean_square, double range);                     /* dB; infinity when equal */

/* Multi-scale structural similarity of [N,H,W,C], mean over images and channels: five scales, each half of the one
 * before; sides of at least 176. One scale: io/image/pixels/similarity.h. */
ZN_MUST_USE zn_status zn_ms_ssim(const float *a, const float *b, zn_shape map, double range, double *out);

#endif
