/* A product of two maps beside each other with weights, on GPUs: y = [x more] w + bias, without a map that has both.
 * Numbers are multiplied as BF16; the weights [split + rest][cout] are. */
#ifndef ZN_KERNELS_PAIR_H
#define ZN_KERNELS_PAIR_H

#include "base/threads.h"
#include "kernels/type.h"

#include <stddef.h>
#include <stdint.h>

typedef struct zn_pair_args {
    const float *x, *more; /* [rows][split], [rows][rest] */
    const uint16_t *w;
    const float *bias;
    float *y;
    zn_type type; /* of the maps: F32 or BF16 */
    int64_t rows;
    int split, rest, cout; /* multiples of ZN_PAIR_CHANNELS */
    void *workspace;       /* for maps of F32: zn_pair_workspace bytes */
} zn_pair_args;
enum { ZN_PAIR_CHANNELS = 32 };

static inline size_t zn_pair_workspace(const zn_pair_args *a)
{
    return a->type == ZN_TYPE_F32 ? sizeof(uint16_t) * (size_t)(a->rows * (a->split + a->rest)) + 128 : 0;
}

void zn_k_pair_product(const void *pair_args, zn_range rows);

#endif
