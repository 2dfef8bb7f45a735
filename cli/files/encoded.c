#include "files/encoded.h"

#include "files/extensions.h"

/* A source of frames; one of the two is open. */
typedef struct frames {
    zn_film *film;
    zn_animation *images;
} frames;

static zn_status next_frame(const frames *f, zn_image **out)
{
    return f->film ? zn_film_next(f->film, out) : zn_animation_next(f->images, out);
}

zn_status encode_frames(zn_video *v, const char *path, const zn_image_read_options *reading, zn_latent **clip,
                        int *count, frame_fn tell, void *user, zn_film_faults *faults)
{
    frames f = { 0 };
    const int before = *count;
    zn_image *image = NULL;
    zn_status status = is_video_file(path) ? zn_film_open(path, &f.film) : zn_animation_open(path, reading, &f.images);
    if (f.film)
        zn_film_keep_bits(f.film);
    if (status == ZN_OK)
        status = next_frame(&f, &image);
    if (f.film && image)
        zn_video_hold(v, zn_film_bytes(f.film, 0, 0, 0));
    while (status == ZN_OK && image) {
        if (tell)
            tell(user, *count - before);
        status = zn_video_encode(v, image, clip);
        zn_image_free(image);
        image = NULL;
        *count += status == ZN_OK;
        if (status == ZN_OK)
            status = next_frame(&f, &image);
    }
    if (f.film && faults)
        zn_film_find_faults(f.film, faults);
    zn_film_close(f.film);
    zn_animation_close(f.images);
    return status;
}

void json_encoded(json *j, const zn_latent *latent, double encode_ms)
{
    json_integer(j, "width", latent->image_width);
    json_integer(j, "height", latent->image_height);
    json_integer(j, "latent_width", latent->width);
    json_integer(j, "latent_height", latent->height);
    json_integer(j, "latent_channels", latent->channels);
    json_real(j, "encode_ms", encode_ms);
}
