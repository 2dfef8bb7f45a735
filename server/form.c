/* Fields of requests, from JSON and from multipart/form-data. */
#include "server/form.h"

#include "base/fail.h"
#include "base/json.h"
#include "server/base64.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MOST_FIELDS = 4096 };

static char *copy(const char *bytes, size_t size)
{
    char *text = malloc(size + 1);
    if (!text)
        return NULL;
    memcpy(text, bytes, size);
    text[size] = 0;
    return text;
}

sv_field *sv_form_add(sv_form *form, const char *name, size_t name_size, const char *bytes, size_t size)
{
    if (form->count >= MOST_FIELDS)
        return NULL;
    if (form->count % 16 == 0) {
        sv_field *more = realloc(form->fields, ((size_t)form->count + 16) * sizeof *more);
        if (!more)
            return NULL;
        form->fields = more;
    }
    sv_field f = { .name = copy(name, name_size), .bytes = copy(bytes, size), .size = size };
    if (!f.name || !f.bytes) {
        free(f.name);
        free(f.bytes);
        return NULL;
    }
    form->fields[form->count] = f;
    return &form->fields[form->count++];
}

void sv_form_free(sv_form *form)
{
    for (int i = 0; i < form->count; i++) {
        free(form->fields[i].name);
        free(form->fields[i].filename);
        free(form->fields[i].bytes);
    }
    free(form->fields);
    *form = (sv_form){ 0 };
}

sv_field *sv_form_field(const sv_form *form, const char *name, int index)
{
    for (int i = 0; i < form->count; i++)
        if (!form->fields[i].option && !strcmp(form->fields[i].name, name) && index-- == 0)
            return &form->fields[i];
    return NULL;
}

const char *sv_form_text(const sv_form *form, const char *name)
{
    const sv_field *f = sv_form_field(form, name, 0);
    return f && !f->binary && strlen(f->bytes) == f->size ? f->bytes : NULL;
}

double sv_form_number(const sv_form *form, const char *name, double otherwise)
{
    const char *text = sv_form_text(form, name);
    char *end;
    const double v = text ? strtod(text, &end) : 0;
    return text && end != text && !*end ? v : otherwise;
}

zn_status sv_field_decode(sv_field *f)
{
    if (f->binary)
        return ZN_OK;
    size_t skip = 0;
    if (f->size > 5 && !strncasecmp(f->bytes, "data:", 5)) {
        const char *comma = memchr(f->bytes, ',', f->size);
        const size_t length = comma ? (size_t)(comma - f->bytes) : 0;
        if (length < 7 || strncasecmp(comma - 7, ";base64", 7))
            return ZN_FAIL(ZN_EINVALID, "%s: a data: URL must be in base64", f->name);
        skip = length + 1;
    }
    const long long size = sv_base64_decode(f->bytes + skip, f->size - skip);
    if (size <= 0)
        return ZN_FAIL(ZN_EINVALID, "%s: not a file in base64 or a data: URL", f->name);
    memmove(f->bytes, f->bytes + skip, (size_t)size);
    f->bytes[size] = 0;
    f->size = (size_t)size;
    f->binary = 1;
    return ZN_OK;
}

/* ---- JSON ---- */

static zn_status no_memory(void) { return ZN_FAIL(ZN_ELIMIT, "the request has too many or too large fields"); }

/* Appends a string, number or boolean; other values have no fields. *added may be NULL. */
static zn_status add_scalar(sv_form *form, const char *name, const zn_json_node *v, sv_field **added)
{
    char number[40];
    int64_t i;
    uint64_t u;
    double d;
    const char *text = number;
    size_t size = 0;
    if (v->kind == ZN_JSON_STRING)
        text = v->value.text, size = v->length;
    else if (v->kind == ZN_JSON_BOOL)
        text = v->value.magnitude ? "true" : "false", size = strlen(text);
    else if (zn_json_u64(v, &u))
        size = (size_t)snprintf(number, sizeof number, "%llu", (unsigned long long)u);
    else if (zn_json_i64(v, &i))
        size = (size_t)snprintf(number, sizeof number, "%lld", (long long)i);
    else if (zn_json_double(v, &d))
        size = (size_t)snprintf(number, sizeof number, "%.17g", d);
    else
        return ZN_OK;
    sv_field *f = sv_form_add(form, name, strlen(name), text, size);
    if (added)
        *added = f;
    return f ? ZN_OK : no_memory();
}

