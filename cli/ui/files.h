/* Which files to read and what to call the results. */
#ifndef ZN_CLI_FILES_H
#define ZN_CLI_FILES_H

#include "ui/options.h"

/* One file to read and one to write. kind: a name with the extension of the result's format, which is that of output
 * unless that is standard output. problem: why this pair cannot be done, NULL if it can. */
typedef struct job {
    char *input, *output, *kind, *problem;
} job;

typedef struct job_list {
    job *items;
    int count, capacity;
} job_list;

typedef struct job_rules {
    const char *what;                   /* of a folder's files, for messages: "images" */
    int (*takes)(const char *path);     /* is this file of a folder one of them? */
    const char *extension;              /* of the results where the command line does not say, without the dot */
    int (*can_write)(const char *path); /* by extension */
    const char *extensions;             /* for messages: ".png, .jpg or .webp" */
} job_rules;

/* Expands folders, sorted by name with numbers by their value. Non-zero if there may be several files. */
int jobs_expand(const options *o, const job_rules *rules, job_list *out);
/* Expands folders and names the results. Returns 0, or an exit status after saying what is wrong. */
int jobs_make(const options *o, const job_rules *rules, job_list *out);
/* Gives jobs a problem so that no result replaces an input, two inputs never share a result, and a result whose name
 * was not given with -o does not replace a file that happens to be there (part of jobs_make). */
void jobs_find_conflicts(const options *o, job_list *list);
void jobs_free(job_list *list);

int file_exists(const char *path);
int is_folder(const char *path);
int same_file(const char *a, const char *b); /* both exist and are one file, links followed */
/* Does the name end in "." and one of these space-separated extensions, in any case? */
int has_extension(const char *path, const char *extensions);
int is_image_file(const char *path); /* by its extension, of what can be read */
int is_video_file(const char *path);
const char *base_name(const char *path);

/* As zn_image_read, with a remark about frames of an animated image after the first, which are not used. */
zn_status read_image(const options *o, const char *path, const zn_image_read_options *reading, zn_image **out);

#endif
