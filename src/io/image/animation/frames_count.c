/* How many frames an animated image has, from its container alone. Nothing is decoded, and no library is needed. */
#include "io/image/format.h"
#include "io/image/formats/riff.h"

#include <limits.h>
#include <string.h>

/* The chunk acTL, which precedes the pixels, has the number. */
int zn_png_count_frames(const zn_source *s)
{
    for (size_t at = 8; at <= s->size && s->size - at >= 16;) {
        const uint8_t *p = s->bytes + at;
        const size_t length = (size_t)p[0] << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3];
        const size_t count = (size_t)p[8] << 24 | (size_t)p[9] << 16 | (size_t)p[10] << 8 | p[11];
        if (!memcmp(p + 4, "acTL", 4))
            return count > 1 && count <= INT_MAX ? (int)count : 1;
        if (!memcmp(p + 4, "IDAT", 4) || length > s->size - at)
            return 1;
        at += 12 + length;
    }
    return 1;
}

int zn_webp_count_frames(const zn_source *s)
{
    int frames = 0;
    for (size_t at = ZN_RIFF_HEAD; at <= s->size && s->size - at >= ZN_RIFF_CHUNK;) {
        const size_t length = zn_little32(s->bytes + at + 4);
        frames += !memcmp(s->bytes + at, "ANMF", 4);
        if (length > s->size - at - ZN_RIFF_CHUNK)
            break;
        at += ZN_RIFF_CHUNK + length + length % 2;
    }
    return frames > 1 ? frames : 1;
}

/* Offset after a palette whose flags these are. */
static size_t palette_size(uint8_t flags) { return flags & 0x80 ? (size_t)3 << ((flags & 7) + 1) : 0; }

/* header (13) | palette | { '!' label (1) blocks | ',' descriptor (9) palette, code size (1) blocks }... ';'
 * blocks: { size (1) | data }... 0 */
int zn_gif_count_frames(const zn_source *s)
{
    enum { HEAD = 13, FLAGS = 10, DESCRIPTOR = 10 };
    int frames = 0;
    size_t at = s->size >= HEAD ? HEAD + palette_size(s->bytes[FLAGS]) : s->size;
    while (at < s->size && (s->bytes[at] == '!' || s->bytes[at] == ',')) {
        const bool image = s->bytes[at] == ',';
        if (s->size - at < DESCRIPTOR + 1)
            break;
        at += image ? DESCRIPTOR + palette_size(s->bytes[at + 9]) + 1 : 2;
        while (at < s->size && s->bytes[at])
            at += 1 + (size_t)s->bytes[at];
        at++;
        frames += image;
    }
    return frames > 1 ? frames : 1;
}
