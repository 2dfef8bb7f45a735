/* Selects the files to read and the names of the results. */
#ifndef ZN_CLI_FILES_H
#define ZN_CLI_FILES_H

#include "files/extensions.h"
#include "options/options.h"

/* One file to read and one to write. kind: a name whose extension is the format of the result; this is output itself
 * unless output is standard output or a pipe. problem: why this job cannot be done, or NULL. */
typedef struct job {
    char *input, *output, *kind, *problem;
} job;

typedef struct job_list {
    job *items;
    int count, capacity;
    char *created; /* the folder of the results, if it did not exist before */
} job_list;

typedef struct job_rules {
    const char *what;                   /* the files that are taken from a folder, for messages: "images" */
    int (*takes)(const char *path);     /* true if this file of a folder is one of them */
    const char *extension;              /* default extension of the results, without the dot */
    int (*can_write)(const char *path); /* by extension */
    const char *extensions;             /* for messages: ".png, .jpg or .webp" */
} job_rules;

/* Expands folders, sorted by name; digits sort by their value. Returns non-zero if there may be several files. */
int jobs_expand(const options *o, const job_rules *rules, job_list *out);
/* Expands folders and names the results. Returns 0, or an exit status after reporting an error. */
int jobs_make(const options *o, const job_rules *rules, job_list *out);
/* Part of jobs_make. Sets `problem` of a job whose result would replace an input, would be the result of two inputs, or
 * would replace an existing file although -o did not name it. */
void jobs_find_conflicts(const options *o, job_list *list);
/* After the work of all ranks: a folder that was created for the results and got none is removed. */
void jobs_free(job_list *list);

int file_exists(const char *path);
int is_folder(const char *path);
int is_pipe(const char *path);               /* or a device, such as /dev/null */
int same_file(const char *a, const char *b); /* both exist and are the same file; follows links */

/* Why this path cannot be written, before any work: its folder does not exist or takes no new files, or the file is
 * protected. NULL if it can; the caller frees it. A path that ends in a slash is a folder to create, or an existing
 * one. */
char *output_problem(const char *path);
/* Reports that problem. Returns 0, or EXIT_FAILURE if there is one. */
int lacks_folder(const char *path);
/* The same for a folder that will be created with those above it. */
int lacks_folders(const char *folder);

/* Whether some pixel of an image is not opaque. A file that cannot be read has none: reading it reports why. */
int has_transparency(const char *path);
/* Like zn_image_read, but prints a remark if an animated image has more frames than the first, which are not used, and
 * if transparent pixels are blended with the background. */
zn_status read_image(const options *o, const char *path, const zn_image_read_options *reading, zn_image **out);

#endif
