/* PyTorch files that are no proper archives: cut, compressed, encrypted, with entries that are not where they should
 * be. */
#include "broken.h"

#include <stdlib.h>
#include <string.h>

#define PICKLE               "\x80\x02}."
#define ITEM(text, bytes_of) .name = text, .data = bytes_of, .size = sizeof bytes_of - 1

static bytes archive_of(zip_item item) { return make_zip(&item, 1, ZIP64_NEVER); }

static bytes compressed(void) { return archive_of((zip_item){ ITEM("t/data.pkl", PICKLE), .method = 8 }); }
static bytes encrypted(void) { return archive_of((zip_item){ ITEM("t/data.pkl", PICKLE), .flags = 1 }); }
static bytes no_pickle(void) { return archive_of((zip_item){ ITEM("t/data.txt", PICKLE) }); }
static bytes other_pickle(void) { return archive_of((zip_item){ ITEM("t/xdata.pkl", PICKLE) }); }
static bytes two_sizes(void) { return archive_of((zip_item){ ITEM("t/data.pkl", PICKLE), .says_packed = 3 }); }
static bytes size_past(void) { return archive_of((zip_item){ ITEM("t/data.pkl", PICKLE), .says_size = 1000 }); }
static bytes offset_past(void)
{
    return archive_of((zip_item){ ITEM("t/data.pkl", PICKLE), .says_offset = 0xfffffff0 });
}
static bytes offset_wrong(void) { return archive_of((zip_item){ ITEM("t/data.pkl", PICKLE), .says_offset = 1 }); }

static bytes wide(zip_item item) { return make_zip(&item, 1, ZIP64_ALWAYS); }
static bytes wide_size(void) { return wide((zip_item){ ITEM("t/data.pkl", PICKLE), .says_size = UINT64_MAX - 40 }); }
static bytes wide_offset(void) { return wide((zip_item){ ITEM("t/data.pkl", PICKLE), .says_offset = UINT64_MAX - 8 }); }

static bytes pair_of(zip_item a, zip_item b)
{
    const zip_item items[] = { a, b };
    return make_zip(items, 2, ZIP64_NEVER);
}

static bytes same_entry(void)
{
    return pair_of((zip_item){ ITEM("t/data.pkl", PICKLE) }, (zip_item){ ITEM("t/data.pkl", PICKLE) });
}

static bytes two_pickles(void)
{
    return pair_of((zip_item){ ITEM("t/data.pkl", PICKLE) }, (zip_item){ ITEM("u/data.pkl", PICKLE) });
}

static bytes big_endian(void)
{
    return pair_of((zip_item){ ITEM("t/data.pkl", PICKLE) }, (zip_item){ ITEM("t/byteorder", "big") });
}

static bytes compressed_storage(void)
{
    bytes p = { 0 };
    bytes_put(&p, "\x80\x02", 2);
    pickle_tensor(&p, &(tensor_call){ .elements = 1, .rank = 1, .shape = { 1 }, .stride = { 1 } });
    bytes_put(&p, ".", 1);
    bytes b = pair_of((zip_item){ .name = "t/data.pkl", .data = p.data, .size = p.size },
                      (zip_item){ ITEM("t/data/0", "abcd"), .method = 8 });
    bytes_free(&p);
    return b;
}

static bytes long_prefix(void)
{
    char name[320];
    memset(name, 'p', sizeof name);
    memcpy(name + 300, "/data.pkl", 10);
    return archive_of((zip_item){ .name = name, .data = PICKLE, .size = 4 });
}

/* The end record is the last 22 bytes; from its byte `at` on, write value. */
static bytes end_says(int at, uint64_t value, int width, int zip64)
{
    const zip_item item = { ITEM("t/data.pkl", PICKLE) };
    bytes b = make_zip(&item, 1, zip64);
    for (int i = 0; i < width; i++)
        b.data[b.size - 22 + (size_t)(at + i)] = (uint8_t)(value >> 8 * i);
    return b;
}

