/* Base64. */
#include "server/base64.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

char *sv_base64_encode(const void *bytes, size_t size)
{
    const uint8_t *in = bytes;
    char *text = malloc((size + 2) / 3 * 4 + 1), *out = text;
    for (size_t i = 0; text && i < size; i += 3) {
        const size_t left = size - i;
        const uint32_t v =
            (uint32_t)in[i] << 16 | (left > 1 ? (uint32_t)in[i + 1] << 8 : 0) | (left > 2 ? in[i + 2] : 0);
        *out++ = digits[v >> 18];
        *out++ = digits[v >> 12 & 63];
        *out++ = left > 1 ? digits[v >> 6 & 63] : '=';
        *out++ = left > 2 ? digits[v & 63] : '=';
    }
    if (text)
        *out = 0;
    return text;
}

/* The value of a digit, also of the variant for URLs; -1: none. */
static int value_of(unsigned char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' || c == '-' ? 62 : c == '/' || c == '_' ? 63 : -1;
}

long long sv_base64_decode(char *text, size_t size)
{
    uint32_t bits = 0;
    int count = 0, ended = 0;
    char *out = text;
    for (size_t i = 0; i < size; i++) {
        const unsigned char c = (unsigned char)text[i];
        const int v = value_of(c);
        if (c == ' ' || c == '\n' || c == '\r' || c == '\t')
            continue;
        if (c == '=') {
            ended = 1;
            continue;
        }
        if (v < 0 || ended)
            return -1;
        bits = bits << 6 | (uint32_t)v;
        if (++count % 4) {
            const int have = count % 4 * 6; /* bits of this group: 6, 12, 18 */
            if (have >= 8)
                *out++ = (char)(bits >> (have - (have == 12 ? 8 : 16)));
        } else {
            *out++ = (char)bits;
        }
    }
    return count % 4 == 1 ? -1 : out - text;
}
