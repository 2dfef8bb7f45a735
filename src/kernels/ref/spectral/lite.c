/* The passes of a Lite block, composed of simpler kernels. */
#include "kernels/lite.h"

#include "kernels/mix.h"
#include "kernels/spectral.h"

#include <string.h>

enum { STRIP = 128, APART = 16 }; /* floats of t per row of a strip, and between its columns */

int zn_lite_strip(const zn_lite_args *a) { return a->band ? a->band : a->ci < STRIP ? STRIP / a->ci : 1; }

static int64_t strips_across(const zn_lite_args *a) { return (a->wide + zn_lite_strip(a) - 1) / zn_lite_strip(a); }
int64_t zn_lite_strips(const zn_lite_args *a) { return a->n * strips_across(a); }

/* One line per pixel of a strip, packed weights, a few pixels of results, a gate, and padding between vectors for
 * builds that store lines separately. */
size_t zn_lite_scratch(const zn_lite_args *a)
{
    const size_t side = (size_t)(a->h > a->wide ? a->h : a->wide), strip = (size_t)zn_lite_strip(a);
    const zn_grouped_args g = { .cin = a->c, .cout = a->ci, .groups = a->groups };
    const size_t vectors = (size_t)(a->ci + 15) / 16 * 16, padded = (size_t)(a->c + a->ci) + 64 * (size_t)a->groups;
    const size_t extra = 8 * side + 16 * vectors + 64;
    return sizeof(float) * (strip * (side * vectors + APART + ZN_GROUPED_PIXELS * padded) + extra) +
           zn_grouped_scratch(&g);
}

/* x = M(gate) x over n rows of `width` floats. */
static void mix(float *x, const float *gate, int n, int width)
{
    zn_wht_rows(x, n, width, width);
    for (int k = 0; k < n; k++)
        for (int c = 0; c < width; c++)
            x[(int64_t)k * width + c] *= gate[k] / (float)n;
    zn_wht_rows(x, n, width, width);
}

void zn_ref_grouped(const void *grouped_args, zn_range pixels);
void zn_ref_lite_rows(const void *lite_args, zn_range rows);
void zn_ref_lite_columns(const void *lite_args, zn_range strips);
void zn_ref_lite_expand(const void *lite_args, zn_range pixels);

void zn_ref_lite_rows(const void *args, zn_range r)
{
    const zn_lite_args *a = args;
    for (int64_t row = r.begin; row < r.end; row++) {
        const zn_grouped_args g = { .x = a->x + row * a->wide * a->c,
                                    .w = a->w,
                                    .bias = a->b,
                                    .y = r.scratch,
                                    .cin = a->c,
                                    .cout = a->ci,
                                    .groups = a->groups };
        zn_ref_grouped(&g, (zn_range){ 0, a->wide, NULL });
        mix(g.y, a->gate, a->wide, a->ci);
        for (int x = 0; x < a->wide; x++)
            memcpy(a->y + zn_lite_at(a, row, x), g.y + (int64_t)x * a->ci, sizeof(float) * (size_t)a->ci);
        zn_lite_end_bands(a, row);
    }
}

static void column(const zn_lite_args *a, int64_t image, int x, float *line)
{
    const size_t bytes = sizeof(float) * (size_t)a->ci;
    for (int y = 0; y < a->h; y++)
        memcpy(line + y * a->ci, a->t + zn_lite_at(a, image * a->h + y, x), bytes);
    mix(line, a->gate, a->h, a->ci);
    for (int y = 0; y < a->h; y++)
        memcpy(a->y + zn_lite_at(a, image * a->h + y, x), line + y * a->ci, bytes);
}

void zn_ref_lite_columns(const void *args, zn_range r)
{
    const zn_lite_args *a = args;
    const int strip = zn_lite_strip(a);
    for (int64_t unit = r.begin; unit < r.end; unit++) {
        const int first = (int)(unit % strips_across(a)) * strip;
        for (int x = first; x < first + strip && x < a->wide; x++)
            column(a, unit / strips_across(a), x, r.scratch);
        if (a->band)
            zn_lite_end_band(a, a->y + unit * zn_lite_apart(a));
    }
}

/* y may be x: an expanded pixel is added only when it is complete. */
void zn_ref_lite_expand(const void *args, zn_range r)
{
    const zn_lite_args *a = args;
    float *expanded = r.scratch;
    for (int64_t p = r.begin; p < r.end; p++) {
        const zn_grouped_args g = { .x = a->t + zn_lite_at(a, p / a->wide, p % a->wide),
                                    .w = a->w,
                                    .bias = a->b,
                                    .y = expanded,
                                    .cin = a->ci,
                                    .cout = a->c,
                                    .groups = a->groups };
        zn_ref_grouped(&g, (zn_range){ 0, 1, NULL });
        for (int k = 0; k < a->c; k++)
            a->y[p * a->c + k] = a->x[p * a->c + k] + expanded[k];
    }
}
