/* Tasks of recipes: what the network gets, what it learns, and which settings are about it. One line each in tasks.c.
 *
 *     const zn_train_task *t = zn_train_task_of(&recipe);
 *     if (t->inputs == ZN_INPUTS_DEGRADED) ... */
#ifndef ZN_TASKS_H
#define ZN_TASKS_H

#include "train/recipe/recipe.h"

#include <zenith/model.h>

/* What is learned. Those in the middle have a teacher, which stays as it is. */
typedef enum zn_goal {
    ZN_GOAL_AUTOENCODER, /* encoder and decoder, or a restorer: the image itself */
    ZN_GOAL_ENCODER,     /* encoder: the teacher's latents (without its encoder: what its decoder makes an image of) */
    ZN_GOAL_DECODER,     /* decoder: the teacher's image of disturbed latents, and its activations on the way */
    ZN_GOAL_JOINT,       /* both: the image itself, latents near the teacher's */
    ZN_GOAL_DIFFUSION,   /* a diffusion autoencoder: the noise in an image */
    ZN_GOAL_GENERATOR,   /* a transformer and its text encoder: the way from noise to latents with a caption */
    ZN_GOAL_LATENT_NET,  /* its latent net: the noise in normalised conditions */
    ZN_GOAL_CLASSIFIER   /* its classifier: attributes of images, from normalised conditions */
} zn_goal;

typedef enum zn_train_inputs {
    ZN_INPUTS_IMAGES,
    ZN_INPUTS_DEGRADED,   /* images as a restorer gets them */
    ZN_INPUTS_CAPTIONED,  /* latents of images, with their captions */
    ZN_INPUTS_CONDITIONS, /* what the encoder of a trained model makes of images; one part learns, the others stay */
    ZN_INPUTS_LABELLED    /* the same, with attributes of the images */
} zn_train_inputs;

/* Settings that not every task has. */
enum { ZN_TAKES_LOSSES = 1, ZN_TAKES_KL = 2, ZN_TAKES_DROPOUT = 4, ZN_TAKES_LABELS = 8, ZN_TAKES_CAPTIONS = 16 };

typedef struct zn_train_task {
    const char *name;
    zn_goal goal;
    unsigned needs; /* abilities of the architecture (models/arch.h) */
    zn_train_inputs inputs;
    zn_part part; /* on conditions: the part that learns */
    unsigned takes;
} zn_train_task;

const zn_train_task *zn_train_task_of(const zn_recipe *r);
/* The first task that an architecture with these abilities can be trained for, or NULL. */
const zn_train_task *zn_train_task_for(unsigned abilities);

static inline bool zn_train_on_conditions(const zn_train_task *t) { return t->inputs >= ZN_INPUTS_CONDITIONS; }

#endif
