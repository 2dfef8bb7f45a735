/* A generator inside: what its stages share. */
#ifndef ZN_PIPELINE_GENERATE_H
#define ZN_PIPELINE_GENERATE_H

#include "graph/compute.h"
#include "models/model.h"
#include "models/zimage/lora.h"
#include "pipeline/generate/denoise.h"
#include "pipeline/generate/files.h"
#include "pipeline/generate/fp8.h"

#include <pthread.h>
#include <zenith/generate.h>
#include <zenith/latent.h>

enum { ZN_PROMPT_TOKENS = 512 }; /* more are cut off, as the original does */

/* Networks that stay for the next image, opaque to all but their files. */
typedef struct zn_text_encoder zn_text_encoder; /* text.c */
typedef struct zn_transformer zn_transformer;   /* transformer.h */
typedef struct zn_autoencoder zn_autoencoder;   /* vae.c */

struct zn_generator {
    zn_compute compute;
    char device[16]; /* name of compute.device; "": the CPU */
    pthread_mutex_t lock;
    zn_generator_paths paths;
    zn_generation_defaults defaults;
    bool lower_case;  /* the model knows small letters only: prompts are read in these */
    bool calibrating; /* the transformer is one with trials of FP8 */
    bool fp8;         /* the transformer multiplies FP8 numbers in some layers; the rest is computed in bf16 */
    zn_fp8_layers fp8_layers;
    char identity[ZN_GENERATOR_PARTS][65]; /* of the parts' files, as they were when the generator was opened */
    char cache[4096];                      /* folder for the features of prompts; "": none */
    zn_tokenizer *tokenizer;               /* NULL until the first prompt */
    zn_lora *loras;
    size_t lora_capacity;
    int lora_count;
    zn_adapter *adapters; /* those of all LoRAs */
    size_t adapter_capacity;
    int adapter_count;
    /* on a device, what is still there from the last image; NULL: nothing */
    zn_text_encoder *text;
    zn_transformer *transformer;
    zn_autoencoder *vae[ZN_PARTS];
    struct zn_preview *preview;
    size_t held[ZN_GENERATOR_PARTS];  /* bytes of the device that they take */
    size_t needs[ZN_GENERATOR_PARTS]; /* and those that they can do with, when they ran last; 0: not known */
    size_t kept;                      /* host bytes of a batch that none of its stages counts */
    int checked[3];                   /* width, height and tile that the decoder has enough memory for; 0: none yet */
    zn_generation_report report;      /* of the image that is worked on, then of the first */
    zn_generation_report reports[ZN_BATCH_MOST]; /* of all images of the last call */
    int report_count;
    char plan[4096]; /* text of zn_generator_plan */
};

/* What a stage tells the caller, and hears from it: see zn_progress_fn. */
typedef struct zn_stage_progress {
    zn_progress_fn call;
    void *user;
} zn_stage_progress;

void zn_generator_close_loras(zn_generator *g); /* lora.c */

/* ---- memory (plan.c) ---- */

/* On a device, including what kept networks take of it. */
size_t zn_generator_budget(const zn_generator *g);
/* Bytes of the tensors of a part. */
double zn_part_bytes(const zn_part_files *f);

/* How the steps of an image use memory. */
typedef struct zn_step_plan {
    size_t bytes; /* beside the weights */
    bool release; /* the weights do not fit beside that: they are read again, or copied to the device, in every step */
    size_t weights, once_weights; /* then, on a device: see zn_denoiser_setup */
    size_t device_bytes;          /* on a device: all together */
} zn_step_plan;
/* Of so many images at once. ZN_ENOMEM, with a sentence, if the budget is too small. weights: of these files. */
ZN_MUST_USE zn_status zn_generator_plan_steps(const zn_generator *g, const zn_part_files *files,
                                              const zn_stored *weights, const zn_zimage_form *form,
                                              const zn_generation *request, int samples, int tokens, zn_step_plan *out);

/* ---- networks that stay on a device (warm.c) ---- */

/* Frees kept networks until `bytes` fit into the budget beside those of the other parts, the text encoder first: it can
 * do with least, and its weights are copied once for a prompt. Then they are counted as those of `part`. */
