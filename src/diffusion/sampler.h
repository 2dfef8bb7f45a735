/* Samplers: walk a noise schedule with a network that predicts noise. The network is a callback, so what wraps it
 * (conditions, guidance) needs no sampler of its own.
 *
 *     zn_sampling s = { .schedule = schedule, .count = floats, .clamp = true, .predict = eps, .self = network };
 *     ZN_TRY(zn_ddim(&s, x));                     // x: noise in, image out */
#ifndef ZN_SAMPLER_H
#define ZN_SAMPLER_H

#include "diffusion/schedule.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct zn_sampling {
    const zn_diffusion *schedule;
    int64_t count; /* floats of x */
    bool clamp;    /* the estimate of the image is kept in [-1,1] */
    bool velocity; /* predict tells sqrt(kept) noise - sqrt(1 - kept) image, not the noise */
    float eta;     /* DDIM: 0 adds no noise, 1 as much as DDPM */
    zn_status (*predict)(void *self, const float *x, int step, float *noise);
    void (*noise)(void *self, int index, float *out); /* fresh normal noise for step `index`; only if any is needed */
    zn_status (*done)(void *self, int done, int of, const float *x); /* after each step; may be NULL */
    void *self;
} zn_sampling;

ZN_MUST_USE zn_status zn_ddim(const zn_sampling *s, float *x);
/* From an image to the noise that zn_ddim would make it of. */
ZN_MUST_USE zn_status zn_ddim_invert(const zn_sampling *s, float *x);
ZN_MUST_USE zn_status zn_ddpm(const zn_sampling *s, float *x);

#endif
