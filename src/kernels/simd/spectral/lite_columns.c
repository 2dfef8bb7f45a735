/* The pass of a Lite block along columns. A column of a pixel is transformed in scratch, where it fits L1. Columns
 * of a band are read from L2, into which the next band is prefetched meanwhile. Columns of a map whose rows are far
 * apart are processed a few at a time, by the passes of wht_strip.h. */
#include "kernels/lite.h"
#include "kernels/simd/lanes.h"
#include "kernels/simd/spectral/lite_mix.h"
#include "kernels/simd/vec_math.h"

void ZN_KERNEL(lite_columns)(const void *args, zn_range r);

/* Copies one row of a strip from the map to its columns' lines or back; a line has `width` floats for each of its
 * rows. */
static void row_in(const float *from, int ci, int pixels, float *to, int64_t width, int64_t step)
{
    for (int p = 0; p < pixels; p++, from += ci, to += step)
        widen(to, width, from, ci);
}

static void row_out(const float *from, int64_t step, int ci, int pixels, float *to)
{
    for (int p = 0; p < pixels; p++, from += step, to += ci)
        for (int k = 0; k < ci; k += VEC_LANES)
            store(to + k, vec_load(from + k), ci - k < VEC_LANES ? ci - k : VEC_LANES);
}

/* The columns of a band, one after the other, in place. The steps among eight neighbouring rows are done when
 * copying from the band to the line and back: with other steps, eight rows would share an L1 set. So the middle,
 * with the gate, has the steps between the eighths of a column; gate[y * 8 + k] is the gate of row y + k * h / 8. */
static void band_columns(const zn_lite_args *a, const float *from, float *to, const float *gate, float *line,
                         wht_ahead *ahead)
{
    const int64_t row = (int64_t)a->band * a->ci, eighth = a->h / 8;
    for (int p = 0; p < a->band; p++, from += a->ci, to += a->ci) {
        const wht_walk in = { .from = from,
                              .to = line,
                              .from_step = row,
                              .to_step = a->ci,
                              .run = a->ci,
                              .runs = eighth,
                              .from_next = 8 * row,
                              .to_next = 8 * a->ci,
                              .ahead = ahead };
        ZN_KERNEL(wht_plain8)(&in);
        wht_solid_from(line, a->h, 8, eighth, a->ci, ahead);
        const wht_walk middle = { .from = line,
                                  .to = line,
                                  .from_step = eighth * a->ci,
                                  .to_step = eighth * a->ci,
                                  .run = a->ci,
                                  .runs = eighth,
                                  .from_next = a->ci,
                                  .to_next = a->ci,
                                  .factors = gate,
                                  .scale = 1 / (float)a->h,
                                  .ahead = ahead };
        ZN_KERNEL(wht_gate8)(&middle);
        wht_solid_from(line, a->h, 8, eighth, a->ci, ahead);
        const wht_walk out = { .from = line,
                               .to = to,
                               .from_step = a->ci,
                               .to_step = row,
                               .run = a->ci,
                               .runs = eighth,
                               .from_next = 8 * a->ci,
                               .to_next = 8 * row,
                               .ahead = ahead };
        ZN_KERNEL(wht_plain8)(&out);
    }
}

static void bands(const zn_lite_args *a, zn_range r)
{
    const int64_t size = zn_lite_apart(a);
    float *gate = r.scratch, *line = gate + VEC_ROUND(a->h);
    for (int i = 0; i < a->h; i++)
        gate[i] = a->gate[i / 8 + i % 8 * (a->h / 8)];
    for (int64_t band = r.begin; band < r.end; band++) {
        wht_ahead ahead = { a->t + (band + 1) * size, band + 1 < r.end ? size / 16 : 0, 3, false };
        band_columns(a, a->t + band * size, a->y + band * size, gate, line, &ahead);
        zn_lite_end_band(a, a->y + band * size);
    }
}

void ZN_KERNEL(lite_columns)(const void *args, zn_range r)
{
    const zn_lite_args *a = args;
    if (a->band) {
        bands(a, r);
        return;
    }
    const int strip = zn_lite_strip(a), across = (a->wide + strip - 1) / strip;
    const int64_t width = VEC_ROUND(a->ci), step = width * a->h + WHT_APART, row = (int64_t)a->wide * a->ci;
    float *lines = r.scratch;
    for (int64_t unit = r.begin; unit < r.end; unit++) {
        const int x = (int)(unit % across) * strip, left = a->wide - x, pixels = left < strip ? left : strip;
        const int64_t first = (unit / across * a->h * a->wide + x) * a->ci;
        if (a->h > 8 && width == a->ci) {
            const wht_strip q = { .from = a->t + first,
                                  .to = a->y + first,
                                  .row = row,
                                  .n = a->h,
                                  .columns = pixels,
                                  .width = a->ci,
                                  .gate = a->gate,
                                  .scale = 1 / (float)a->h,
                                  .lines = lines };
            wht_strip_all(&q);
            continue;
        }
        for (int y = 0; y < a->h; y++)
            row_in(a->t + first + y * row, a->ci, pixels, lines + y * width, width, step);
        for (int p = 0; p < pixels; p++)
            mix(lines + p * step, a->gate, a->h, width, lines + p * step, 0, 0, NULL);
        for (int y = 0; y < a->h; y++)
            row_out(lines + y * width, step, a->ci, pixels, a->y + first + y * row);
    }
}
