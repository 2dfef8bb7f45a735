/* "-" on the command line: standard input and standard output as files. Also named pipes. */
#ifndef ZN_CLI_STANDARD_H
#define ZN_CLI_STANDARD_H

#include <zenith/image.h>

#define STANDARD_OUTPUT "/dev/stdout"

/* Buffers standard input and returns a path to it that can be read more than once. Returns NULL after reporting an
 * error. */
const char *standard_input(void);
int is_standard_input(const char *path);
/* A pipe can be read only once. Buffers its content and returns a path that can be read again. Returns other paths
 * unchanged, and NULL after reporting an error. */
const char *keep_pipe(const char *path);
/* The user's name for a path that standard_input or keep_pipe returned. Returns other paths unchanged. */
const char *name_of_kept(const char *path);
/* Replaces such paths, and STANDARD_OUTPUT, in a text by these names. size: capacity of text; twice its length is
 * always enough for standard input. */
void name_kept_files(char *text, size_t size);

/* The reason why results cannot be written to standard output, or NULL. */
const char *standard_output_problem(int json, int show);

/* Whether write_image can store an image of this size, or with `compared` a comparison of two: for use before it is
 * made. */
zn_status check_image(const char *kind, int64_t width, int64_t height, int compared);
/* Like zn_image_write, but the extension of `kind` selects the format where it is not the path itself. */
zn_status write_image(const char *path, const char *kind, const zn_image *image, const zn_image_write_options *writing);

#endif
