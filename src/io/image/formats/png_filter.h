/* Filters of PNG rows, and which rows are flat, as those of screenshots and line art are.
 *
 *     if (zn_png_is_flat(&raster, begin, end))
 *         way = ...;
 *     for (int64_t y = begin; y < end; y++)
 *         zn_png_filter_row(&raster, y, zeros, way, to + (y - begin) * (row + 1)); */
#ifndef ZN_PNG_FILTER_H
#define ZN_PNG_FILTER_H

#include "io/image/pixels/raster.h"

typedef enum zn_png_way {
    ZN_PNG_PHOTO, /* Average for every row: quick, and what compresses well at a low level */
    ZN_PNG_LEAST, /* of None, Sub, Up and Paeth the one whose row has the smallest sum, as Pillow chooses */
    ZN_PNG_PLAIN, /* None for every row */
} zn_png_way;

/* True if most pixels of the rows [begin,end) equal the ones to the left and above, or if they have few colours. Looks
 * at some of the rows. */
bool zn_png_is_flat(const zn_raster *raster, int64_t begin, int64_t end);

/* The filter's number and the filtered bytes of row y. zeros: a row of them, which is above the first. */
void zn_png_filter_row(const zn_raster *raster, int64_t y, const uint8_t *zeros, zn_png_way way, uint8_t *to);

#endif
