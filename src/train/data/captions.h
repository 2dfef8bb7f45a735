/* Captions: what the images of a data set show, from a CSV file with columns "file" and "caption" among its columns:
 *
 *     file,caption,species
 *     beagle_1.jpg,"a photo of a beagle, a dog",dog
 *
 *     zn_captions *c;
 *     ZN_TRY(zn_captions_read("pets/captions.csv", &c));
 *     text = zn_captions_of(c, "images/beagle_1.jpg");       // by its whole name or what is after the last '/'; or
 * NULL zn_captions_free(c); */
#ifndef ZN_CAPTIONS_H
#define ZN_CAPTIONS_H

#include "base/arena.h"

#include <stdint.h>
#include <zenith/status.h>

typedef struct zn_caption_line {
    const char *file, *text;
} zn_caption_line;

typedef struct zn_captions {
    zn_arena arena; /* texts */
    zn_caption_line *list;
    int64_t count;
    size_t capacity;
} zn_captions;

ZN_MUST_USE zn_status zn_captions_read(const char *path, zn_captions **out);
/* name: for messages. */
ZN_MUST_USE zn_status zn_captions_parse(const char *text, size_t size, const char *name, zn_captions **out);
void zn_captions_free(zn_captions *c);

const char *zn_captions_of(const zn_captions *c, const char *picture);

#endif
