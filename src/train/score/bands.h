/* Detail that an image keeps, by scale: the energy of its bands as a share of the original's.
 *
 *     double luma[ZN_BANDS], chroma[ZN_BANDS];
 *     ZN_TRY(zn_bands_kept(original, result, ZN_SHAPE(1, h, w, 3), luma, chroma));   // luma[0]: the finest
 *
 * PSNR hardly notices when fine texture or fine colour is gone; these shares do. Above 1 there is more than there was:
 * noise, ringing or invented texture. */
#ifndef ZN_TRAIN_BANDS_H
#define ZN_TRAIN_BANDS_H

#include "tensor/shape.h"

enum { ZN_BANDS = 3 };

/* Images [1,H,W,3] in [0,1]. Bands are the details of a Haar transform, finest first, of luma and of both chroma planes
 * together (ITU-R BT.601). NaN for a band that the original does not have: an image too small, or without any of it. */
ZN_MUST_USE zn_status zn_bands_kept(const float *original, const float *result, zn_shape image, double luma[ZN_BANDS],
                                    double chroma[ZN_BANDS]);

#endif
