/* What `zenith generate` is asked for: settings, prompts, images to start from, and names of the results. */
#ifndef ZN_CLI_GENERATE_H
#define ZN_CLI_GENERATE_H

#include "files/parameters.h"

typedef struct prompt_list {
    char **items;
    int count;
} prompt_list;

/* The settings of --from, overridden by the other options; the seed is drawn if none is given. Returns 0, or an exit
 * status after reporting an error, as do the functions below. The caller frees *out in any case. */
int generate_settings(const options *o, parameters *out);
/* The settings stored in the image --from, with paths that are found from here. */
int generate_read_from(const options *o, parameters *out);
/* Images and LoRAs that come from there, not from other options, must exist; the library looks for the rest. */
int generate_check_from(const options *o, const parameters *p);
/* The prompts: the argument, the lines of --prompts, or the one in *p. The caller frees *out in any case. */
int generate_prompts(const options *o, const parameters *p, prompt_list *out);
void prompts_free(prompt_list *list);
/* Splits "FILE:0.8": the strength after the last colon, 1 without it. The caller frees *path. Returns 0 if what follows
 * the name of a file is not a number. */
int split_lora(const char *text, char **path, double *strength);

/* A file's path; "-" is standard input, and pipes are buffered. NULL after reporting an error. */
const char *generate_input(const char *name);
/* Reads --image and --mask, scaled to the size in *p if there is one, and checks everything that can be checked without
 * the model. Sets the size in *p. The caller frees the images in any case. */
int generate_images(const options *o, parameters *p, zn_image **image, zn_image **mask);

/* Measures layers with the prompt of the request and reports them. Returns 0, or an exit status after reporting an
 * error.
 */
int generate_calibrate(const options *o, zn_generator *generator, zn_generation *request);

/* Checks -o, --format and --preview for this number of images. */
int generate_check_output(const options *o, const parameters *p, int count);
/* Path of image i of count, which the caller frees; NULL: it is not written. */
char *generate_path(const options *o, int i, int count);
/* A name with the extension of the results. */
const char *generate_kind(const options *o);

#endif
