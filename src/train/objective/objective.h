/* Objectives: what a step of training minimises, as a graph with named terms.
 *
 *     zn_objective o;
 *     ZN_TRY(zn_objective_build(&o, &(zn_objective_options){ .model = model, .recipe = &recipe, .batch = 4 }));
 *     ... o.input, o.target -> o.output, o.loss = the sum of o.terms[i], each by its weight ...
 *     zn_objective_free(&o);
 *
 * Weights are inputs of the graph, so that they can change from step to step. */
#ifndef ZN_OBJECTIVE_H
#define ZN_OBJECTIVE_H

#include "models/model.h"
#include "models/zenith/zenith.h"
#include "models/zimage/zimage_mini.h"
#include "train/objective/noising.h"
#include "train/recipe/tasks.h"

/* `from` up to step `begin`, `to` from `end` on, linear between. */
typedef struct zn_ramp {
    double from, to;
    int64_t begin, end;
} zn_ramp;
double zn_ramp_at(const zn_ramp *r, int64_t step);

typedef struct zn_term {
    const char *name;
    zn_node *value, *weight; /* scalars; the weight is an input */
    zn_ramp ramp;
} zn_term;

/* What flow matching draws anew for each image: how much noise there is. */
typedef struct zn_flow_noising {
    const zn_zimage_form *form; /* NULL: there is none */
    double shift;
    zn_node *time;          /* inputs, a row for each image: the time's embedding, */
    zn_node *signal, *rest; /* and what is left of the image and added of the noise, each less 1 */
} zn_flow_noising;

enum { ZN_MAX_TERMS = 16 };

typedef struct zn_objective {
    zn_graph *graph;
    /* What goes in, what should come out: [batch,size,size,inputs] and [..,3], of videos [batch*frames,..]; of the last
     * two goals conditions [1,1,batch,width] and these again, or for each attribute 1 or 0; of a generator normalised
     * latents and tokens of captions [batch,1,ZN_ZIMAGE_BLOCK,1], -1 after the last */
    zn_node *input, *target;
    zn_node *noise;                      /* drawn from N(0,1) for each run; NULL: there is none */
    zn_node *gate_noise[ZN_PRUNE_GATES]; /* of soft block gates: likewise, times the temperature; NULL: there is none */
    zn_ramp temperature;
    zn_noising noising; /* of a diffusion autoencoder, with the steps it is drawn from; else nothing */
    zn_diffusion *diffusion;
    zn_flow_noising flow;
    zn_node *output; /* the image that came out; NULL: none did */
    zn_node *loss;
    zn_term terms[ZN_MAX_TERMS];
    int count;
    bool learns[2];     /* encoder, decoder */
    zn_model *lpips[2]; /* measure the term of that name, half of it each; NULL: there is none, or one */
} zn_objective;

/* True for a goal that is about one part on conditions, while all others stay as they are and are not even needed in
 * checkpoints; and that part. */
bool zn_goal_on_conditions(zn_goal goal);
zn_part zn_goal_part(zn_goal goal);
/* True for a goal that learns from a table made once (train/data/conditions.h), not from images. */
bool zn_goal_on_table(zn_goal goal);

typedef struct zn_objective_options {
    const zn_model *model;
    const zn_model *teacher; /* NULL for ZN_GOAL_AUTOENCODER */
    zn_goal goal;
    const zn_recipe *recipe;
    int batch; /* images, or videos of recipe->frames each */
} zn_objective_options;
/* Videos of a batch; 0: they are images. */
static inline int zn_objective_clips(const zn_objective_options *k) { return k->recipe->frames ? k->batch : 0; }

/* The model's and the teacher's parameters are bound; what the terms add (adaptors, a discriminator) is not. The sum is
 * made by zn_objective_close, so that more terms can be added before. */
ZN_MUST_USE zn_status zn_objective_build(zn_objective *o, const zn_objective_options *options);
void zn_objective_add(zn_objective *o, const char *name, zn_node *value, zn_ramp weight);
ZN_MUST_USE zn_status zn_objective_close(zn_objective *o);
void zn_objective_free(zn_objective *o);

/* The terms of a recipe that compare two images (losses.c), and before them what they need. */
ZN_MUST_USE zn_status zn_open_picture_terms(zn_objective *o, const zn_recipe *r);
void zn_add_picture_terms(zn_objective *o, const zn_recipe *r, zn_node *y, zn_node *target);
/* Mean absolute difference of the bands of three scales, fine ones weigh 4, then 2, 1: to the next coarser scale
 * (Laplacian), or the details of a Haar transform. NULL where the sides are odd. */
zn_node *zn_laplacian_loss(zn_node *a, zn_node *b);
zn_node *zn_haar_loss(zn_node *a, zn_node *b);
/* The Laplacian bands of R - G and B - G; and how much detail there is around each place, whatever it looks like: it
 * keeps fine texture from being smoothed, which losses of pixels prefer to a wrong guess. NULL where the sides are odd.
 */
zn_node *zn_chroma_loss(zn_node *a, zn_node *b);
zn_node *zn_texture_loss(zn_node *a, zn_node *b);
/* How strong the finest band of each image is as a whole, in R - G, B - G and G: a decoder that guesses half of the
 * fine colour pays nothing for its place here, only for its amount. NULL where the sides are odd. */
zn_node *zn_contrast_loss(zn_node *a, zn_node *b);
/* The perceptual distance by a model of LPIPS, whose parameters are bound and get names after its own. */
zn_node *zn_lpips_loss(const zn_model *m, zn_node *a, zn_node *b);

/* The term of a generator: the way from noise to latents of images (flow.c); and the noise of an image. */
ZN_MUST_USE zn_status zn_add_flow_lesson(zn_objective *o, const zn_objective_options *options);
void zn_flow_draw(const zn_flow_noising *n, int image, uint64_t seed);

/* The encoder that learns. One with block gates has them as the recipe says, and the means of their masks become the
 * term "gates" (pruning.c). */
zn_node *zn_learning_encoder(zn_objective *o, const zn_objective_options *options);

/* Terms of the goals that have a teacher (lessons.c). */
ZN_MUST_USE zn_status zn_add_encoder_lesson(zn_objective *o, const zn_objective_options *options);
ZN_MUST_USE zn_status zn_add_decoder_lesson(zn_objective *o, const zn_objective_options *options);
ZN_MUST_USE zn_status zn_add_joint_lesson(zn_objective *o, const zn_objective_options *options);
/* At each resolution the last residual sum among the graph's nodes from `first` on, with the ReLU after it if it has
 * one: what a stage of a network hands on. At most 8; returns how many. */
enum { ZN_MAX_STAGES = 8 };
int zn_stage_outputs(const zn_graph *g, int first, zn_node *out[ZN_MAX_STAGES]);

/* The model's part in a graph, its parameters' names after `prefix`: "" or ZN_TEACHER. x has that many videos one after
 * the other, each of which is processed by itself, or images (clips 0). */
#define ZN_TEACHER "teacher."
zn_node *zn_part_of(const zn_model *m, zn_part part, const char *prefix, zn_node *x, int clips);
/* ZN_EINVALID if the model cannot learn from videos of so many frames. */
ZN_MUST_USE zn_status zn_check_frames(const zn_model *m, int frames);

#endif
