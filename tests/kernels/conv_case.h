/* Shared by the convolution checks: shapes, a shape with its data, and the layers of whole networks. */
#ifndef ZN_CONV_CASE_H
#define ZN_CONV_CASE_H

#include "fence.h"
#include "kernels/conv.h"

/* Makes a shape from h, w, kernel, stride and pad, and computes its output size. */
zn_conv_shape conv_shape(int n, int h, int w, int cin, int cout, int kernel, int stride, int pad, bool up2);
/* The same shape with more (or less) zero padding at the bottom and on the right. */
zn_conv_shape conv_shape_beyond(zn_conv_shape s, int beyond);
void conv_shape_text(const zn_conv_shape *s, char *text, int size);

/* Prints one line on stdout and counts one failure. */
void conv_fail(const char *kernel, const zn_conv_shape *s, const char *what);
extern int conv_failures;

/* A convolution with random data in fenced memory. */
typedef struct conv_data {
    zn_conv_shape s;
    int64_t x_count, y_count, w_count;
    float *x, *w, *bias, *residual, *want;
} conv_data;
conv_data conv_data_new(zn_conv_shape s, uint64_t seed);
void conv_data_free(conv_data *d);

typedef struct conv_options {
    bool bias, residual, alias, relu; /* alias: the residual is y itself */
} conv_options;
enum { CONV_OPTIONS = 6 };
extern const conv_options conv_option_list[CONV_OPTIONS];
/* Arguments of a run that writes y. With `alias`, y is also the residual. */
zn_conv_args conv_args_of(const conv_data *d, conv_options o, const void *packed, float *y);

/* Shapes of an encoder or decoder at 512x512, and how often each occurs. */
typedef struct conv_layer {
    zn_conv_shape s;
    int times;
    bool residual; /* the third layer of a block; the entry before it is the other two */
    bool relu;
} conv_layer;
int taesd_decoder(int latent, conv_layer *layers); /* at most 16 */
int taesd_encoder(int latent, conv_layer *layers);

/* Relative RMS error of such a network with the kernels of `cpu`, compared with the kernel ref. */
double conv_chain_error(const conv_layer *layers, int count, const zn_conv_kernel *ref, uint32_t cpu);

/* Prints times of the kernels whose name contains `filter` ("network": only the sums), for `only` threads, or for one
 * and two threads. */
int bench_conv(const char *filter, int only);

#endif
