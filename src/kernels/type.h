/* Types of the numbers of a map. Sums, statistics, losses and parameters are F32; maps may be of 16 bits, on the CPU
 * BF16 (graph/types.h). E4M3: the codes of kernels/fp8.h. */
#ifndef ZN_KERNELS_TYPE_H
#define ZN_KERNELS_TYPE_H

#include <stddef.h>

typedef enum zn_type { ZN_TYPE_F32, ZN_TYPE_BF16, ZN_TYPE_F16, ZN_TYPE_E4M3 } zn_type;

static inline size_t zn_type_size(zn_type type) { return type == ZN_TYPE_F32 ? 4 : type == ZN_TYPE_E4M3 ? 1 : 2; }

#endif
