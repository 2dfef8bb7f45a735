/* The index.json of a sharded model: which file holds which tensor. */
#ifndef ZN_PART_INDEX_H
#define ZN_PART_INDEX_H

#include "pipeline/generate/files.h"

#include <stdbool.h>

typedef struct zn_part_index {
    zn_json doc;
    const zn_json_node *map; /* tensor names to file names */
    const char **shards;     /* each file once; names that stay in the folder of the index */
    int count;
} zn_part_index;

/* Reads the bytes of an index; path is used in messages. */
ZN_MUST_USE zn_status zn_part_index_read(const void *json, size_t size, const char *path, zn_part_index *out);
void zn_part_index_free(zn_part_index *x);

/* True for names of files that may hold weights of a generator. */
bool zn_part_is_weights(const char *name);

#endif
