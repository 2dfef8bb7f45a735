/* A codec inside: shared by encoding, decoding and restoring. */
#ifndef ZN_PIPELINE_CODEC_H
#define ZN_PIPELINE_CODEC_H

#include "graph/compute.h"
#include "pipeline/codec/runner.h"

#include <pthread.h>

struct zn_codec {
    const zn_model *model;
    zn_compute compute;
    pthread_mutex_t lock;
    zn_runner *runner[2]; /* by part, for the last size used */
    size_t packed[2];     /* bytes of packed weights, by part; they stay when a runner goes */
    size_t beside;        /* bytes of the device that others of its owner have within the same budget */
    size_t held;          /* zn_codec_hold, with the program */
    zn_part last;
    zn_profile_row *rows;
    int row_count;
};

/* The runner of a part for an input shape, kept for the next call. held: bytes of images and latents that count as part
 * of the memory budget. The lock is held. */
ZN_MUST_USE zn_status zn_codec_runner(zn_codec *c, zn_part part, zn_shape shape, size_t held, zn_runner **out);

/* Before an image of a new size is encoded and then decoded: refuses a budget that is too small for either part, with
 * the least that works for both. */
ZN_MUST_USE zn_status zn_codec_check_both(zn_codec *c, const zn_image *image);

/* For zn_runner_io: regions of an image as floats and back. Beyond the image its edge is repeated; what would be
 * written there is dropped. from, to: the zn_image. */
void zn_codec_read_image(void *from, zn_region region, float *map);
void zn_codec_write_image(void *to, zn_region region, const float *map, size_t stride);
/* Hands out an image that was filled; frees it where that failed. Returns status. */
ZN_MUST_USE zn_status zn_codec_finish(zn_image *image, zn_status status, zn_image **out);
size_t zn_image_bytes(int width, int height, int bits);

/* Refuses a latent of other channels or another scale than the model's. */
ZN_MUST_USE zn_status zn_codec_check_latent(const zn_model_info *info, const zn_latent *z);

static inline int64_t zn_round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

#endif
