/* Dropout: elements of a map become 0 by chance, the others larger, so that sums stay what they are. Which ones depends
 * on a number for each sample, the layer's place in the network and the element's place in the sample alone. */
#ifndef ZN_KERNELS_DROPOUT_H
#define ZN_KERNELS_DROPOUT_H

#include "base/threads.h"

#include <stdint.h>

typedef struct zn_dropout_args {
    const float *x;
    const float *seeds; /* [samples], whole numbers below 2^24 */
    float *y;           /* may be x */
    int64_t each;       /* elements of a sample, fewer than 2^32 */
    uint32_t place;
    float share; /* that become 0, below 1 */
} zn_dropout_args;
void zn_k_dropout(const void *dropout_args, zn_range elements);

#endif
