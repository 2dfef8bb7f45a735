/* Kernels on sequences of tokens [sequences][length][channels]: a causal convolution over the tokens of each
 * channel, reordering of tokens, means over tokens, and Fourier features of coordinates. */
#ifndef ZN_KERNELS_SEQUENCE_H
#define ZN_KERNELS_SEQUENCE_H

#include "base/threads.h"

#include <stdbool.h>
#include <stdint.h>

/* y[t][c] = bias[c] + sum over k < taps of w[k][c] x[t - taps + 1 + k][c], zero before the first token. `back`: the
 * gradient with respect to x, y[t] = sum of w[k] x[t + taps - 1 - k]. Units are tokens. The weight gradient has
 * zn_sum_blocks(tokens) units, on a device zn_sum_parts (kernels/mix.h), and writes partial [blocks][taps][channels].
 */
typedef struct zn_causal_conv_args {
    const float *x, *dy;
    const float *w;    /* [taps][channels] */
    const float *bias; /* or NULL */
    float *y;
    float *partial;
    int64_t sequences, length;
    int channels, taps;
    bool back;
} zn_causal_conv_args;
void zn_k_causal_conv(const void *causal_conv_args, zn_range tokens);
void zn_k_causal_conv_weight_grad(const void *causal_conv_args, zn_range blocks);

/* y[s][t] = scale * sum over k < count of x[k][s][table[s][row + k][t]]. An index outside the sequence gives zeros.
 * Indices are integers stored as floats. Units are tokens. */
enum { ZN_GATHER_SOURCES = 4 };
typedef struct zn_gather_args {
    const float *x[ZN_GATHER_SOURCES];
    const float *table; /* [sequences][rows][length] */
    float *y;
    int64_t length;
    int channels, rows, row, count;
    float scale;
} zn_gather_args;
void zn_k_gather(const void *gather_args, zn_range tokens);

/* y[s] = mean of x[s][t] over the tokens whose entry in table[s][0] is a valid index; 0 if there are none. Units:
 * strips of ZN_MEAN_STRIP channels of each sequence. For the gradient x = dy [s][channels], y = dx, and units are
 * sequences. */
enum { ZN_MEAN_STRIP = 64 };
typedef struct zn_mean_tokens_args {
    const float *x;
    const float *table; /* [sequences][rows][length] */
    float *y;
    int64_t length;
    int channels, rows;
} zn_mean_tokens_args;
void zn_k_mean_tokens(const void *mean_tokens_args, zn_range strips);
void zn_k_mean_tokens_grad(const void *mean_tokens_args, zn_range sequences);

/* y[t] = [cos(2 pi b[f] . p[t]), sin(2 pi b[f] . p[t])], cosines first; b [features][sides]. The gradient with
 * respect to p reads y. Units are tokens. */
typedef struct zn_fourier_args {
    const float *p, *b;
    const float *y, *dy;
    float *to; /* y, or dp */
    int features, sides;
} zn_fourier_args;
void zn_k_fourier(const void *fourier_args, zn_range tokens);
void zn_k_fourier_grad(const void *fourier_args, zn_range tokens);

#endif
