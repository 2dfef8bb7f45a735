/* Plain filters: what restoration is compared with, and the blurs that make its input.
 *
 *     zn_median(noisy, ZN_SHAPE(1, h, w, 3), 3, out);
 *     ZN_TRY(zn_nlm(noisy, w, h, 25 / 255.0f, pool, out));
 *
 * Maps are [N,H,W,C]. */
#ifndef ZN_TRAIN_FILTERS_H
#define ZN_TRAIN_FILTERS_H

#include "base/threads.h"
#include "tensor/shape.h"

/* Mean over the side x side neighbours that are inside the image; side is odd. */
void zn_box_blur(const float *x, zn_shape map, int side, float *y);
/* Median of side x side (3 or 5), the edge pixel repeated. */
void zn_median(const float *x, zn_shape map, int side, float *y);
/* Gaussian blur of deviation sigma pixels, the edge pixel repeated; [1,H,W,C]. */
ZN_MUST_USE zn_status zn_gaussian_blur(const float *x, zn_shape map, float sigma, float *y);

/* Non-local means (Buades, Coll, Morel) of an RGB image [height,width,3] whose noise has deviation sigma: every pixel
 * becomes the mean of pixels around it, weighted by how alike their neighbourhoods are. Patch, search window and decay
 * follow the authors' table for colour images. */
ZN_MUST_USE zn_status zn_nlm(const float *x, int width, int height, float sigma, zn_pool *pool, float *y);

#endif
