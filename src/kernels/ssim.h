/* Structural similarity (Wang, Bovik, Sheikh, Simoncelli 2004): the single definition of its constants and window.
 *
 * The metric is io/image/pixels/similarity.c: one pass over rows, for images of any size and maps of any range. The
 * loss is kernels/ref/loss/ssim.c, which keeps planes for its gradient; the CUDA kernel follows it.
 * tests/train/test_losses.c compares them. */
#ifndef ZN_KERNELS_SSIM_H
#define ZN_KERNELS_SSIM_H

#include "kernels/kernels.h"

/* For data of range r the constants are (K1 r)^2 and (K2 r)^2. */
#define ZN_SSIM_K1 0.01
#define ZN_SSIM_K2 0.03

/* The window along one axis: a centred Gaussian with standard deviation 1.5, whose weights sum to 1. taps:
 * ZN_SSIM_WINDOW, or the side of a smaller image. */
void zn_ssim_window(int taps, double weight[ZN_SSIM_WINDOW]);

#endif
