/* Images that are made at once: what images.c and steps.c, the part with the transformer, share. */
#ifndef ZN_GENERATE_IMAGES_H
#define ZN_GENERATE_IMAGES_H

#include "pipeline/generate/generate.h"
#include "pipeline/generate/preview.h"

enum { ZN_LATENT_SCALE = 8 };

/* One of the images. */
typedef struct zn_generator_image {
    const zn_generation *request;
    int number;                           /* among those that were asked for */
    const zn_features *wanted, *unwanted; /* unwanted: for guidance, or NULL */
    zn_latent *clean; /* of the image to start from, or NULL; those in a row that start from one share it */
    float *mask;
    zn_image *image; /* in the end */
    zn_generation_report report;
} zn_generator_image;

typedef struct zn_generator_images {
    zn_generator *g;
    const zn_generation *request; /* of the first image; settings that all share count */
    zn_generator_image *samples;  /* in the order in which they take their steps */
    int count;
    zn_features *features; /* of the prompts, each once */
    int feature_count;
    zn_latent *x; /* noise, then the images, one below the other */
    float *noise, *sigma;
    int begun, together;   /* the images [begun,begun+together) take steps now */
    zn_denoiser *denoiser; /* the generator's */
    zn_preview *preview;   /* the generator's; NULL: none are asked for */
    zn_latent *seen;       /* for it: the first of those as it is expected now */
    int first;             /* step to begin with */
    /* progress: the stage, where it begins and how much it takes of the whole; its equal parts, and those that are
     * finished; what was told last, since it never falls */
    zn_generation_stage stage;
    double begin, span, told;
    int part, parts;
    bool preparing;                    /* the graphs that run now are not counted */
    const zn_calibration *calibration; /* NULL: an image is made */
    zn_fp8_errors errors;              /* for it */
} zn_generator_images;

/* A step of the sampler asks the network once or, with guidance, twice. */
static inline int zn_answers_of_step(const zn_generation *q) { return q->guidance > 0 ? 2 : 1; }

/* The order by the lengths to which captions are filled up; 0: the images can take their steps together. */
int zn_generator_image_order(const zn_generator_image *a, const zn_generator_image *b);

/* Numbers in the latent of one image, and where that of image i begins. */
static inline int64_t zn_images_latent_size(const zn_generator_images *r)
{
    return (int64_t)r->x->width * r->x->height / r->count * r->x->channels;
}
static inline int64_t zn_images_latent_place(const zn_generator_images *r, int i)
{
    return i * zn_images_latent_size(r);
}

/* ---- progress ---- */

/* A stage of so many equal parts begins. */
void zn_images_enter(zn_generator_images *r, zn_generation_stage stage, int parts);
/* fraction: of the part that runs now. Non-zero: cancel. */
int zn_images_tell(zn_generator_images *r, double fraction, zn_image *preview);
int zn_images_tell_part(void *images, double fraction); /* fits zn_progress_fn */

/* ---- steps (steps.c) ---- */

/* From the captions, and the latents to start from, to the latents of all images, in x. */
ZN_MUST_USE zn_status zn_images_denoise(zn_generator_images *r);

#endif
