/* What tokenizers need to know of Unicode: letters, numbers, white space and the normal form NFC. */
#ifndef ZN_UNICODE_H
#define ZN_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zenith/status.h>

bool zn_is_letter(uint32_t c); /* general category L */
bool zn_is_number(uint32_t c); /* general category N */
bool zn_is_space(uint32_t c);

/* UTF-8, checked, to code points in NFC. *out is the caller's (zn_free); *count may be more or fewer than there were.
 * what: names the text in messages. */
ZN_MUST_USE zn_status zn_utf8_to_nfc(const char *text, size_t size, const char *what, uint32_t **out, size_t *count);

/* Bytes written, 1 to 4. */
int zn_utf8_put(uint32_t c, uint8_t out[4]);

#endif