/* The last part of a path, whatever kind of slashes it has. */
static char *plain_name(const char *name, size_t size)
{
    size_t begin = 0;
    for (size_t i = 0; i < size; i++)
        if (name[i] == '/' || name[i] == '\\')
            begin = i + 1;
    char *text = copy(name + begin, size - begin < 120 ? size - begin : 120);
    for (char *c = text; c && *c; c++)
        if ((unsigned char)*c < 32)
            *c = '_';
    return text;
}

/* {"name": ..., "data": ...} is a file. */
static zn_status add_value(sv_form *form, const char *name, const zn_json_node *v)
{
    const zn_json_node *data = zn_json_get(v, "data");
    const char *filename = zn_json_string(zn_json_get(v, "name"));
    sv_field *f = NULL;
    ZN_TRY(add_scalar(form, name, data ? data : v, &f));
    if (f && data && filename)
        f->filename = plain_name(filename, strlen(filename));
    return ZN_OK;
}

static zn_status add_member(sv_form *form, const char *name, const zn_json_node *v)
{
    if (v->kind != ZN_JSON_ARRAY)
        return add_value(form, name, v);
    ZN_JSON_EACH(element, v)
    ZN_TRY(add_value(form, name, element));
    return ZN_OK;
}

static zn_status add_options(sv_form *form, const zn_json_node *object)
{
    if (object->kind != ZN_JSON_OBJECT)
        return ZN_FAIL(ZN_EINVALID, "options must be an object, such as {\"quality\": 90}");
    ZN_JSON_EACH(key, object)
    {
        const int first = form->count;
        if (!zn_json_string(key))
            continue;
        ZN_TRY(add_member(form, zn_json_string(key), key + 1));
        for (int i = first; i < form->count; i++)
            form->fields[i].option = 1;
    }
    return ZN_OK;
}

/* {"lr": 1e-3} is the field lr=0.001. */
static zn_status add_settings(sv_form *form, const zn_json_node *object)
{
    ZN_JSON_EACH(key, object)
    {
        const char *name = zn_json_string(key);
        sv_field *f = NULL;
        if (!name)
            continue;
        ZN_TRY(add_scalar(form, "settings", key + 1, &f));
        if (!f)
            return ZN_FAIL(ZN_EINVALID, "the setting %.60s must be a number, a text or true or false", name);
        const size_t length = strlen(name), size = length + 1 + f->size;
        char *bytes = malloc(size + 1);
        if (!bytes)
            return no_memory();
        memcpy(bytes, name, length);
        bytes[length] = '=';
        memcpy(bytes + length + 1, f->bytes, f->size + 1);
        free(f->bytes);
        f->bytes = bytes;
        f->size = size;
    }
    return ZN_OK;
}

static zn_status add_object(sv_form *form, const zn_json_node *root)
{
    if (root->kind != ZN_JSON_OBJECT)
        return ZN_FAIL(ZN_EINVALID, "the request must be a JSON object");
    ZN_JSON_EACH(key, root)
    {
        const char *name = zn_json_string(key);
        if (name && !strcmp(name, "options"))
            ZN_TRY(add_options(form, key + 1));
        else if (name && !strcmp(name, "settings") && key[1].kind == ZN_JSON_OBJECT)
            ZN_TRY(add_settings(form, key + 1));
        else if (name)
            ZN_TRY(add_member(form, name, key + 1));
    }
    return ZN_OK;
}

/* options: the text is that of the field "options" alone. */
static zn_status parse_json(const char *body, size_t size, sv_form *out, int options)
{
    zn_json doc;
    ZN_TRY(zn_json_parse(&doc, body, size, options ? "options" : "the request"));
    const zn_status status = options ? add_options(out, doc.root) : add_object(out, doc.root);
    zn_json_free(&doc);
    return status;
}

/* ---- multipart/form-data (RFC 7578) ---- */

static const char *find(const char *bytes, size_t size, const char *word, size_t length)
{
    for (const char *at = bytes, *end = bytes + size; length && (size_t)(end - at) >= length; at++) {
        at = memchr(at, word[0], (size_t)(end - at) - length + 1);
        if (!at)
            return NULL;
        if (!memcmp(at, word, length))
            return at;
    }
    return NULL;
}

