/* Conditions of a data set's pictures: what a diffusion autoencoder's encoder makes of them, once, for the nets that
 * learn from conditions alone.
 *
 *     zn_conditions *c;
 *     ZN_TRY(zn_conditions_new(set, width, 1, &c));
 *     ZN_TRY(zn_conditions_encode(c, &(zn_encoding){ .model = m, .set = set, .pool = pool }));
 *     ZN_TRY(zn_conditions_split(c, set, 2));
 *     zn_conditions_statistics(c, mean, deviation);
 *     row = zn_conditions_at(c, seed, n, &picture);           // the n-th of an endless sequence
 *     zn_conditions_free(c); */
#ifndef ZN_CONDITIONS_H
#define ZN_CONDITIONS_H

#include "base/threads.h"
#include "models/model.h"
#include "train/data/pictures.h"
#include "train/ranks/ranks.h"

typedef struct zn_conditions {
    int width, views;        /* views: 2 where there is the mirrored picture too */
    int64_t pictures;        /* of the data set */
    float *values;           /* [pictures][views][width] */
    float *known;            /* [pictures]: 1 where there are values, else 0; floats, for zn_ranks_sum */
    int64_t *learned, *held; /* pictures to learn from, and those held out */
    int64_t learned_count, held_count;
} zn_conditions;

ZN_MUST_USE zn_status zn_conditions_new(const zn_dataset *set, int width, int views, zn_conditions **out);
void zn_conditions_free(zn_conditions *c);
void zn_conditions_forget(zn_conditions *c); /* as it was when it was new */

typedef struct zn_encoding {
    const zn_model *model; /* a diffusion autoencoder, or one whose latents are wanted */
    int side;              /* that images are scaled to; 0: the model's own */
    const zn_dataset *set;
    const uint8_t *wanted; /* by picture; NULL: all */
    zn_pool *pool;
    zn_device *device; /* NULL: the CPU */
    zn_ranks *ranks;   /* NULL: alone; else each encodes its share and gets all */
    zn_skip skip;      /* called for pictures that cannot be read */
    /* Pictures done by this rank, now and then; non-zero stops with ZN_ECANCELLED. May be NULL. */
    int (*progress)(void *user, int64_t done, int64_t of);
    void *user;
} zn_encoding;

/* The middle of each wanted picture, scaled to that side. Called on all ranks. */
ZN_MUST_USE zn_status zn_conditions_encode(zn_conditions *c, const zn_encoding *how);

/* Which known pictures are learned from. Fails when fewer than two are. */
ZN_MUST_USE zn_status zn_conditions_split(zn_conditions *c, const zn_dataset *set, int held_out);

/* Of the pictures learned from, as they are: mean[width], deviation[width] (with n - 1, never 0). */
void zn_conditions_statistics(const zn_conditions *c, float *mean, float *deviation);

/* Number n of the endless sequence of learned pictures, each epoch a permutation, mirrored by chance where there are
 * two views; and which picture it is. */
const float *zn_conditions_at(const zn_conditions *c, uint64_t seed, uint64_t n, int64_t *picture);

/* A file with the conditions of these pictures. It is read only if it is about the same pictures: else *is_it is false,
 * as for a file that is not there or not in order. */
ZN_MUST_USE zn_status zn_conditions_write(const char *path, const zn_conditions *c, const zn_dataset *set,
                                          const uint8_t *wanted);
ZN_MUST_USE zn_status zn_conditions_read(const char *path, zn_conditions *c, const zn_dataset *set,
                                         const uint8_t *wanted, bool *is_it);

#endif
