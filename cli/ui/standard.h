/* "-" on the command line: standard input and standard output as files. */
#ifndef ZN_CLI_STANDARD_H
#define ZN_CLI_STANDARD_H

#include <zenith/image.h>

#define STANDARD_OUTPUT "/dev/stdout"

/* A path to all that standard input gives, which can be read more than once; NULL after saying what is wrong. */
const char *standard_input(void);
int is_standard_input(const char *path);
/* A pipe that the shell gave as /dev/fd/N can be read once only: N becomes a file with all that comes out of it. Other
 * paths stay as they are. Non-zero after saying what is wrong. */
int keep_pipe(const char *path);
/* Where a text has that path, it becomes "standard input"; size: room of the text, twice its length is always enough.
 */
void name_standard_input(char *text, size_t size);

/* Why results cannot go to standard output, or NULL. */
const char *standard_output_problem(int json, int show);

/* As zn_image_write, but for STANDARD_OUTPUT the extension of `kind` says the format. */
zn_status write_picture(const char *path, const char *kind, const zn_image *image,
                        const zn_image_write_options *writing);

#endif
