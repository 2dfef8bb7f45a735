/* Names and paths as text. */
#ifndef ZN_TEXT_H
#define ZN_TEXT_H

#include <string.h>

/* Where `end` begins in a text that ends with it; NULL if it does not. */
static inline const char *zn_ending(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0 ? text + n - m : NULL;
}

#endif
