/* What check_conv.c and bench_conv.c share: a convolution with its data, in memory that ends at a forbidden page. */
#ifndef ZN_CONV_CASE_H
#define ZN_CONV_CASE_H

#include "base/rng.h"
#include "kernels/conv.h"

/* Completes h, w, kernel, stride, pad to a shape with its output size. */
zn_conv_shape conv_shape(int n, int h, int w, int cin, int cout, int kernel, int stride, int pad, bool up2);
/* With more zeros (or fewer) below and on the right. */
zn_conv_shape conv_shape_beyond(zn_conv_shape s, int beyond);
void conv_shape_text(const zn_conv_shape *s, char *text, int size);

/* `count` floats that end exactly at a page nobody may touch; 64-byte aligned where `aligned` (then up to 60 bytes
 * before it). */
float *fenced_new(int64_t count, bool aligned);
void fenced_free(float *block);

void fill_normal(zn_rng *r, float *x, int64_t count, float scale);

/* Shapes of one network half at 512x512 and how often each occurs. */
typedef struct conv_layer {
    zn_conv_shape s;
    int times;
    bool residual; /* the third of a block; the entry before it is the other two */
    bool relu;
} conv_layer;
int taesd_decoder(int latent, conv_layer *layers); /* at most 16 */
int taesd_encoder(int latent, conv_layer *layers);

/* Relative RMS error of the result of such a network, with the kernels of `cpu`, against the kernel ref. */
double conv_chain_error(const conv_layer *layers, int count, const zn_conv_kernel *ref, uint32_t cpu);

/* Prints times of the kernels whose name holds `filter` ("network": only the sums), for `only` threads or for one and
 * two. */
int bench_conv(const char *filter, int only);

#endif
