#include "io/image/formats/png_filter.h"

#include <string.h>

enum filter { NONE, SUB, UP, AVERAGE, PAETH }; /* as PNG numbers them */

/* ---- filters ---- */

static inline int distance(int a, int b) { return a < b ? b - a : a - b; }

static inline int paeth(int left, int up, int corner)
{
    const int to_left = distance(up, corner), to_up = distance(left, corner),
              to_corner = distance(left + up, 2 * corner);
    return to_left <= to_up && to_left <= to_corner ? left : to_up <= to_corner ? up : corner;
}

static inline int predict(enum filter filter, int left, int up, int corner)
{
    switch (filter) {
    case SUB:
        return left;
    case UP:
        return up;
    case AVERAGE:
        return (left + up) / 2;
    case PAETH:
        return paeth(left, up, corner);
    default:
        return 0;
    }
}

/* PNG's samples of 16 bits begin with the high byte: `swap` is 1 for them. */
static inline void apply(enum filter filter, const uint8_t *now, const uint8_t *up, size_t row, size_t pixel,
                         size_t swap, uint8_t *restrict to)
{
    for (size_t i = 0; i < pixel; i++)
        to[i] = (uint8_t)(now[i ^ swap] - predict(filter, 0, up[i ^ swap], 0));
    for (size_t i = pixel; i < row; i++)
        to[i] =
            (uint8_t)(now[i ^ swap] - predict(filter, now[(i - pixel) ^ swap], up[i ^ swap], up[(i - pixel) ^ swap]));
}

/* The filter and the size of a sample are constants here, for the compiler. */
static void filter_row(enum filter filter, const uint8_t *now, const uint8_t *up, size_t row, size_t pixel, size_t swap,
                       uint8_t *to)
{
#define CASE(f)                                                                                                        \
    case f:                                                                                                            \
        if (swap)                                                                                                      \
            apply(f, now, up, row, pixel, 1, to);                                                                      \
        else                                                                                                           \
            apply(f, now, up, row, pixel, 0, to);                                                                      \
        break
    *to++ = (uint8_t)filter;
    switch (filter) {
        CASE(NONE);
        CASE(SUB);
        CASE(UP);
        CASE(AVERAGE);
        CASE(PAETH);
    }
#undef CASE
}

/* Of the bytes as differences. */
static uint64_t sum(const uint8_t *bytes, size_t count)
{
    enum { PART = 1 << 16 }; /* whose sum fits 32 bits */
    uint64_t all = 0;
    for (size_t begin = 0; begin < count; begin += PART) {
        const size_t end = count - begin < PART ? count : begin + PART;
        uint32_t part = 0;
        for (size_t i = begin; i < end; i++)
            part += bytes[i] < 128 ? bytes[i] : 256u - bytes[i];
        all += part;
    }
    return all;
}

void zn_png_filter_row(const zn_raster *raster, int64_t y, const uint8_t *zeros, zn_png_way way, uint8_t *to)
{
    static const enum filter candidates[] = { NONE, SUB, UP, PAETH };
    const uint8_t *now = zn_raster_row(raster, y), *up = y ? zn_raster_row(raster, y - 1) : zeros;
    const size_t pixel = (size_t)raster->channels * (size_t)raster->bits / 8, row = (size_t)raster->width * pixel;
    const size_t swap = raster->bits == 16;
    enum filter best = way == ZN_PNG_PHOTO ? AVERAGE : NONE;
    uint64_t least = UINT64_MAX;
    for (int i = 0; way == ZN_PNG_LEAST && i < 4; i++) {
        filter_row(candidates[i], now, up, row, pixel, swap, to);
        const uint64_t s = sum(to + 1, row);
        if (s < least) {
            least = s;
            best = candidates[i];
        }
    }
    if (way != ZN_PNG_LEAST || best != PAETH) /* the last candidate's bytes are there */
        filter_row(best, now, up, row, pixel, swap, to);
}

/* ---- flat rows ---- */

/* Some distinct colours. */
typedef struct palette {
    uint64_t colours[512]; /* a hash table, at most half full; 0 is free, so that colours are kept plus 1 */
    int count, most;
} palette;

static void count_colour(palette *p, const uint8_t *at, size_t pixel)
{
    enum { SLOTS = sizeof p->colours / sizeof *p->colours };
    uint64_t colour = 0;
    memcpy(&colour, at, pixel);
    colour += colour != UINT64_MAX; /* which counts as the one before it */
    size_t i = (size_t)(colour * 0x9e3779b97f4a7c15u >> 55);
    while (p->colours[i] && p->colours[i] != colour)
        i = (i + 1) % SLOTS;
    p->count += !p->colours[i];
    p->colours[i] = colour;
}

static inline int64_t count_equal(const uint8_t *now, const uint8_t *up, size_t row, size_t pixel)
{
    int64_t equal = 0;
    for (size_t i = pixel; i < row; i += pixel)
        equal += !memcmp(now + i, now + i - pixel, pixel) && !memcmp(now + i, up + i, pixel);
    return equal;
}

bool zn_png_is_flat(const zn_raster *raster, int64_t begin, int64_t end)
{
    enum { STEP = 4, COLOURS = 256, GREYS = 16, SHARE = 45 /* percent, of equal pixels; photographs have up to 40 */ };
    const size_t pixel = (size_t)raster->channels * (size_t)raster->bits / 8, row = (size_t)raster->width * pixel;
    palette p = { .most = raster->channels < 3 ? GREYS : COLOURS };
    int64_t equal = 0, all = 0;
    for (int64_t y = begin; y < end; y += STEP) {
        const uint8_t *now = zn_raster_row(raster, y), *up = zn_raster_row(raster, y ? y - 1 : 0);
        all += raster->width;
        equal += pixel == 3 ? count_equal(now, up, row, 3) : count_equal(now, up, row, pixel);
        for (size_t i = 0; i < row && p.count <= p.most; i += pixel)
            count_colour(&p, now + i, pixel);
    }
    return p.count <= p.most || equal * 100 > all * SHARE;
}
