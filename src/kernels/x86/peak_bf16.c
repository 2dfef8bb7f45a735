/* TDPBF16PS on registers only: each instruction computes a 16x32 by 32x16 product. Six sums hide its latency. */
#include "kernels/peak.h"
#include "kernels/x86/tile.h"

enum { SUMS = 6, ROUNDS = 4000 };

extern const zn_peak zn_peak_amx;

static void body(const void *args, zn_range r)
{
    (void)args;
    uint16_t ones[TILE_ROWS * TILE_DEPTH];
    for (int i = 0; i < TILE_ROWS * TILE_DEPTH; i++)
        ones[i] = 0x3f80;
    tile_begin(TILE_BYTES); /* all tiles zero and of the same size */
    tile_load(4, ones, TILE_BYTES);
    tile_load(6, ones, TILE_BYTES);
    for (int64_t n = 0; n < (r.end - r.begin) * ROUNDS; n++) {
        tile_dp(0, 4, 6);
        tile_dp(1, 4, 6);
        tile_dp(2, 4, 6);
        tile_dp(3, 4, 6);
        tile_dp(5, 4, 6);
        tile_dp(7, 4, 6);
    }
    tile_end();
}

const zn_peak zn_peak_amx = { body, 2.0 * SUMS *ROUNDS *TILE_ROWS *TILE_ROWS *TILE_DEPTH };
