/* The walk along a flow (flow.h), from noise or from a noised image, with or without guidance. The network is a
 * callback.
 *
 *     float sigma[9];
 *     zn_flow_sigmas(8, 3, sigma);
 *     const zn_flow_sampling s = { .sigma = sigma, .steps = 8, .count = count, .until = 1, .predict = f, .self = net };
 *     ZN_TRY(zn_flow_sample(&s, x));                     // x: noise, then the image */
#ifndef ZN_FLOW_SAMPLER_H
#define ZN_FLOW_SAMPLER_H

#include <stdbool.h>
#include <stdint.h>
#include <zenith/status.h>

typedef struct zn_flow_sampling {
    const float *sigma; /* steps + 1 */
    int steps;
    int first; /* step to begin with: zn_flow_first */
    int64_t count;
    float guidance; /* how far to move from the negative prediction towards the positive; 0: the positive alone */
    float longest;  /* most length of a guided answer, in lengths of the one that is not; 0: any */
    float until;    /* no guidance after this time; 1: always */
    /* What the network answers in this step, whose time is that of sigma[step] (zn_flow_time), knowing what is wanted
     * or what is not. */
    zn_status (*predict)(void *self, const float *x, int step, bool unwanted, float *out);
    /* Optional, after each step: `out` is the answer it took. May change x, as inpainting does. */
    zn_status (*done)(void *self, int step, float *x, const float *out);
    void *self;
} zn_flow_sampling;

ZN_MUST_USE zn_status zn_flow_sample(const zn_flow_sampling *s, float *x);

/* The step to begin with when an image is to be changed by `strength`, from 0 to 1; x is then the image mixed with
 * noise at its sigma (zn_flow_mix). Any strength above 0 leaves a step. */
int zn_flow_first(int steps, double strength);

/* wanted + guidance (wanted - unwanted), shortened as above; out may be either. */
void zn_flow_guide(const float *wanted, const float *unwanted, float guidance, float longest, float *out,
                   int64_t count);

#endif
