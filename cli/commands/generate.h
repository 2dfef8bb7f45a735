/* What `zenith generate` is asked for: settings, prompts, images to start from, and names of the results. */
#ifndef ZN_CLI_GENERATE_H
#define ZN_CLI_GENERATE_H

#include "commands/parameters.h"

typedef struct prompt_list {
    char **items;
    int count;
} prompt_list;

/* The settings of --from, overridden by the other options; the seed is drawn if none is given. Returns 0, or an exit
 * status after reporting an error, as do the functions below. The caller frees *out in any case. */
int generate_settings(const options *o, parameters *out);
/* The prompts: the argument, the lines of --prompts, or the one in *p. The caller frees *out in any case. */
int generate_prompts(const options *o, const parameters *p, prompt_list *out);
void prompts_free(prompt_list *list);

/* Reads --image and --mask, scaled to the size in *p if there is one, and checks everything that can be checked without
 * the model. Sets the size in *p. The caller frees the images in any case. */
int generate_images(const options *o, parameters *p, zn_image **image, zn_image **mask);

/* Checks -o, --format and --preview for this number of images. */
int generate_check_output(const options *o, const parameters *p, int count);
/* Path of image i of count, which the caller frees; NULL: it is not written. */
char *generate_path(const options *o, int i, int count);
/* A name with the extension of the results. */
const char *generate_kind(const options *o);

#endif
