/* Recipes: what to train and how, as presets or small YAML files.
 *
 *     model: zenith-r
 *     batch: 8
 *     lr: 1e-3
 *     loss:
 *       l1: 1
 *       bands: 0.5
 *     distill: {joint: 1000, jitter: 0.05}
 *
 * The YAML understood is that of train/recipe/yaml.h. An unknown key is an error that names it and its line. */
#ifndef ZN_RECIPE_H
#define ZN_RECIPE_H

#include "train/data/photo.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zenith/options.h>

typedef enum zn_recipe_optimizer {
    ZN_RECIPE_ADAMW,
    ZN_RECIPE_ADAM,
    ZN_RECIPE_AMSGRAD,
    ZN_RECIPE_SGD
} zn_recipe_optimizer;
/* Of the products of convolutions, forward and back; weights, gradients, optimiser and losses are always f32. */
typedef enum zn_schedule { ZN_SCHEDULE_COSINE, ZN_SCHEDULE_CONSTANT, ZN_SCHEDULE_STEP } zn_schedule;

/* How block gates run while a network that has them is trained. As usual: straight, or there are none. */
typedef enum zn_recipe_gates {
    ZN_RECIPE_GATES_AS_USUAL,
    ZN_RECIPE_GATES_STRAIGHT, /* hard masks, straight-through gradient */
    ZN_RECIPE_GATES_SOFT,
    ZN_RECIPE_GATES_HARD /* the gates do not learn */
} zn_recipe_gates;

/* What a diffusion model tells of a noisy image: the noise, or sqrt(kept) noise - sqrt(1 - kept) image, of which the
 * image can be had where almost all is noise. */
typedef enum zn_recipe_prediction { ZN_RECIPE_NOISE, ZN_RECIPE_VELOCITY } zn_recipe_prediction;

/* What the network learns: to give back what it gets, what a damaged image was before, the noise in an image; or of
 * a diffusion autoencoder that knows this already, its latent net the noise in conditions, its classifier attributes;
 * or the way from noise to the image of a caption. */
typedef enum zn_recipe_task {
    ZN_RECIPE_AUTOENCODE,
    ZN_RECIPE_RESTORE,
    ZN_RECIPE_DIFFUSE,
    ZN_RECIPE_IMAGINE,
    ZN_RECIPE_CLASSIFY,
    ZN_RECIPE_GENERATE
} zn_recipe_task;

/* Values that a student starts with: fresh ones, or the teacher's where a parameter of the same name and shape has
 * some.
 */
typedef enum zn_recipe_start { ZN_RECIPE_START_FRESH, ZN_RECIPE_START_TEACHER } zn_recipe_start;

enum { ZN_RECIPE_SEED = 1 };

