/* .safetensors files that lie. */
#include "broken.h"

#include <stdlib.h>
#include <string.h>

#define T(fields)      "{\"a\":{" fields "}}"
#define F32            "\"dtype\":\"F32\","
#define AT(begin, end) ",\"data_offsets\":[" #begin "," #end "]"

static bytes empty(void) { return (bytes){ .data = calloc(1, 1) }; }

static bytes lone(const char *text)
{
    bytes b = { 0 };
    bytes_text(&b, text);
    return b;
}

static bytes git_lfs(void) { return lone("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n"); }
static bytes web_page(void) { return lone("<!DOCTYPE html><html><body>404</body></html>"); }
static bytes text_file(void) { return lone("these are not the weights you are looking for"); }

static bytes seven(void)
{
    bytes b = { 0 };
    bytes_number(&b, 2, 7);
    return b;
}

static bytes header_length(uint64_t length)
{
    bytes b = make_safetensors("{}", 0);
    for (int i = 0; i < 8; i++)
        b.data[i] = (uint8_t)(length >> 8 * i);
    return b;
}

static bytes header_too_long(void) { return header_length(3); }
static bytes header_maximal(void) { return header_length(UINT64_MAX); }
static bytes header_wraps(void) { return header_length(UINT64_MAX - 7); }
static bytes header_short(void) { return header_length(1); }

/* One byte more than the limit, all of it there. */
static bytes header_over_limit(void)
{
    const size_t length = 100 * 1000 * 1000 + 1;
    bytes b = { malloc(8 + length), 8 + length, 8 + length };
    memset(b.data, ' ', b.size);
    for (int i = 0; i < 8; i++)
        b.data[i] = (uint8_t)(length >> 8 * i);
    b.data[8] = '{';
    b.data[b.size - 1] = '}';
    return b;
}

static bytes deep_nesting(void)
{
    char header[512] = "{\"a\":";
    memset(header + 5, '[', 400);
    return make_safetensors(header, 0);
}

static bytes nul_in_header(void)
{
    bytes b = make_safetensors("{} ", 0);
    b.data[10] = 0;
    return b;
}

static bytes gap_of_zeros(void)
{
    bytes b = make_safetensors(T(F32 "\"shape\":[1]" AT(64, 68)), 68);
    memset(b.data + b.size - 68, 0, 68);
    return b;
}

