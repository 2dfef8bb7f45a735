/* Unicode for tokenizers: letters, numbers, white space and the normal form NFC. */
#ifndef ZN_UNICODE_H
#define ZN_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zenith/status.h>

bool zn_is_letter(uint32_t c); /* general category L */
bool zn_is_number(uint32_t c); /* general category N */
bool zn_is_space(uint32_t c);

/* Checks UTF-8 and converts it to code points in NFC. The caller frees *out (zn_free). *count may be larger or smaller
 * than the number of input code points. what: name of the text in messages. */
ZN_MUST_USE zn_status zn_utf8_to_nfc(const char *text, size_t size, const char *what, uint32_t **out, size_t *count);

/* Writes c as UTF-8 and returns the number of bytes, 1 to 4. */
int zn_utf8_put(uint32_t c, uint8_t out[4]);

#endif
