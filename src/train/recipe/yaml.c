/* A line at a time, each with a reader that goes through it from left to right. */
#include "train/recipe/yaml.h"

#include "base/fail.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 1024, WHERE = 256, KEY = 64 };

typedef struct reader {
    const char *line, *at, *where;
    char section[KEY]; /* the mapping that indented lines belong to, or "" */
    zn_yaml_fn set;
    void *user;
} reader;

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

static void skip_blanks(reader *r)
{
    while (is_blank(*r->at))
        r->at++;
}

/* Nothing or a comment up to the end of the line. */
static bool is_over(const reader *r) { return !*r->at || (*r->at == '#' && (r->at == r->line || is_blank(r->at[-1]))); }

static bool ends_plain(const reader *r, bool in_braces)
{
    return is_over(r) || (in_braces && (*r->at == ',' || *r->at == '}'));
}

/* Up to a comment, or what ends a value inside braces; blanks at the end do not count. */
static void read_plain(reader *r, bool in_braces, char out[LINE])
{
    const char *first = r->at, *end = first;
    for (; !ends_plain(r, in_braces); r->at++)
        if (!is_blank(*r->at))
            end = r->at + 1;
    memcpy(out, first, (size_t)(end - first));
    out[end - first] = 0;
}

static zn_status read_quoted(reader *r, char out[LINE])
{
    const char quote = *r->at++;
    size_t n = 0;
    for (; *r->at; r->at++) {
        if (*r->at == quote && !(quote == '\'' && r->at[1] == quote)) {
            r->at++;
            out[n] = 0;
            return ZN_OK;
        }
        const bool escapes = *r->at == '\\' && quote == '"';
        if (escapes && r->at[1] != '"' && r->at[1] != '\\')
            return ZN_FAIL(ZN_EFORMAT, "%s: in quotes a backslash may only precede a quote or another backslash",
                           r->where);
        r->at += escapes || *r->at == quote; /* the next one is meant */
        out[n++] = *r->at;
    }
    return ZN_FAIL(ZN_EFORMAT, "%s: the quote is not closed", r->where);
}

/* A scalar and the blanks around it. */
static zn_status read_value(reader *r, bool in_braces, char out[LINE])
{
    skip_blanks(r);
    if (*r->at != '"' && *r->at != '\'') {
        read_plain(r, in_braces, out);
        return ZN_OK;
    }
    ZN_TRY(read_quoted(r, out));
    skip_blanks(r);
    if (!ends_plain(r, in_braces))
        return ZN_FAIL(ZN_EFORMAT, "%s: '%.60s' follows the closing quote", r->where, r->at);
    return ZN_OK;
}

static zn_status read_quoted_key(reader *r, char out[KEY])
{
    char key[LINE];
    ZN_TRY(read_quoted(r, key));
    skip_blanks(r);
    if (*r->at != ':')
        return ZN_FAIL(ZN_EFORMAT, "%s: '%.60s' is not of the form key: value", r->where, key);
    snprintf(out, KEY, "%.*s", KEY - 1, key);
    r->at++;
    return ZN_OK;
}

static zn_status read_key(reader *r, bool in_braces, char out[KEY])
{
    if (*r->at == '"' || *r->at == '\'')
        return read_quoted_key(r, out);
    const char *first = r->at, *end = first;
    for (; *r->at != ':' && !ends_plain(r, in_braces); r->at++)
        if (!is_blank(*r->at))
            end = r->at + 1;
    if (*r->at != ':')
        return ZN_FAIL(ZN_EFORMAT, "%s: '%.*s' is not of the form key: value", r->where,
                       end - first < 60 ? (int)(end - first) : 60, first);
    snprintf(out, KEY, "%.*s", (int)(end - first), first);
    r->at++;
    return ZN_OK;
}

static zn_status set_in(const reader *r, const char *section, const char *key, const char *value)
{
    char name[2 * KEY];
    snprintf(name, sizeof name, "%s%s%s", section, section[0] ? "." : "", key);
    return r->set(r->user, name, value, r->where);
}

