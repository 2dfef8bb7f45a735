/* Builds GGUF files byte by byte, right ones and wrong ones. */
#ifndef GGUF_MAKE_H
#define GGUF_MAKE_H

#include "weights_make.h"

void gguf_begin(bytes *b, uint32_t version, uint64_t tensors, uint64_t keys);
void gguf_text(bytes *b, const char *text);
void gguf_key(bytes *b, const char *name, uint32_t type); /* the value is the caller's to put */
/* A tensor of rank 2, [rows][columns]. */
void gguf_matrix(bytes *b, const char *name, uint64_t rows, uint64_t columns, uint32_t type, uint64_t offset);
/* Zeros up to a multiple of alignment, then `data` bytes that count 0, 1, 2, ...; trims. */
void gguf_end(bytes *b, size_t alignment, size_t data);

/* A right one: every kind of value, a matrix of one row of 256 for every type of tensor that is read. Ends with the
 * last tensor's last byte. */
bytes make_gguf(void);
enum { GGUF_TYPES = 18, GGUF_KEYS = 13 };
extern const uint32_t gguf_types[GGUF_TYPES]; /* as numbered in the file */

#endif
