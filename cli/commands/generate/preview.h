/* Previews in a file: a thread writes the newest image while the next step is computed, since a step on a GPU takes
 * about as long as writing.
 *
 *     preview_file *f = preview_open(path);
 *     preview_show(f, image);
 *     char *why = preview_close(f); */
#ifndef ZN_CLI_PREVIEW_H
#define ZN_CLI_PREVIEW_H

#include <zenith/image.h>

typedef struct preview_file preview_file;

preview_file *preview_open(const char *path);
/* Copies the image. It replaces one that is still waiting to be written. */
void preview_show(preview_file *f, const zn_image *image);
/* Waits until the last image is written. Returns the first failure's text, which the caller frees, or NULL. f may be
 * NULL. */
char *preview_close(preview_file *f);

#endif
