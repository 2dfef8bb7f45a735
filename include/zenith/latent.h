/* Latents: what an encoder makes and a decoder takes.
 *
 *     zn_latent *z;
 *     zn_latent_read("photo.safetensors", &z);
 *     printf("%dx%dx%d of %s\n", z->width, z->height, z->channels, z->model);
 *     zn_latent_free(z);
 *
 * A clip has several frames. On disk: a .safetensors file with one F32 tensor "latent" [1,C,H,W], or [1,C,T,H,W] of a
 * clip, and metadata format=zenith-latent, version, model, image_width, image_height, image_frames, downscale,
 * grey; or, for
 * 4-channel models, an RGBA PNG as TAESD users keep them (value = round(255 * clamp(z/6 + 0.5, 0, 1)), size recorded in
 * a tEXt chunk). docs/latent-format.md has it all. */
#ifndef ZN_LATENT_H
#define ZN_LATENT_H

#include <stddef.h>
#include <stdint.h>
#include <zenith/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zn_latent {
    int width, height, channels;
    int image_width, image_height; /* size of the encoded image; 0 if unknown (then the decoder's full size is used) */
    int downscale;                 /* image pixels per latent pixel and side; 0 if unknown */
    char model[64];                /* name of the architecture that made it; "" if unknown */
    float *data;                   /* [frames][height][width][channels] */
    int frames;                    /* of a clip; 0 and 1: a picture's latent */
    int image_frames;              /* pictures of the encoded clip; 0 if unknown */
    int grey;                      /* non-zero: the encoded images were grey, and decoding gives grey ones */
} zn_latent;

ZN_API ZN_MUST_USE zn_status zn_latent_new(int width, int height, int channels, zn_latent **out);
ZN_API void zn_latent_free(zn_latent *latent);

/* Adds the frames of `more`, which stays, behind those of *clip; NULL there becomes a copy. Facts are the first one's,
 * but pictures add up. ZN_ESHAPE for another size. */
ZN_API ZN_MUST_USE zn_status zn_latent_append(zn_latent **clip, const zn_latent *more);

/* Reads .safetensors (ours, or any file whose only tensor of 3 to 5 dimensions is [C,H,W], [1,C,H,W] or
 * [1,C,T,H,W]) or RGBA PNG, by content. */
ZN_API ZN_MUST_USE zn_status zn_latent_read(const char *path, zn_latent **out);
/* By extension: .safetensors or .png; /dev/stdout gets .safetensors. The file appears whole or not at all. */
ZN_API ZN_MUST_USE zn_status zn_latent_write(const char *path, const zn_latent *latent);

#ifdef __cplusplus
}
#endif
#endif
