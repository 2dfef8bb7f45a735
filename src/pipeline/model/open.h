/* Weights in a folder, by stem: what the names of a model's files have in common. */
#ifndef ZN_OPEN_H
#define ZN_OPEN_H

#include <stdbool.h>
#include <zenith/model.h>

enum { ZN_MODEL_PATH = 4096 };

/* Opens the files of `folder` that share a stem. released: large weights of a video autoencoder are not read, as if
 * zn_model_release had been called. */
ZN_MUST_USE zn_status zn_open_stem(const char *folder, const char *stem, bool released, zn_model **out);
/* zn_model_open with that choice. */
ZN_MUST_USE zn_status zn_open_path(const char *path, bool released, zn_model **out);

/* Whether the weight file of that stem is a latent. */
bool zn_stem_is_latent(const char *folder, const char *stem);

/* Calls visit for each different stem of a folder's weight files, in order. Stops when visit returns false. */
typedef bool (*zn_stem_visit)(void *user, const char *folder, const char *stem);
void zn_each_stem(const char *folder, zn_stem_visit visit, void *user);

/* Calls visit for each folder in which models are looked for, best first. Stops when visit returns false. */
ZN_MUST_USE zn_status zn_each_place(bool (*visit)(void *user, const char *folder), void *user);

#endif
