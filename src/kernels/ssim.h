/* Structural similarity (Wang, Bovik, Sheikh, Simoncelli 2004): its definition, which stands here once.
 *
 * Three walks over the data share it, each for its own use: kernels/ref/ssim.c, with a gradient, for training;
 * io/image/metrics.c, in one pass over rows of 8-bit samples, for images of any size; train/score/metrics.c, in double,
 * for maps of any range and for several scales. tests/train/test_losses.c holds
 * the first to the last. */
#ifndef ZN_KERNELS_SSIM_H
#define ZN_KERNELS_SSIM_H

#include "kernels/kernels.h"

/* The constants of a range r are (K1 r)^2 and (K2 r)^2. */
#define ZN_SSIM_K1 0.01
#define ZN_SSIM_K2 0.03

/* The window along one axis: a Gaussian of deviation 1.5, centred, whose weights add up to 1. taps: ZN_SSIM_WINDOW, or
 * the side of a smaller image. */
void zn_ssim_window(int taps, double weight[ZN_SSIM_WINDOW]);

#endif
