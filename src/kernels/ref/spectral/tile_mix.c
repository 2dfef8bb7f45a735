/* Spectral mixing in tiles (specification D2). Each tile of a strip is gathered into scratch (with reflection beyond
 * the ends), transformed, gated, thresholded and transformed back. */
#include "kernels/gates.h"

#include "kernels/mix.h"
#include "kernels/spectral.h"

#include <math.h>
#include <string.h>

enum { STRIP = 64 }; /* floats, or one pixel */

/* Pixels per strip. */
static int64_t strip_pixels(const zn_tile_mix_args *a) { return a->channels < STRIP ? STRIP / a->channels : 1; }

static int64_t strips_of(const zn_tile_mix_args *a)
{
    return (a->inner / a->channels + strip_pixels(a) - 1) / strip_pixels(a);
}

int64_t zn_tile_mix_units(const zn_tile_mix_args *a) { return a->outer * strips_of(a); }

size_t zn_tile_mix_scratch(const zn_tile_mix_args *a)
{
    const int64_t padded = (a->channels + 15) / 16 * 16; /* rows of the vector builds are whole vectors */
    return sizeof(float) * 4 * (size_t)(a->p * strip_pixels(a) * padded);
}

zn_strip zn_tile_mix_strip(const zn_tile_mix_args *a, int64_t unit)
{
    const int64_t wide = strip_pixels(a) * a->channels, first = unit % strips_of(a) * wide;
    zn_strip s = { .at = unit / strips_of(a) * a->n * a->inner + first,
                   .wide = a->inner - first < wide ? a->inner - first : wide,
                   .left = (a->p - a->offset) % a->p };
    s.tiles = (s.left + a->n + a->p - 1) / a->p;
    return s;
}

/* Reflects without repeating the edge. */
int64_t zn_tile_mix_reflect(int64_t i, int64_t n)
{
    if (n == 1)
        return 0;
    const int64_t period = 2 * (n - 1);
    i = (i % period + period) % period;
    return i < n ? i : period - i;
}

/* t[P][wide] = Q of a tile of x. Positions outside the line are reflected, or zero for a gradient. */
static void spectrum(const zn_tile_mix_args *a, const zn_strip *s, int64_t tile, const float *x, bool reflected,
                     float *t)
{
    const float scale = 1 / sqrtf((float)a->p);
    const size_t bytes = sizeof(float) * (size_t)s->wide;
    for (int64_t i = 0; i < a->p; i++) {
        const int64_t at = tile * a->p + i - s->left;
        if (!reflected && (at < 0 || at >= a->n))
            memset(t + i * s->wide, 0, bytes);
        else
            memcpy(t + i * s->wide, x + s->at + zn_tile_mix_reflect(at, a->n) * a->inner, bytes);
    }
    zn_wht_rows(t, a->p, s->wide, s->wide);
    for (int64_t i = 0; i < a->p * s->wide; i++)
        t[i] *= scale;
}

static void back(const zn_tile_mix_args *a, const zn_strip *s, float *t)
{
    const float scale = 1 / sqrtf((float)a->p);
    zn_wht_rows(t, a->p, s->wide, s->wide);
    for (int64_t i = 0; i < a->p * s->wide; i++)
        t[i] *= scale;
}

/* Index of the parameter for float i of a tile. */
static int64_t parameter(const zn_tile_mix_args *a, const zn_strip *s, int64_t i)
{
    return i / s->wide * a->channels + i % s->wide % a->channels;
}

void zn_ref_tile_mix(const void *args, zn_range r)
{
    const zn_tile_mix_args *a = args;
    float *t = r.scratch;
    for (int64_t unit = r.begin; unit < r.end; unit++) {
        const zn_strip s = zn_tile_mix_strip(a, unit);
        for (int64_t tile = 0; tile < s.tiles; tile++) {
            spectrum(a, &s, tile, a->x, true, t);
            for (int64_t i = 0; i < a->p * s.wide; i++) {
                const int64_t k = parameter(a, &s, i);
                const float v = a->gate[k] * t[i], m = fabsf(v) - fabsf(a->th[k]);
                t[i] = m <= 0 ? 0 : copysignf(m, v);
            }
            back(a, &s, t);
            for (int64_t i = 0; i < a->p; i++) {
                const int64_t at = tile * a->p + i - s.left;
                if (at >= 0 && at < a->n)
                    memcpy(a->y + s.at + at * a->inner, t + i * s.wide, sizeof(float) * (size_t)s.wide);
            }
        }
    }
}

/* Gradients of one tile: x and dy are its spectra; dy is replaced by the gradient before the gate. */
static void tile_back(const zn_tile_mix_args *a, const zn_strip *s, const float *x, float *dy, float *dgate, float *dth)
{
    for (int64_t i = 0; i < a->p * s->wide; i++) {
        const int64_t k = parameter(a, s, i);
        const float v = a->gate[k] * x[i], th = a->th[k], d = fabsf(v) <= fabsf(th) ? 0 : dy[i];
        dgate[k] += x[i] * d;
        dth[k] -= (v > 0 ? 1.0f : -1.0f) * (th > 0 ? 1.0f : th < 0 ? -1.0f : 0.0f) * d;
        dy[i] = a->gate[k] * d;
    }
}

static void strip_back(const zn_tile_mix_args *a, const zn_strip *s, float *scratch, float *dgate, float *dth)
{
    float *x = scratch, *dy = x + a->p * s->wide;
    for (int64_t i = 0; i < a->n; i++)
        memset(a->y + s->at + i * a->inner, 0, sizeof(float) * (size_t)s->wide);
    for (int64_t tile = 0; tile < s->tiles; tile++) {
        spectrum(a, s, tile, a->x, true, x);
        spectrum(a, s, tile, a->dy, false, dy);
        tile_back(a, s, x, dy, dgate, dth);
        back(a, s, dy);
        for (int64_t i = 0; i < a->p; i++) { /* adds every extended value to its source */
            float *to = a->y + s->at + zn_tile_mix_reflect(tile * a->p + i - s->left, a->n) * a->inner;
            for (int64_t c = 0; c < s->wide; c++)
                to[c] += dy[i * s->wide + c];
        }
    }
}

void zn_ref_tile_mix_grad(const void *args, zn_range r)
{
    const zn_tile_mix_args *a = args;
    const int64_t count = (int64_t)a->p * a->channels, units = zn_tile_mix_units(a), size = zn_sum_block(units);
    for (int64_t block = r.begin; block < r.end; block++) {
        float *dgate = a->partial + block * 2 * count, *dth = dgate + count;
        memset(dgate, 0, sizeof(float) * 2 * (size_t)count);
        for (int64_t unit = block * size; unit < (block + 1) * size && unit < units; unit++) {
            const zn_strip s = zn_tile_mix_strip(a, unit);
            strip_back(a, &s, r.scratch, dgate, dth);
        }
    }
}
