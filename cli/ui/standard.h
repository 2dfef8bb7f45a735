/* "-" on the command line, standard input and standard output as files; and pipes that have a name. */
#ifndef ZN_CLI_STANDARD_H
#define ZN_CLI_STANDARD_H

#include <zenith/image.h>

#define STANDARD_OUTPUT "/dev/stdout"

/* A path to all that standard input gives, which can be read more than once; NULL after saying what is wrong. */
const char *standard_input(void);
int is_standard_input(const char *path);
/* A pipe can be read once only: a path to all that comes out of it, which can be read again. Other paths are given back
 * as they are. NULL after saying what is wrong. */
const char *keep_pipe(const char *path);
/* What the user calls a path that standard_input or keep_pipe gave; other paths as they are. */
const char *name_of_kept(const char *path);
/* Where a text has such a path, it becomes that name. size: capacity of the text; twice its length is always enough for
 * standard input. */
void name_kept_files(char *text, size_t size);

/* Why results cannot go to standard output, or NULL. */
const char *standard_output_problem(int json, int show);

/* As zn_image_write, but for STANDARD_OUTPUT the extension of `kind` says the format. */
zn_status write_image(const char *path, const char *kind, const zn_image *image, const zn_image_write_options *writing);

#endif
