/* Reading and cropping. */
#include "train/data/pictures.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/rng.h"
#include "io/image/pixels/pixels.h"

zn_status zn_picture_read(const zn_dataset *set, int64_t picture, const zn_skip *skip, zn_image **out)
{
    const zn_status status = zn_dataset_read(set, picture, out);
    if (status == ZN_OK || status == ZN_ENOMEM)
        return status;
    *out = NULL;
    if (skip->note)
        skip->note(skip->user, picture, zn_error_text());
    return ZN_OK;
}

void zn_picture_plain(const zn_image *image, float *out)
{
    zn_pixels_to_float(image, (zn_region){ 0, 0, image->width, image->height }, out, (size_t)image->width * 3);
}

void zn_picture_signed(const zn_image *image, float *out)
{
    const size_t count = (size_t)image->width * (size_t)image->height * 3;
    zn_picture_plain(image, out);
    for (size_t i = 0; i < count; i++)
        out[i] = 2 * out[i] - 1;
}

static int reflect(int i, int n)
{
    if (n == 1)
        return 0;
    const int period = 2 * (n - 1);
    i = (i % period + period) % period;
    return i < n ? i : period - i;
}

static zn_status crop_random(const zn_image *image, int size, bool flip, uint64_t seed, float *out)
{
    zn_rng rng = zn_rng_new(seed);
    const int spare_x = image->width - size, spare_y = image->height - size;
    const int x0 = spare_x > 0 ? (int)(zn_rng_next(&rng) % (uint64_t)(spare_x + 1)) : 0;
    const int y0 = spare_y > 0 ? (int)(zn_rng_next(&rng) % (uint64_t)(spare_y + 1)) : 0;
    const bool mirrored = flip && (zn_rng_next(&rng) & 1);
    const bool wide = image->bits != 8;
    int32_t *columns; /* where the values of each column begin */
    float level[256];
    ZN_TRY(zn_alloc_for("a crop", sizeof *columns * (size_t)size, (void **)&columns));
    for (int x = 0; x < size; x++)
        columns[x] = 3 * reflect(x0 + (mirrored ? size - 1 - x : x), image->width);
    for (int v = 0; v < 256; v++)
        level[v] = (float)v / 255.0f;
    for (int y = 0; y < size; y++) {
        const size_t row = (size_t)reflect(y0 + y, image->height) * (size_t)image->width * 3;
        const uint8_t *narrow = (const uint8_t *)image->pixels + (wide ? 0 : row);
        const uint16_t *deep = (const uint16_t *)image->pixels + (wide ? row : 0);
        for (int x = 0; x < size; x++, out += 3)
            for (int c = 0; c < 3; c++)
                out[c] = wide ? (float)deep[columns[x] + c] / 65535.0f : level[narrow[columns[x] + c]];
    }
    zn_free(columns);
    return ZN_OK;
}

/* A crop of twice the side, every 2x2 pixels made one. */
static zn_status crop_halved(const zn_image *image, int size, bool flip, uint64_t seed, float *out)
{
    float *large;
    ZN_TRY(zn_alloc_for("a crop", sizeof *large * (size_t)size * (size_t)size * 12, (void **)&large));
    const zn_status status = crop_random(image, 2 * size, flip, seed, large);
    const size_t row = (size_t)size * 6;
    for (size_t i = 0; i < (size_t)size * (size_t)size && status == ZN_OK; i++) {
        const float *p = large + i / (size_t)size * 2 * row + i % (size_t)size * 6;
        for (size_t c = 0; c < 3; c++)
            out[3 * i + c] = 0.25f * (p[c] + p[c + 3] + p[c + row] + p[c + row + 3]);
    }
    zn_free(large);
    return status;
}

zn_image zn_picture_frame(const zn_image *image, int held, int index)
{
    zn_image frame = *image;
    frame.height = image->height / held;
    const size_t bytes =
        (size_t)frame.height * (size_t)image->width * 3 * (image->bits == 8 ? sizeof(uint8_t) : sizeof(uint16_t));
    frame.pixels = (uint8_t *)image->pixels + bytes * (size_t)index;
    return frame;
}

/* Pictures that are too small for it are never halved. */
static zn_status crop_image(const zn_image *image, const zn_crop *c, uint64_t seed, float *out)
{
    zn_rng rng = zn_rng_new(seed ^ 0x5ca1ab1e);
    if (c->halve > 0 && image->width >= 2 * c->size && image->height >= 2 * c->size &&
        (double)zn_rng_uniform(&rng) < c->halve)
        return crop_halved(image, c->size, !c->no_flip, seed, out);
    return crop_random(image, c->size, !c->no_flip, seed, out);
}

/* The same seed gives the same square in every frame. */
zn_status zn_picture_crop(const zn_image *image, int held, const zn_crop *c, uint64_t seed, float *out)
{
    const int frames = c->frames ? c->frames : 1;
    zn_rng rng = zn_rng_new(seed ^ 0x71a3);
    if (held < frames || image->height % held)
        return ZN_FAIL(ZN_EINVALID, "a clip of %d frames, not of at least %d", held, frames);
    const int first = (int)(zn_rng_next(&rng) % (uint64_t)(held - frames + 1));
    for (int i = 0; i < frames; i++) {
        const zn_image frame = zn_picture_frame(image, held, first + i);
        ZN_TRY(crop_image(&frame, c, seed, out + (size_t)i * (size_t)c->size * (size_t)c->size * 3));
    }
    return ZN_OK;
}
