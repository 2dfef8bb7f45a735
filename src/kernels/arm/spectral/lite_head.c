/* The head of a Lite-R block for AArch64: head_norm.h normalises rows and head_taps.h sums them. */
#include "kernels/arm/kernels.h"
#include "kernels/arm/spectral/head_norm.h"
#include "kernels/arm/spectral/head_taps.h"
#include "kernels/simd/spectral/head.h"

static void norm_row(const strip *s, const float *x, int64_t ahead, int count, float *to)
{
    if (count >= HEAD_PIXELS)
        head_norm_row(x, s->a->c, s->a->eps, s->a->gain, count, to, s->plane);
    else
        norm_any(s, x, ahead, count, to);
}

/* The start of row y of the strip, including the pixel before it. After the last row that the strip needs come the
 * first rows of the next strip. */
static const float *map_row(const strip *s, int y)
{
    const zn_lite_head_args *a = s->a;
    const bool beyond = y > s->end;
    const int row = beyond ? y - s->end - 2 + s->begin : y, x = s->x0 - (s->x0 > 0) + (beyond ? s->count : 0);
    return s->image + ((int64_t)(row < 0 ? 0 : least(row, a->h - 1)) * a->wide + x) * a->c;
}

/* Prefetches the next two rows of the map, with a pixel on either side. */
static void taps_row(const strip *s, int y)
{
    const int blocks = (s->count + TAPS_BLOCK - 1) / TAPS_BLOCK;
    const head_taps q = { .row = { ring_row(s, y - 1), ring_row(s, y), ring_row(s, y + 1) },
                          .taps = s->taps,
                          .e = s->e,
                          .plane = s->plane,
                          .e_plane = s->e_plane,
                          .planes = s->a->c / VEC_LANES,
                          .blocks = blocks,
                          .soon = map_row(s, y + 2),
                          .later = map_row(s, y + 3),
                          .fetched = (s->count + 2) * VEC_LANES / blocks + 1 };
    head_taps_pinned(&q);
}

void zn_lite_head_arm(const void *args, zn_range r) { all_rows(args, r, (head_steps){ norm_row, taps_row }); }
