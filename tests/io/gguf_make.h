/* Builds GGUF files byte by byte, valid and invalid ones. */
#ifndef GGUF_MAKE_H
#define GGUF_MAKE_H

#include "weights_make.h"

void gguf_begin(bytes *b, uint32_t version, uint64_t tensors, uint64_t keys);
void gguf_text(bytes *b, const char *text);
void gguf_key(bytes *b, const char *name, uint32_t type); /* the caller appends the value */
/* A tensor of rank 2, [rows][columns]. */
void gguf_matrix(bytes *b, const char *name, uint64_t rows, uint64_t columns, uint32_t type, uint64_t offset);
/* Appends zeros up to a multiple of alignment, then `data` bytes 0, 1, 2, ... Trims the buffer. */
void gguf_end(bytes *b, size_t alignment, size_t data);

/* A valid file: every kind of value, and for every supported tensor type a matrix with one row of 256 elements. Ends
 * with the last byte of the last tensor. */
bytes make_gguf(void);
enum { GGUF_TYPES = 18, GGUF_KEYS = 13 };
extern const uint32_t gguf_types[GGUF_TYPES]; /* type numbers in the file */

#endif
