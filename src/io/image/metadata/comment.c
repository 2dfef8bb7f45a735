/* Text about a generated image: in and out of EXIF's UserComment, between UTF-8 and the encodings of the files. */
#include "io/image/metadata/comment.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/json.h"
#include "io/image/metadata/exif.h"
#include "io/image/metadata/metadata.h"

#include <string.h>

enum { CODE = 8 }; /* bytes of the character code */
static const char UNICODE[CODE] = "UNICODE", ASCII[CODE] = "ASCII";

/* Writes a character as UTF-8 and returns its bytes. */
static size_t put_utf8(char *to, uint32_t c)
{
    if (c < 0x80)
        return to[0] = (char)c, 1;
    const size_t bytes = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const uint8_t lead[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
    for (size_t i = bytes - 1; i > 0; i--, c >>= 6)
        to[i] = (char)(0x80 | (c & 0x3f));
    to[0] = (char)(lead[bytes] | c);
    return bytes;
}

zn_status zn_comment_copy(const uint8_t *text, size_t size, char **out)
{
    const bool utf8 = zn_utf8_valid(text, size);
    void *memory;
    ZN_TRY(zn_alloc_for("the text of an image", (utf8 ? size : 2 * size) + 1, &memory));
    char *to = *out = memory;
    for (size_t i = 0; i < size && text[i]; i++)
        to += utf8 ? (*to = (char)text[i], 1) : put_utf8(to, text[i]);
    *to = 0;
    return ZN_OK;
}

/* ---- UTF-16 ---- */

static uint32_t unit_at(const uint8_t *p, bool big) { return big ? p[0] << 8 | p[1] : p[1] << 8 | p[0]; }

/* Writers disagree on the byte order. A mark at the start decides; else the side on which the zero bytes of ASCII lie;
 * else the order of the EXIF block. */
static bool is_big_endian(const uint8_t *text, size_t size, bool block_is_big)
{
    size_t zeros[2] = { 0 };
    if (size >= 2 && (unit_at(text, true) == 0xfeff || unit_at(text, false) == 0xfeff))
        return unit_at(text, true) == 0xfeff;
    for (size_t i = 0; i < size; i++)
        zeros[i % 2] += !text[i];
    return zeros[0] == zeros[1] ? block_is_big : zeros[0] > zeros[1];
}

static zn_status from_utf16(const uint8_t *text, size_t size, bool block_is_big, char **out)
{
    const bool big = is_big_endian(text, size, block_is_big);
    void *memory;
    ZN_TRY(zn_alloc_for("the text of an image", 2 * size + 1, &memory)); /* two bytes become at most three */
    char *to = *out = memory;
    for (size_t i = 0; i + 2 <= size; i += 2) {
        uint32_t c = unit_at(text + i, big);
        if (c == 0xfeff)
            continue;
        if (!c)
            break;
        const uint32_t low = i + 4 <= size ? unit_at(text + i + 2, big) : 0;
        if (c >= 0xd800 && c < 0xdc00 && low >= 0xdc00 && low < 0xe000) {
            c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
            i += 2;
        } else if (c >= 0xd800 && c < 0xe000) {
            c = 0xfffd;
        }
        to += put_utf8(to, c);
    }
    *to = 0;
    return ZN_OK;
}

/* The character at *text, which moves after it; U+FFFD for a byte that is not UTF-8. */
static uint32_t next_character(const uint8_t **text)
{
    const uint8_t *p = *text;
    const int length = zn_utf8_sequence(p, strlen((const char *)p));
    *text += length ? length : 1;
    if (length < 2)
        return length ? p[0] : 0xfffd;
    uint32_t c = p[0] & (0xffu >> (length + 1));
    for (int i = 1; i < length; i++)
        c = c << 6 | (p[i] & 0x3f);
    return c;
}

static bool append_unit(zn_bytes *out, uint32_t unit)
{
    const uint8_t bytes[2] = { (uint8_t)(unit >> 8), (uint8_t)unit };
    return zn_bytes_append(out, bytes, 2);
}

static bool append_utf16(zn_bytes *out, const char *text)
{
    bool good = true;
    for (const uint8_t *at = (const uint8_t *)text; *at && good;) {
        const uint32_t c = next_character(&at);
        if (c < 0x10000)
            good = append_unit(out, c);
        else
            good = append_unit(out, 0xd800 + ((c - 0x10000) >> 10)) && append_unit(out, 0xdc00 + (c & 0x3ff));
    }
    return good;
}

/* ---- EXIF ---- */

zn_status zn_comment_find(const uint8_t *exif, size_t size, char **out)
{
    *out = NULL;
    size_t length;
    const uint8_t *comment = zn_exif_user_comment(exif, size, &length);
    if (!comment || length <= CODE)
        return ZN_OK;
    if (!memcmp(comment, UNICODE, CODE))
        ZN_TRY(from_utf16(comment + CODE, length - CODE, exif[0] == 'M', out));
    else if (!memcmp(comment, ASCII, CODE))
        ZN_TRY(zn_comment_copy(comment + CODE, length - CODE, out));
    if (*out && !strstr(*out, "Steps: ")) {
        zn_free(*out);
        *out = NULL;
    }
    return ZN_OK;
}

zn_status zn_comment_exif(const char *text, uint8_t **exif, size_t *size)
{
    zn_bytes comment = { 0 };
    zn_status status = zn_bytes_append(&comment, UNICODE, CODE) && append_utf16(&comment, text)
                           ? zn_exif_with_comment(comment.data, comment.size, exif, size)
                           : ZN_FAIL(ZN_ENOMEM, "out of memory for the text of an image");
    zn_bytes_free(&comment);
    return status;
}
