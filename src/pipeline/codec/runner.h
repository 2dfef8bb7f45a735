/* Runs one part of a model at one size: whole, or in segments, bands and tiles where memory is short.
 *
 *     zn_runner *r;
 *     ZN_TRY(zn_runner_new(model, ZN_DECODER, ZN_SHAPE(1, h, w, c), &options, &r));
 *     memcpy(zn_runner_input(r), latent, bytes);
 *     ZN_TRY(zn_runner_run(r));
 *     use(zn_runner_output(r));
 *     zn_runner_free(r);
 *
 * Large images are better streamed, so that neither input nor output exist as a whole map of floats:
 *
 *     options.streams = true;
 *     ZN_TRY(zn_runner_stream(r, &(zn_runner_io){ .read = to_floats, .from = image, .write = to_pixels, .to = result
 * }));
 */
#ifndef ZN_RUNNER_H
#define ZN_RUNNER_H

#include "graph/compute.h"
#include "graph/exec.h"
#include "io/image/pixels/pixels.h"
#include "models/model.h"

#include <zenith/codec.h>

/* Longest side of a picture that anything is planned for: kernels count positions along a side in ints. */
enum { ZN_MOST_SIDE = 1 << 24 };

typedef struct zn_runner zn_runner;

typedef struct zn_runner_options {
    zn_pool *pool;     /* borrowed */
    zn_device *device; /* borrowed; NULL: the CPU */
    zn_packs *packs;   /* borrowed; NULL: every stage packs its weights whenever it starts */
    zn_precision math;
    int tile;      /* as in zn_options */
    size_t memory; /* budget in bytes for what a run needs and `held`, kept or refused; 0: half of what is free */
    size_t held;   /* bytes that the caller uses beside it: images, weights */
    bool streams;  /* zn_runner_stream will be called, never zn_runner_input, zn_runner_run or zn_runner_output */
    bool profile;
    zn_progress_fn progress;
    void *user;
} zn_runner_options;

/* As a handle's options say. */
zn_runner_options zn_runner_options_of(const zn_compute *c);

ZN_MUST_USE zn_status zn_runner_new(const zn_model *model, zn_part part, zn_shape input,
                                    const zn_runner_options *options, zn_runner **out);
void zn_runner_free(zn_runner *r);

/* The fewest bytes that a run can do with, without `held`, and the packed weights among them. */
ZN_MUST_USE zn_status zn_runner_least(const zn_model *model, zn_part part, zn_shape input,
                                      const zn_runner_options *options, size_t *bytes, size_t *packed);
/* ZN_ENOMEM: the budget is too small for images of this size, and `need` bytes would do. */
ZN_MUST_USE zn_status zn_runner_refuse(zn_shape input, zn_shape output, const zn_runner_options *options, size_t need);

float *zn_runner_input(zn_runner *r);
const float *zn_runner_output(const zn_runner *r);
zn_shape zn_runner_input_shape(const zn_runner *r);
zn_shape zn_runner_output_shape(const zn_runner *r);

/* Runs and checks that the result is finite; ZN_ENUMERIC names the stage that was not. */
ZN_MUST_USE zn_status zn_runner_run(zn_runner *r);

/* Input and output of a run, a rectangle at a time: all of it, or rectangles that overlap or not, in any order. Several
 * threads read or write at the same time, each different rows: what a call does depends on its region alone. */
typedef struct zn_runner_io {
    void (*read)(void *from, zn_region region, float *map); /* [height][width][channels], no gaps between rows */
    void *from;
    void (*write)(void *to, zn_region region, const float *map, size_t stride); /* stride: floats from row to row */
    void *to;
} zn_runner_io;
ZN_MUST_USE zn_status zn_runner_stream(zn_runner *r, const zn_runner_io *io);

const char *zn_runner_plan(const zn_runner *r); /* for people: segments, tiles, memory */
double zn_runner_flops(const zn_runner *r);     /* direct-equivalent, convolutions, of the whole map */
size_t zn_runner_bytes(const zn_runner *r);     /* memory that a run needs, without what the caller holds */
size_t zn_runner_packed(const zn_runner *r);    /* packed weights among them; they stay in the cache */
double zn_runner_overhead(const zn_runner *r);  /* operations of a run over those of the whole map at once, from 1 on */
double zn_runner_coarse(const zn_runner *r);    /* share of the operations that are coarser than fp32, 0 to 1 */

/* Profile of the runs so far: sums over runs and tiles, one row for each layer. */
typedef struct zn_runner_row {
    const char *name, *kernel;
    double ms, flops, flops_done, slots, bytes;
} zn_runner_row;
typedef struct zn_runner_rows {
    zn_runner_row *row;
    int count;
    size_t capacity;
} zn_runner_rows;
/* Adds the last run of an executor. Names are borrowed. rows->row is freed with zn_free. */
ZN_MUST_USE zn_status zn_runner_add_rows(zn_runner_rows *rows, const zn_exec *exec);
void zn_runner_clear_rows(zn_runner *r);
const zn_runner_rows *zn_runner_profile(const zn_runner *r);

#endif
