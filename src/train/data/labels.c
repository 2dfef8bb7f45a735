/* Reading labels: words of lines, checked against the line of names. */
#include "train/data/labels.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/file.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ATTRIBUTES = 1024, MOST_BYTES = 4095, SHOWN = 40 }; /* bytes: of a word */

typedef struct reading {
    zn_labels *labels;
    const char *name, *at, *end;
    int64_t line;
    bool by_commas;
} reading;

typedef struct word {
    const char *at;
    int size;
} word;

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

/* The next line that is not blank; false: there is none. */
static bool next_line(reading *r, const char **at, const char **end)
{
    while (r->at < r->end) {
        const char *stop = memchr(r->at, '\n', (size_t)(r->end - r->at));
        *at = r->at;
        *end = stop ? stop : r->end;
        r->at = stop ? stop + 1 : r->end;
        r->line++;
        while (*at < *end && is_blank((*end)[-1]))
            --*end;
        while (*at < *end && is_blank(**at))
            ++*at;
        if (*at < *end)
            return true;
    }
    return false;
}

/* Takes a word off the line; *at is NULL after the last. */
static bool next_word(const reading *r, const char **at, const char *end, word *w)
{
    if (!*at)
        return false;
    const char *stop = *at;
    while (stop < end && !(r->by_commas ? *stop == ',' : is_blank(*stop)))
        stop++;
    const char *last = stop;
    while (last > *at && is_blank(last[-1]))
        last--;
    *w = (word){ *at, (int)(last - *at < MOST_BYTES ? last - *at : MOST_BYTES) };
    *at = stop == end ? NULL : stop + r->by_commas;
    while (*at && *at < end && is_blank(**at))
        ++*at;
    return true;
}

static int count_words(const reading *r, const char *at, const char *end)
{
    word w;
    int count = 0;
    while (count <= MOST_ATTRIBUTES + 1 && next_word(r, &at, end, &w))
        count++;
    return count;
}

static bool is_number(const char *at, const char *end)
{
    while (at < end && *at >= '0' && *at <= '9')
        at++;
    return at == end;
}

static zn_status read_names(reading *r)
{
    zn_labels *l = r->labels;
    const char *at = NULL, *end = NULL;
    word w;
    bool there = next_line(r, &at, &end);
    if (there && is_number(at, end)) /* how many pictures follow */
        there = next_line(r, &at, &end);
    if (!there)
        return ZN_FAIL(ZN_EFORMAT, "%s: no names of attributes in it", r->name);
    r->by_commas = memchr(at, ',', (size_t)(end - at)) != NULL;
    const int count = count_words(r, at, end);
    if (count > MOST_ATTRIBUTES)
        return ZN_FAIL(ZN_ELIMIT, "%s line %lld: more than %d attributes", r->name, (long long)r->line,
                       MOST_ATTRIBUTES);
    l->names = zn_arena_alloc(&l->arena, sizeof *l->names * (size_t)count);
    while (l->names && next_word(r, &at, end, &w))
        l->names[l->count++] = zn_arena_format(&l->arena, "%.*s", w.size, w.at);
    return l->arena.failed ? ZN_FAIL(ZN_ENOMEM, "out of memory for labels") : ZN_OK;
}

/* What the first picture's line tells about the names, which then must be good ones. */
static zn_status settle_names(reading *r, int words)
{
    zn_labels *l = r->labels;
    if (words != l->count && words != l->count + 1)
        return ZN_FAIL(ZN_EFORMAT, "%s line %lld: %d words, but %d names ask for %d, or %d if one is that of the files",
                       r->name, (long long)r->line, words, l->count, l->count + 1, l->count);
    if (words == l->count) { /* the first one is the name of the files' column */
        l->names++;
        l->count--;
    }
    if (!l->count)
        return ZN_FAIL(ZN_EFORMAT, "%s line %lld: an image without attributes", r->name, (long long)r->line);
    for (int i = 0; i < l->count; i++) {
        if (!l->names[i][0])
            return ZN_FAIL(ZN_EFORMAT, "%s: attribute %d has no name", r->name, i + 1);
        for (int k = 0; k < i; k++)
            if (strcmp(l->names[i], l->names[k]) == 0)
                return ZN_FAIL(ZN_EFORMAT, "%s: attribute '%s' appears twice", r->name, l->names[i]);
    }
    return ZN_OK;
}

static zn_status add_picture(reading *r, const zn_label *label)
{
    zn_labels *l = r->labels;
    if (!ZN_GROW(l->list, l->capacity, l->pictures + 1))
        return ZN_FAIL(ZN_ENOMEM, "out of memory for labels");
    l->list[l->pictures++] = *label;
    return ZN_OK;
}

