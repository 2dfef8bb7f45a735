/* What an image is generated from, and its text form, which image files carry and most programs understand:
 *
 *     a red fox in the snow
 *     Negative prompt: blurry
 *     Steps: 8, Sampler: Euler, CFG scale: 1, Seed: 7, Size: 1024x1024, Model: z-image-turbo, Version: zenith 0.1.0
 *
 * parameters_text and parameters_parse are inverse: nothing that affects the image is lost. */
#ifndef ZN_CLI_PARAMETERS_H
#define ZN_CLI_PARAMETERS_H

#include "options/options.h"
#include "ui/json.h"

enum { IMAGE_GRAIN = 16 }; /* sides that generators can make are multiples of it */

/* Zero means "not set" everywhere; strings are owned. */
typedef struct parameters {
    char *prompt, *negative;
    int steps;
    int width, height;
    uint64_t seed;
    int has_seed;
    double guidance; /* counts if has_guidance; 0: none */
    int has_guidance;
    double shift, strength;
    int precision;                  /* zn_precision */
    int encoder_tile, decoder_tile; /* as in zn_generation; not written if the whole image was computed at once */
    char *model, *transformer, *text_encoder, *vae, *tokenizer;
    char *image, *mask;
    char *loras[MOST_LORAS + 1]; /* "FILE:STRENGTH"; ends with NULL */
    char *sampler;               /* parsed, not written: other programs have several */
} parameters;

/* The caller frees it. */
char *parameters_text(const parameters *p);
/* Returns 0 if the text has no line with settings. The caller frees *out in any case. */
int parameters_parse(const char *text, parameters *out);
void parameters_free(parameters *p);
/* Fills in what is not set with the settings of a model. */
void parameters_complete(parameters *p, const zn_generator *g);
/* What to say about an image of this size (0: the model's), in text; NULL: nothing. */
const char *parameters_size_remark(const zn_generator *g, int width, int height, char text[128]);
/* What to say where a prompt has none of the subjects that a model knows, or not the form of its examples, in text;
 * NULL: nothing. */
const char *parameters_prompt_remark(const char *model, const zn_generator_about *about, const char *prompt,
                                     char text[512]);
/* Sets the size to that of an image to start from, each side rounded to one that generators can make, if none is set
 * and they cannot make the image's own. */
void parameters_fit_size(parameters *p, const zn_image *image);
void parameters_set_guidance(parameters *p, double guidance);
/* The value for zn_generation of complete settings. */
double parameters_guidance(const parameters *p);
/* Adds what is reported of every generated image to an open object: size, settings, tokens and times. */
void parameters_facts(json *j, const parameters *p, const zn_generation_report *r);

/* Replaces a string by a copy of another, which may be NULL. */
void parameters_set(char **field, const char *value);
/* Appends a LoRA; beyond the limit it is dropped. */
void parameters_add_lora(parameters *p, const char *lora);

#endif
