/* Helpers for names and paths. */
#ifndef ZN_TEXT_H
#define ZN_TEXT_H

#include <string.h>

/* If the text ends with `end`, returns a pointer to that ending; else NULL. */
static inline const char *zn_ending(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0 ? text + n - m : NULL;
}

#endif