/* The value of NAME="value" in a header line; NULL: there is none. */
static const char *attribute(const char *line, size_t size, const char *name, size_t *length)
{
    char key[32];
    const size_t n = (size_t)snprintf(key, sizeof key, "%s=\"", name);
    for (const char *at = line; (at = find(at, size - (size_t)(at - line), key, n)) != NULL; at += n) {
        if (at == line || !strchr(" ;\t", at[-1]))
            continue;
        const char *end = memchr(at + n, '"', size - (size_t)(at + n - line));
        if (!end)
            return NULL;
        *length = (size_t)(end - (at + n));
        return at + n;
    }
    return NULL;
}

static const char *disposition(const char *head, size_t size, size_t *length)
{
    static const char name[] = "content-disposition:";
    for (const char *line = head, *end = head + size; line < end;) {
        const char *stop = find(line, (size_t)(end - line), "\r\n", 2);
        stop = stop ? stop : end;
        if ((size_t)(stop - line) > sizeof name && !strncasecmp(line, name, sizeof name - 1)) {
            *length = (size_t)(stop - line);
            return line;
        }
        line = stop + 2;
    }
    return NULL;
}

static zn_status add_part(sv_form *form, const char *head, size_t head_size, const char *bytes, size_t size)
{
    size_t length = 0, name_size = 0, file_size = 0;
    const char *line = disposition(head, head_size, &length);
    const char *name = line ? attribute(line, length, "name", &name_size) : NULL;
    const char *file = line ? attribute(line, length, "filename", &file_size) : NULL;
    if (!name || !name_size || memchr(name, 0, name_size))
        return ZN_FAIL(ZN_EINVALID, "a part of the multipart request has no name");
    if (name_size == 7 && !memcmp(name, "options", 7))
        return parse_json(bytes, size, form, 1);
    sv_field *f = sv_form_add(form, name, name_size, bytes, size);
    if (!f)
        return no_memory();
    f->binary = file != NULL;
    if (file && file_size)
        f->filename = plain_name(file, file_size);
    return ZN_OK;
}

zn_status sv_multipart_parse(const char *boundary, const char *body, size_t size, sv_form *out)
{
    char mark[80];
    const size_t n = (size_t)snprintf(mark, sizeof mark, "\r\n--%s", boundary);
    if (n < 5 || n >= sizeof mark)
        return ZN_FAIL(ZN_EINVALID, "the boundary of the multipart request is missing or too long");
    const char *end = body + size;
    if (size < n - 2 || memcmp(body, mark + 2, n - 2))
        return ZN_FAIL(ZN_EINVALID, "the multipart request does not begin with its boundary");
    for (const char *at = body + n - 2;;) {
        if (end - at >= 2 && !memcmp(at, "--", 2))
            return ZN_OK;
        if (end - at < 2 || memcmp(at, "\r\n", 2))
            return ZN_FAIL(ZN_EINVALID, "the multipart request is damaged after a boundary");
        const char *blank = find(at, (size_t)(end - at), "\r\n\r\n", 4);
        const char *stop = blank ? find(blank + 2, (size_t)(end - blank) - 2, mark, n) : NULL;
        if (!stop)
            return ZN_FAIL(ZN_EINVALID, "the multipart request ends within a part");
        const char *bytes = blank + 4 < stop ? blank + 4 : stop; /* an empty part shares its line end with the mark */
        ZN_TRY(add_part(out, at + 2, (size_t)(blank - at), bytes, (size_t)(stop - bytes)));
        at = stop + n;
    }
}

static zn_status parse_multipart(const char *type, const char *body, size_t size, sv_form *out)
{
    const char *at = strstr(type, "boundary=");
    char boundary[80] = "";
    if (at) {
        at += strlen("boundary=");
        const int quoted = *at == '"';
        snprintf(boundary, sizeof boundary, "%.*s", (int)strcspn(at + quoted, quoted ? "\"" : "; \t"), at + quoted);
    }
    return sv_multipart_parse(boundary, body, size, out);
}

zn_status sv_form_parse(const char *type, const char *body, size_t size, sv_form *out)
{
    *out = (sv_form){ 0 };
    if (type && !strncasecmp(type, "multipart/form-data", 19))
        return parse_multipart(type, body, size, out);
    if (!type || strstr(type, "json") || !strncasecmp(type, "text/plain", 10))
        return parse_json(body, size, out, 0);
    return ZN_FAIL(ZN_EINVALID, "the request is %s; send application/json or multipart/form-data", type);
}
