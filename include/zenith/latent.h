/* Latents: the output of an encoder and the input of a decoder.
 *
 *     zn_latent *z;
 *     zn_latent_read("photo.safetensors", &z);
 *     printf("%dx%dx%d of %s\n", z->width, z->height, z->channels, z->model);
 *     zn_latent_free(z);
 *
 * A video has several frames. On disk: a .safetensors file with one F32 tensor "latent" [N,C,H,W], or [N,C,T,H,W] of
 * clips, and metadata format=zenith-latent, version, model, image_width, image_height, image_frames, downscale,
 * grey, scaling; NumPy's .npy; ComfyUI's .latent; or, for 4-channel models, an RGBA PNG as TAESD users exchange them.
 * docs/latent-format.md describes them all. */
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
    int frames;                    /* of a video; 0 or 1: the latent of an image */
    int image_frames;              /* images of the encoded video; 0 if unknown */
    int grey;                      /* non-zero: the encoded images were grey, and decoding gives grey ones */
    int raw; /* non-zero: numbers as a VAE computes them, not yet scaled for a generator (zn_latent_rescale) */
} zn_latent;

/* A new latent of one frame, with all numbers 0 and no metadata. */
ZN_API ZN_MUST_USE zn_status zn_latent_new(int width, int height, int channels, zn_latent **out);
ZN_API void zn_latent_free(zn_latent *latent);

/* Appends the frames of `more`, which is not changed, to those of *clip; if *clip is NULL it becomes a copy. `more` may
 * be *clip itself, whose frames are then doubled. Metadata are those of the first latent, but image_frames are added.
 * ZN_ESHAPE if the sizes differ. */
ZN_API ZN_MUST_USE zn_status zn_latent_append(zn_latent **clip, const zn_latent *more);

/* Reads by content: .safetensors (ours, or any file whose only tensor of 3 to 5 dimensions is [C,H,W], [1,C,H,W] or
 * [1,C,T,H,W]), .npy, .latent or RGBA PNG. ZN_EUNSUPPORTED for a batch of several. */
ZN_API ZN_MUST_USE zn_status zn_latent_read(const char *path, zn_latent **out);
/* Reads number `index`, from 0, of the latents in a file, and how many it has (count may be NULL). */
ZN_API ZN_MUST_USE zn_status zn_latent_read_at(const char *path, int64_t index, zn_latent **out, int64_t *count);
/* By extension: .safetensors, .npy, .latent (raw latents only) or .png (scaled ones only); /dev/stdout gets
 * .safetensors. The file appears whole or not at all. */
ZN_API ZN_MUST_USE zn_status zn_latent_write(const char *path, const zn_latent *latent);
/* Several latents of one size in a file, as [N,C,H,W]; a PNG holds one only. */
ZN_API ZN_MUST_USE zn_status zn_latent_write_batch(const char *path, const zn_latent *const *latents, int64_t count);
/* The same in a given format ("safetensors", "npy", "latent" or "png"), whatever the name. */
ZN_API ZN_MUST_USE zn_status zn_latent_write_as(const char *path, const char *format, const zn_latent *const *latents,
                                                int64_t count);

/* Generators of images do not work on a VAE's own numbers ("raw") but on (raw - shift) * factor. Models of this
 * library take and give the scaled numbers, as diffusers' pipelines do with output_type="latent". Converts in place, to
 * raw numbers (raw non-zero) or from them; does nothing if the latent is in that scale already. family: "sd", "sdxl",
 * "sd3", "flux", "sana", "wan2.1", "wan2.2", or "none" where both are the same; ZN_ENOTFOUND for another. "flux2" needs
 * statistics: ZN_EUNSUPPORTED, and zn_latent_normalise does it. */
ZN_API ZN_MUST_USE zn_status zn_latent_rescale(zn_latent *latent, const char *family, int raw);
/* Name and numbers of family `index`; NULL after the last. factor is 0 where each channel has its own numbers. */
ZN_API const char *zn_latent_family_at(int index, double *factor, double *shift);

/* FLUX.2's generators work on packed latents: 2x2 cells of 32 channels at 1/8 of the image are one cell of 128 channels
 * at 1/16, where channel 4c + 2y + x is channel c of cell (x, y). Packs in place (packed non-zero) or unpacks; does
 * nothing if the latent is so already. An odd side is made even by repeating its last cells, and unpacking leaves them
 * out if image_width and image_height are known. ZN_ESHAPE for other latents. */
ZN_API ZN_MUST_USE zn_status zn_latent_pack(zn_latent *latent, int packed);

/* FLUX.2's large VAE normalises packed latents by a mean and a deviation of each channel, which only its file has.
 * ZN_EFORMAT for a file without bn.running_mean and bn.running_var. */
enum { ZN_LATENT_STATISTICS = 128 };
typedef struct zn_latent_statistics {
    float mean[ZN_LATENT_STATISTICS], deviation[ZN_LATENT_STATISTICS];
} zn_latent_statistics;
ZN_API ZN_MUST_USE zn_status zn_latent_statistics_read(const char *path, zn_latent_statistics *out);
/* As zn_latent_rescale, for FLUX.2's latents, packed or not. */
ZN_API ZN_MUST_USE zn_status zn_latent_normalise(zn_latent *latent, const zn_latent_statistics *statistics, int raw);

#ifdef __cplusplus
}
#endif
#endif
