/* Reads and writes numbers with a decimal point, whatever the locale of the host program.
 *
 *     const locale_t old = zn_numbers_begin();
 *     ... strtod, snprintf ...
 *     zn_numbers_end(old);
 *
 * Only the calling thread's locale changes, between the two calls. */
#ifndef ZN_NUMBERS_H
#define ZN_NUMBERS_H

#include <locale.h>

static inline locale_t zn_numbers_begin(void)
{
    const locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    return plain ? uselocale(plain) : (locale_t)0;
}

static inline void zn_numbers_end(locale_t old)
{
    if (old)
        freelocale(uselocale(old));
}

#endif
