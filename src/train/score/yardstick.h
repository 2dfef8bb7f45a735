/* Yardsticks: how good a model is on held-out images, beside its teacher if it has one.
 *
 *     zn_yardstick *y;
 *     ZN_TRY(zn_yardstick_new(&(zn_yardstick_options){ .model = m, .size = 128, .batch = 4, .pool = pool }, &y));
 *     ZN_TRY(zn_yardstick_measure(y, &held, &measures));
 *     ... y->shown[0..y->shown_count): images of the last call's first batch ...
 *     zn_yardstick_free(y);
 *
 * The model is measured with the weights it has at the moment of the call. */
#ifndef ZN_YARDSTICK_H
#define ZN_YARDSTICK_H

#include "graph/exec.h"
#include "train/data/held_out.h"
#include "train/objective/objective.h"

typedef struct zn_yardstick_options {
    const zn_model *model;
    const zn_model *teacher; /* or NULL */
    const zn_model *lpips;   /* measures the perceptual distance; or NULL */
    zn_goal goal;
    int size, batch;
    int frames; /* of the videos that the pictures are; 0: images */
    zn_pool *pool;
    zn_device *device; /* NULL: the CPU */
} zn_yardstick_options;

/* NaN where there is nothing to measure. PSNR: means over images or videos, dB. */
typedef struct zn_measures {
    double psnr;         /* of what should come out: with a teacher, of what is learned put in the teacher's place */
    double lpips;        /* of the same; a last batch that is not full repeats images */
    double teacher_psnr; /* the teacher's own reconstructions */
    double decoder_psnr; /* the decoder to the teacher's, both from the teacher's latents */
    double latent_error; /* mean square difference to the teacher's latents, % of the variance of their channels */
    double pruned;       /* share of what block gates shut, mean over gates and images */
    double task_psnr[ZN_TASKS]; /* restoring: of each task */
    double loss;                /* of a latent net or classifier, as in training */
    double accuracy;            /* of a classifier: share of all answers that are right */
    double auroc;               /* and the area under the curve of right over wrong ones, mean over attributes */
} zn_measures;
zn_measures zn_no_measures(void); /* all NaN */

typedef struct zn_yardstick {
    zn_yardstick_options options;
    zn_graph *graph;
    zn_exec *exec;
    zn_node *input;
    zn_node *latent, *teacher_latent;         /* NULL where there is none, as below */
    zn_node *output, *decoded, *teacher_made; /* images: the student's, from the teacher's latents, the teacher's */
    zn_node *target, *distance;               /* what should come out, and LPIPS of it and the output */
    zn_node *masks[ZN_PRUNE_GATES];           /* of the model's block gates, hard as in use */
    zn_noising noising;                       /* of a diffusion autoencoder: `output` is what one step makes of it */
    zn_diffusion *diffusion;
    zn_node *shown[3]; /* what went in, what the teacher made, what came out */
    int shown_count;
} zn_yardstick;

ZN_MUST_USE zn_status zn_yardstick_new(const zn_yardstick_options *options, zn_yardstick **out);
void zn_yardstick_free(zn_yardstick *y);

ZN_MUST_USE zn_status zn_yardstick_measure(zn_yardstick *y, const zn_held_out *held, zn_measures *out);

#endif
