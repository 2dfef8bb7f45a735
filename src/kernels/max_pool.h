/* Max pooling: the largest value of each 3x3 window at a stride of 2, in each channel of feature maps [n][h][w][c]. A
 * window that reaches past the bottom or the right edge covers what is inside. */
#ifndef ZN_KERNELS_MAX_POOL_H
#define ZN_KERNELS_MAX_POOL_H

#include "base/threads.h"

enum { ZN_MAX_POOL_SIDE = 3, ZN_MAX_POOL_STRIDE = 2 };

typedef struct zn_max_pool_args {
    const float *x; /* [n][h][w][c] */
    float *y;       /* [n][oh][ow][c]; gradient: only read */
    const float *dy;
    float *dx;
    int h, w, oh, ow, c;
} zn_max_pool_args;

/* Units are rows of all results. */
void zn_k_max_pool(const void *max_pool_args, zn_range rows);
/* A window's gradient goes to the first of its values, row by row, that equals the largest. Units are rows of all
 * inputs. */
void zn_k_max_pool_grad(const void *max_pool_args, zn_range rows);

#endif
