/* The rows of a PNG as IDAT chunks, compressed by several threads.
 *
 *     ZN_TRY(zn_png_add_rows(&raster, threads, out)); */
#ifndef ZN_PNG_ROWS_H
#define ZN_PNG_ROWS_H

#include "io/image/pixels/raster.h"

/* Appends the chunks. threads 0: one for each CPU. The bytes do not depend on the number of threads. */
ZN_MUST_USE zn_status zn_png_add_rows(const zn_raster *raster, int threads, zn_bytes *out);

#endif
