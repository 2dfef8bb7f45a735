/* Sentences about parts of a generator that are missing or do not belong together. */
#ifndef ZN_GENERATE_MISSING_H
#define ZN_GENERATE_MISSING_H

#include "pipeline/generate/files.h"

/* Channels in which networks must agree; 0: the network has none of these, or they are not known. */
typedef struct zn_part_widths {
    int captions; /* of the text encoder's features */
    int latents;  /* of the autoencoder */
} zn_part_widths;

const char *zn_part_label(zn_generator_part part);  /* "text encoder" */
const char *zn_part_option(zn_generator_part part); /* "--text-encoder" */
const char *zn_part_advice(zn_generator_part part); /* published files that hold it, with their sizes */

/* Fails if a part other than the preview network is missing in `where`, a folder or a file beside which it was looked
 * for. unreadable: what is wrong with a file that may be the missing one, or "". */
ZN_MUST_USE zn_status zn_parts_missing(const zn_generator_paths *p, const char *where, const char *unreadable);

bool zn_widths_fit(const zn_part_widths *part, const zn_part_widths *transformer);
/* The failure for a text encoder or an autoencoder that does not fit. */
ZN_MUST_USE zn_status zn_part_misfit(zn_generator_part part, const char *file, const zn_part_widths *width,
                                     const char *transformer_file, const zn_part_widths *transformer);

#endif