static zn_status read_picture(reading *r, const char *at, const char *end)
{
    zn_labels *l = r->labels;
    const int words = count_words(r, at, end);
    word w;
    if (!l->pictures)
        ZN_TRY(settle_names(r, words));
    if (words != l->count + 1)
        return ZN_FAIL(ZN_EFORMAT, "%s line %lld: %d values for %d attributes", r->name, (long long)r->line, words - 1,
                       l->count);
    next_word(r, &at, end, &w);
    uint8_t *has = zn_arena_alloc(&l->arena, (size_t)l->count);
    const zn_label label = { zn_arena_format(&l->arena, "%.*s", w.size, w.at), has };
    if (l->arena.failed)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for labels");
    for (int i = 0; next_word(r, &at, end, &w); i++) {
        const bool lacks = (w.size == 1 && w.at[0] == '0') || (w.size == 2 && memcmp(w.at, "-1", 2) == 0);
        const bool unknown = !w.size || (w.size == 1 && w.at[0] == '?');
        has[i] = unknown ? ZN_LABEL_UNKNOWN : w.size == 1 && w.at[0] == '1';
        if (!has[i] && !lacks)
            return ZN_FAIL(ZN_EFORMAT, "%s line %lld: %s is '%.*s', not 1, -1, 0 or ?", r->name, (long long)r->line,
                           l->names[i], w.size < SHOWN ? w.size : SHOWN, w.at);
    }
    return add_picture(r, &label);
}

static int by_file(const void *a, const void *b)
{
    return strcmp(((const zn_label *)a)->file, ((const zn_label *)b)->file);
}

static zn_status read_all(reading *r)
{
    zn_labels *l = r->labels;
    const char *at, *end;
    if (memchr(r->at, 0, (size_t)(r->end - r->at)))
        return ZN_FAIL(ZN_EFORMAT, "%s: not a text", r->name);
    if (r->end - r->at >= 3 && memcmp(r->at, "\xef\xbb\xbf", 3) == 0) /* how some programs begin UTF-8 */
        r->at += 3;
    ZN_TRY(read_names(r));
    while (next_line(r, &at, &end))
        ZN_TRY(read_picture(r, at, end));
    if (!l->pictures)
        return ZN_FAIL(ZN_EFORMAT, "%s: no images are named in it", r->name);
    qsort(l->list, (size_t)l->pictures, sizeof *l->list, by_file);
    for (int64_t i = 1; i < l->pictures; i++)
        if (by_file(&l->list[i - 1], &l->list[i]) == 0)
            return ZN_FAIL(ZN_EFORMAT, "%s: '%.200s' appears twice", r->name, l->list[i].file);
    return ZN_OK;
}

zn_status zn_labels_parse(const char *text, size_t size, const char *name, zn_labels **out)
{
    *out = NULL;
    reading r = { .labels = zn_calloc(1, sizeof *r.labels), .name = name, .at = text, .end = text + size };
    if (!r.labels)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for labels");
    const zn_status status = read_all(&r);
    if (status == ZN_OK)
        *out = r.labels;
    else
        zn_labels_free(r.labels);
    return status;
}

zn_status zn_labels_read(const char *path, zn_labels **out)
{
    zn_map map;
    *out = NULL;
    ZN_TRY(zn_map_open(&map, path));
    const zn_status status = zn_labels_parse((const char *)map.bytes, map.size, path, out);
    zn_map_close(&map);
    return status;
}

void zn_labels_free(zn_labels *l)
{
    if (!l)
        return;
    zn_free(l->list);
    zn_arena_free(&l->arena);
    zn_free(l);
}

static const uint8_t *find(const zn_labels *l, const char *file)
{
    const zn_label wanted = { file, NULL };
    const zn_label *found = bsearch(&wanted, l->list, (size_t)l->pictures, sizeof *l->list, by_file);
    return found ? found->has : NULL;
}

/* Of the image that crop "SOURCE#N" was cut from. */
static const uint8_t *find_source(const zn_labels *l, const char *picture)
{
    const char *crop = strrchr(picture, '#');
    char source[MOST_BYTES + 1];
    if (!crop || (size_t)(crop - picture) >= sizeof source)
        return NULL;
    memcpy(source, picture, (size_t)(crop - picture));
    source[crop - picture] = 0;
    return find(l, source);
}

/* Of the record "256-00042" of an LMDB folder of the original DiffAE, which CelebA-HQ's labels call 42.jpg. */
static const uint8_t *find_record(const zn_labels *l, const char *picture)
{
    const size_t side = strspn(picture, "0123456789");
    const char *digits = picture + side + (picture[side] == '-');
    const size_t count = strspn(digits, "0123456789");
    char file[32];
    if (!side || picture[side] != '-' || !count || count > 9 || digits[count])
        return NULL;
    snprintf(file, sizeof file, "%ld.jpg", strtol(digits, NULL, 10));
    return find(l, file);
}

const uint8_t *zn_labels_of(const zn_labels *l, const char *picture)
{
    const uint8_t *has = find(l, picture);
    has = has ? has : find_source(l, picture);
    return has ? has : find_record(l, picture);
}
