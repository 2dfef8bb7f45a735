/* Shows images in the terminal. */
#ifndef ZN_CLI_SHOW_H
#define ZN_CLI_SHOW_H

#include "options/options.h"

/* Draws on stdout, or on stderr with --json. If an image cannot be drawn, prints a remark. */
void show_image(const options *o, const zn_image *image);
/* Shows the first three channels as red, green and blue. */
void show_latent(const options *o, const zn_latent *latent);

/* Draws an 8-bit RGB image as sixels, with a fixed palette of 6x6x6 colours and error diffusion. */
typedef struct show_sink {
    void (*write)(const char *text, size_t size);
} show_sink;
void show_sixel(const show_sink *sink, const zn_image *image);

#endif
