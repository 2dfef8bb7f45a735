/* Files in the program, made by cmake/embed.cmake: the studio's page and the description of the API. */
#ifndef ZN_SERVER_EMBEDDED_H
#define ZN_SERVER_EMBEDDED_H

#include <stddef.h>

typedef struct sv_embedded {
    const char *path; /* "/index.html" */
    const unsigned char *bytes;
    size_t size;
} sv_embedded;

extern const sv_embedded sv_embedded_files[]; /* ends with path NULL */

#endif
