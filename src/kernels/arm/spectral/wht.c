/* Walsh-Hadamard transforms for AArch64: maps as a stream of groups whose passes run at once (wht_stream.h), and
 * lines of channels with the blocks of wht_lines.h. The vector build handles the rest. */
#include "kernels/arm/kernels.h"
#include "kernels/arm/spectral/wht_lines.h"
#include "kernels/arm/spectral/wht_stream.h"
#include "kernels/spectral.h"

enum { HELD = 64 /* floats: the longest line of wht_lines.h */, EARLY = 4096 /* floats */ };

static int64_t run_of(const zn_wht_args *a) { return a->inner < zn_wht_run(a) ? a->inner : zn_wht_run(a); }

bool zn_wht_arm_supports(const void *args)
{
    const zn_wht_args *a = args;
    if (a->gate)
        return false;
    return a->inner == 1 ? a->n >= WHT_BLOCKS_LEAST : a->inner % run_of(a) == 0;
}

/* Lines of channels. Lines that do not fit in registers are transformed in pieces, and then among pieces. */
static void channels(const zn_wht_args *a, zn_range r)
{
    if (a->n <= HELD) {
        const int64_t at = a->n * r.begin;
        r.begin += wht_blocks(a->n, a->x + at, a->y + at, a->n * (r.end - r.begin), a->scale) / a->n;
        if (r.begin < r.end)
            zn_wht_neon(a, r);
        return;
    }
    const int64_t most = ZN_WHT_CHUNK > a->n ? ZN_WHT_CHUNK / a->n : 1;
    for (int64_t unit = r.begin, units; unit < r.end; unit += units) {
        units = r.end - unit < most ? r.end - unit : most;
        const int64_t at = a->n * unit, count = a->n * units;
        wht_blocks(HELD, a->x + at, r.scratch, count, 1); /* all: count is a multiple of two blocks */
        wht_whole_lines(r.scratch, r.scratch, a->y + at, a->n / HELD, count / HELD, HELD, a->scale, NULL);
    }
}

/* Floats per group of a stream: rows if they are contiguous; otherwise as many as fit L1, because memory is faster
 * in long runs. */
static int64_t stream_width(const zn_wht_args *a)
{
    return a->inner <= zn_wht_run(a) ? a->inner : a->n == 16 ? 256 : a->n == 64 ? 64 : 128;
}

/* Processes a range as one stream of groups of stream_width floats or less. Returns false if its shape does not
 * allow it. */
static bool stream(const zn_wht_args *a, zn_range r)
{
    const int64_t run = run_of(a);
    for (int64_t width = stream_width(a); width >= 16 && width % 16 == 0 && run % width == 0; width /= 2) {
        const wht_stream q = { .from = a->x,
                               .to = a->y,
                               .n = a->n,
                               .row = a->inner,
                               .width = width,
                               .first = r.begin * run / width,
                               .total = (r.end - r.begin) * run / width,
                               .scale = a->scale,
                               .rings = r.scratch };
        if (wht_can_stream(&q, zn_wht_scratch(a))) {
            wht_stream_all(&q);
            return true;
        }
    }
    return false;
}

/* Up to four contiguous rows, in one pass that prefetches 16 KB ahead. */
static bool one_pass(const zn_wht_args *a, zn_range r)
{
    if (a->n < 2 || a->n > 4 || a->inner % WHT_LINE || a->inner > zn_wht_run(a))
        return false;
    const int64_t at = a->n * a->inner * r.begin, rows = a->n * (r.end - r.begin);
    wht_ahead ahead = { a->x + at + EARLY, (rows * a->inner - EARLY) / 16, 2 * (int)a->n, false };
    wht_whole_lines(a->x + at, r.scratch, a->y + at, a->n, rows, a->inner, a->scale, &ahead);
    return true;
}

void zn_wht_arm(const void *args, zn_range r)
{
    const zn_wht_args *a = args;
    if (a->inner == 1)
        channels(a, r);
    else if (!stream(a, r) && !one_pass(a, r))
        zn_wht_neon(a, r);
}
