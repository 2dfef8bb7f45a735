/* Converts blocks of quantised numbers to floats, and back.
 *
 * GGUF: 32 or 256 elements share scales that are stored before or after them; dtypes ZN_Q4_0 to ZN_Q6_K. */
#ifndef ZN_QUANT_H
#define ZN_QUANT_H

#include <stdbool.h>
#include <stddef.h>
#include <zenith/weights.h>

/* count: a multiple of the block size. Does nothing for dtypes without blocks. Blocks may be unaligned. */
void zn_blocks_to_f32(float *out, const void *blocks, zn_dtype dtype, size_t count);

/* The inverse, for Q4_0, Q8_0, Q4_K, Q5_K and Q6_K; does nothing for other dtypes. Elements must be finite. */
bool zn_blocks_can_write(zn_dtype dtype);
void zn_blocks_from_f32(void *blocks, zn_dtype dtype, const float *in, size_t count);

#endif
