/* Noise schedules: how much of the signal is left after each of T steps of noising, and which of the steps a sampler
 * visits.
 *
 *     zn_diffusion *s;
 *     ZN_TRY(zn_diffusion_new("linear", ZN_SPACING_DDIM, 20, &s));      // 0, 50, ..., 950 of 1000
 *     network(x, s->step[i]); ... s->kept[i] ...
 *
 * Tables are in double; samplers round what they look up to float. */
#ifndef ZN_SCHEDULE_H
#define ZN_SCHEDULE_H

#include <zenith/status.h>

enum { ZN_DIFFUSION_STEPS = 1000 };

typedef enum zn_spacing {
    ZN_SPACING_ALL,  /* every step */
    ZN_SPACING_DDIM, /* the smallest stride that gives so many */
    ZN_SPACING_DDPM, /* from the first to the last, evenly, rounded */
} zn_spacing;

typedef struct zn_diffusion {
    int count;
    int *step;                       /* what the network is given: steps of the whole schedule, rising */
    double *beta;                    /* noise added from one visited step to the next */
    double *kept, *before, *behind;  /* product of 1 - beta up to this step; up to the one before (1 before the first),
                                        the one after (0 after the last) */
    double *posterior;               /* variance of the step before, given the image */
    double *mean_image, *mean_noisy; /* and its mean: factors of the image and of what there is now */
} zn_diffusion;

/* betas: "linear", "cosine" or "constX". count: how many steps are visited (ignored for ZN_SPACING_ALL). */
ZN_MUST_USE zn_status zn_diffusion_new(const char *betas, zn_spacing spacing, int count, zn_diffusion **out);
void zn_diffusion_free(zn_diffusion *s);

/* The betas of all steps. */
ZN_MUST_USE zn_status zn_diffusion_betas(const char *name, double beta[ZN_DIFFUSION_STEPS]);

/* The stride of DDIM with `count` steps, or 0: only some counts are the quotient of a stride. */
int zn_ddim_stride(int count);

/* out[width]: cosines, then sines, of t times falling frequencies; a zero at the end if width is odd. */
void zn_time_embedding(double t, int width, float *out);

#endif
