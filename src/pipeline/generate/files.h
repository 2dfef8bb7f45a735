/* The files of a generator: which they are, and what they hold.
 *
 *     zn_generator_paths p;
 *     ZN_TRY(zn_generator_paths_find(asked, &p));                       // names what is missing
 *     zn_part_files t;
 *     ZN_TRY(zn_part_open(p.transformer, ZN_GENERATOR_TRANSFORMER, &t)); // one file, or the shards of an index
 *     zn_zimage_recognise(t.files, t.count, t.config, ...);
 *     zn_part_close(&t); */
#ifndef ZN_GENERATE_FILES_H
#define ZN_GENERATE_FILES_H

#include "base/json.h"
#include "text/tokenizer.h"

#include <zenith/generate.h>
#include <zenith/weights.h>

typedef enum zn_generator_part {
    ZN_GENERATOR_TRANSFORMER,
    ZN_GENERATOR_TEXT,
    ZN_GENERATOR_VAE,
    ZN_GENERATOR_TOKENIZER,
    ZN_GENERATOR_PREVIEW, /* optional */
    ZN_GENERATOR_PARTS
} zn_generator_part;

/* Paths of all parts, found but not opened; "" for a preview network that is not there. If the search fails, those that
 * were found before. */
typedef struct zn_generator_paths {
    char part[ZN_GENERATOR_PARTS][4096];
} zn_generator_paths;
ZN_MUST_USE zn_status zn_generator_paths_find(const zn_generator_files *asked, zn_generator_paths *out);

/* The weights of one network, mapped: one file, or shards that an index.json names; and its config.json if there is
 * one. */
typedef struct zn_part_files {
    const zn_weights **files;
    int count;
    zn_json config;    /* config.root is NULL without a config.json */
    char identity[65]; /* SHA-256 over names, sizes and times of the files: changes when they do */
} zn_part_files;
ZN_MUST_USE zn_status zn_part_open(const char *path, zn_generator_part part, zn_part_files *out);
void zn_part_close(zn_part_files *p);

/* From tokenizer.json, a folder with one or with vocab.json and merges.txt, or the metadata of a GGUF file. */
ZN_MUST_USE zn_status zn_generator_tokenizer(const char *path, zn_tokenizer **out);
/* From the metadata of an open GGUF file; name is used in messages. */
ZN_MUST_USE zn_status zn_generator_vocabulary(const zn_weights *w, const char *name, zn_tokenizer **out);

#endif
