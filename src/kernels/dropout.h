/* Dropout: sets random elements of a feature map to 0 and scales the others up, so that the expected sum stays the
 * same. The choice depends only on a seed for each sample, the layer's index in the network and the element's index
 * in the sample. */
#ifndef ZN_KERNELS_DROPOUT_H
#define ZN_KERNELS_DROPOUT_H

#include "base/threads.h"
#include "kernels/type.h"

#include <stdint.h>

typedef struct zn_dropout_args {
    const float *x;
    const float *seeds; /* [samples], integers below 2^24 */
    float *y;           /* may be x */
    int64_t each;       /* elements of a sample, fewer than 2^32 */
    uint32_t place;
    float share;  /* fraction of elements set to 0, below 1 */
    zn_type type; /* of x and y; F32 on the CPU */
} zn_dropout_args;
void zn_k_dropout(const void *dropout_args, zn_range elements);

#endif