static bytes directory_past(void) { return end_says(16, 0x7fffffff, 4, ZIP64_NEVER); }
static bytes directory_large(void) { return end_says(12, 0x7fffffff, 4, ZIP64_NEVER); }
static bytes directory_count(void) { return end_says(10, 1000, 2, ZIP64_NEVER); }
static bytes directory_elsewhere(void) { return end_says(16, 0, 4, ZIP64_NEVER); }
static bytes comment_missing(void) { return end_says(20, 5, 2, ZIP64_NEVER); }

static bytes locator_nowhere(void)
{
    bytes b = end_says(20, 0, 2, ZIP64_ALWAYS);
    memset(b.data + b.size - 22 - 20 + 8, 0xff, 8);
    return b;
}

static bytes field_short(void)
{
    bytes b = end_says(20, 0, 2, ZIP64_ALWAYS);
    for (size_t i = 0; i + 4 < b.size; i++)
        if (memcmp(b.data + i, "\1\0\x18\0", 4) == 0)
            b.data[i + 2] = 8;
    return b;
}

static bytes cut(void)
{
    bytes b = archive_of((zip_item){ ITEM("t/data.pkl", PICKLE) });
    b.size -= 30;
    return b;
}

static bytes nothing_inside(void) { return make_zip(NULL, 0, ZIP64_NEVER); }

static bytes legacy(void)
{
    bytes b = { 0 };
    bytes_put(&b, "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02M\xe9\x03.", 21);
    return b;
}

static bytes bare_pickle(void)
{
    bytes b = { 0 };
    bytes_put(&b, "\x80\x04}.", 4);
    return b;
}

const broken_case broken_archives[] = {
    { "zip-cut.pth", ZN_EFORMAT, "cut off", .make = cut },
    { "zip-nothing-inside.pth", ZN_EFORMAT, "data.pkl", .make = nothing_inside },
    { "zip-no-pickle.pth", ZN_EFORMAT, "data.pkl", .make = no_pickle },
    { "zip-other-pickle.pth", ZN_EFORMAT, "data.pkl", .make = other_pickle },
    { "zip-two-pickles.pth", ZN_EFORMAT, "more than one", .make = two_pickles },
    { "zip-same-entry.pth", ZN_EFORMAT, "named 't/data.pkl'", .make = same_entry },
    { "zip-long-prefix.pth", ZN_EFORMAT, "too long", .make = long_prefix },
    { "zip-compressed.pth", ZN_EUNSUPPORTED, "compressed", .make = compressed },
    { "zip-compressed-storage.pth", ZN_EUNSUPPORTED, "compressed", .make = compressed_storage },
    { "zip-encrypted.pth", ZN_EUNSUPPORTED, "encrypted", .make = encrypted },
    { "zip-two-sizes.pth", ZN_EFORMAT, "two sizes", .make = two_sizes },
    { "zip-size-past.pth", ZN_EFORMAT, "run past", .make = size_past },
    { "zip-offset-past.pth", ZN_EFORMAT, "not at offset", .make = offset_past },
    { "zip-offset-wrong.pth", ZN_EFORMAT, "not at offset 1", .make = offset_wrong },
    { "zip-wide-size.pth", ZN_EFORMAT, "run past", .make = wide_size },
    { "zip-wide-offset.pth", ZN_EFORMAT, "not at offset", .make = wide_offset },
    { "zip-directory-past.pth", ZN_EFORMAT, "does not fit", .make = directory_past },
    { "zip-directory-large.pth", ZN_EFORMAT, "does not fit", .make = directory_large },
    { "zip-directory-count.pth", ZN_EFORMAT, "1000 entries", .make = directory_count },
    { "zip-directory-elsewhere.pth", ZN_EFORMAT, "entry 0", .make = directory_elsewhere },
    { "zip-comment-missing.pth", ZN_EFORMAT, "cut off", .make = comment_missing },
    { "zip-locator-nowhere.pth", ZN_EFORMAT, "zip64", .make = locator_nowhere },
    { "zip-field-short.pth", ZN_EFORMAT, "zip64", .make = field_short },
    { "zip-big-endian.pth", ZN_EUNSUPPORTED, "big-endian", .make = big_endian },
    { "legacy.pth", ZN_EUNSUPPORTED, "legacy", .make = legacy },
    { "bare-pickle.pth", ZN_EUNSUPPORTED, "bare pickle", .make = bare_pickle },
    { 0 },
};
