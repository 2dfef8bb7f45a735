/* Zip (APPNOTE 6.3.x), as much of it as PyTorch uses. Sizes and places come from the central directory:
 *
 *     local header, data, ...  | central directory: one record for each entry | [zip64 end, locator] | end
 *
 * Every record is checked against the file before it is read; entries are looked at only when they are asked for. */
#include "io/weights/zip.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/span.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    LOCAL = 0x04034b50,
    CENTRAL = 0x02014b50,
    END = 0x06054b50,
    END64 = 0x06064b50,
    LOCATOR64 = 0x07064b50,
    LOCAL_SIZE = 30,
    CENTRAL_SIZE = 46,
    END_SIZE = 22,
    END64_SIZE = 56,
    LOCATOR64_SIZE = 20,
    ZIP64_FIELD = 1
};

typedef struct directory {
    uint64_t offset, size, count;
} directory;

/* The end record is the last one whose comment reaches exactly to the end of the file. */
static zn_status find_end(const zn_zip *z, size_t *end)
{
    const size_t lowest = z->size > END_SIZE + 0xffff ? z->size - END_SIZE - 0xffff : 0;
    for (size_t at = z->size >= END_SIZE ? z->size - END_SIZE : 0; z->size >= END_SIZE; at--) {
        if (zn_load32(z->bytes + at) == END && zn_load16(z->bytes + at + 20) == z->size - END_SIZE - at) {
            *end = at;
            return ZN_OK;
        }
        if (at == lowest)
            break;
    }
    return ZN_FAIL(ZN_EFORMAT, "%s: zip archive without its directory at the end: the file is cut off", z->name);
}

static zn_status find_directory(const zn_zip *z, directory *d)
{
    size_t end = 0;
    ZN_TRY(find_end(z, &end));
    const uint8_t *e = z->bytes + end;
    *d = (directory){ .count = zn_load16(e + 10), .size = zn_load32(e + 12), .offset = zn_load32(e + 16) };
    if (d->count != 0xffff && d->size != 0xffffffff && d->offset != 0xffffffff)
        return ZN_OK;
    if (end < LOCATOR64_SIZE || zn_load32(e - LOCATOR64_SIZE) != LOCATOR64)
        return ZN_OK; /* a small archive may hold these very numbers */
    const uint64_t at = zn_load64(e - LOCATOR64_SIZE + 8);
    if (!zn_span_fits(at, END64_SIZE, end) || zn_load32(z->bytes + at) != END64)
        return ZN_FAIL(ZN_EFORMAT, "%s: zip64 record is not at offset %" PRIu64, z->name, at);
    e = z->bytes + at;
    *d = (directory){ .count = zn_load64(e + 32), .size = zn_load64(e + 40), .offset = zn_load64(e + 48) };
    return ZN_OK;
}

/* 64-bit values for those of size, packed and header that the record could not hold, in this order. */
static bool read_zip64(const uint8_t *extra, size_t length, zn_zip_entry *e)
{
    uint64_t *wanted[3];
    int count = 0;
    if (e->size == 0xffffffff)
        wanted[count++] = &e->size;
    if (e->packed == 0xffffffff)
        wanted[count++] = &e->packed;
    if (e->header == 0xffffffff)
        wanted[count++] = &e->header;
    for (size_t at = 0; count && length - at >= 4;) {
        const uint16_t id = zn_load16(extra + at), size = zn_load16(extra + at + 2);
        at += 4;
        if (size > length - at)
            return false;
        if (id == ZIP64_FIELD) {
            if (size < 8 * count)
                return false;
            for (int i = 0; i < count; i++)
                *wanted[i] = zn_load64(extra + at + 8 * (size_t)i);
            return true;
        }
        at += size;
    }
    return true;
}

static zn_status read_directory(zn_zip *z, const directory *d)
{
    size_t at = (size_t)d->offset;
    const size_t end = at + (size_t)d->size;
    for (uint64_t i = 0; i < d->count; i++) {
        if (end - at < CENTRAL_SIZE || zn_load32(z->bytes + at) != CENTRAL)
            return ZN_FAIL(ZN_EFORMAT, "%s: zip directory: entry %" PRIu64 " is not at offset %zu", z->name, i, at);
        const uint8_t *r = z->bytes + at;
        const size_t name = zn_load16(r + 28), extra = zn_load16(r + 30), comment = zn_load16(r + 32);
        at += CENTRAL_SIZE;
        if (end - at < name + extra + comment)
            return ZN_FAIL(ZN_EFORMAT, "%s: zip directory: entry %" PRIu64 " runs past the directory", z->name, i);
        zn_zip_entry e = { .name = (const char *)z->bytes + at,
                           .name_length = (uint16_t)name,
                           .flags = zn_load16(r + 8),
                           .method = zn_load16(r + 10),
                           .packed = zn_load32(r + 20),
                           .size = zn_load32(r + 24),
                           .header = zn_load32(r + 42) };
        if (!read_zip64(z->bytes + at + name, extra, &e))
            return ZN_FAIL(ZN_EFORMAT, "%s: zip directory: entry %" PRIu64 " has a bad zip64 field", z->name, i);
        z->entries[z->count++] = e;
        at += name + extra + comment;
    }
    return ZN_OK;
}

