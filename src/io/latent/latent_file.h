/* Inside of the latent files: one reader and one writer for each kind, and the checks they share.
 *
 *     const zn_source source = { bytes, size, "photo.png", NULL };
 *     ZN_TRY(zn_latent_read_bytes(&source, &latent)); */
#ifndef ZN_LATENT_FILE_H
#define ZN_LATENT_FILE_H

#include "base/file.h"
#include "io/image/bytes.h"

#include <stdbool.h>

#include <zenith/latent.h>
#include <zenith/weights.h>

enum {
    ZN_LATENT_VERSION = 1,
    ZN_LATENT_MAX_SIDE = 1 << 16,
    ZN_LATENT_MAX_CHANNELS = 1 << 12,
    ZN_LATENT_MAX_FRAMES = 1 << 16
};

/* As zn_latent_new, the data uninitialised; name is for messages. */
ZN_MUST_USE zn_status zn_latent_alloc(const char *name, int64_t width, int64_t height, int64_t channels, int64_t frames,
                                      zn_latent **out);
/* Numbers in it. */
size_t zn_latent_count(const zn_latent *latent);

/* As zn_latent_read and zn_latent_read_at, from memory. */
ZN_MUST_USE zn_status zn_latent_read_bytes(const zn_source *source, zn_latent **out);
ZN_MUST_USE zn_status zn_latent_read_bytes_at(const zn_source *source, int64_t index, int64_t *count, zn_latent **out);

/* One fact from a file: key is version, image_width, image_height, image_frames, downscale, grey, model or scaling;
 * others are ignored. */
ZN_MUST_USE zn_status zn_latent_set_fact(zn_latent *latent, const char *name, const char *key, const char *value);

/* The same facts for writing. Facts that are unknown are left out. Keys and values live as long as the list. */
enum { ZN_LATENT_FACTS = 8 };
typedef struct zn_latent_facts {
    int count;
    const char *key[ZN_LATENT_FACTS];
    char value[ZN_LATENT_FACTS][64];
} zn_latent_facts;
void zn_latent_get_facts(const zn_latent *latent, zn_latent_facts *facts);

/* Sizes that contradict each other, names that cannot be stored. name is the file's. */
ZN_MUST_USE zn_status zn_latent_check(const zn_latent *latent, const char *name, zn_status code);

/* Number `index` of the *count latents in a tensor [C,H,W], [N,C,H,W] or [N,C,T,H,W]; name is the file's. */
ZN_MUST_USE zn_status zn_latent_from_tensor(const zn_weight *tensor, const char *name, int64_t index, int64_t *count,
                                            zn_latent **out);
/* Whether a file of tensors is a latent of ours or of ComfyUI's. */
bool zn_weights_hold_latent(const zn_weights *w);
/* Shape and dtype of the tensor that holds `count` latents like this one. */
void zn_latent_tensor_shape(const zn_latent *latent, int64_t count, zn_weight *tensor);
/* Writes the planes of that tensor and commits the file; on failure the file is gone. */
ZN_MUST_USE zn_status zn_latent_commit_planes(zn_outfile *file, const zn_latent *const *latents, int64_t count);

/* The kinds of file. Readers of tensors give number `index` of *count latents; writers get at least one latent, all of
 * the same size. */
ZN_MUST_USE zn_status zn_latent_png_read(const zn_source *source, zn_latent **out);
ZN_MUST_USE zn_status zn_latent_png_write(const zn_latent *latent, const char *path);
ZN_MUST_USE zn_status zn_latent_tensor_read(const zn_source *source, int64_t index, int64_t *count, zn_latent **out);
ZN_MUST_USE zn_status zn_latent_tensor_write(const zn_latent *const *latents, int64_t count, const char *path);
ZN_MUST_USE zn_status zn_latent_comfy_write(const zn_latent *const *latents, int64_t count, const char *path);
bool zn_is_npy(const uint8_t *bytes, size_t size);
ZN_MUST_USE zn_status zn_latent_npy_read(const zn_source *source, int64_t index, int64_t *count, zn_latent **out);
ZN_MUST_USE zn_status zn_latent_npy_write(const zn_latent *const *latents, int64_t count, const char *path);

#endif
