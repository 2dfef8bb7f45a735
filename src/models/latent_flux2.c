/* FLUX.2's latents: packing, and the statistics by which its VAE normalises. As in diffusers (_patchify_latents and
 * _encode_vae_image of Flux2Pipeline) and in ComfyUI (AutoencodingEngine with batch_norm_latent). */
#include "base/alloc.h"
#include "base/convert.h"
#include "base/fail.h"

#include <math.h>
#include <string.h>
#include <zenith/codec.h>
#include <zenith/latent.h>
#include <zenith/weights.h>

enum { CHANNELS = 32, PACKED = ZN_LATENT_STATISTICS, DOWNSCALE = 8 };
static const double EPSILON = 1e-4; /* batch_norm_eps */

/* The channel of a packed latent that cell (x, y) keeps its channel c in. */
static int place(int c, int x, int y) { return 4 * c + 2 * (y & 1) + (x & 1); }

/* ---- packing ---- */

int zn_codec_unpacks(const zn_model_info *info, const zn_latent *z)
{
    return info->latent_channels == CHANNELS && info->downscale == DOWNSCALE && z->channels == PACKED &&
           (!z->downscale || z->downscale == 2 * DOWNSCALE);
}

static int last_or(int at, int count) { return at < count ? at : count - 1; }

/* The cells of one frame; an odd side repeats its last cells. */
static void pack(const zn_latent *z, const float *from, float *to)
{
    const int w = (z->width + 1) / 2, h = (z->height + 1) / 2;
    for (int y = 0; y < 2 * h; y++)
        for (int x = 0; x < 2 * w; x++) {
            const float *cell =
                from + ((size_t)last_or(y, z->height) * (size_t)z->width + (size_t)last_or(x, z->width)) * CHANNELS;
            float *into = to + ((size_t)(y / 2) * (size_t)w + (size_t)(x / 2)) * PACKED;
            for (int c = 0; c < CHANNELS; c++)
                into[place(c, x, y)] = cell[c];
        }
}

static void unpack(const zn_latent *z, const float *from, float *to)
{
    const int w = 2 * z->width, h = 2 * z->height;
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++) {
            const float *cell = from + ((size_t)(y / 2) * (size_t)z->width + (size_t)(x / 2)) * PACKED;
            float *into = to + ((size_t)y * (size_t)w + (size_t)x) * CHANNELS;
            for (int c = 0; c < CHANNELS; c++)
                into[c] = cell[place(c, x, y)];
        }
}

/* Cells of an odd side that were added by packing are left out again, if the size of the image tells. */
static int cells_of(int packed, int image)
{
    return image > 0 && image <= (2 * packed - 1) * DOWNSCALE ? 2 * packed - 1 : 2 * packed;
}

static void crop(zn_latent *z, int width, int height)
{
    const size_t frames = z->frames > 1 ? (size_t)z->frames : 1, row = (size_t)width * CHANNELS;
    float *to = z->data;
    for (size_t f = 0; f < frames; f++)
        for (int y = 0; y < height; y++, to += row)
            memmove(to, z->data + (f * (size_t)z->height + (size_t)y) * (size_t)z->width * CHANNELS, row * sizeof *to);
    z->width = width;
    z->height = height;
}

zn_status zn_latent_pack(zn_latent *z, int packed)
{
    const int from = packed ? CHANNELS : PACKED, to = packed ? PACKED : CHANNELS,
              scale = packed ? DOWNSCALE : 2 * DOWNSCALE;
    if (z->channels == to)
        return ZN_OK;
    if (z->channels != from || (z->downscale && z->downscale != scale))
        return ZN_FAIL(ZN_ESHAPE,
                       "only FLUX.2's latents are packed, %d channels at 1/%d as %d at 1/%d, and this one has %d",
                       CHANNELS, DOWNSCALE, PACKED, 2 * DOWNSCALE, z->channels);
    const int width = packed ? (z->width + 1) / 2 : 2 * z->width, height = packed ? (z->height + 1) / 2 : 2 * z->height;
    const size_t frames = z->frames > 1 ? (size_t)z->frames : 1;
    const size_t old = (size_t)z->width * (size_t)z->height * (size_t)from;
    const size_t made = (size_t)width * (size_t)height * (size_t)to;
    void *data;
    ZN_TRY(zn_alloc_for("a latent", frames * made * sizeof(float), &data));
    for (size_t f = 0; f < frames; f++)
        (packed ? pack : unpack)(z, z->data + f * old, (float *)data + f * made);
    zn_free(z->data);
    z->data = data;
    z->width = width;
    z->height = height;
    z->channels = to;
    z->downscale = packed ? 2 * DOWNSCALE : DOWNSCALE;
    if (!packed)
        crop(z, cells_of(width / 2, z->image_width), cells_of(height / 2, z->image_height));
    return ZN_OK;
}

/* ---- statistics ---- */

static zn_status take(const zn_weights *w, const char *path, const char *name, float out[PACKED])
{
    const zn_weight *t = zn_weights_find(w, name);
    if (!t || t->rank != 1 || t->shape[0] != PACKED || zn_dtype_block(t->dtype) != 1)
        return ZN_FAIL(ZN_EFORMAT, "%s: not the VAE of FLUX.2, which has %d numbers %s", path, PACKED, name);
    zn_to_f32(out, t->data, t->dtype, PACKED);
    return ZN_OK;
}

zn_status zn_latent_statistics_read(const char *path, zn_latent_statistics *out)
{
    zn_weights *w = NULL;
    ZN_TRY(zn_weights_open(path, &w));
    zn_status status = take(w, path, "bn.running_mean", out->mean);
    if (status == ZN_OK)
        status = take(w, path, "bn.running_var", out->deviation);
    zn_weights_close(w);
    for (int i = 0; i < PACKED && status == ZN_OK; i++) {
        const double variance = out->deviation[i];
        if (!(variance >= 0) || !isfinite(variance) || !isfinite(out->mean[i]))
            status = ZN_FAIL(ZN_EFORMAT, "%s: number %d of bn.running_mean or bn.running_var makes no sense", path, i);
        out->deviation[i] = (float)sqrt(variance + EPSILON);
    }
    return status;
}

zn_status zn_latent_normalise(zn_latent *z, const zn_latent_statistics *s, int raw)
{
    if (z->channels != CHANNELS && z->channels != PACKED)
        return ZN_FAIL(ZN_ESHAPE, "FLUX.2's latents have %d or %d channels, this one %d", CHANNELS, PACKED,
                       z->channels);
    if (!z->raw == !raw)
        return ZN_OK;
    const int rows = z->height * (z->frames > 1 ? z->frames : 1);
    float *at = z->data;
    for (int y = 0; y < rows; y++)
        for (int x = 0; x < z->width; x++)
            for (int c = 0; c < z->channels; c++, at++) {
                const int i = z->channels == PACKED ? c : place(c, x, y % z->height);
                *at = raw ? *at * s->deviation[i] + s->mean[i] : (*at - s->mean[i]) / s->deviation[i];
            }
    z->raw = raw != 0;
    return ZN_OK;
}
