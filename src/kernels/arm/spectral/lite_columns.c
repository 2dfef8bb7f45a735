/* The pass of a Lite block along the columns of bands for AArch64, using the passes of plane_line.h: from the band
 * to planes of vectors and back. */
#include "kernels/arm/kernels.h"
#include "kernels/arm/spectral/plane_line.h"
#include "kernels/lite.h"

bool zn_lite_columns_arm_supports(const void *args)
{
    const zn_lite_args *a = args;
    return a->band && plane_does(a->h, a->ci);
}

void zn_lite_columns_arm(const void *args, zn_range r)
{
    const zn_lite_args *a = args;
    const int64_t size = zn_lite_apart(a), row = (int64_t)a->band * a->ci;
    float *gates = r.scratch;
    plane_gates(a->gate, a->h, gates);
    for (int64_t band = r.begin; band < r.end; band++) {
        wht_ahead ahead = { a->t + (band + 1) * size, band + 1 < r.end ? size / 16 : 0, 3, false };
        const plane_line line = { .x = gates + a->h, .gates = gates, .n = a->h, .width = a->ci, .ahead = &ahead };
        for (int p = 0; p < a->band; p++) {
            const plane_to to = { .to = a->y + band * size + p * a->ci, .position = row, .fours = a->h / 4 };
            plane_in(&line, a->t + band * size + p * a->ci, row);
            plane_middle(&line);
            plane_last(&line, &to);
        }
        zn_lite_end_band(a, a->y + band * size);
    }
}
