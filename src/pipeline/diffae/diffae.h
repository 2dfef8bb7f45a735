/* Diffusion autoencoders inside: what encoding, sampling and editing share. */
#ifndef ZN_PIPELINE_DIFFAE_H
#define ZN_PIPELINE_DIFFAE_H

#include "graph/compute.h"
#include "graph/exec.h"
#include "models/model.h"

#include <pthread.h>
#include <zenith/field.h>

enum { ZN_DIFFAE_CHANNELS = 3 };

/* A part for n samples, planned and with its weights packed. */
typedef struct zn_diffae_kept {
    zn_network network;
    zn_exec *exec;
    int64_t n;
} zn_diffae_kept;

struct zn_diffae {
    const zn_model *model;
    zn_compute compute;
    pthread_mutex_t lock;
    zn_diffae_kept part[ZN_PARTS];
};

static inline int zn_diffae_side(const zn_diffae *d) { return d->model->config.size; }

/* A part for n samples; it stays until another number is asked for. With the lock held. */
ZN_MUST_USE zn_status zn_diffae_network(zn_diffae *d, zn_part part, int64_t n, zn_diffae_kept **out);

ZN_MUST_USE zn_status zn_diffae_check_picture(const zn_diffae *d, const zn_image *picture);

/* zn_diffae_render for a field whose decoder does not predict noise. */
ZN_MUST_USE zn_status zn_field_render_each(zn_diffae *d, int count, const float *cond, const float *noise, int steps,
                                           zn_image **out);

/* "conds_mean" or "conds_std", mean and deviation of conditions; NULL where there are none. */
const float *zn_diffae_statistic(const zn_diffae *d, const char *name);

#endif
