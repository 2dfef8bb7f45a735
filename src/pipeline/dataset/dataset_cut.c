/* Squares of a photo as pictures of a data set. */
#include "pipeline/dataset/dataset_cut.h"

#include "base/fail.h"
#include "base/least.h"
#include "base/rng.h"
#include "io/image/pixels/resize.h"

/* A random whole number in [0, spare]. */
static int somewhere(zn_rng *rng, int spare) { return (int)(zn_rng_next(rng) % (uint64_t)(spare + 1)); }

/* The part of a photo that becomes a picture; rng NULL: the middle. */
static zn_region part_of(const zn_image *photo, int size, zn_rng *rng)
{
    const int side = zn_least(photo->width, photo->height);
    zn_region r = { .width = zn_least(photo->width, size), .height = zn_least(photo->height, size) };
    if (side > size) {
        const double u = rng ? (double)zn_rng_uniform(rng) : 1;
        r.width = r.height = rng ? size + (int)(u * u * (side - size + 1)) : side;
    }
    r.x = rng ? somewhere(rng, photo->width - r.width) : (photo->width - r.width) / 2;
    r.y = rng ? somewhere(rng, photo->height - r.height) : (photo->height - r.height) / 2;
    return r;
}

zn_status zn_cut_photo(const zn_image *photo, const char *name, const zn_dataset_build_options *o, zn_pictures *out)
{
    const int whole = photo->width <= o->size && photo->height <= o->size; /* all crops would be the same */
    zn_rng rng = zn_rng_new(zn_seed_for(o->seed, name));
    zn_status status = ZN_OK;
    out->count = whole || !o->crops ? 1 : o->crops;
    for (int i = 0; i < out->count && status == ZN_OK; i++) {
        const zn_region part = part_of(photo, o->size, o->crops ? &rng : NULL);
        zn_image *picture;
        status = zn_image_shrink(photo, part, zn_least(part.width, o->size), zn_least(part.height, o->size), &picture);
        if (status == ZN_OK)
            status = zn_image_write_memory(o->format, picture, &o->write, &out->bytes[i], &out->sizes[i]);
        zn_image_free(picture);
    }
    return status;
}