void zn_generator_make_room(zn_generator *g, zn_generator_part part, size_t bytes);
size_t zn_generator_held_by_others(const zn_generator *g, zn_generator_part part);
void zn_generator_free_others(zn_generator *g, zn_generator_part part);
/* After a stage: frees its network, unless it may stay. */
void zn_generator_end_stage(zn_generator *g, zn_generator_part part, zn_status status);
void zn_generator_forget(zn_generator *g, zn_generator_part part); /* frees it; harmless if there is none */
void zn_generator_forget_all(zn_generator *g);

void zn_text_encoder_free(zn_text_encoder *t); /* these three: NULL is fine */
void zn_transformer_free(zn_transformer *t);
void zn_autoencoder_free(zn_autoencoder *a);

/* ---- the request (request.c) ---- */

/* The request with its defaults filled in, checked. */
ZN_MUST_USE zn_status zn_generation_read(const zn_generation *given, const zn_generation_defaults *defaults,
                                         zn_generation *out);
zn_generation_defaults zn_generation_usual(void);
/* The defaults of a model: the usual ones, or those of the model_index.json beside the transformer's file or its
 * folder; and whether it knows small letters only. (defaults.c) */
ZN_MUST_USE zn_status zn_generation_defaults_find(const char *transformer, zn_generation_defaults *out,
                                                  bool *lower_case);

/* ---- images (images.c) ---- */

/* requests: as zn_generation_read gives them, alike in all that steps depend on (zn_generate_batch). */
ZN_MUST_USE zn_status zn_generator_run(zn_generator *g, const zn_generation *requests, int count, zn_image **out);
/* The same of one, without the image: measures layers in FP8. */
ZN_MUST_USE zn_status zn_generator_measure(zn_generator *g, const zn_generation *request, const zn_calibration *c);

/* ---- text to features (text.c) ---- */

typedef struct zn_features {
    float *data; /* [tokens][width]; zn_free */
    int tokens, width;
    int cut;     /* tokens that were dropped */
    bool cached; /* the text encoder was not needed */
} zn_features;
/* Of `count` prompts, in as few passes of the text encoder as possible; each gets the bits it would get alone. If it
 * fails, some of `out` may have data. */
ZN_MUST_USE zn_status zn_generator_features(zn_generator *g, const char *const *prompts, int count,
                                            zn_stage_progress progress, zn_features *out);

/* ---- images to latents and back (vae.c) ---- */

/* For codecs of this generator: its context, device and budget. They refer to g. int8 and fp8 are for matrices of
 * transformers; convolutions then use fp32 and bf16. */
zn_options zn_generator_codec_options(const zn_generator *g);

/* Latents are [height][width][channels], as the transformer knows them; tile: as in zn_generation. */
ZN_MUST_USE zn_status zn_generator_encode(zn_generator *g, const zn_image *image, int tile, zn_stage_progress progress,
                                          zn_latent **out);
ZN_MUST_USE zn_status zn_generator_decode(zn_generator *g, const zn_latent *latent, int tile,
                                          zn_stage_progress progress, zn_image **out);
/* A decoder for previews, with a codec of its own: the generator's where it is small, that is, any but FLUX's; else
 * NULL. */
ZN_MUST_USE zn_status zn_autoencoder_open_small(const zn_generator *g, const zn_options *options, zn_autoencoder **out);
ZN_MUST_USE zn_status zn_autoencoder_decode(zn_autoencoder *a, const zn_latent *latent, zn_image **out);
/* How the encoder or the decoder runs for an image, as text; fails if it cannot within the budget. */
ZN_MUST_USE zn_status zn_generator_plan_vae(zn_generator *g, const zn_generation *request, zn_part part, char *text,
                                            size_t size);
/* Fails unless the files hold an autoencoder that generators can use: FLUX's, or another at 1/8 whose config.json has
 * latents_mean and latents_std. channels: of its latents. */
ZN_MUST_USE zn_status zn_generator_check_vae(const zn_part_files *files, int *channels);

#endif
