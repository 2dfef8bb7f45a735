/* What diffusion adds to a training graph: pictures, or conditions of pictures, noised to a step of their own, and the
 * noise that the model finds in them.
 *
 *     zn_noising n = zn_noising_of(model, picture, true);             // [N,H,W,3] in [0,1]
 *     ... zn_mean_square_error(n.predicted, n.noise) ...
 *     zn_noising_set(&n, diffusion, i, step);                         // before each run, for each picture i */
#ifndef ZN_NOISING_H
#define ZN_NOISING_H

#include "base/rng.h"
#include "diffusion/schedule.h"
#include "models/mamba/mamba_parts.h"
#include "models/model.h"

/* Values at points of images, as inputs; see zn_points_draw. */
typedef struct zn_points {
    zn_tokens_at at;
    zn_node *values; /* [N,1,L,3] in [-1,1] */
} zn_points;

typedef struct zn_noising {
    zn_field_kind kind;     /* what is predicted; NONE of a U-Net: the noise */
    zn_points known, asked; /* of a field that learns: what the encoder sees, and where values are asked for */
    zn_node *mask;          /* of an encoder that sees some pixels and learns: which, an input [N,H,W,1]; else NULL */
    zn_node *clean;         /* what noise is added to */
    zn_node *noise;         /* input, like the picture: the caller draws it from N(0,1) */
    zn_node *time;          /* inputs, a row for each picture: the step's embedding, */
    zn_node *signal, *rest; /* and what the step leaves of the picture and adds of the noise, each less 1 */
    zn_node *seeds;         /* likewise, where there is dropout: a whole number below 2^24; else NULL */
    zn_node *noisy, *predicted; /* predicted: the noise, or what `kind` says */
    zn_node *velocity;          /* of a U-Net that tells it, and what it should be; else NULL */
    zn_node *true_velocity;
    double min_snr;    /* see zn_noising_weigh */
    zn_node *emphasis; /* likewise: an input, a row for each picture, less 1; NULL: all steps count alike */
} zn_noising;

/* Regression knows no steps: whatever a schedule has, this is what the network is told. */
enum { ZN_REGRESSION_STEP = 0 };

/* The model's parameters are named as in the model. learning: with the dropout that its configuration has. */
zn_noising zn_noising_of(const zn_model *m, zn_node *picture, bool learning);
/* The same for normalised conditions [1,1,N,width] and the model's latent net. */
zn_noising zn_noising_of_conditions(const zn_model *m, zn_node *z);
/* Steps with more signal than `min_snr` times the noise shall count no more than one with that much: what they tell of
 * the image is little, and most steps are such. Min-SNR weights (Hang and others 2023) for noise; for velocities, whose
 * error is in proportion to SNR + 1, the same with 1 added. 0: nothing changes. */
void zn_noising_weigh(zn_noising *n, double min_snr);
/* The mean square error of what the network tells, weighed. Not for regression. */
zn_node *zn_noising_error(const zn_noising *n);
void zn_noising_set(const zn_noising *n, const zn_diffusion *all, int picture, int step);

/* The same for a field and points of `samples` images: it sees up to `known` of an image's pixels, and values are asked
 * for at `asked`. */
zn_noising zn_noising_of_points(const zn_model *m, zn_graph *g, int64_t samples, int64_t known, int64_t asked);

/* The values [N,..,3] in [-1,1] that the network gives without further steps; NULL where it predicts noise. */
zn_node *zn_noising_values(const zn_noising *n);

/* Pixels of a sample for points that are asked for, drawn by the generator: `share` of all. */
typedef struct zn_points_choice {
    int side;           /* of the images */
    double least, most; /* share of the pixels: between these, drawn too */
    int grid;           /* of the scan orders */
} zn_points_choice;
/* Sets the inputs of sample `picture` to some pixels of an image [side][side][3] in [0,1]. What is left of the points
 * is padding. */
ZN_MUST_USE zn_status zn_points_draw(const zn_points *p, const zn_points_choice *how, int picture, const float *image,
                                     zn_rng *rng);

/* Sets the mask of sample `picture` to 1 at such pixels, 0 elsewhere. */
ZN_MUST_USE zn_status zn_mask_draw(zn_node *mask, const zn_points_choice *how, int picture, zn_rng *rng);

/* The pictures, in [0,1], that the prediction amounts to, when all of them are at this step. */
zn_node *zn_noising_estimate(const zn_noising *n, const zn_diffusion *all, int step);

#endif
