/* The head of a Lite-R block in one pass over memory: RMS norm, x + depthwise 3x3 of it, grouped 1x1.
 *
 *     e = v + depthwise(v),  v = x / sqrt(mean x^2 + eps) * gain
 *     y[j * groups + g] = b[...] + output j of group g of e */
#ifndef ZN_KERNELS_LITE_HEAD_H
#define ZN_KERNELS_LITE_HEAD_H

#include "base/threads.h"
#include "kernels/type.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ZN_LITE_HEAD_CHANNELS = 16 }; /* c is a multiple of this */

typedef struct zn_lite_head_args {
    const float *x;     /* [n][h][wide][c] */
    const float *gain;  /* [c] */
    const float *taps;  /* [c][3][3] */
    const float *w, *b; /* [groups][co/groups][c/groups], [co]; b is ordered by group */
    float *y;           /* [n][h][wide][co] */
    float eps;
    int n, h, wide, c, co, groups;
    zn_type type; /* of x and y; 16 bits: only on a device, and only if zn_lite_head_takes_half */
} zn_lite_head_args;

/* Four groups that halve the channels, as in all networks of the program. */
enum { ZN_LITE_HEAD_HALF_GROUPS = 4 };
static inline bool zn_lite_head_takes_half(int c, int co, int groups)
{
    return (c == 32 || c == 64 || c == 128 || c == 256) && co == c / 2 && groups == ZN_LITE_HEAD_HALF_GROUPS;
}

/* Units are rows n*h; neighbouring rows share inputs. */
void zn_k_lite_head(const void *lite_head_args, zn_range rows);
size_t zn_lite_head_scratch(const zn_lite_head_args *a);

/* Pixels of a row that the vector builds process at once, a multiple of sixteen: three such row segments fit in L1. */
int zn_lite_head_strip(const zn_lite_head_args *a);

#endif
