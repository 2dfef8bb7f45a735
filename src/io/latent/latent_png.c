/* Latents of four channels as RGBA pictures, the way TAESD users keep them: small, visible, and exact to 1/85 of the
 * usual range of a latent. Alpha is the fourth channel, not transparency: nothing here composites or manages colours.
 */
#include "base/fail.h"
#include "base/file.h"
#include "io/image/formats/png.h"
#include "io/latent/latent_file.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CHANNELS = 4, MAX_PIXELS = 1 << 24 };
static const float RANGE = 6.0f; /* sample 0 is -RANGE/2, 255 is RANGE/2 */
static const char PREFIX[] = "zenith:";

/* The facts arrive before the latent exists: its size is known only when the whole file is read. */
typedef struct facts {
    const char *name;
    zn_latent found;
    zn_status status;
} facts;

static void on_text(void *user, const char *key, const char *value)
{
    facts *f = user;
    if (f->status == ZN_OK && !strncmp(key, PREFIX, sizeof PREFIX - 1))
        f->status = zn_latent_set_fact(&f->found, f->name, key + sizeof PREFIX - 1, value);
}

static void from_samples(const zn_raster *r, zn_latent *z)
{
    const size_t count = (size_t)r->width * (size_t)r->height * CHANNELS;
    if (r->bits == 8)
        for (size_t i = 0; i < count; i++)
            z->data[i] = ((float)((const uint8_t *)r->pixels)[i] / 255.0f - 0.5f) * RANGE;
    else
        for (size_t i = 0; i < count; i++)
            z->data[i] = ((float)((const uint16_t *)r->pixels)[i] / 65535.0f - 0.5f) * RANGE;
}

zn_status zn_latent_png_read(const zn_source *source, zn_latent **out)
{
    zn_raster raster = { 0 };
    facts f = { .name = source->name, .status = ZN_OK };
    zn_latent *z = NULL;
    zn_status status;
    ZN_TRY_DONE(zn_png_read_stored(source, MAX_PIXELS, on_text, &f, &raster));
    ZN_TRY_DONE(f.status);
    if (raster.channels != CHANNELS) {
        status = ZN_FAIL(ZN_EFORMAT, "%s: an image of %d channels; a latent in a PNG has 4 (RGBA)", source->name,
                         raster.channels);
        goto done;
    }
    ZN_TRY_DONE(zn_latent_alloc(source->name, raster.width, raster.height, CHANNELS, 1, &z));
    z->image_width = f.found.image_width;
    z->image_height = f.found.image_height;
    z->image_frames = f.found.image_frames;
    z->downscale = f.found.downscale;
    z->grey = f.found.grey;
    z->raw = f.found.raw;
    memcpy(z->model, f.found.model, sizeof z->model);
    from_samples(&raster, z);
    *out = z;
done:
    zn_raster_free(&raster);
    return status;
}

static zn_status to_samples(const zn_latent *z, const char *path, uint8_t *samples)
{
    const size_t count = (size_t)z->width * (size_t)z->height * CHANNELS;
    for (size_t i = 0; i < count; i++) {
        const float v = z->data[i] / RANGE + 0.5f;
        if (isnan(v))
            return ZN_FAIL(ZN_ENUMERIC, "%s: the latent holds NaN at column %zu, row %zu, which a PNG cannot keep",
                           path, i / CHANNELS % (size_t)z->width, i / CHANNELS / (size_t)z->width);
        samples[i] = (uint8_t)(255.0f * (v < 0.0f ? 0.0f : v > 1.0f ? 1.0f : v) + 0.5f);
    }
    return ZN_OK;
}

zn_status zn_latent_png_write(const zn_latent *z, const char *path)
{
    if (z->channels != CHANNELS)
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s: a latent of %d channels does not fit in a PNG; use .safetensors", path,
                       z->channels);
    if (z->frames > 1)
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s: a clip of %d frames does not fit in a PNG; use .safetensors", path,
                       z->frames);
    if (z->raw)
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s: a PNG holds scaled latents, and this one is raw; use .safetensors", path);
    zn_raster raster = { 0 };
    zn_bytes bytes = { 0 };
    zn_latent_facts known;
    char keys[ZN_LATENT_FACTS][32];
    zn_png_text text[ZN_LATENT_FACTS];
    zn_status status;
    zn_latent_get_facts(z, &known);
    for (int i = 0; i < known.count; i++) {
        snprintf(keys[i], sizeof keys[i], "%s%s", PREFIX, known.key[i]);
        text[i] = (zn_png_text){ keys[i], known.value[i] };
    }
    ZN_TRY_DONE(zn_raster_alloc(&raster, z->width, z->height, 8, CHANNELS));
    ZN_TRY_DONE(to_samples(z, path, raster.pixels));
    ZN_TRY_DONE(zn_png_write_stored(&raster, text, known.count, 0, 1, &bytes));
    status = zn_file_write(path, bytes.data, bytes.size);
done:
    zn_raster_free(&raster);
    zn_bytes_free(&bytes);
    return status;
}
