/* Rounds the weights of a small kernel to bf16 together.
 *
 * Neighbouring pixels of a map are alike, and after an activation few are negative, so the errors of the taps of one
 * input channel are multiplied with nearly the same number: what they add up to matters more than each of them. The
 * nearest numbers are taken first; then those whose other neighbour makes the whole error smaller, one after the
 * other. Weights that are numbers of bf16 already stay as they are. */
#ifndef ZN_KERNELS_ROUND_TAPS_H
#define ZN_KERNELS_ROUND_TAPS_H

#include "base/convert.h"

#include <math.h>
#include <stdint.h>

enum { ZN_ROUND_TAPS = 64 };

/* A tap's bf16 number and its error, and those on the other side of the weight. */
typedef struct zn_rounded_tap {
    uint16_t number, other;
    float error, other_error;
} zn_rounded_tap;

static inline zn_rounded_tap zn_round_tap(float w)
{
    zn_rounded_tap t = { .number = zn_f32_to_bf16(w) };
    t.error = zn_bf16_to_f32(t.number) - w;
    const bool larger = (t.error > 0) == (w > 0); /* its magnitude is */
    t.other = (uint16_t)(t.number + (larger ? -1 : 1));
    t.other_error = zn_bf16_to_f32(t.other) - w;
    return t;
}

/* The tap to exchange for its other number next; -1: none makes the whole error smaller. Its expected square is
 * (1 - ALIKE) sum e^2 + ALIKE (sum e)^2 for inputs with this correlation. */
static inline int zn_worst_tap(const zn_rounded_tap *taps, int count, float sum)
{
    static const float ALIKE = 0.7f;
    int worst = -1;
    float most = 0;
    for (int i = 0; i < count; i++) {
        const float e = taps[i].error, other = taps[i].other_error, after = sum + other - e;
        const float gain = (1 - ALIKE) * (e * e - other * other) + ALIKE * (sum * sum - after * after);
        if (e != 0 && gain > most) {
            most = gain;
            worst = i;
        }
    }
    return worst;
}

/* count: up to ZN_ROUND_TAPS. Weights that are not finite are rounded one by one. */
static inline void zn_round_taps(const float *w, int count, uint16_t *to)
{
    zn_rounded_tap taps[ZN_ROUND_TAPS];
    float sum = 0;
    for (int i = 0; i < count; i++) {
        taps[i] = zn_round_tap(w[i]);
        to[i] = taps[i].number;
        sum += taps[i].error;
    }
    for (int turn = 0; turn < count && isfinite(sum); turn++) {
        const int i = zn_worst_tap(taps, count, sum);
        if (i < 0)
            return;
        sum += taps[i].other_error - taps[i].error;
        to[i] = taps[i].other;
        taps[i].error = 0; /* not twice */
    }
}

#endif