const broken_case broken_safetensors[] = {
    { "empty.safetensors", ZN_EFORMAT, "empty", .make = empty },
    { "git-lfs.safetensors", ZN_EFORMAT, "LFS", .make = git_lfs },
    { "web-page.safetensors", ZN_EFORMAT, "web page", .make = web_page },
    { "text.safetensors", ZN_EFORMAT, "neither", .make = text_file },
    { "seven-bytes.safetensors", ZN_EFORMAT, "neither", .make = seven },
    { "header-too-long.safetensors", ZN_EFORMAT, "does not fit", .make = header_too_long },
    { "header-maximal.safetensors", ZN_EFORMAT, "does not fit", .make = header_maximal },
    { "header-wraps.safetensors", ZN_EFORMAT, "does not fit", .make = header_wraps },
    { "header-short.safetensors", ZN_EFORMAT, "JSON", .make = header_short },
    { "header-over-limit.safetensors", ZN_ELIMIT, "limit", .make = header_over_limit },
    { "deep-nesting.safetensors", ZN_EFORMAT, "nesting", .make = deep_nesting },
    { "nul-in-header.safetensors", ZN_EFORMAT, "byte 2", .make = nul_in_header },
    { "gap-of-zeros.safetensors", ZN_EFORMAT, "gap", .make = gap_of_zeros },
    { "text-after.safetensors", ZN_EFORMAT, "after", .header = "{}{}" },
    { "no-comma.safetensors", ZN_EFORMAT, "','", .header = "{\"a\":{} \"b\":{}}" },
    { "bad-escape.safetensors", ZN_EFORMAT, "escape", .header = "{\"\\x\":{}}" },
    { "lone-surrogate.safetensors", ZN_EFORMAT, "surrogate", .header = "{\"\\ud800\":{}}" },
    { "not-utf8.safetensors", ZN_EFORMAT, "UTF-8", .header = "{\"\xff\":{}}" },
    { "overlong-utf8.safetensors", ZN_EFORMAT, "UTF-8", .header = "{\"\xc0\xaf\":{}}" },
    { "nul-in-name.safetensors", ZN_EFORMAT, "NUL", .header = "{\"a\\u0000b\":{}}" },
    { "entry-no-object.safetensors", ZN_EFORMAT, "not an object", .header = "{\"a\":[1]}" },
    { "no-dtype.safetensors", ZN_EFORMAT, "no field dtype", .header = T("\"shape\":[1]" AT(0, 4)), .size = 4 },
    { "no-shape.safetensors", ZN_EFORMAT, "no field shape", .header = T("\"dtype\":\"F32\"" AT(0, 4)), .size = 4 },
    { "no-offsets.safetensors", ZN_EFORMAT, "data_offsets", .header = T(F32 "\"shape\":[1]"), .size = 4 },
    { "two-shapes.safetensors", ZN_EFORMAT, "two fields", .header = T(F32 "\"shape\":[1],\"shape\":[2]" AT(0, 4)),
      .size = 4 },
    { "dtype-number.safetensors", ZN_EFORMAT, "dtype", .header = T("\"dtype\":1,\"shape\":[1]" AT(0, 4)), .size = 4 },
    { "dtype-unknown.safetensors", ZN_EUNSUPPORTED, "F4", .header = T("\"dtype\":\"F4\",\"shape\":[1]" AT(0, 4)),
      .size = 4 },
    { "shape-number.safetensors", ZN_EFORMAT, "shape", .header = T(F32 "\"shape\":1" AT(0, 4)), .size = 4 },
    { "shape-negative.safetensors", ZN_EFORMAT, "side 0", .header = T(F32 "\"shape\":[-1]" AT(0, 4)), .size = 4 },
    { "shape-fraction.safetensors", ZN_EFORMAT, "side 1", .header = T(F32 "\"shape\":[1,1.5]" AT(0, 4)), .size = 4 },
    { "shape-huge.safetensors", ZN_EFORMAT, "side 0", .header = T(F32 "\"shape\":[99999999999999999999]" AT(0, 4)),
      .size = 4 },
    { "shape-overflow.safetensors", ZN_EFORMAT, "overflows",
      .header = T(F32 "\"shape\":[4294967296,4294967296]" AT(0, 4)), .size = 4 },
    { "bytes-overflow.safetensors", ZN_EFORMAT, "overflows",
      .header = T("\"dtype\":\"F64\",\"shape\":[4611686018427387904,1]" AT(0, 0)) },
    { "zero-hides-overflow.safetensors", ZN_EFORMAT, "overflows",
      .header = T(F32 "\"shape\":[0,4294967296,4294967296]" AT(0, 0)) },
    { "rank-nine.safetensors", ZN_EUNSUPPORTED, "rank 9", .header = T(F32 "\"shape\":[1,1,1,1,1,1,1,1,1]" AT(0, 4)),
      .size = 4 },
    { "size-short.safetensors", ZN_EFORMAT, "need 8", .header = T(F32 "\"shape\":[2]" AT(0, 4)), .size = 4 },
    { "size-long.safetensors", ZN_EFORMAT, "need 0", .header = T(F32 "\"shape\":[0]" AT(0, 4)), .size = 4 },
    { "offsets-past-end.safetensors", ZN_EFORMAT, "outside", .header = T(F32 "\"shape\":[1]" AT(0, 4)), .size = 3 },
    { "offsets-backwards.safetensors", ZN_EFORMAT, "outside", .header = T(F32 "\"shape\":[1]" AT(4, 0)), .size = 4 },
    { "offsets-negative.safetensors", ZN_EFORMAT, "two sizes", .header = T(F32 "\"shape\":[1]" AT(-4, 0)), .size = 4 },
    { "offsets-wrap.safetensors", ZN_EFORMAT, "outside",
      .header = T(F32 "\"shape\":[1]" AT(18446744073709551612, 18446744073709551615)), .size = 4 },
    { "offsets-three.safetensors", ZN_EFORMAT, "two sizes", .header = T(F32 "\"shape\":[1],\"data_offsets\":[0,4,8]"),
      .size = 4 },
    { "gap-between.safetensors", ZN_EFORMAT, "gap", .header = T(F32 "\"shape\":[1]" AT(4, 8)), .size = 8 },
    { "gap-at-end.safetensors", ZN_EFORMAT, "gap", .header = T(F32 "\"shape\":[1]" AT(0, 4)), .size = 8 },
    { "overlap.safetensors", ZN_EFORMAT, "overlap",
      .header = "{\"a\":{" F32 "\"shape\":[2]" AT(0, 8) "},\"b\":{" F32 "\"shape\":[2]" AT(4, 12) "}}", .size = 12 },
    { "shared.safetensors", ZN_EFORMAT, "overlap",
      .header = "{\"a\":{" F32 "\"shape\":[2]" AT(0, 8) "},\"b\":{" F32 "\"shape\":[2]" AT(0, 8) "}}", .size = 8 },
    { "same-name.safetensors", ZN_EFORMAT, "named 'a'",
      .header = "{\"a\":{" F32 "\"shape\":[1]" AT(0, 4) "},\"\\u0061\":{" F32 "\"shape\":[1]" AT(4, 8) "}}",
      .size = 8 },
    { "metadata-list.safetensors", ZN_EFORMAT, "__metadata__", .header = "{\"__metadata__\":[]}" },
    { "metadata-twice.safetensors", ZN_EFORMAT, "__metadata__", .header = "{\"__metadata__\":{},\"__metadata__\":{}}" },
    { "metadata-number.safetensors", ZN_EFORMAT, "'k'", .header = "{\"__metadata__\":{\"k\":1}}" },
    { 0 },
};
