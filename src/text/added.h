/* Internals of a tokenizer, shared by the reader (tokenizer_file.c) and the encoder (tokenizer.c). */
#ifndef ZN_ADDED_H
#define ZN_ADDED_H

#include "base/arena.h"
#include "text/tokenizer.h"

#include <stdbool.h>

enum { ZN_MAX_ADDED = 1024 };

typedef struct zn_added { /* a token that appears literally in the text */
    const char *text;
    size_t size;
    int32_t id;
} zn_added;

struct zn_tokenizer {
    zn_arena arena; /* holds the name and the texts of added tokens */
    zn_bpe bpe;
    zn_added added[ZN_MAX_ADDED];
    int added_count;
    bool begins[256]; /* true if an added token begins with this byte */
};

#endif
