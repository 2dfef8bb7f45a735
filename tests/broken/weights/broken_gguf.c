/* GGUF files that lie. */
#include "../../io/gguf_make.h"
#include "broken.h"

#include <stdlib.h>

static bytes header(uint32_t version, uint64_t tensors, uint64_t keys)
{
    bytes b = { 0 };
    gguf_begin(&b, version, tensors, keys);
    gguf_end(&b, 1, 0);
    return b;
}

static bytes magic_only(void)
{
    bytes b = { 0 };
    bytes_text(&b, "GGUF");
    bytes_trim(&b);
    return b;
}

static bytes version_1(void) { return header(1, 0, 0); }
static bytes version_4(void) { return header(4, 0, 0); }
static bytes big_endian(void) { return header(0x03000000, 0, 0); }
static bytes many_keys(void) { return header(3, 0, UINT64_MAX); }
static bytes many_tensors(void) { return header(3, UINT64_MAX / 24 + 2, 0); }
static bytes one_key_missing(void) { return header(3, 0, 1); }

/* One key with an unsigned value of `width` bytes. */
static bytes key(const char *name, uint32_t type, uint64_t value, int width)
{
    bytes b = { 0 };
    gguf_begin(&b, 3, 0, 1);
    gguf_key(&b, name, type);
    bytes_number(&b, value, width);
    gguf_end(&b, 1, 32);
    return b;
}

static bytes key_type(void) { return key("k", 13, 0, 8); }
static bytes key_type_far(void) { return key("k", UINT32_MAX, 0, 8); }
static bytes key_not_text(void) { return key("\xff", 0, 0, 1); }
static bytes value_long(void) { return key("k", 8, UINT64_MAX, 8); }
static bytes value_nul(void) { return key("k", 8, 1, 8); } /* the byte behind is 0 */
static bytes alignment_zero(void) { return key("general.alignment", 4, 0, 4); }
static bytes alignment_three(void) { return key("general.alignment", 4, 48, 4); }
static bytes alignment_wide(void) { return key("general.alignment", 10, 32, 8); }
static bytes alignment_text(void) { return key("general.alignment", 8, 0, 8); }
static bytes alignment_array(void) { return key("general.alignment", 9, 0, 12); }

static bytes key_length(void)
{
    bytes b = { 0 };
    gguf_begin(&b, 3, 0, 1);
    bytes_number(&b, UINT64_MAX - 3, 8);
    gguf_end(&b, 1, 64);
    return b;
}

static bytes alignment_twice(void)
{
    bytes b = { 0 };
    gguf_begin(&b, 3, 0, 2);
    for (int i = 0; i < 2; i++) {
        gguf_key(&b, "general.alignment", 4);
        bytes_number(&b, 32, 4);
    }
    gguf_end(&b, 1, 0);
    return b;
}

static bytes array(uint32_t type, uint64_t count)
{
    bytes b = { 0 };
    gguf_begin(&b, 3, 0, 1);
    gguf_key(&b, "k", 9);
    bytes_number(&b, type, 4);
    bytes_number(&b, count, 8);
    gguf_end(&b, 1, 32);
    return b;
}

static bytes array_type(void) { return array(13, 0); }
static bytes array_long(void) { return array(10, 5); }
static bytes array_wraps(void) { return array(10, UINT64_MAX / 8 + 2); }
static bytes array_texts(void) { return array(8, 4); }

static bytes array_deep(void)
{
    bytes b = { 0 };
    gguf_begin(&b, 3, 0, 1);
    gguf_key(&b, "k", 9);
    for (int i = 0; i < 100; i++) {
        bytes_number(&b, 9, 4);
        bytes_number(&b, 1, 8);
    }
    gguf_end(&b, 1, 0);
    return b;
}

/* One tensor in a file with 64 bytes of data. */
static bytes matrix(const char *name, uint64_t rows, uint64_t columns, uint32_t type, uint64_t offset)
{
    bytes b = { 0 };
    gguf_begin(&b, 3, 1, 0);
    gguf_matrix(&b, name, rows, columns, type, offset);
    gguf_end(&b, 32, 64);
    return b;
}

static bytes name_not_text(void) { return matrix("a\xc0\xaf", 1, 1, 0, 0); }
static bytes type_removed(void) { return matrix("a", 1, 32, 4, 0); }
static bytes type_far(void) { return matrix("a", 1, 32, UINT32_MAX, 0); }
static bytes side_negative(void) { return matrix("a", UINT64_MAX, 1, 0, 0); }
static bytes shape_overflows(void) { return matrix("a", 1ull << 40, 1ull << 40, 0, 0); }
static bytes bytes_overflow(void) { return matrix("a", 1, 1ull << 62, 28, 0); }
static bytes zero_hides_overflow(void)
{
    bytes b = { 0 };
    gguf_begin(&b, 3, 1, 0);
    gguf_text(&b, "a");
    bytes_number(&b, 3, 4);
    bytes_number(&b, 0, 8);
    bytes_number(&b, 1ull << 40, 8);
    bytes_number(&b, 1ull << 40, 8);
    bytes_number(&b, 0, 4);
    bytes_number(&b, 0, 8);
    gguf_end(&b, 32, 0);
    return b;
}
static bytes half_block(void) { return matrix("a", 2, 16, 2, 0); }
static bytes offset_odd(void) { return matrix("a", 1, 1, 0, 4); }
static bytes offset_wraps(void) { return matrix("a", 1, 8, 0, UINT64_MAX - 31); }
static bytes data_short(void) { return matrix("a", 1, 17, 0, 0); }
static bytes data_behind(void) { return matrix("a", 1, 16, 0, 32); }

