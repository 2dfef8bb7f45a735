/* Shared by the latent tests: files from bytes in memory. */
#ifndef LATENT_MAKE_H
#define LATENT_MAKE_H

#include "image_make.h"

#include "io/latent/latent_file.h"

static inline zn_status read_blob(const blob *b, zn_latent **out)
{
    return zn_latent_read_bytes(&(zn_source){ b->data, b->size, "test.file", NULL }, out);
}

/* Reading must fail with this code, and the error text must contain this word and the name. */
static inline void expect(const blob *b, zn_status code, const char *word)
{
    zn_latent *z = (zn_latent *)1;
    const zn_status status = read_blob(b, &z);
    if (status != code || !strstr(zn_error_text(), word) || !strstr(zn_error_text(), "test.file"))
        fail_msg("status %d, wanted %d; text '%s', wanted '%s'", status, code, zn_error_text(), word);
    assert_null(z);
}

/* A safetensors file from its header and data. */
static inline blob tensors(const char *header, const void *data, size_t size)
{
    blob b = { 0 };
    const uint64_t length = strlen(header);
    blob_add(&b, &length, 8);
    blob_add(&b, header, length);
    blob_add(&b, data, size);
    return b;
}

#endif
