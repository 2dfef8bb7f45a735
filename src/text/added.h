/* A tokenizer's insides: what reading (tokenizer_file.c) and encoding (tokenizer.c) share. */
#ifndef ZN_ADDED_H
#define ZN_ADDED_H

#include "base/arena.h"
#include "text/tokenizer.h"

#include <stdbool.h>

enum { ZN_MAX_ADDED = 1024 };

typedef struct zn_added { /* a token that is written out in the text */
    const char *text;
    size_t size;
    int32_t id;
} zn_added;

struct zn_tokenizer {
    zn_arena arena; /* the name and the texts of added tokens */
    zn_bpe bpe;
    zn_added added[ZN_MAX_ADDED];
    int added_count;
    bool begins[256]; /* does one begin with this byte? */
};

#endif