/* {key: value, key: value} */
static zn_status read_braces(reader *r, const char *section)
{
    char key[KEY], value[LINE];
    do {
        r->at++;
        skip_blanks(r);
        if (*r->at == '}' || *r->at == ',')
            continue;
        if (is_over(r))
            break;
        ZN_TRY(read_key(r, true, key));
        ZN_TRY(read_value(r, true, value));
        ZN_TRY(set_in(r, section, key, value));
    } while (*r->at == ',');
    if (*r->at++ != '}')
        return ZN_FAIL(ZN_EFORMAT, "%s: the brace after '%.60s:' is not closed", r->where, section);
    skip_blanks(r);
    return is_over(r) ? ZN_OK : ZN_FAIL(ZN_EFORMAT, "%s: '%.60s' follows the closing brace", r->where, r->at);
}

static zn_status read_line(reader *r)
{
    char key[KEY], value[LINE];
    skip_blanks(r);
    const bool indented = r->at > r->line;
    if (is_over(r) || (strncmp(r->at, "---", 3) == 0 && !r->at[3 + strspn(r->at + 3, " \t\r")]))
        return ZN_OK;
    ZN_TRY(read_key(r, false, key));
    if (!indented)
        r->section[0] = 0;
    skip_blanks(r);
    if (is_over(r) && !indented) {
        strcpy(r->section, key);
        return r->set(r->user, key, NULL, r->where);
    }
    if (*r->at == '{' && !indented)
        return read_braces(r, key);
    if (indented && !r->section[0])
        return ZN_FAIL(ZN_EFORMAT, "%s: unexpected indentation before '%.60s'", r->where, key);
    ZN_TRY(read_value(r, false, value));
    return set_in(r, r->section, key, value);
}

zn_status zn_yaml_read(const char *text, size_t size, const char *name, zn_yaml_fn set, void *user)
{
    char line[LINE], where[WHERE];
    reader r = { .line = line, .where = where, .set = set, .user = user };
    int number = 0;
    const size_t mark = size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0; /* some editors begin with one */
    for (size_t at = mark; at < size;) {
        const char *end = memchr(text + at, '\n', size - at);
        const size_t length = end ? (size_t)(end - text) - at : size - at;
        snprintf(where, sizeof where, "%.200s line %d", name, ++number);
        if (length >= sizeof line || memchr(text + at, 0, length))
            return ZN_FAIL(ZN_EFORMAT, "%s is not a line of a recipe", where);
        memcpy(line, text + at, length);
        line[length] = 0;
        r.at = line;
        ZN_TRY(read_line(&r));
        at += length + 1;
    }
    return ZN_OK;
}

/* Letters, digits and what names are made of; other YAML readers see a plain scalar too. Nothing at all would be no
 * value. */
static bool is_plain(const char *text)
{
    if (!*text)
        return false;
    for (const char *c = text; *c; c++)
        if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') ||
              (unsigned char)*c >= 128 || strchr("._/+-", *c) || (*c == ':' && c[1])))
            return false;
    return true;
}

int zn_yaml_scalar(const char *text, char *out, size_t size)
{
    if (is_plain(text))
        return snprintf(out, size, "%s", text);
    char quoted[LINE];
    size_t n = 0;
    for (const char *c = text; *c && n < sizeof quoted - 2; c++) {
        if (*c == '"' || *c == '\\')
            quoted[n++] = '\\';
        quoted[n++] = *c;
    }
    quoted[n] = 0;
    return snprintf(out, size, "\"%s\"", quoted);
}

int zn_yaml_number(double v, char *out, size_t size)
{
    char plain[40];
    snprintf(plain, sizeof plain, "%.15g", v);
    if (strtod(plain, NULL) != v)
        snprintf(plain, sizeof plain, "%.17g", v);
    const int digits = (int)strcspn(plain, "e");
    const bool bare = plain[digits] && !strchr(plain, '.');
    return snprintf(out, size, "%.*s%s%s", digits, plain, bare ? ".0" : "", plain + digits);
}

bool zn_yaml_can_hold(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' && *text != '\t')
            return false;
    return true;
}
