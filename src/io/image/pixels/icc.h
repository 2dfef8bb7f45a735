/* ICC profiles: from the colours of a raster to sRGB.
 *
 *     zn_icc *icc;
 *     ZN_TRY(zn_icc_open(raster, &icc));
 *     if (icc) // NULL: the samples are sRGB as they stand
 *         zn_icc_row(icc, row, rgb, pixels);
 *     zn_icc_close(icc); */
#ifndef ZN_ICC_H
#define ZN_ICC_H

#include "io/image/pixels/raster.h"

typedef struct zn_icc zn_icc;

/* *out is NULL when there is no profile, when it is sRGB already, when it does not fit the raster or is broken (a
 * image is worth more than its profile), and in builds without lcms2. Fails only for lack of memory. */
ZN_MUST_USE zn_status zn_icc_open(const zn_raster *raster, zn_icc **out);
void zn_icc_close(zn_icc *icc);

/* One row of raster samples, alpha skipped, to RGB of the same bits. from may equal rgb when the raster is RGB. */
void zn_icc_row(const zn_icc *icc, const void *from, void *rgb, int pixels);

#endif
