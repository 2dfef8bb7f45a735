/* Bytes that grow, and the frames of weight files. */
#include "weights_make.h"

#include <stdlib.h>
#include <string.h>

void bytes_put(bytes *b, const void *data, size_t size)
{
    if (!b->data || size > b->capacity - b->size) {
        b->capacity = 2 * (b->size + size) + 64;
        b->data = realloc(b->data, b->capacity);
    }
    if (!b->data)
        abort();
    if (size)
        memcpy(b->data + b->size, data, size);
    b->size += size;
}

void bytes_trim(bytes *b)
{
    b->data = realloc(b->data, b->size ? b->size : 1);
    b->capacity = b->size;
    if (!b->data)
        abort();
}

void bytes_text(bytes *b, const char *text) { bytes_put(b, text, strlen(text)); }

void bytes_number(bytes *b, uint64_t value, int width)
{
    uint8_t p[16];
    for (int i = 0; i < width; i++, value >>= 8)
        p[i] = (uint8_t)value;
    bytes_put(b, p, (size_t)width);
}

void bytes_free(bytes *b)
{
    free(b->data);
    *b = (bytes){ 0 };
}

static void put_counting(bytes *b, size_t size)
{
    for (size_t i = 0; i < size; i++)
        bytes_number(b, i, 1);
}

bytes make_safetensors(const char *header, size_t data)
{
    bytes b = { 0 };
    bytes_number(&b, strlen(header), 8);
    bytes_text(&b, header);
    put_counting(&b, data);
    bytes_trim(&b);
    return b;
}

static void put_local(bytes *b, const zip_item *it)
{
    bytes_number(b, 0x04034b50, 4);
    bytes_number(b, 20, 2);
    bytes_number(b, it->flags, 2);
    bytes_number(b, it->method, 2);
    bytes_number(b, 0, 8); /* time, date, checksum */
    bytes_number(b, it->size, 4);
    bytes_number(b, it->size, 4);
    bytes_number(b, strlen(it->name), 2);
    bytes_number(b, 0, 2);
    bytes_text(b, it->name);
    bytes_put(b, it->data, it->size);
}

static void put_central(bytes *b, const zip_item *it, uint64_t offset, int zip64)
{
    const uint64_t size = it->says_size ? it->says_size : it->size;
    const uint64_t packed = it->says_packed ? it->says_packed : size;
    offset = it->says_offset ? it->says_offset : offset;
    bytes_number(b, 0x02014b50, 4);
    bytes_number(b, 20, 2);
    bytes_number(b, 20, 2);
    bytes_number(b, it->flags, 2);
    bytes_number(b, it->method, 2);
    bytes_number(b, 0, 8);
    bytes_number(b, zip64 ? 0xffffffff : packed, 4);
    bytes_number(b, zip64 ? 0xffffffff : size, 4);
    bytes_number(b, strlen(it->name), 2);
    bytes_number(b, zip64 ? 28 + 6 : 0, 2);
    bytes_number(b, 0, 10); /* comment, disk, attributes */
    bytes_number(b, zip64 ? 0xffffffff : offset, 4);
    bytes_text(b, it->name);
    if (zip64) {
        bytes_number(b, 0x4142, 2); /* a field of another program in front */
        bytes_number(b, 2, 2);
        bytes_number(b, 0, 2);
        bytes_number(b, 1, 2);
        bytes_number(b, 24, 2);
        bytes_number(b, size, 8);
        bytes_number(b, packed, 8);
        bytes_number(b, offset, 8);
    }
}

static void put_end64(bytes *b, int count, uint64_t start, uint64_t size)
{
    const uint64_t at = b->size;
    bytes_number(b, 0x06064b50, 4);
    bytes_number(b, 44, 8);
    bytes_number(b, 0, 12);
    bytes_number(b, (uint64_t)count, 8);
    bytes_number(b, (uint64_t)count, 8);
    bytes_number(b, size, 8);
    bytes_number(b, start, 8);
    bytes_number(b, 0x07064b50, 4);
    bytes_number(b, 0, 4);
    bytes_number(b, at, 8);
    bytes_number(b, 1, 4);
}

bytes make_zip(const zip_item *items, int count, int zip64)
{
    bytes b = { 0 };
    uint64_t *offset = calloc((size_t)count + 1, sizeof *offset);
    if (!offset)
        abort();
    for (int i = 0; i < count; i++) {
        offset[i] = b.size;
        put_local(&b, &items[i]);
    }
    const uint64_t start = b.size;
    for (int i = 0; i < count; i++)
        put_central(&b, &items[i], offset[i], zip64);
    const uint64_t size = b.size - start;
    if (zip64)
        put_end64(&b, count, start, size);
    bytes_number(&b, 0x06054b50, 4);
    bytes_number(&b, 0, 4);
    bytes_number(&b, zip64 ? 0xffff : (uint64_t)count, 2);
    bytes_number(&b, zip64 ? 0xffff : (uint64_t)count, 2);
    bytes_number(&b, zip64 ? 0xffffffff : size, 4);
    bytes_number(&b, zip64 ? 0xffffffff : start, 4);
    bytes_number(&b, 0, 2);
    free(offset);
    bytes_trim(&b);
    return b;
}

bytes make_checkpoint(const void *pickle, size_t size, size_t storage)
{
    bytes data = { 0 };
    put_counting(&data, storage);
    const zip_item items[] = { { "t/data.pkl", .data = pickle, .size = size },
                               { "t/byteorder", .data = "little", .size = 6 },
                               { "t/data/0", .data = data.data, .size = storage } };
    bytes b = make_zip(items, 3, ZIP64_NEVER);
    bytes_free(&data);
    return b;
}

void pickle_int(bytes *b, int64_t value)
{
    bytes_put(b, "\x8a\x08", 2);
    bytes_number(b, (uint64_t)value, 8);
}

void pickle_text(bytes *b, const char *text)
{
    bytes_put(b, "X", 1);
    bytes_number(b, strlen(text), 4);
    bytes_text(b, text);
}

static void put_global(bytes *b, const char *module_and_name)
{
    const char *space = strchr(module_and_name, ' ');
    bytes_put(b, "c", 1);
    bytes_put(b, module_and_name, (size_t)(space - module_and_name));
    bytes_put(b, "\n", 1);
    bytes_text(b, space + 1);
    bytes_put(b, "\n", 1);
}

static void put_sizes(bytes *b, const int64_t *sizes, int rank)
{
    bytes_put(b, "(", 1);
    for (int i = 0; i < rank; i++)
        pickle_int(b, sizes[i]);
    bytes_put(b, "t", 1);
}

void pickle_tensor(bytes *b, const tensor_call *call)
{
    put_global(b, "torch._utils _rebuild_tensor_v2");
    bytes_put(b, "((", 2);
    pickle_text(b, "storage");
    put_global(b, call->storage ? call->storage : "torch FloatStorage");
    pickle_text(b, call->key ? call->key : "0");
    pickle_text(b, "cpu");
    pickle_int(b, call->elements);
    bytes_put(b, "tQ", 2);
    pickle_int(b, call->offset);
    put_sizes(b, call->shape, call->rank);
    put_sizes(b, call->stride, call->rank);
    bytes_put(b, "\x89", 1);
    put_global(b, "collections OrderedDict");
    bytes_put(b, ")RtR", 4);
}
