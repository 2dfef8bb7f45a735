/* Spectral mixing of squares, channel by channel. */
#include "kernels/gates.h"

#include "kernels/spectral.h"

#include <math.h>

enum { LANES = 16 };

static int64_t before(const zn_tile_square_args *a) { return (a->p - a->offset) % a->p; }
static int64_t tiles(const zn_tile_square_args *a, int64_t n) { return (before(a) + n + a->p - 1) / a->p; }

int64_t zn_tile_square_units(const zn_tile_square_args *a) { return a->n * tiles(a, a->h) * tiles(a, a->wide); }

/* Rows of the vector builds' squares are padded by one cache line, so that their stride is not a power of two. So
 * are the six parameter tables stored after them. */
size_t zn_tile_square_scratch(const zn_tile_square_args *a)
{
    return sizeof(float) * (size_t)(a->p + 6) * ((size_t)a->p * LANES + LANES);
}

zn_tile_square zn_tile_square_at(const zn_tile_square_args *a, int64_t unit)
{
    const int64_t across = tiles(a, a->wide), down = tiles(a, a->h);
    return (zn_tile_square){ .image = unit / (across * down),
                             .y = unit / across % down * a->p - before(a),
                             .x = unit % across * a->p - before(a) };
}

void zn_ref_tile_square(const void *tile_square_args, zn_range tiles);

/* x = Q soft(gate .* Q x, |th|) for P values `step` apart, for channel k. */
static void mix(const zn_tile_square_args *a, int axis, int k, float *x, int64_t step)
{
    const float scale = 1 / sqrtf((float)a->p);
    zn_wht_rows(x, a->p, 1, step);
    for (int i = 0; i < a->p; i++) {
        const float v = a->gate[axis][i * a->channels + k] * x[i * step] * scale;
        const float m = fabsf(v) - fabsf(a->th[axis][i * a->channels + k]);
        x[i * step] = m <= 0 ? 0 : copysignf(m, v) * scale;
    }
    zn_wht_rows(x, a->p, 1, step);
}

void zn_ref_tile_square(const void *args, zn_range r)
{
    const zn_tile_square_args *a = args;
    float *t = r.scratch;
    for (int64_t unit = r.begin; unit < r.end; unit++) {
        const zn_tile_square q = zn_tile_square_at(a, unit);
        const int64_t base = q.image * a->h * a->wide;
        for (int k = 0; k < a->channels; k++) {
            for (int i = 0; i < a->p; i++)
                for (int j = 0; j < a->p; j++) {
                    const int64_t y = zn_tile_mix_reflect(q.y + i, a->h), x = zn_tile_mix_reflect(q.x + j, a->wide);
                    t[i * a->p + j] = a->x[(base + y * a->wide + x) * a->channels + k];
                }
            for (int i = 0; i < a->p; i++)
                mix(a, 0, k, t + i * a->p, 1);
            for (int j = 0; j < a->p; j++)
                mix(a, 1, k, t + j, a->p);
            for (int64_t i = 0; i < a->p; i++)
                for (int64_t j = 0; j < a->p; j++) {
                    const int64_t y = q.y + i, x = q.x + j;
                    const float v = t[i * a->p + j];
                    if (y >= 0 && y < a->h && x >= 0 && x < a->wide)
                        a->y[(base + y * a->wide + x) * a->channels + k] = 0.5f * v * (1 + erff(v * 0.70710678f));
                }
        }
    }
}