static bytes rank_nine(void)
{
    bytes b = { 0 };
    gguf_begin(&b, 3, 1, 0);
    gguf_text(&b, "a");
    bytes_number(&b, 9, 4);
    gguf_end(&b, 32, 128);
    return b;
}

static bytes two(const char *first, const char *second, uint64_t offset)
{
    bytes b = { 0 };
    gguf_begin(&b, 3, 2, 0);
    gguf_matrix(&b, first, 2, 8, 0, 0);
    gguf_matrix(&b, second, 1, 8, 0, offset);
    gguf_end(&b, 32, 96);
    return b;
}

static bytes same_name(void) { return two("a", "a", 64); }
static bytes overlap(void) { return two("a", "b", 32); }

const broken_case broken_gguf[] = {
    { "magic-only.gguf", ZN_EFORMAT, "the version at byte 4", .make = magic_only },
    { "version-1.gguf", ZN_EUNSUPPORTED, "version 1", .make = version_1 },
    { "version-4.gguf", ZN_EUNSUPPORTED, "version 4; 2 and 3", .make = version_4 },
    { "big-endian.gguf", ZN_EUNSUPPORTED, "big-endian", .make = big_endian },
    { "many-keys.gguf", ZN_EFORMAT, "keys do not fit", .make = many_keys },
    { "many-tensors.gguf", ZN_EFORMAT, "tensors do not fit", .make = many_tensors },
    { "one-key-missing.gguf", ZN_EFORMAT, "1 keys do not fit", .make = one_key_missing },
    { "key-length.gguf", ZN_EFORMAT, "a key at byte 32", .make = key_length },
    { "key-type.gguf", ZN_EFORMAT, "type 13", .make = key_type },
    { "key-type-far.gguf", ZN_EFORMAT, "type 4294967295", .make = key_type_far },
    { "key-not-text.gguf", ZN_EFORMAT, "UTF-8", .make = key_not_text },
    { "value-long.gguf", ZN_EFORMAT, "a value at byte", .make = value_long },
    { "value-nul.gguf", ZN_EFORMAT, "NUL", .make = value_nul },
    { "alignment-zero.gguf", ZN_EFORMAT, "power of two", .make = alignment_zero },
    { "alignment-three.gguf", ZN_EFORMAT, "power of two", .make = alignment_three },
    { "alignment-wide.gguf", ZN_EFORMAT, "power of two", .make = alignment_wide },
    { "alignment-text.gguf", ZN_EFORMAT, "power of two", .make = alignment_text },
    { "alignment-array.gguf", ZN_EFORMAT, "power of two", .make = alignment_array },
    { "alignment-twice.gguf", ZN_EFORMAT, "twice", .make = alignment_twice },
    { "array-type.gguf", ZN_EFORMAT, "type 13", .make = array_type },
    { "array-long.gguf", ZN_EFORMAT, "array of 5 values does not fit", .make = array_long },
    { "array-wraps.gguf", ZN_EFORMAT, "does not fit", .make = array_wraps },
    { "array-texts.gguf", ZN_EFORMAT, "a string of an array", .make = array_texts },
    { "array-deep.gguf", ZN_ELIMIT, "nest", .make = array_deep },
    { "name-not-text.gguf", ZN_EFORMAT, "UTF-8", .make = name_not_text },
    { "rank-nine.gguf", ZN_EUNSUPPORTED, "rank 9", .make = rank_nine },
    { "type-removed.gguf", ZN_EUNSUPPORTED, "type 4", .make = type_removed },
    { "type-far.gguf", ZN_EUNSUPPORTED, "type 4294967295", .make = type_far },
    { "side-negative.gguf", ZN_EFORMAT, "overflows", .make = side_negative },
    { "shape-overflows.gguf", ZN_EFORMAT, "overflows", .make = shape_overflows },
    { "bytes-overflow.gguf", ZN_EFORMAT, "overflows", .make = bytes_overflow },
    { "zero-hides-overflow.gguf", ZN_EFORMAT, "overflows", .make = zero_hides_overflow },
    { "half-block.gguf", ZN_EFORMAT, "Q4_0 blocks", .make = half_block },
    { "offset-odd.gguf", ZN_EFORMAT, "no multiple of 32", .make = offset_odd },
    { "offset-wraps.gguf", ZN_EFORMAT, "do not fit", .make = offset_wraps },
    { "data-short.gguf", ZN_EFORMAT, "outside the 64 bytes", .make = data_short },
    { "data-behind.gguf", ZN_EFORMAT, "outside the 64 bytes", .make = data_behind },
    { "same-name.gguf", ZN_EFORMAT, "named 'a'", .make = same_name },
    { "overlap.gguf", ZN_EFORMAT, "overlap", .make = overlap },
    { 0 },
};
