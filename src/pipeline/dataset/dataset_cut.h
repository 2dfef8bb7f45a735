/* Converts a photo for a data set: one image or several, cropped, scaled down and compressed. */
#ifndef ZN_DATASET_CUT_H
#define ZN_DATASET_CUT_H

#include <zenith/dataset.h>

typedef struct zn_pictures {
    int count;
    void **bytes; /* [count], each to be freed by zn_memory_free */
    size_t *sizes;
} zn_pictures;

/* As zn_dataset_build_options has it; the options must be complete, and *out have room for the crops. What was made
 * before a failure is in *out too. */
ZN_MUST_USE zn_status zn_cut_photo(const zn_image *photo, const char *name, const zn_dataset_build_options *o,
                                   zn_pictures *out);

#endif
