/* Lines of the Lite block, H diag(gate) H along them: first all steps except the last three. Then these three, the
 * gate and three steps back in registers. Then the remaining steps. */
#ifndef ZN_LITE_MIX_H
#define ZN_LITE_MIX_H

#include "kernels/simd/spectral/wht_strip.h"

/* The steps among eight neighbours, or all n, and back with the gate in between. */
static void gate_rows(float *x, const float *gate, int n, int64_t width, float *to, wht_ahead *ahead)
{
    wht_walk q = wht_solid(x, to, n, n < 8 ? n : 8, 1, width);
    q.ahead = ahead;
    q.factors = gate;
    q.scale = 1 / (float)n;
    if (n >= 8)
        ZN_KERNEL(wht_gate8)(&q);
    else if (n == 4)
        wht_walk_blocks(WHT_GATE, 4, &q);
    else if (n == 2)
        wht_walk_blocks(WHT_GATE, 2, &q);
    else
        wht_walk_blocks(WHT_GATE, 1, &q);
}

/* to = M(gate) x over n rows of `width` floats, whole vectors. x is overwritten; it may be `to`. band: 0, or the
 * number of floats stored at the start of every `apart` floats of `to`. */
static inline void mix(float *x, const float *gate, int n, int64_t width, float *to, int64_t band, int64_t apart,
                       wht_ahead *ahead)
{
    const int last = n >= 64 ? 8 : n / 8; /* the radix of the last pass */
    wht_solid_from(x, n, 8, n, width, ahead);
    gate_rows(x, gate, n, width, n > 8 ? x : to, ahead);
    if (n > 8) {
        wht_solid_from(x, n, 8, n / last, width, ahead);
        wht_walk q = wht_solid(x, to, n, last, n / last, width);
        if (band) {
            q.runs = q.run / band;
            q.to_step = q.runs * apart;
            q.run = q.from_next = band;
            q.to_next = apart;
        }
        wht_plain(last, &q);
    }
}

/* Copies rows of `c` floats to rows of whole vectors (zero-padded) and back. */
static inline void widen(float *to, int64_t wide, const float *from, int c)
{
    memcpy(to, from, sizeof(float) * (size_t)c);
    memset(to + c, 0, sizeof(float) * (size_t)(wide - c));
}

#endif