static int compare(const char *a, size_t a_length, const char *b, size_t b_length)
{
    const int order = memcmp(a, b, a_length < b_length ? a_length : b_length);
    return order ? order : (a_length > b_length) - (a_length < b_length);
}

static int by_name(const void *a, const void *b)
{
    const zn_zip_entry *x = a, *y = b;
    return compare(x->name, x->name_length, y->name, y->name_length);
}

static zn_status check_unique(const zn_zip *z)
{
    for (size_t i = 1; i < z->count; i++)
        if (by_name(&z->entries[i - 1], &z->entries[i]) == 0)
            return ZN_FAIL(ZN_EFORMAT, "%s: two zip entries are named '%.*s'", z->name, z->entries[i].name_length,
                           z->entries[i].name);
    return ZN_OK;
}

zn_status zn_zip_open(zn_zip *z, const uint8_t *bytes, size_t size, const char *name)
{
    directory d = { 0 };
    *z = (zn_zip){ .bytes = bytes, .size = size, .name = name };
    ZN_TRY(find_directory(z, &d));
    if (!zn_span_fits(d.offset, d.size, size) || d.count > d.size / CENTRAL_SIZE)
        return ZN_FAIL(ZN_EFORMAT,
                       "%s: zip directory of %" PRIu64 " entries in %" PRIu64 " bytes at offset %" PRIu64
                       " does not fit in the file's %zu bytes",
                       name, d.count, d.size, d.offset, size);
    z->entries = zn_alloc((size_t)d.count * sizeof *z->entries);
    if (!z->entries)
        return ZN_FAIL(ZN_ENOMEM, "out of memory: %" PRIu64 " zip entries of %s", d.count, name);
    zn_status status = read_directory(z, &d);
    if (status == ZN_OK) {
        qsort(z->entries, z->count, sizeof *z->entries, by_name);
        status = check_unique(z);
    }
    if (status != ZN_OK)
        zn_zip_close(z);
    return status;
}

void zn_zip_close(zn_zip *z)
{
    zn_free(z->entries);
    *z = (zn_zip){ 0 };
}

const zn_zip_entry *zn_zip_find(const zn_zip *z, const char *name, size_t length)
{
    size_t low = 0, high = z->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const zn_zip_entry *e = &z->entries[middle];
        const int order = compare(name, length, e->name, e->name_length);
        if (order == 0)
            return e;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

zn_status zn_zip_read(const zn_zip *z, const zn_zip_entry *e, const uint8_t **data, size_t *size)
{
    if (e->flags & 1)
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s: zip entry '%.*s' is encrypted", z->name, e->name_length, e->name);
    if (e->method != 0)
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s: zip entry '%.*s' is compressed (method %u); PyTorch stores entries as is",
                       z->name, e->name_length, e->name, e->method);
    if (e->size != e->packed)
        return ZN_FAIL(ZN_EFORMAT, "%s: zip entry '%.*s' is stored but has two sizes", z->name, e->name_length,
                       e->name);
    if (!zn_span_fits(e->header, LOCAL_SIZE, z->size) || zn_load32(z->bytes + e->header) != LOCAL)
        return ZN_FAIL(ZN_EFORMAT, "%s: zip entry '%.*s' is not at offset %" PRIu64, z->name, e->name_length, e->name,
                       e->header);
    const uint8_t *local = z->bytes + e->header;
    const uint64_t skip = LOCAL_SIZE + (uint64_t)zn_load16(local + 26) + zn_load16(local + 28);
    if (!zn_span_fits(e->header + skip, e->size, z->size))
        return ZN_FAIL(ZN_EFORMAT, "%s: zip entry '%.*s': %" PRIu64 " bytes at offset %" PRIu64 " run past the file",
                       z->name, e->name_length, e->name, e->size, e->header + skip);
    *data = local + skip;
    *size = (size_t)e->size;
    return ZN_OK;
}
