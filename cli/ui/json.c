/* A small JSON writer. The object is built in memory and printed once, so a failure never leaves half an object on
 * stdout. */
#include "ui/json.h"

#include "files/standard.h"
#include "ui/report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put(json *j, const char *bytes, size_t size)
{
    if (j->length + size > j->capacity) {
        j->capacity = 2 * (j->length + size) + 256;
        j->text = must_alloc(j->text, j->capacity);
    }
    memcpy(j->text + j->length, bytes, size);
    j->length += size;
}

static void put_text(json *j, const char *text) { put(j, text, strlen(text)); }

/* Length of the UTF-8 character at s, or 0 if it is not valid: overlong forms, surrogates and stray bytes are rejected.
 */
static int utf8_length(const unsigned char *s)
{
    const int n = s[0] < 0x80                   ? 1
                  : s[0] >= 0xC2 && s[0] < 0xE0 ? 2
                  : s[0] >= 0xE0 && s[0] < 0xF0 ? 3
                  : s[0] >= 0xF0 && s[0] < 0xF5 ? 4
                                                : 0;
    for (int i = 1; i < n; i++)
        if ((s[i] & 0xC0) != 0x80)
            return 0;
    if ((s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xED && s[1] > 0x9F) || (s[0] == 0xF0 && s[1] < 0x90) ||
        (s[0] == 0xF4 && s[1] > 0x8F))
        return 0;
    return n;
}

static void put_string(json *j, const char *text)
{
    const size_t capacity = 2 * strlen(text) + 1;
    char *named = must_alloc(NULL, capacity);
    strcpy(named, text);
    name_kept_files(named, capacity);
    put(j, "\"", 1);
    for (const unsigned char *s = (const unsigned char *)named; *s;) {
        const int n = utf8_length(s);
        char escape[8];
        if (n == 0)
            put_text(j, "\xEF\xBF\xBD");
        else if (*s == '"' || *s == '\\')
            put(j, escape, (size_t)snprintf(escape, sizeof escape, "\\%c", *s));
        else if (*s < 32)
            put(j, escape, (size_t)snprintf(escape, sizeof escape, "\\u%04x", *s));
        else
            put(j, (const char *)s, (size_t)n);
        s += n ? n : 1;
    }
    put(j, "\"", 1);
    free(named);
}

/* Writes what precedes every value: comma, key and colon. */
static void begin(json *j, const char *key)
{
    if (j->comma)
        put_text(j, ", ");
    j->comma = 1;
    if (key) {
        put_string(j, key);
        put_text(j, ": ");
    }
}

void json_open(json *j, const char *key, char bracket)
{
    begin(j, key);
    put(j, &bracket, 1);
    j->comma = 0;
}

void json_close(json *j, char bracket)
{
    put(j, &bracket, 1);
    j->comma = 1;
}

void json_text(json *j, const char *key, const char *value)
{
    begin(j, key);
    put_string(j, value);
}

void json_integer(json *j, const char *key, int64_t value)
{
    char number[32];
    begin(j, key);
    put(j, number, (size_t)snprintf(number, sizeof number, "%lld", (long long)value));
}

void json_unsigned(json *j, const char *key, uint64_t value)
{
    char number[32];
    begin(j, key);
    put(j, number, (size_t)snprintf(number, sizeof number, "%llu", (unsigned long long)value));
}

void json_real(json *j, const char *key, double value)
{
    char number[32];
    if (!isfinite(value)) {
        json_null(j, key);
        return;
    }
    begin(j, key);
    put(j, number, (size_t)snprintf(number, sizeof number, "%.8g", value));
}

void json_bool(json *j, const char *key, int value)
{
    begin(j, key);
    put_text(j, value ? "true" : "false");
}

void json_null(json *j, const char *key)
{
    begin(j, key);
    put_text(j, "null");
}

void json_raw(json *j, const char *text, size_t length)
{
    begin(j, NULL);
    put(j, text, length);
}

void json_print(json *j)
{
    put(j, "\n", 1);
    say_bytes(j->text, j->length);
    free(j->text);
    *j = (json){ 0 };
}
