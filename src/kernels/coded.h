/* Packed weights as 8-bit codes. Weights that a file stores in 8 bits (FP8, int8) stay so in memory: after a table of
 * the 256 numbers that codes stand for, the codes are in the order in which a kernel packs the numbers. Before the
 * kernel runs, its layer's numbers are expanded into shared scratch.
 *
 * To pack them, the kernel packs the codes as numbers from 0 to 255, which are exact in bf16 too. So this is only for
 * kernels that pack by rearranging (zn_conv_kernel.rearranges). The zeros between weights are code 0. For others that
 * pack fast enough to do it in every run (pack_some), codes are kept in the order of the layer's weights. */
#ifndef ZN_KERNELS_CODED_H
#define ZN_KERNELS_CODED_H

#include "base/threads.h"
#include "kernels/type.h"

enum { ZN_CODES = 256, ZN_CODED_TABLE = ZN_CODES * 4 /* bytes; of any type */ };

/* Bytes of `plain` bytes of packed numbers as codes. type: F32 or BF16. */
static inline size_t zn_coded_bytes(size_t plain, zn_type type) { return ZN_CODED_TABLE + plain / zn_type_size(type); }

/* packed: numbers from 0 to 255 in the order of the kernel. meanings[256]: what they stand for; that of 0 is 0. They
 * are rounded to the type, as the kernel would round them. */
void zn_coded_pack(const void *packed, size_t bytes, zn_type type, const float *meanings, void *coded);

/* y = the numbers of the codes; units are codes. */
typedef struct zn_expand_args {
    const void *coded;
    zn_type type;
    void *y;
} zn_expand_args;
void zn_k_expand(const void *expand_args, zn_range codes);

#endif
