/* Runs parts of models on random images or latents. */
#ifndef ZN_TESTS_PART_RUN_H
#define ZN_TESTS_PART_RUN_H

#include "models/model.h"
#include "pipeline/codec/runner.h"

zn_pool *pool_of(int threads);
zn_model *model_of(const char *name);              /* with random weights, the same each time */
void fill(float *x, int64_t count, uint64_t seed); /* uniform in [0,1) */

/* The input shape of a part for an image of this size. */
zn_shape shape_of(const zn_model *m, zn_part part, int width, int height);

/* Returns the result of a second run, which the caller frees (zn_free). tile, memory: as in zn_runner_options. If tile
 * is set, the plan must have tiles. */
float *result_of(const zn_model *m, zn_part part, int width, int height, int threads, int tile, size_t memory,
                 int64_t *count);

#endif
