/* The photos that a data set is built from: all of several folders or sets, numbered in one row. */
#ifndef ZN_DATASET_PHOTOS_H
#define ZN_DATASET_PHOTOS_H

#include "io/dataset/dataset.h"

#include <stddef.h>
#include <stdint.h>
#include <zenith/image.h>

typedef struct zn_photos {
    struct zn_photo_source *sources;
    int source_count;
    int64_t count; /* photos of all sources */
} zn_photos;

/* Refuses a set of clips, whose records are neither photos nor frames. name: of the input. */
ZN_MUST_USE zn_status zn_dataset_check_images(const zn_dataset *set, const char *name);

/* On failure too, it must be closed. */
ZN_MUST_USE zn_status zn_photos_open(const char *const *inputs, int count, zn_photos *out);
void zn_photos_close(zn_photos *p); /* harmless on zeros */

ZN_MUST_USE zn_status zn_photos_read(const zn_photos *p, int64_t item, zn_image **out);
/* Path inside its folder, or the record's name; of several sources, with the source's own name before it. */
void zn_photos_name(const zn_photos *p, int64_t item, char *name, size_t size);

#endif
