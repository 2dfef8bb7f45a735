/* Categories by binary search in tables of ranges. NFC in three steps: decompose, order marks, compose (UAX #15). */
#include "text/unicode.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/json.h"

#include <stdlib.h>

typedef struct range {
    uint32_t first, last;
} range;

typedef struct class_range {
    uint32_t first, last;
    uint8_t class;
} class_range;

typedef struct pair {
    uint32_t whole, a, b; /* b is 0 if `whole` is a singleton: another code point for a */
} pair;

#include "text/unicode_tables.inc"

#define COUNT(table) (sizeof(table) / sizeof *(table))
enum { FIRST_MARK = 0x300, MAX_PARTS = 4 };
enum { S = 0xac00, L = 0x1100, V = 0x1161, T = 0x11a7, L_COUNT = 19, V_COUNT = 21, T_COUNT = 28 }; /* Hangul */

static bool within(const range *table, size_t count, uint32_t c)
{
    size_t low = 0, high = count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (c > table[middle].last)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && table[low].first <= c;
}

bool zn_is_letter(uint32_t c)
{
    if (c < 128)
        return (c | 32) >= 'a' && (c | 32) <= 'z';
    return within(letters, COUNT(letters), c);
}

bool zn_is_number(uint32_t c) { return c < 128 ? c >= '0' && c <= '9' : within(numbers, COUNT(numbers), c); }

bool zn_is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
           c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

static unsigned class_of(uint32_t c)
{
    size_t low = 0, high = COUNT(classes);
    if (c < FIRST_MARK)
        return 0;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (c > classes[middle].last)
            low = middle + 1;
        else
            high = middle;
    }
    return low < COUNT(classes) && classes[low].first <= c ? classes[low].class : 0;
}

static const pair *decomposition_of(uint32_t c)
{
    size_t low = 0, high = COUNT(decompositions);
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (c > decompositions[middle].whole)
            low = middle + 1;
        else
            high = middle;
    }
    return low < COUNT(decompositions) && decompositions[low].whole == c ? &decompositions[low] : NULL;
}

/* Decomposes into at most MAX_PARTS parts and returns their number. Only the first part can be decomposed further. */
static int decompose(uint32_t c, uint32_t parts[MAX_PARTS])
{
    uint32_t tail[MAX_PARTS];
    int tails = 0, count = 0;
    if (c >= S && c < S + L_COUNT * V_COUNT * T_COUNT) {
        const uint32_t at = c - S;
        parts[count++] = L + at / (V_COUNT * T_COUNT);
        parts[count++] = V + at % (V_COUNT * T_COUNT) / T_COUNT;
        if (at % T_COUNT)
            parts[count++] = T + at % T_COUNT;
        return count;
    }
    for (const pair *p; tails < MAX_PARTS - 1 && (p = decomposition_of(c)) != NULL; c = p->a)
        if (p->b)
            tail[tails++] = p->b;
    parts[count++] = c;
    while (tails)
        parts[count++] = tail[--tails];
    return count;
}

static uint32_t compose(uint32_t a, uint32_t b)
{
    if (a >= L && a < L + L_COUNT && b >= V && b < V + V_COUNT)
        return S + ((a - L) * V_COUNT + (b - V)) * T_COUNT;
    if (a >= S && a < S + L_COUNT * V_COUNT * T_COUNT && (a - S) % T_COUNT == 0 && b > T && b < T + T_COUNT)
        return a + (b - T);
    size_t low = 0, high = COUNT(compositions);
    while (low < high) {
        const size_t middle = (low + high) / 2;
        const pair *p = &compositions[middle];
        if (a != p->a ? a > p->a : b > p->b)
            low = middle + 1;
        else
            high = middle;
    }
    return low < COUNT(compositions) && compositions[low].a == a && compositions[low].b == b ? compositions[low].whole
                                                                                             : 0;
}

