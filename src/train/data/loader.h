/* Batches of random crops, made ahead by background threads so that the model never waits.
 *
 *     zn_loader *l;
 *     ZN_TRY(zn_loader_new(data, &(zn_loader_options){ .batch = 16, .crop.size = 128, .seed = 1 }, &l));
 *     ZN_TRY(zn_loader_next(l, step, NULL, batch));    // [batch][size][size][3] in [0,1]; videos: [batch][frames]...
 *     zn_loader_free(l);
 *
 * A batch depends on the seed and its step number alone: not on threads, not on what was read before. So a run can be
 * resumed at any step, and ranks of a parallel run take their slices of one common batch. A picture that cannot be read
 * gives its place to the next one of the order; it is an error if there is none. */
#ifndef ZN_LOADER_H
#define ZN_LOADER_H

#include "train/data/pictures.h"

typedef struct zn_loader zn_loader;

typedef struct zn_loader_options {
    int batch;        /* pictures of the whole batch */
    int first, count; /* slice that this loader makes; count 0: all */
    uint64_t seed;
    int threads;  /* 0: 1 */
    int ahead;    /* batches made in advance; 0: 4 */
    int held_out; /* percent of pictures that are never used */
    zn_crop crop;
    zn_skip skip; /* called for pictures that cannot be read, by zn_loader_next for its batch */
    /* What the network gets for a picture, [size][size][inputs], made in the background too; the seed is the picture's
     * own. It may change the picture, which is what should come out. NULL: the picture itself. */
    zn_status (*prepare)(const void *how, float *picture, int size, uint64_t seed, float *input);
    const void *how; /* for prepare; borrowed */
    int inputs;
} zn_loader_options;

ZN_MUST_USE zn_status zn_loader_new(const zn_dataset *data, const zn_loader_options *options, zn_loader **out);
void zn_loader_free(zn_loader *l);

/* Inputs and pictures of the step; without `prepare`, inputs is NULL. Steps must be asked for in ascending order
 * without gaps; the first call says where to begin. */
ZN_MUST_USE zn_status zn_loader_next(zn_loader *l, int64_t step, float *inputs, float *out);

/* Seconds that calls of zn_loader_next spent waiting. */
double zn_loader_waited(const zn_loader *l);

#endif
