/* Converts blocks of quantised numbers to floats.
 *
 * GGUF: 32 or 256 elements share scales that are stored before or after them; dtypes ZN_Q4_0 to ZN_Q6_K. */
#ifndef ZN_QUANT_H
#define ZN_QUANT_H

#include <stddef.h>
#include <zenith/weights.h>

/* count: a multiple of the block size. Does nothing for dtypes without blocks. Blocks may be unaligned. */
void zn_blocks_to_f32(float *out, const void *blocks, zn_dtype dtype, size_t count);

#endif
