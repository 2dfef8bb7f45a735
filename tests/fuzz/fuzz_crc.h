/* A mutator for PNG. It corrects the checksums of mutated files; otherwise only libpng's own check would be tested. */
#ifndef FUZZ_CRC_H
#define FUZZ_CRC_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <zlib.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    size = LLVMFuzzerMutate(data, size, max_size);
    if (seed % 8 == 0 || size < 8 || memcmp(data, "\x89PNG\r\n\x1a\n", 8)) /* some checksums stay wrong */
        return size;
    for (size_t at = 8; at + 12 <= size;) {
        const size_t length =
            (size_t)data[at] << 24 | (size_t)data[at + 1] << 16 | (size_t)data[at + 2] << 8 | data[at + 3];
        if (length > size - at - 12)
            break;
        const uLong crc = crc32(0, data + at + 4, (uInt)length + 4);
        for (int i = 0; i < 4; i++)
            data[at + 8 + length + (size_t)i] = (uint8_t)(crc >> (24 - 8 * i));
        at += 12 + length;
    }
    return size;
}

#endif
