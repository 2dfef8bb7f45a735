/* Base64 (RFC 4648), as requests and answers carry images. */
#ifndef ZN_SERVER_BASE64_H
#define ZN_SERVER_BASE64_H

#include <stddef.h>

/* NUL-terminated text in new memory, or NULL. */
char *sv_base64_encode(const void *bytes, size_t size);
/* Decodes in place, white space skipped; padding may be missing. Returns the size, or -1 if it is not base64. */
long long sv_base64_decode(char *text, size_t size);

#endif
