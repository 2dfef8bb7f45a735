/* Runs one part of a model at one size: whole, or in segments and tiles when memory asks for it.
 *
 *     zn_runner *r;
 *     ZN_TRY(zn_runner_new(model, ZN_DECODER, ZN_SHAPE(1, h, w, c), &options, &r));
 *     memcpy(zn_runner_input(r), latent, bytes);
 *     ZN_TRY(zn_runner_run(r));
 *     use(zn_runner_output(r));
 *     zn_runner_free(r); */
#ifndef ZN_RUNNER_H
#define ZN_RUNNER_H

#include "graph/compute.h"
#include "graph/exec.h"
#include "models/model.h"

#include <zenith/codec.h>

/* Longest side of a picture that anything is planned for: kernels count positions along a side in ints. */
enum { ZN_MOST_SIDE = 1 << 24 };

typedef struct zn_runner zn_runner;

typedef struct zn_runner_options {
    zn_pool *pool;     /* borrowed */
    zn_device *device; /* borrowed; NULL: the CPU */
    zn_packs *packs;   /* borrowed; NULL: every stage packs its weights whenever it starts */
    zn_math math;
    int tile;      /* as in zn_options */
    size_t memory; /* budget in bytes; 0: half of what is free */
    bool profile;
    zn_progress_fn progress;
    void *user;
} zn_runner_options;

/* As a handle's options say. */
zn_runner_options zn_runner_options_of(const zn_compute *c);

ZN_MUST_USE zn_status zn_runner_new(const zn_model *model, zn_part part, zn_shape input,
                                    const zn_runner_options *options, zn_runner **out);
void zn_runner_free(zn_runner *r);

float *zn_runner_input(zn_runner *r);
const float *zn_runner_output(const zn_runner *r);
zn_shape zn_runner_input_shape(const zn_runner *r);
zn_shape zn_runner_output_shape(const zn_runner *r);

/* Runs and checks that the result is finite; ZN_ENUMERIC names the stage that was not. */
ZN_MUST_USE zn_status zn_runner_run(zn_runner *r);

const char *zn_runner_plan(const zn_runner *r); /* for people: segments, tiles, memory */
double zn_runner_flops(const zn_runner *r);     /* direct-equivalent, convolutions, of the whole map */
double zn_runner_coarse(const zn_runner *r);    /* share of the operations that are coarser than fp32, 0 to 1 */

/* Profile of the runs so far: sums over runs and tiles, one row for each layer. */
typedef struct zn_runner_row {
    const char *name, *kernel;
    double ms, flops, flops_done, slots, bytes;
} zn_runner_row;
void zn_runner_clear_rows(zn_runner *r);
int zn_runner_rows(const zn_runner *r, const zn_runner_row **rows);

#endif
