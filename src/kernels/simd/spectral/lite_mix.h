/* Lines of the Lite block, H diag(gate) H along them: all steps but the last three, those three, gate and three steps
 * back in registers, and the rest. */
#ifndef ZN_LITE_MIX_H
#define ZN_LITE_MIX_H

#include "kernels/simd/spectral/wht_strip.h"

/* The steps among eight neighbours, or all n, and back with the gate between. */
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

/* to = M(gate) x over n rows of `width` floats, whole vectors. x is lost; it may be `to`. band: 0, or the floats of
 * which every `apart` floats of `to` begin with some. */
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

/* Rows of `c` floats, moved to rows of whole vectors (zeros behind) and back. */
static inline void widen(float *to, int64_t wide, const float *from, int c)
{
    memcpy(to, from, sizeof(float) * (size_t)c);
    memset(to + c, 0, sizeof(float) * (size_t)(wide - c));
}

#endif
