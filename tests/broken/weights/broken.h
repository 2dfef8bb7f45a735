/* Weight files that must be rejected: how to make each, the expected status, and a word of the expected error text. */
#ifndef BROKEN_H
#define BROKEN_H

#include "../../io/weights_make.h"

#include <zenith/status.h>

typedef struct broken_case {
    const char *file; /* name for messages and for write_broken */
    zn_status status;
    const char *word;
    bytes (*make)(void); /* or: */
    const char *header;  /* header of a .safetensors file with `size` bytes of data, or: */
    const char *pickle;  /* pickle of `size` bytes, in an archive with one storage of 64 bytes */
    size_t size;
} broken_case;

extern const broken_case broken_safetensors[], broken_gguf[], broken_pickles[], broken_archives[];

/* Case number i of all tables. Returns 0 after the last. */
int broken_at(int i, broken_case *c);
bytes broken_make(const broken_case *c);

#endif
