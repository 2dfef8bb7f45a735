/* Looks up values in a JSON document, checks UTF-8 and writes JSON text. */
#include "base/alloc.h"
#include "base/json.h"
#include "base/numbers.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const zn_json_node *zn_json_first(const zn_json_node *container)
{
    const int full =
        container && (container->kind == ZN_JSON_ARRAY || container->kind == ZN_JSON_OBJECT) && container->length > 0;
    return full ? container + 1 : NULL;
}

const zn_json_node *zn_json_next(const zn_json_node *container, const zn_json_node *child)
{
    const zn_json_node *value = child + (container->kind == ZN_JSON_OBJECT);
    const zn_json_node *next = value + value->span;
    return next < container + container->span ? next : NULL;
}

const zn_json_node *zn_json_get(const zn_json_node *object, const char *key)
{
    const size_t length = strlen(key);
    if (!object || object->kind != ZN_JSON_OBJECT)
        return NULL;
    ZN_JSON_EACH(k, object)
    if (k->length == length && memcmp(k->value.text, key, length) == 0)
        return k + 1;
    return NULL;
}

const char *zn_json_string(const zn_json_node *node)
{
    if (!node || node->kind != ZN_JSON_STRING || memchr(node->value.text, 0, node->length))
        return NULL;
    return node->value.text;
}

bool zn_json_u64(const zn_json_node *node, uint64_t *value)
{
    if (!node || node->kind != ZN_JSON_NUMBER || !node->integer || (node->negative && node->value.magnitude))
        return false;
    *value = node->value.magnitude;
    return true;
}

bool zn_json_i64(const zn_json_node *node, int64_t *value)
{
    if (!node || node->kind != ZN_JSON_NUMBER || !node->integer)
        return false;
    const uint64_t m = node->value.magnitude;
    if (m > (uint64_t)INT64_MAX + node->negative)
        return false;
    *value = !node->negative ? (int64_t)m : m ? -(int64_t)(m - 1) - 1 : 0;
    return true;
}

bool zn_json_double(const zn_json_node *node, double *value)
{
    if (!node || node->kind != ZN_JSON_NUMBER)
        return false;
    *value = !node->integer   ? node->value.real
             : node->negative ? -(double)node->value.magnitude
                              : (double)node->value.magnitude;
    return true;
}

void zn_json_update_int(const zn_json_node *object, const char *key, int *value)
{
    int64_t number;
    if (zn_json_i64(zn_json_get(object, key), &number) && number > 0 && number < 1 << 30)
        *value = (int)number;
}

void zn_json_update_double(const zn_json_node *object, const char *key, double *value)
{
    double number;
    if (zn_json_double(zn_json_get(object, key), &number) && number > 0)
        *value = number;
}

int zn_utf8_sequence(const uint8_t *p, size_t n)
{
    if (n == 0)
        return 0;
    const uint8_t c = p[0];
    if (c < 0x80)
        return 1;
    const int bytes = c >= 0xc2 && c <= 0xdf ? 2 : c >= 0xe0 && c <= 0xef ? 3 : c >= 0xf0 && c <= 0xf4 ? 4 : 0;
    if (!bytes || (size_t)bytes > n)
        return 0;
    for (int i = 1; i < bytes; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    const int overlong = (c == 0xe0 && p[1] < 0xa0) || (c == 0xf0 && p[1] < 0x90);
    const int surrogate = c == 0xed && p[1] >= 0xa0, too_large = c == 0xf4 && p[1] >= 0x90;
    return overlong || surrogate || too_large ? 0 : bytes;
}

bool zn_utf8_valid(const void *text, size_t size)
{
    const uint8_t *p = text;
    for (size_t i = 0; i < size;) {
        const int n = zn_utf8_sequence(p + i, size - i);
        if (!n)
            return false;
        i += (size_t)n;
    }
    return true;
}

void zn_json_out_raw(zn_json_out *out, const char *text, size_t size)
{
    out->failed = out->failed || !ZN_GROW(out->bytes, out->capacity, out->size + size);
    if (out->failed)
        return;
    memcpy(out->bytes + out->size, text, size);
    out->size += size;
}

void zn_json_out_format(zn_json_out *out, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    const locale_t old = zn_numbers_begin();
    const int n = vsnprintf(text, sizeof text, format, args);
    zn_numbers_end(old);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof text)
        out->failed = true;
    else
        zn_json_out_raw(out, text, (size_t)n);
}

void zn_json_out_string(zn_json_out *out, const char *text)
{
    const size_t size = strlen(text);
    zn_json_out_raw(out, "\"", 1);
    for (size_t i = 0; i < size;) {
        const unsigned char c = (unsigned char)text[i];
        const int n = zn_utf8_sequence((const uint8_t *)text + i, size - i);
        if (c == '"' || c == '\\')
            zn_json_out_format(out, "\\%c", c);
        else if (c < 0x20 || n == 0)
            zn_json_out_format(out, "\\u%04x", n == 0 ? 0xfffd : c);
        else
            zn_json_out_raw(out, text + i, (size_t)n);
        i += n ? (size_t)n : 1;
    }
    zn_json_out_raw(out, "\"", 1);
}

static void out_number(zn_json_out *out, const zn_json_node *n)
{
    if (n->integer)
        zn_json_out_format(out, "%s%llu", n->negative ? "-" : "", (unsigned long long)n->value.magnitude);
    else if (isfinite(n->value.real))
        zn_json_out_format(out, "%.17g", n->value.real);
    else /* larger than a double can be */
        zn_json_out_format(out, "%s1e999", n->negative ? "-" : "");
}

static void out_children(zn_json_out *out, const zn_json_node *n)
{
    const bool pairs = n->kind == ZN_JSON_OBJECT;
    zn_json_out_raw(out, pairs ? "{" : "[", 1);
    ZN_JSON_EACH(child, n)
    {
        if (child != n + 1)
            zn_json_out_raw(out, ",", 1);
        zn_json_out_node(out, child);
        if (pairs) {
            zn_json_out_raw(out, ":", 1);
            zn_json_out_node(out, child + 1);
        }
    }
    zn_json_out_raw(out, pairs ? "}" : "]", 1);
}

void zn_json_out_node(zn_json_out *out, const zn_json_node *node)
{
    if (node->kind == ZN_JSON_ARRAY || node->kind == ZN_JSON_OBJECT)
        out_children(out, node);
    else if (node->kind == ZN_JSON_STRING)
        zn_json_out_string(out, node->value.text);
    else if (node->kind == ZN_JSON_NUMBER)
        out_number(out, node);
    else
        zn_json_out_format(out, "%s", node->kind == ZN_JSON_NULL ? "null" : node->value.magnitude ? "true" : "false");
}

void zn_json_out_free(zn_json_out *out)
{
    zn_free(out->bytes);
    *out = (zn_json_out){ 0 };
}
