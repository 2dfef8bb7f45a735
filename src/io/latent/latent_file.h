/* Inside of the latent files: one reader and one writer for each kind, and the checks they share.
 *
 *     const zn_source source = { bytes, size, "photo.png" };
 *     ZN_TRY(zn_latent_read_bytes(&source, &latent)); */
#ifndef ZN_LATENT_FILE_H
#define ZN_LATENT_FILE_H

#include "io/image/bytes.h"

#include <zenith/latent.h>

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

/* As zn_latent_read, from memory. */
ZN_MUST_USE zn_status zn_latent_read_bytes(const zn_source *source, zn_latent **out);

/* One fact from a file: key is version, image_width, image_height, image_frames, downscale, grey or model; others are
 * ignored. */
ZN_MUST_USE zn_status zn_latent_set_fact(zn_latent *latent, const char *name, const char *key, const char *value);

/* The same facts for writing. Facts that are unknown are left out. Keys and values live as long as the list. */
enum { ZN_LATENT_FACTS = 7 };
typedef struct zn_latent_facts {
    int count;
    const char *key[ZN_LATENT_FACTS];
    char value[ZN_LATENT_FACTS][64];
} zn_latent_facts;
void zn_latent_get_facts(const zn_latent *latent, zn_latent_facts *facts);

/* Sizes that contradict each other, names that cannot be stored. name is the file's. */
ZN_MUST_USE zn_status zn_latent_check(const zn_latent *latent, const char *name, zn_status code);

ZN_MUST_USE zn_status zn_latent_png_read(const zn_source *source, zn_latent **out);
ZN_MUST_USE zn_status zn_latent_png_write(const zn_latent *latent, const char *path);
ZN_MUST_USE zn_status zn_latent_tensor_read(const zn_source *source, zn_latent **out);
ZN_MUST_USE zn_status zn_latent_tensor_write(const zn_latent *latent, const char *path);

#endif
