/* Pictures for training: reading those that may be broken, and crops of them.
 *
 *     ZN_TRY(zn_picture_read(set, 7, &(zn_skip){ note, user }, &image));
 *     if (image)
 *         ZN_TRY(zn_picture_crop(image, &(zn_crop){ .size = 128 }, seed, pixels)); */
#ifndef ZN_TRAIN_PICTURES_H
#define ZN_TRAIN_PICTURES_H

#include "io/dataset/dataset.h"

/* Whom to tell of a picture that cannot be read; the function may be NULL. */
typedef struct zn_skip {
    void (*note)(void *user, int64_t picture, const char *why);
    void *user;
} zn_skip;

/* *out is NULL if the picture cannot be read: `skip` is called. Fails only where another try might not. */
ZN_MUST_USE zn_status zn_picture_read(const zn_dataset *set, int64_t picture, const zn_skip *skip, zn_image **out);

/* A whole picture in [0,1]. */
void zn_picture_plain(const zn_image *image, float *out);
/* A whole picture in [-1,1], as diffusion models take it. */
void zn_picture_signed(const zn_image *image, float *out);

typedef struct zn_crop {
    int size;   /* its side */
    int frames; /* of a video; 0: one image */
    bool no_flip;
    double halve; /* share of the crops that are taken twice as large and scaled down */
} zn_crop;

/* One crop: a square at a random position (smaller pictures are extended by reflection), perhaps mirrored. The image
 * holds so many frames, one below the other: the crop is the same square of crop->frames successive ones, from a random
 * one on. Fails if there are fewer. */
ZN_MUST_USE zn_status zn_picture_crop(const zn_image *image, int held, const zn_crop *crop, uint64_t seed, float *out);
/* A view of frame `index`; the pixels are those of the image. */
zn_image zn_picture_frame(const zn_image *image, int held, int index);

#endif
