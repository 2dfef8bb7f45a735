/* Impulse noise: single samples among neighbours that are far from them, at 0 or full scale ("salt and pepper") or of
 * random values.
 *
 *     zn_image *clean;
 *     ZN_TRY(zn_impulses_fill(image, &clean));
 *     if (clean)
 *         ... the image without them ... */
#ifndef ZN_IMPULSES_H
#define ZN_IMPULSES_H

#include "io/image/pixels/pixels.h"

/* A copy of the image whose impulses are replaced by what their neighbours and the other channels suggest. *out is NULL
 * if the image does not have this damage: in half of its parts, at least one of a thousand samples lies alone, far from
 * its neighbours, at an end of the scale, and both ends occur; or two of a thousand at any value, above and below their
 * neighbours. Clean photos, stars, clipped areas, text, dithering and Gaussian noise are not taken for it. */
ZN_MUST_USE zn_status zn_impulses_fill(const zn_image *image, zn_image **out);

#endif
