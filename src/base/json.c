/* The JSON reader: recursive descent that fills a node array whose size is known before parsing starts. Every value or
 * key follows the start, a bracket, a comma or a colon, so their number is an upper bound for the nodes. A decoded
 * string is shorter than its source, so one buffer of the input's size holds all strings. Any input takes two
 * allocations. */
#include "base/json.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/numbers.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 64, MAX_NUMBER = 128 };

typedef struct parser {
    const uint8_t *bytes;
    size_t at, size;
    const char *name;
    zn_json_node *nodes;
    uint32_t count;
    char *text; /* next free byte */
} parser;

static zn_status broken(const parser *p, const char *what)
{
    return ZN_FAIL(ZN_EFORMAT, "%s: JSON: %s at byte %zu", p->name, what, p->at);
}

static void skip_space(parser *p)
{
    while (p->at < p->size &&
           (p->bytes[p->at] == ' ' || p->bytes[p->at] == '\n' || p->bytes[p->at] == '\r' || p->bytes[p->at] == '\t'))
        p->at++;
}

static int peek(const parser *p) { return p->at < p->size ? p->bytes[p->at] : -1; }

static zn_json_node *new_node(parser *p, zn_json_kind kind)
{
    zn_json_node *n = &p->nodes[p->count++];
    *n = (zn_json_node){ .kind = (uint8_t)kind, .span = 1 };
    return n;
}

static zn_status parse_hex4(parser *p, uint32_t *unit)
{
    *unit = 0;
    if (p->size - p->at < 4)
        return broken(p, "cut \\u escape");
    for (int i = 0; i < 4; i++, p->at++) {
        const int c = p->bytes[p->at];
        const int digit = c >= '0' && c <= '9'   ? c - '0'
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                 : -1;
        if (digit < 0)
            return broken(p, "bad \\u escape");
        *unit = *unit << 4 | (uint32_t)digit;
    }
    return ZN_OK;
}

static void put_utf8(parser *p, uint32_t c)
{
    static const uint8_t lead[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
    const int bytes = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    if (bytes == 1) {
        *p->text++ = (char)c;
        return;
    }
    *p->text++ = (char)(lead[bytes] | c >> 6 * (bytes - 1));
    for (int i = bytes - 2; i >= 0; i--)
        *p->text++ = (char)(0x80 | (c >> 6 * i & 0x3f));
}

static zn_status parse_escape(parser *p)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const int c = peek(p);
    const char *simple = c > 0 ? strchr(from, c) : NULL;
    if (simple) {
        *p->text++ = to[simple - from];
        p->at++;
        return ZN_OK;
    }
    if (c != 'u')
        return broken(p, "unknown escape");
    p->at++;
    uint32_t unit, low;
    ZN_TRY(parse_hex4(p, &unit));
    if (unit >= 0xd800 && unit < 0xe000) {
        if (unit >= 0xdc00 || p->size - p->at < 6 || p->bytes[p->at] != '\\' || p->bytes[p->at + 1] != 'u')
            return broken(p, "lone surrogate");
        p->at += 2;
        ZN_TRY(parse_hex4(p, &low));
        if (low < 0xdc00 || low >= 0xe000)
            return broken(p, "lone surrogate");
        unit = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
    }
    put_utf8(p, unit);
    return ZN_OK;
}

static zn_status parse_string(parser *p)
{
    zn_json_node *n = new_node(p, ZN_JSON_STRING);
    char *start = p->text;
    p->at++;
    while (peek(p) != '"') {
        const int c = peek(p);
        if (c < 0)
            return broken(p, "string without end");
        if (c < 0x20)
            return broken(p, "control character in a string");
        if (c == '\\') {
            p->at++;
            ZN_TRY(parse_escape(p));
            continue;
        }
        const int bytes = c < 0x80 ? 1 : zn_utf8_sequence(p->bytes + p->at, p->size - p->at);
        if (!bytes)
            return broken(p, "string that is not UTF-8");
        for (int i = 0; i < bytes; i++)
            *p->text++ = (char)p->bytes[p->at++];
    }
    p->at++;
    n->length = (uint32_t)(p->text - start);
    n->value.text = start;
    *p->text++ = 0;
    return ZN_OK;
}

/* text: at most MAX_NUMBER characters, a valid JSON number. */
static double decode_real(const uint8_t *text, size_t size)
{
    char digits[MAX_NUMBER + 1];
    memcpy(digits, text, size);
    digits[size] = 0;
    return strtod(digits, NULL);
}

static size_t skip_digits(parser *p)
{
    const size_t start = p->at;
    while (peek(p) >= '0' && peek(p) <= '9')
        p->at++;
    return p->at - start;
}

