/* ICC profiles in a build without lcms2: every image counts as sRGB. */
#include "io/image/pixels/icc.h"

zn_status zn_icc_open(const zn_raster *raster, zn_icc **out)
{
    (void)raster;
    *out = NULL;
    return ZN_OK;
}

void zn_icc_close(zn_icc *icc) { (void)icc; }

void zn_icc_row(const zn_icc *icc, const void *from, void *rgb, int pixels)
{
    (void)icc, (void)from, (void)rgb, (void)pixels;
}