/* class | position | code point in one number: sorting orders marks by class and keeps the order of equal classes. */
enum { PLACE = 21, CLASS = 53 };
static uint32_t point_of(uint64_t item) { return (uint32_t)(item & ((1u << PLACE) - 1)); }
static unsigned item_class(uint64_t item) { return (unsigned)(item >> CLASS); }

static int by_number(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void order_marks(uint64_t *items, size_t count)
{
    for (size_t i = 0; i < count;) {
        size_t end = i;
        while (end < count && item_class(items[end]))
            end++;
        if (end - i > 1)
            qsort(items + i, end - i, sizeof *items, by_number);
        i = end + 1;
    }
}

/* Composes each mark with the starter before it, unless a mark of the same or a higher class is between them. */
static size_t compose_all(const uint64_t *items, size_t count, uint32_t *out)
{
    size_t n = 0, starter = SIZE_MAX;
    unsigned last = 0;
    for (size_t i = 0; i < count; i++) {
        const uint32_t c = point_of(items[i]);
        const unsigned class = item_class(items[i]);
        const bool reaches = starter != SIZE_MAX && (n == starter + 1 || last < class);
        const uint32_t joined = reaches ? compose(out[starter], c) : 0;
        if (joined) {
            out[starter] = joined;
            continue;
        }
        if (class == 0)
            starter = n;
        last = class;
        out[n++] = c;
    }
    return n;
}

static zn_status decode(const char *text, size_t size, const char *what, uint32_t *out, size_t *count, bool *marks)
{
    size_t n = 0;
    for (size_t i = 0; i < size;) {
        const uint8_t *p = (const uint8_t *)text + i;
        const int length = zn_utf8_sequence(p, size - i);
        if (!length)
            return ZN_FAIL(ZN_EINVALID, "%s is not UTF-8 at byte %zu", what, i);
        uint32_t c = length == 1 ? p[0] : p[0] & (0x7fu >> length);
        for (int k = 1; k < length; k++)
            c = c << 6 | (p[k] & 63);
        *marks |= c >= FIRST_MARK;
        out[n++] = c;
        i += (size_t)length;
    }
    *count = n;
    return ZN_OK;
}

zn_status zn_utf8_to_nfc(const char *text, size_t size, const char *what, uint32_t **out, size_t *count)
{
    uint32_t *points = NULL;
    uint64_t *items = NULL;
    bool marks = false;
    zn_status status;
    *out = NULL;
    *count = 0;
    if (size > UINT32_MAX / MAX_PARTS)
        return ZN_FAIL(ZN_ELIMIT, "%s is too long: %zu bytes", what, size);
    ZN_TRY_DONE(zn_alloc_for("text", (size + 1) * sizeof *points, (void **)&points));
    ZN_TRY_DONE(decode(text, size, what, points, count, &marks));
    if (marks) {
        size_t n = 0;
        ZN_TRY_DONE(zn_alloc_for("text", (MAX_PARTS * *count + 1) * sizeof *items, (void **)&items));
        for (size_t i = 0; i < *count; i++) {
            uint32_t parts[MAX_PARTS];
            const int many = decompose(points[i], parts);
            for (int k = 0; k < many; k++, n++)
                items[n] = (uint64_t)class_of(parts[k]) << CLASS | (uint64_t)n << PLACE | parts[k];
        }
        order_marks(items, n);
        zn_free(points); /* text that does not recompose may be longer than the input */
        points = NULL;
        ZN_TRY_DONE(zn_alloc_for("text", (n + 1) * sizeof *points, (void **)&points));
        *count = compose_all(items, n, points);
    }
    *out = points;
    points = NULL;
done:
    zn_free(points);
    zn_free(items);
    return status;
}

int zn_utf8_put(uint32_t c, uint8_t out[4])
{
    if (c < 0x80) {
        out[0] = (uint8_t)c;
        return 1;
    }
    const int length = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (int i = length - 1; i > 0; i--, c >>= 6)
        out[i] = (uint8_t)(0x80 | (c & 63));
    out[0] = (uint8_t)((0xf00u >> length & 0xff) | c);
    return length;
}