static zn_status parse_number(parser *p)
{
    zn_json_node *n = new_node(p, ZN_JSON_NUMBER);
    const size_t start = p->at;
    n->integer = 1;
    n->negative = peek(p) == '-';
    p->at += n->negative;
    const size_t first = p->at, digits = skip_digits(p);
    if (digits == 0 || (digits > 1 && p->bytes[first] == '0'))
        return broken(p, "bad number");
    for (size_t i = first; i < p->at; i++)
        if (__builtin_mul_overflow(n->value.magnitude, 10, &n->value.magnitude) ||
            __builtin_add_overflow(n->value.magnitude, p->bytes[i] - '0', &n->value.magnitude)) {
            n->integer = 0;
            break;
        }
    if (peek(p) == '.') {
        n->integer = 0;
        p->at++;
        if (skip_digits(p) == 0)
            return broken(p, "bad number");
    }
    if (peek(p) == 'e' || peek(p) == 'E') {
        n->integer = 0;
        p->at++;
        p->at += peek(p) == '+' || peek(p) == '-';
        if (skip_digits(p) == 0)
            return broken(p, "bad number");
    }
    if (p->at - start > MAX_NUMBER)
        return broken(p, "number of more than 128 characters");
    if (!n->integer)
        n->value.real = decode_real(p->bytes + start, p->at - start);
    return ZN_OK;
}

static zn_status parse_word(parser *p)
{
    static const struct {
        const char *word;
        uint8_t kind, value;
    } words[] = { { "null", ZN_JSON_NULL, 0 }, { "true", ZN_JSON_BOOL, 1 }, { "false", ZN_JSON_BOOL, 0 } };
    for (int i = 0; i < 3; i++) {
        const size_t length = strlen(words[i].word);
        if (p->size - p->at >= length && memcmp(p->bytes + p->at, words[i].word, length) == 0) {
            new_node(p, words[i].kind)->value.magnitude = words[i].value;
            p->at += length;
            return ZN_OK;
        }
    }
    return broken(p, p->at == p->size ? "unexpected end" : "unexpected character");
}

static zn_status parse_value(parser *p, int depth);

static zn_status parse_container(parser *p, int depth, int is_object)
{
    const uint32_t self = p->count;
    const int end = is_object ? '}' : ']';
    zn_json_node *n = new_node(p, is_object ? ZN_JSON_OBJECT : ZN_JSON_ARRAY);
    if (depth == MAX_DEPTH)
        return broken(p, "more than 64 levels of nesting");
    p->at++;
    skip_space(p);
    while (peek(p) != end) {
        if (n->length > 0) {
            if (peek(p) != ',')
                return broken(p, is_object ? "no ',' or '}'" : "no ',' or ']'");
            p->at++;
            skip_space(p);
        }
        if (is_object) {
            if (peek(p) != '"')
                return broken(p, "no key");
            ZN_TRY(parse_string(p));
            skip_space(p);
            if (peek(p) != ':')
                return broken(p, "no ':'");
            p->at++;
            skip_space(p);
        }
        ZN_TRY(parse_value(p, depth + 1));
        n->length++;
        skip_space(p);
    }
    p->at++;
    n->span = p->count - self;
    return ZN_OK;
}

static zn_status parse_value(parser *p, int depth)
{
    const int c = peek(p);
    if (c == '{' || c == '[')
        return parse_container(p, depth, c == '{');
    if (c == '"')
        return parse_string(p);
    if (c == '-' || (c >= '0' && c <= '9'))
        return parse_number(p);
    return parse_word(p);
}

static size_t bound_nodes(const uint8_t *bytes, size_t size)
{
    size_t n = 1;
    for (size_t i = 0; i < size; i++)
        n += bytes[i] == ',' || bytes[i] == ':' || bytes[i] == '[' || bytes[i] == '{';
    return n;
}

zn_status zn_json_parse(zn_json *doc, const void *bytes, size_t size, const char *name)
{
    *doc = (zn_json){ 0 };
    if (size > UINT32_MAX / 2)
        return ZN_FAIL(ZN_ELIMIT, "%s: JSON of %zu bytes is too long", name, size);
    const size_t nodes = bound_nodes(bytes, size);
    doc->nodes = zn_alloc(nodes * sizeof *doc->nodes);
    doc->text = doc->nodes ? zn_alloc(size) : NULL;
    if (!doc->text) {
        zn_json_free(doc);
        return ZN_FAIL(ZN_ENOMEM, "out of memory: %zu JSON values of %s", nodes, name);
    }
    parser p = { .bytes = bytes, .size = size, .name = name, .nodes = doc->nodes, .text = doc->text };
    const locale_t old = zn_numbers_begin();
    skip_space(&p);
    zn_status status = parse_value(&p, 0);
    skip_space(&p);
    zn_numbers_end(old);
    if (status == ZN_OK && p.at < size)
        status = broken(&p, "text after the value");
    if (status != ZN_OK)
        zn_json_free(doc);
    doc->root = doc->nodes;
    return status;
}

void zn_json_free(zn_json *doc)
{
    zn_free(doc->nodes);
    zn_free(doc->text);
    *doc = (zn_json){ 0 };
}
