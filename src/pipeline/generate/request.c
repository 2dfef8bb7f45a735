/* What is asked of a generator: defaults, and what cannot be. */
#include "pipeline/generate/generate.h"

#include "base/fail.h"
#include "base/json.h"

#include <math.h>
#include <string.h>

enum { GRAIN = 16, SIDE = 1024, STEPS = 8, MOST_STEPS = 1000, MOST_SIDE = 1 << 14, TILE_GRAIN = 8, LEAST_TILE = 64 };

static const double usual_strength = 0.6, usual_shift = 3;

/* Size of the first version: `user` was its last field. */
static const size_t least_size = offsetof(zn_generation, user) + sizeof(void *);

static zn_status copy(const zn_generation *given, zn_generation *out)
{
    const size_t size = given->size ? given->size : least_size;
    if (size < least_size)
        return ZN_FAIL(ZN_EINVALID, "a request of %zu bytes: size is at least %zu, sizeof(zn_generation)", size,
                       least_size);
    for (size_t i = sizeof *out; i < size; i++)
        if (((const char *)given)[i])
            return ZN_FAIL(ZN_EUNSUPPORTED, "a request of %zu bytes sets something that this version does not have",
                           size);
    *out = (zn_generation){ 0 };
    memcpy(out, given, size < sizeof *out ? size : sizeof *out);
    out->size = sizeof *out;
    return ZN_OK;
}

static zn_status check_side(const char *what, int side)
{
    const int below = side / GRAIN * GRAIN;
    if (side < 1 || side > MOST_SIDE)
        return ZN_FAIL(ZN_EINVALID, "a %s of %d pixels: it must be a multiple of %d from %d to %d", what, side, GRAIN,
                       GRAIN, MOST_SIDE);
    if (side == below)
        return ZN_OK;
    if (!below)
        return ZN_FAIL(ZN_EINVALID, "a %s of %d pixels is not a multiple of %d: use %d", what, side, GRAIN, GRAIN);
    return ZN_FAIL(ZN_EINVALID, "a %s of %d pixels is not a multiple of %d: use %d or %d", what, side, GRAIN, below,
                   below + GRAIN);
}

static zn_status check_text(const char *what, const char *text)
{
    const size_t size = strlen(text);
    for (size_t i = 0, length; i < size; i += length) {
        length = (size_t)zn_utf8_sequence((const uint8_t *)text + i, size - i);
        if (!length)
            return ZN_FAIL(ZN_EINVALID, "the %s is not UTF-8 at byte %zu", what, i);
    }
    return ZN_OK;
}

static zn_status check_images(const zn_generation *r)
{
    if (r->mask && !r->image)
        return ZN_FAIL(ZN_EINVALID, "a mask needs an image to change: give both");
    if (r->image && (r->image->width != r->width || r->image->height != r->height))
        return ZN_FAIL(ZN_ESHAPE, "the image is %dx%d, but %dx%d is asked for: scale the image, or leave the size out",
                       r->image->width, r->image->height, r->width, r->height);
    if (r->mask && (r->mask->width != r->width || r->mask->height != r->height))
        return ZN_FAIL(ZN_ESHAPE, "the mask is %dx%d, but the image is %dx%d: both must have one size", r->mask->width,
                       r->mask->height, r->width, r->height);
    return ZN_OK;
}

static zn_status check_tile(int side)
{
    if (side == ZN_TILE_AUTO || side == ZN_TILE_OFF ||
        (side >= LEAST_TILE && side <= MOST_SIDE && side % TILE_GRAIN == 0))
        return ZN_OK;
    return ZN_FAIL(ZN_EINVALID, "tiles of %d pixels: the side must be a multiple of %d from %d to %d", side, TILE_GRAIN,
                   LEAST_TILE, MOST_SIDE);
}

zn_generation_defaults zn_generation_usual(void)
{
    return (zn_generation_defaults){
        .size = sizeof(zn_generation_defaults), .width = SIDE, .height = SIDE, .steps = STEPS, .shift = usual_shift
    };
}

static void fill_in(const zn_generation_defaults *d, zn_generation *r)
{
    r->prompt = r->prompt ? r->prompt : "";
    r->negative = r->negative ? r->negative : "";
    r->width = r->width ? r->width : r->image ? r->image->width : d->width;
    r->height = r->height ? r->height : r->image ? r->image->height : d->height;
    r->steps = r->steps ? r->steps : d->steps;
    r->guidance = r->guidance == ZN_GUIDANCE_NONE ? 0 : r->guidance != 0 ? r->guidance : d->guidance;
    r->shift = r->shift != 0 ? r->shift : d->shift;
    r->strength = r->strength != 0 ? r->strength : usual_strength;
}

zn_status zn_generation_read(const zn_generation *given, const zn_generation_defaults *defaults, zn_generation *out)
{
    ZN_TRY(copy(given, out));
    fill_in(defaults, out);
    ZN_TRY(check_side("width", out->width));
    ZN_TRY(check_side("height", out->height));
    ZN_TRY(check_text("prompt", out->prompt));
    ZN_TRY(check_text("negative prompt", out->negative));
    ZN_TRY(check_images(out));
    if (out->steps < 1 || out->steps > MOST_STEPS)
        return ZN_FAIL(ZN_EINVALID, "%d steps: 1 to %d are possible", out->steps, MOST_STEPS);
    if (!(out->guidance >= 0 && out->guidance <= 100))
        return ZN_FAIL(ZN_EINVALID, "a guidance of %g: it must be from 0 (none) to 100", out->guidance);
    if (!(out->shift > 0 && out->shift <= 1000))
        return ZN_FAIL(ZN_EINVALID, "a shift of %g: it must be above 0 and at most 1000", out->shift);
    if (!(out->strength > 0 && out->strength <= 1))
        return ZN_FAIL(ZN_EINVALID, "a strength of %g: it must be above 0 and at most 1", out->strength);
    ZN_TRY(check_tile(out->encoder_tile));
    return check_tile(out->decoder_tile);
}

zn_status zn_generation_check(const zn_generation *request)
{
    const zn_generation_defaults usual = zn_generation_usual();
    zn_generation r;
    return zn_generation_read(request, &usual, &r);
}
