/* Dropout: sets random elements of a feature map to 0 and scales the others up, so that the expected sum stays the
 * same. The choice depends only on a seed for each sample, the layer's index in the network and the element's index
 * in the sample. */
#ifndef ZN_KERNELS_DROPOUT_H
#define ZN_KERNELS_DROPOUT_H

#include "base/threads.h"
#include "kernels/type.h"

#include <stdbool.h>
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

/* Whether element i of a sample is set to 0: key is that of its seed and layer, limit that of the share.
 * cuda/dropout.h has the same. */
static inline uint32_t zn_dropout_scrambled(uint32_t h) /* the final rounds of MurmurHash3: all bits depend on all */
{
    h = (h ^ h >> 16) * 0x85ebca6bu;
    h = (h ^ h >> 13) * 0xc2b2ae35u;
    return h ^ h >> 16;
}
static inline uint32_t zn_dropout_key(float seed, uint32_t place)
{
    return zn_dropout_scrambled(zn_dropout_scrambled((uint32_t)seed) + place);
}
static inline uint32_t zn_dropout_limit(float share) { return (uint32_t)((double)share * 0x1p32); }
static inline bool zn_dropout_drops(uint32_t i, uint32_t key, uint32_t limit)
{
    return zn_dropout_scrambled(i * 0x9e3779b1u ^ key) < limit;
}

#endif