typedef struct zn_recipe {
    char model[64];
    zn_recipe_task task;
    char from[400];   /* weights to start with; empty: fresh values */
    char labels[400]; /* of a classifier: attributes of the images; empty: labels.csv or labels.txt beside them */
    /* of a generator: what the images show, empty: captions.csv beside them; the autoencoder whose latents it makes;
     * tokens of the vocabulary; share of the captions that are left out, for guidance; shift of the noise; layers, 0:
     * the architecture's own */
    char captions[400], autoencoder[400];
    int vocabulary, layers;
    double caption_dropout, shift;
    int width, latent; /* channels of the network's trunk and of its latents; 0: the architecture's own */
    int64_t steps;
    int batch, size, accumulate;
    int frames;                      /* of the videos that it learns from, `batch` of them; 0: images */
    double halve;                    /* share of the crops taken twice as large and scaled down */
    double dropout;                  /* share of a diffusion autoencoder's activations that training leaves out */
    zn_recipe_prediction prediction; /* of a diffusion autoencoder */
    double
        min_snr;   /* of its loss: steps with a larger ratio of signal to noise count no more than this; 0: all alike */
    int recompute; /* 1: activations are computed again for the backward instead of kept, to fit memory */
    zn_precision precision; /* ZN_PRECISION_F32, BF16 or F16, in which the loss is scaled */
    zn_recipe_optimizer optimizer;
    double lr, beta1, beta2, eps, weight_decay, momentum;
    zn_schedule schedule;
    int64_t warmup, step_every;
    double final_lr;    /* cosine: fraction of lr at the end */
    double step_factor; /* step: factor every step_every steps */
    double gate_lr;     /* factor of lr for gates, thresholds and layer scales */
    double clip;        /* global norm; 0: none */
    double ema;         /* decay of the averaged weights; 0: none */
    int ema_warmup;     /* 1: the decay rises to that over the first steps, or the first weights would linger */
    /* weights of the losses */
    double mse, l1, huber, bands, haar, chroma, texture, contrast, ssim, lpips, kl, discriminator;
    char lpips_model[64];        /* weights of lpips */
    double kl_rise;              /* share of the run in which the weight of kl rises from 0 */
    double discriminator_start;  /* share of the run before the discriminator takes part */
    double features, latent_mse; /* with a teacher: its activations, its latents */
    bool sets_losses;            /* a text or setting has given some of these */
    zn_recipe_gates gates;       /* as usual where the text says nothing about gates */
    double gate_penalty;         /* weight of the masks' means */
    double gate_temperature;     /* soft: deviation of the noise in masks at first */
    double block_gate_lr;        /* factor of lr for the gates' scales and biases */
    /* distillation: the teacher's weights, steps of each stage, factor of lr once both parts learn, deviation of the
     * noise on latents */
    char teacher[400];
    zn_recipe_start start;
    int64_t encoder_steps, decoder_steps, joint_steps, gan_steps;
    double joint_lr, jitter;
    double teacher_latents; /* once both parts learn: share of a batch that the decoder gets as the teacher's latents */
    double inherited_lr;    /* factor of lr for parameters that start with the teacher's values */
    zn_damage_mix damage;   /* of images that a restorer learns from */
    int held_out;           /* percent of the images kept for evaluation */
    int64_t eval_every, checkpoint_every;
    /* of a field, or behind a mask: shares of an image's pixels that its encoder sees, drawn between these, and that it
     * is asked for */
    double points_least, points_most, points_asked;
    int64_t seed; /* ZN_RECIPE_SEED unless it is said */
} zn_recipe;

/* A preset by name, or a file whose name ends in .yaml or .yml. */
ZN_MUST_USE zn_status zn_recipe_read(const char *name, zn_recipe *out);
ZN_MUST_USE zn_status zn_recipe_parse(const char *text, size_t size, const char *name, zn_recipe *out);
/* Sets what the text mentions. */
ZN_MUST_USE zn_status zn_recipe_apply(const char *text, size_t size, const char *name, zn_recipe *r);

/* Sets one value: "lr=1e-3", "loss.l1=0.5". */
ZN_MUST_USE zn_status zn_recipe_set(const char *setting, zn_recipe *r);
/* Sets each of a list that ends with NULL; the list may be NULL. Fails if nothing would read one of them. */
ZN_MUST_USE zn_status zn_recipe_set_all(const char *const *settings, zn_recipe *r);

/* The recipe as YAML, every key written out; returns the length like snprintf. ZN_RECIPE_TEXT holds any. */
enum { ZN_RECIPE_TEXT = 6144 };
int zn_recipe_text(const zn_recipe *r, char *text, size_t size);

/* Learning rate of a step (0-based). */
double zn_recipe_lr(const zn_recipe *r, int64_t step);

/* The same for a student of zn_distill: its presets, or a file. */
ZN_MUST_USE zn_status zn_recipe_read_student(const char *name, zn_recipe *out);

/* Presets: name and one line; NULL after the last. */
const char *zn_recipe_preset(int index, const char **description);
const char *zn_recipe_student(int index, const char **description);

#endif
