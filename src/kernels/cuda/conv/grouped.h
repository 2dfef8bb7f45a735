/* The grouped product of all pixels of a map, which the Lite block uses too. Included only by .cu files, after cuda.h.
 */
#ifndef ZN_CUDA_GROUPED_H
#define ZN_CUDA_GROUPED_H

#include "kernels/cuda/conv/group_product.h"

/* Where the channels of a pixel are: one pixel after the other, or in bands of columns (kernels/lite.h). */
struct pixel_map {
    int channels, band, h, wide;

    __device__ int64_t at(int64_t pixel) const
    {
        if (!band)
            return pixel * channels;
        const int64_t row = pixel / wide, x = pixel % wide;
        return ((row / h * (wide / band) + x / band) * (h + 1) * band + row % h * band + x % band) * channels;
    }
    /* Whether the row of zeros that ends a band is below this pixel. */
    __device__ bool ends(int64_t pixel) const { return band && pixel / wide % h == h - 1; }
};

struct grouped_task {
    group_product k;
    const float *x, *residual; /* residual: added to y, or NULL; may be y */
    float *y;
    pixel_map in, out;
    int64_t pixels;
    int tile;   /* pixels per thread block; the launch sets it */
    bool mixed; /* the channels of x alternate between the groups */
};

/* All addresses are device addresses. */
void zn_cuda_grouped_launch(zn_device *d, grouped_task t);

#endif
