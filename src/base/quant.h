/* Blocks of quantised numbers and what they stand for.
 *
 * GGUF: 32 or 256 elements share scales that lie before or behind them; dtypes ZN_Q4_0 to ZN_Q6_K. */
#ifndef ZN_QUANT_H
#define ZN_QUANT_H

#include <stddef.h>
#include <zenith/weights.h>

/* count: whole blocks. Does nothing for dtypes without blocks. Blocks may be unaligned. */
void zn_blocks_to_f32(float *out, const void *blocks, zn_dtype dtype, size_t count);

#endif
