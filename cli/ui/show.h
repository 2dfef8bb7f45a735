/* Images in the terminal. */
#ifndef ZN_CLI_SHOW_H
#define ZN_CLI_SHOW_H

#include "ui/options.h"

/* Draws on stdout, or on stderr when stdout belongs to --json. An image that cannot be drawn is reported as a remark.
 */
void show_image(const options *o, const zn_image *image);
/* The first three channels as red, green and blue. */
void show_latent(const options *o, const zn_latent *latent);

/* An 8-bit RGB image as sixels: a fixed palette of 6x6x6 colours with error diffusion. */
typedef struct show_sink {
    void (*write)(const char *text, size_t size);
} show_sink;
void show_sixel(const show_sink *sink, const zn_image *image);

#endif
