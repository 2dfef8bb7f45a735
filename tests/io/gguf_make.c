/* Headers, keys and tensors of GGUF files. */
#include "gguf_make.h"

#include <stdio.h>
#include <string.h>

void gguf_begin(bytes *b, uint32_t version, uint64_t tensors, uint64_t keys)
{
    bytes_text(b, "GGUF");
    bytes_number(b, version, 4);
    bytes_number(b, tensors, 8);
    bytes_number(b, keys, 8);
}

void gguf_text(bytes *b, const char *text)
{
    bytes_number(b, strlen(text), 8);
    bytes_text(b, text);
}

void gguf_key(bytes *b, const char *name, uint32_t type)
{
    gguf_text(b, name);
    bytes_number(b, type, 4);
}

void gguf_matrix(bytes *b, const char *name, uint64_t rows, uint64_t columns, uint32_t type, uint64_t offset)
{
    gguf_text(b, name);
    bytes_number(b, 2, 4);
    bytes_number(b, columns, 8);
    bytes_number(b, rows, 8);
    bytes_number(b, type, 4);
    bytes_number(b, offset, 8);
}

void gguf_end(bytes *b, size_t alignment, size_t data)
{
    while (b->size % alignment)
        bytes_number(b, 0, 1);
    for (size_t i = 0; i < data; i++)
        bytes_number(b, i, 1);
    bytes_trim(b);
}

const uint32_t gguf_types[GGUF_TYPES] = { 0, 1, 2, 3, 6, 7, 8, 10, 11, 12, 13, 14, 24, 25, 26, 27, 28, 30 };
/* Bytes of a row of 256. */
static const size_t row_bytes[GGUF_TYPES] = { 1024, 512, 144, 160, 176, 192,  272,  84,   110,
                                              144,  176, 210, 256, 512, 1024, 2048, 2048, 512 };

static void put_keys(bytes *b)
{
    static const struct {
        uint32_t type;
        uint64_t bits;
        int width;
    } numbers[] = { { 0, 200, 1 },        { 1, 0xfe, 1 }, { 2, 60000, 2 },       { 3, 0xfffe, 2 },
                    { 5, 0xfffffffe, 4 }, { 7, 1, 1 },    { 10, UINT64_MAX, 8 }, { 11, UINT64_MAX, 8 } };
    gguf_key(b, "general.alignment", 4);
    bytes_number(b, 64, 4);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        char name[16];
        snprintf(name, sizeof name, "type.%u", numbers[i].type);
        gguf_key(b, name, numbers[i].type);
        bytes_number(b, numbers[i].bits, numbers[i].width);
    }
    gguf_key(b, "type.6", 6);
    bytes_put(b, &(float){ 0.1f }, 4);
    gguf_key(b, "type.12", 12);
    bytes_put(b, &(double){ -2.5 }, 8);
    gguf_key(b, "type.8", 8);
    gguf_text(b, "na\xc3\xafve");
    gguf_key(b, "type.9", 9); /* [["a", ""], [1, 2]] */
    bytes_number(b, 9, 4);
    bytes_number(b, 2, 8);
    bytes_number(b, 8, 4);
    bytes_number(b, 2, 8);
    gguf_text(b, "a");
    gguf_text(b, "");
    bytes_number(b, 4, 4);
    bytes_number(b, 2, 8);
    bytes_number(b, 0x100000002, 8);
}

bytes make_gguf(void)
{
    bytes b = { 0 };
    size_t at = 0, end = 0;
    gguf_begin(&b, 3, GGUF_TYPES, GGUF_KEYS);
    put_keys(&b);
    for (int i = 0; i < GGUF_TYPES; i++) {
        char name[16];
        snprintf(name, sizeof name, "w.%u", gguf_types[i]);
        gguf_matrix(&b, name, 1, 256, gguf_types[i], at);
        end = at + row_bytes[i];
        at = (end + 63) / 64 * 64;
    }
    gguf_end(&b, 64, end);
    return b;
}
