/* A convolution of each channel with a kernel of its own (depthwise), for any odd side and stride: of [n][h][w][c] with
 * [side][side][c]. There are zeros around the map. (3x3 at a stride of 1 has faster kernels: mix.h.) */
#ifndef ZN_KERNELS_CHANNEL_CONV_H
#define ZN_KERNELS_CHANNEL_CONV_H

#include "base/threads.h"

typedef struct zn_channel_conv_args {
    const float *x, *w;     /* gradient: x is dy */
    float *y;               /* gradient: dx */
    int h, wide, oh, ow, c; /* of the forward: input [h][wide], output [oh][ow] */
    int side, stride, pad;
} zn_channel_conv_args;

/* Units are rows of all results. */
void zn_k_channel_conv(const void *channel_conv_args, zn_range rows);
/* The gradient with respect to the input; units are rows of all inputs. */
void zn_k_channel_conv_grad(const void *channel_conv_args, zn_range rows);

#endif
