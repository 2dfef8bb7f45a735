/* Reading captions: fields of CSV lines, quoted or not. */
#include "train/data/captions.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/file.h"
#include "base/json.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_FIELD = 4096 };

typedef struct reading {
    const char *name, *at, *end;
    int64_t line;
} reading;

/* Passes the blanks after a closing quote. True if the field ends there. */
static bool ends_after_quote(reading *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\r'))
        r->at++;
    return r->at == r->end || *r->at == ',' || *r->at == '\n';
}

/* The next field of a record; *last: the record ends with it. Returns NULL, or what is wrong with it. */
static const char *next_field(reading *r, char field[MAX_FIELD], bool *last)
{
    static const char *const open = "a quote is not closed, or a field is longer than 4095 bytes";
    const bool quoted = r->at < r->end && *r->at == '"';
    size_t size = 0;
    r->at += quoted;
    for (;; r->at++) {
        if (r->at == r->end && quoted)
            return open;
        if (r->at == r->end || (!quoted && (*r->at == ',' || *r->at == '\n')))
            break;
        if (quoted && *r->at == '"') {
            r->at++;
            if (r->at == r->end || *r->at != '"')
                break;
        }
        if (size + 1 == MAX_FIELD)
            return open;
        r->line += *r->at == '\n';
        field[size++] = *r->at;
    }
    if (!quoted && size && field[size - 1] == '\r')
        size--;
    field[size] = 0;
    if (quoted && !ends_after_quote(r))
        return "text follows a closing quote; a quote inside a quoted field is written as \"\"";
    *last = r->at == r->end || *r->at == '\n';
    r->line += *last;
    r->at += r->at < r->end;
    return NULL;
}

/* The texts of two columns of a record; *fields: how many it has. */
static zn_status read_record(reading *r, const int column[2], char (*out)[MAX_FIELD], int *fields)
{
    char field[MAX_FIELD];
    const int64_t line = r->line;
    bool last = false;
    for (*fields = 0; !last; ++*fields) {
        const char *wrong = next_field(r, field, &last);
        if (wrong)
            return ZN_FAIL(ZN_EFORMAT, "%s, line %lld: %s", r->name, (long long)line, wrong);
        for (int k = 0; k < 2; k++)
            if (column[k] == *fields)
                memcpy(out[k], field, strlen(field) + 1);
    }
    return ZN_OK;
}

static zn_status read_head(reading *r, int column[2])
{
    static const char *const names[] = { "file", "caption" };
    char field[MAX_FIELD];
    bool last = false;
    column[0] = column[1] = -1;
    if (r->end - r->at >= 3 && memcmp(r->at, "\xef\xbb\xbf", 3) == 0) /* how some programs begin UTF-8 */
        r->at += 3;
    for (int i = 0; !last; i++) {
        const char *wrong = next_field(r, field, &last);
        if (wrong)
            return ZN_FAIL(ZN_EFORMAT, "%s, line 1: %s", r->name, wrong);
        for (int k = 0; k < 2; k++)
            if (strcmp(field, names[k]) == 0)
                column[k] = i;
    }
    if (column[0] >= 0 && column[1] >= 0)
        return ZN_OK;
    return ZN_FAIL(ZN_EFORMAT, "%s: the first line must name the columns, 'file' and 'caption' among them", r->name);
}

static zn_status add(zn_captions *c, const char *file, const char *text)
{
    if (!ZN_GROW(c->list, c->capacity, c->count + 1))
        return ZN_FAIL(ZN_ENOMEM, "out of memory for captions");
    zn_caption_line *l = &c->list[c->count++];
    *l = (zn_caption_line){ zn_arena_copy(&c->arena, file), zn_arena_copy(&c->arena, text) };
    return l->file && l->text ? ZN_OK : ZN_FAIL(ZN_ENOMEM, "out of memory for captions");
}

static int by_file(const void *a, const void *b)
{
    return strcmp(((const zn_caption_line *)a)->file, ((const zn_caption_line *)b)->file);
}

static zn_status read_all(reading *r, zn_captions *c)
{
    int column[2], fields;
    char value[2][MAX_FIELD];
    ZN_TRY(read_head(r, column));
    while (r->at < r->end) {
        const int64_t line = r->line;
        value[0][0] = value[1][0] = 0;
        ZN_TRY(read_record(r, column, value, &fields));
        if (fields == 1 && !value[0][0] && !value[1][0])
            continue; /* an empty line */
        if (fields <= column[0] || fields <= column[1] || !value[0][0] || !zn_utf8_valid(value[1], strlen(value[1])))
            return ZN_FAIL(ZN_EFORMAT, "%s, line %lld: it needs a file and its caption, in UTF-8", r->name,
                           (long long)line);
        ZN_TRY(add(c, value[0], value[1]));
    }
    if (!c->count)
        return ZN_FAIL(ZN_EFORMAT, "%s has no captions", r->name);
    qsort(c->list, (size_t)c->count, sizeof *c->list, by_file);
    for (int64_t i = 1; i < c->count; i++)
        if (by_file(&c->list[i - 1], &c->list[i]) == 0)
            return ZN_FAIL(ZN_EFORMAT, "%s: '%s' has two captions", r->name, c->list[i].file);
    return ZN_OK;
}

zn_status zn_captions_parse(const char *text, size_t size, const char *name, zn_captions **out)
{
    reading r = { name, text, text + size, 1 };
    zn_captions *c = *out = zn_calloc(1, sizeof *c);
    if (!c)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for captions");
    const zn_status status = read_all(&r, c);
    if (status != ZN_OK) {
        zn_captions_free(c);
        *out = NULL;
    }
    return status;
}

zn_status zn_captions_read(const char *path, zn_captions **out)
{
    zn_map map;
    *out = NULL;
    ZN_TRY(zn_map_open(&map, path));
    const zn_status status = zn_captions_parse((const char *)map.bytes, map.size, path, out);
    zn_map_close(&map);
    return status;
}

void zn_captions_free(zn_captions *c)
{
    if (!c)
        return;
    zn_arena_free(&c->arena);
    zn_free(c->list);
    zn_free(c);
}

const char *zn_captions_of(const zn_captions *c, const char *picture)
{
    const char *slash = strrchr(picture, '/');
    const char *const names[] = { picture, slash ? slash + 1 : picture };
    for (int i = 0; i < 2; i++) {
        const zn_caption_line key = { .file = names[i] },
                              *l = bsearch(&key, c->list, (size_t)c->count, sizeof *c->list, by_file);
        if (l)
            return l->text;
    }
    return NULL;
}
