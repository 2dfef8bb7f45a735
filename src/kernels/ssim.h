/* Structural similarity (Wang, Bovik, Sheikh, Simoncelli 2004): the single definition of its constants and window.
 *
 * Three loops share it, because each does what the others cannot:
 *   kernels/ref/ssim.c         fp32 with a gradient, channel by channel, for training; the CUDA kernel follows it
 *   io/image/pixels/metrics.c  one pass over rows of 8-bit samples, without planes in memory, for images of any size
 *   train/score/metrics.c      double, for feature maps of any range and for several scales
 * tests/train/test_losses.c compares the last with both others. */
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
