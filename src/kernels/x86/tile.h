/* The eight AMX tile registers, each up to 16 rows of 64 bytes. Tiles 0 to 3 are sums, the others operands:
 *
 *     tile_begin(bytes);           sums: 16 x 16 fp32 or int32; 4, 5: 16 rows of `bytes` bytes;
 *                                  6, 7: bytes / 4 rows of 16 pairs of bf16, or of four int8
 *     tile_zero(0);
 *     tile_load(4, a, a_stride);   strides in bytes
 *     tile_load(6, b, 64);
 *     tile_dp(0, 4, 6);            sum[m][n] += a[m][2k] * b[k][2n] + a[m][2k+1] * b[k][2n+1] over all k
 *     tile_dp_i8(0, 4, 6);         the same with four products: bytes of a are unsigned, those of b signed
 *     tile_dp_s8(0, 4, 6);         both are signed
 *     tile_store(0, c, 64);
 *     tile_end();
 *
 * Register numbers are part of the instruction, so these are macros. They are written in assembly because the
 * compilers' intrinsics do not declare that a tile load reads memory. Stores before such a load could be dropped. */
#ifndef ZN_KERNELS_X86_TILE_H
#define ZN_KERNELS_X86_TILE_H

#include <stdint.h>

enum { TILE_ROWS = 16, TILE_BYTES = 64, TILE_DEPTH = 32, TILE_SUMS = 4, TILE_COUNT = 8 };

/* The operand of LDTILECFG: palette 1, then the row size in bytes and the number of rows of each tile. */
typedef struct tile_config {
    uint8_t palette, start_row, zero[14];
    uint16_t bytes[16];
    uint8_t rows[16];
} tile_config;
_Static_assert(sizeof(tile_config) == 64, "as the processor reads it");

static inline tile_config tile_config_of(int bytes)
{
    tile_config c = { .palette = 1 };
    for (int t = 0; t < TILE_COUNT; t++) {
        c.bytes[t] = (uint16_t)(t == 4 || t == 5 ? bytes : TILE_BYTES);
        c.rows[t] = (uint8_t)(t == 6 || t == 7 ? bytes / 4 : TILE_ROWS);
    }
    return c;
}

#if defined(ZN_AMX_EMULATE)
#include "kernels/x86/tile_emulated.h"
#else

static inline void tile_begin(int bytes)
{
    const tile_config c = tile_config_of(bytes);
    __asm__ volatile("ldtilecfg %0" ::"m"(c));
}

static inline void tile_end(void) { __asm__ volatile("tilerelease"); }

#define tile_zero(t) __asm__ volatile("tilezero %%tmm" #t ::)
#define tile_load(t, from, stride)                                                                                     \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #t ::"r"(from), "r"((int64_t)(stride)) : "memory")
#define tile_store(t, to, stride)                                                                                      \
    __asm__ volatile("tilestored %%tmm" #t ", (%0,%1,1)" ::"r"(to), "r"((int64_t)(stride)) : "memory")
#define tile_dp(sum, a, b)    __asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #sum ::)
#define tile_dp_i8(sum, a, b) __asm__ volatile("tdpbusd %%tmm" #b ", %%tmm" #a ", %%tmm" #sum ::)
#define tile_dp_s8(sum, a, b) __asm__ volatile("tdpbssd %%tmm" #b ", %%tmm" #a ", %%tmm" #sum ::)

#endif
#endif
