/* Shared by the weight targets: open the file, read every byte of every tensor, check the contract of weights.h. */
#ifndef FUZZ_WEIGHTS_H
#define FUZZ_WEIGHTS_H

#include "base/alloc.h"
#include "base/convert.h"
#include "base/span.h"
#include "io/weights/scaled.h"

#include <stdlib.h>
#include <string.h>
#include <zenith/weights.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

/* .safetensors: puts the header's length right most of the time, or little else would be reached. */
static inline size_t mutate_safetensors(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    size = LLVMFuzzerMutate(data, size, max_size);
    if (seed % 8 == 0 || size < 10)
        return size;
    data[8] = '{';
    size_t end = size;
    while (end > 9 && data[end - 1] != '}')
        end--;
    const uint64_t length = end - 8;
    memcpy(data, &length, sizeof length);
    return size;
}

/* GGUF: puts the magic and the version right most of the time. */
static inline size_t mutate_gguf(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    size = LLVMFuzzerMutate(data, size, max_size);
    if (seed % 8 && size >= 24)
        memcpy(data, "GGUF\3\0\0", 8);
    return size;
}

static inline void check_tensor(const zn_weights *w, const zn_weight *t)
{
    size_t count, bytes;
    unsigned sum = 0;
    if (zn_weights_find(w, t->name) != t || t->rank > ZN_MAX_RANK || zn_dtype_size(t->dtype) == 0 || !t->data)
        abort();
    if (!zn_count_elements(t->shape, t->rank, &count) || !zn_dtype_bytes(t->dtype, count, &bytes) || bytes != t->bytes)
        abort();
    for (size_t i = 0; i < t->bytes; i++)
        sum += ((const uint8_t *)t->data)[i];
    volatile unsigned used = sum;
    (void)used;
    zn_weight plain;
    float *copy = NULL;
    if (zn_scaled_unpack(w, t, &plain, &copy) == ZN_OK && copy && plain.bytes != t->bytes * sizeof *copy)
        abort();
    zn_free(copy);
}

static inline void fuzz_weights(const uint8_t *data, size_t size)
{
    zn_weights *w = NULL;
    const zn_status status = zn_weights_open_memory(data, size, "fuzz", &w);
    if ((status == ZN_OK) != (w != NULL) || !zn_error_text()[0])
        abort();
    if (!w)
        return;
    for (int64_t i = 0; i < zn_weights_count(w); i++)
        check_tensor(w, zn_weights_at(w, i));
    for (int64_t i = 0; i < zn_weights_metadata_count(w); i++) {
        const char *value = NULL, *key = zn_weights_metadata_at(w, i, &value);
        if (!key || !value || !zn_weights_metadata(w, key))
            abort();
    }
    zn_weights_close(w);
}

#endif
