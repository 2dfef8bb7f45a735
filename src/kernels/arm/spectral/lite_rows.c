/* The pass of a Lite block along rows for AArch64: the grouped product with the passes of reduce_pass.h or
 * reduce_pair.h, the transform with those of plane_line.h if they support its size. */
#include "kernels/arm/kernels.h"
#include "kernels/arm/spectral/plane_line.h"
#include "kernels/arm/spectral/reduce_pair.h"
#include "kernels/lite.h"
#include "kernels/simd/spectral/lite_mix.h"

static bool in_pairs(const zn_lite_args *a)
{
    return pair_does(a->groups, a->c / a->groups, a->ci / a->groups, a->wide);
}

bool zn_lite_rows_arm_supports(const void *args)
{
    const zn_lite_args *a = args;
    return in_pairs(a) || (a->wide % REDUCE_PIXELS == 0 && reduce_does(a->c / a->groups, a->ci / a->groups));
}

/* The weights of the product of reduce_pass.h, or reduce_pair.h (pairs), followed by its results. */
static reduce_pass row_product(const zn_lite_args *a, bool pairs, float *scratch)
{
    reduce_pass q = { .w = scratch,
                      .b = a->b,
                      .c = a->c,
                      .ci = a->ci,
                      .groups = a->groups,
                      .deep = a->c / a->groups,
                      .wide = a->ci / a->groups };
    if (pairs)
        pair_pack(&q, a->w, scratch);
    else
        reduce_pack(&q, a->w, scratch);
    q.y = scratch + (int64_t)a->ci * q.deep + WHT_LINE;
    return q;
}

/* What to prefetch while a row is transformed: `pixels` pixels of the next row. */
static wht_ahead next_row(const zn_lite_args *a, int64_t pixels, int each, int64_t row, zn_range r)
{
    const int64_t lines = row + 1 < r.end ? pixels * a->c / 16 : 0;
    return (wht_ahead){ a->x + (row + 1) * a->wide * a->c, lines, each, false };
}

/* All rows by the product, then the vector build of the transform. */
static void rows_by_passes(const zn_lite_args *a, bool pairs, zn_range r)
{
    reduce_pass q = row_product(a, pairs, r.scratch);
    q.early = pairs && a->wide > PAIR_EARLY ? PAIR_EARLY : a->wide;
    for (int64_t row = r.begin; row < r.end; row++) {
        wht_ahead ahead = next_row(a, q.early, pairs ? 2 : 8, row, r);
        q.x = a->x + row * a->wide * a->c;
        if (pairs)
            pair_all(&q, a->wide);
        else
            reduce_all(&q, a->wide / REDUCE_PIXELS);
        mix(q.y, a->gate, a->wide, a->ci, a->y + zn_lite_at(a, row, 0), a->band * a->ci, zn_lite_apart(a), &ahead);
        zn_lite_end_bands(a, row);
    }
}

/* The same if the transform also has passes, those of plane_line.h. */
static void rows_by_planes(const zn_lite_args *a, bool pairs, zn_range r)
{
    reduce_pass q = row_product(a, pairs, r.scratch);
    float *gates = q.y;
    plane_line line = { .x = gates + a->wide, .gates = gates, .n = a->wide, .width = a->ci };
    const int fours = a->band ? a->band / 4 : a->wide / 4;
    q.early = a->wide / 8; /* spreads prefetches evenly */
    q.plane = plane_floats(a->wide);
    q.y = line.x + q.plane;
    plane_gates(a->gate, a->wide, gates);
    for (int64_t row = r.begin; row < r.end; row++) {
        wht_ahead ahead = next_row(a, q.early, 2, row, r);
        const plane_to to = { .to = a->y + zn_lite_at(a, row, 0),
                              .position = a->ci,
                              .fours = fours,
                              .jump = a->band ? zn_lite_apart(a) - a->band * a->ci : 0 };
        line.ahead = &ahead;
        q.x = a->x + row * a->wide * a->c;
        if (pairs)
            pair_planes(&q, a->wide);
        else
            reduce_planes(&q, a->wide / REDUCE_PIXELS);
        plane_in_place(&line);
        plane_middle(&line);
        plane_last(&line, &to);
        zn_lite_end_bands(a, row);
    }
}

void zn_lite_rows_arm(const void *args, zn_range r)
{
    const zn_lite_args *a = args;
    if (plane_does(a->wide, a->ci))
        rows_by_planes(a, in_pairs(a), r);
    else
        rows_by_passes(a, in_pairs(a), r);
}
