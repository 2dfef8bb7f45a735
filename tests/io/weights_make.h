/* Builds weight files byte by byte, valid and invalid ones. Used by the tests, the broken files and the fuzzers. */
#ifndef WEIGHTS_MAKE_H
#define WEIGHTS_MAKE_H

#include <stddef.h>
#include <stdint.h>

typedef struct bytes {
    uint8_t *data;
    size_t size, capacity;
} bytes;

void bytes_put(bytes *b, const void *data, size_t size);
void bytes_text(bytes *b, const char *text);
void bytes_number(bytes *b, uint64_t value, int width); /* little-endian */
void bytes_trim(bytes *b); /* lets a sanitizer detect reads after the end; the files made below are trimmed */
void bytes_free(bytes *b);

/* 8 bytes of length, the header, then `data` bytes 0, 1, 2, ... */
bytes make_safetensors(const char *header, size_t data);

/* A zip entry. Fields that are zero get their correct values. */
typedef struct zip_item {
    const char *name;
    const void *data;
    size_t size;
    uint16_t method, flags;
    uint64_t says_size, says_packed, says_offset; /* in the directory, instead of the correct values */
} zip_item;

enum { ZIP64_NEVER, ZIP64_ALWAYS };
bytes make_zip(const zip_item *items, int count, int zip64);

/* An archive as PyTorch writes it: t/data.pkl, t/byteorder, t/data/0 with `storage` bytes 0, 1, 2, ... */
bytes make_checkpoint(const void *pickle, size_t size, size_t storage);

/* Pickle: the call that makes a tensor from a storage class ("torch FloatStorage"), its number of elements, and the
 * view. */
typedef struct tensor_call {
    const char *storage; /* NULL: "torch FloatStorage" */
    const char *key;     /* NULL: "0" */
    int64_t elements, offset;
    int rank;
    int64_t shape[10], stride[10];
} tensor_call;

void pickle_int(bytes *b, int64_t value);
void pickle_text(bytes *b, const char *text);
void pickle_tensor(bytes *b, const tensor_call *call);

#endif
