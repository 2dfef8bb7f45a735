/* Features of prompts on disk, so that a prompt is encoded once. An entry is a .safetensors file named by its key; one
 * that is damaged counts as missing. Nothing here fails: without a cache, prompts are encoded again.
 *
 *     if (!zn_cache_get(folder, key, &features)) { ...; zn_cache_put(folder, key, &features); } */
#ifndef ZN_GENERATE_CACHE_H
#define ZN_GENERATE_CACHE_H

#include "pipeline/generate/generate.h"

/* The user's folder for this, "" if there is none; size: of out. */
void zn_cache_folder(char *out, size_t size);

/* data, tokens and width of an entry; data is the caller's. */
bool zn_cache_get(const char *folder, const char key[65], zn_features *out);
/* Adds an entry, and removes those that were not used for longest where all together exceed `most` bytes. */
void zn_cache_put(const char *folder, const char key[65], const zn_features *f, size_t most);

#endif
