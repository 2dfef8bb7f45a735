/* Internals of a tokenizer, shared by the readers (tokenizer_file.c, tokenizer_lists.c) and the encoder (tokenizer.c).
 */
#ifndef ZN_ADDED_H
#define ZN_ADDED_H

#include "base/arena.h"
#include "text/tokenizer.h"

#include <stdbool.h>

enum { ZN_MAX_ADDED = 1024, ZN_MAX_TOKENS = 1 << 22 };

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

/* Makes an empty tokenizer; name is copied. */
ZN_MUST_USE zn_status zn_tokenizer_new(const char *name, zn_tokenizer **out);
/* Adds a token that appears literally in the text; text is copied. */
ZN_MUST_USE zn_status zn_tokenizer_add(zn_tokenizer *t, const char *text, size_t size, int32_t id);
/* Adds a merge, "left right". */
ZN_MUST_USE zn_status zn_tokenizer_merge(zn_tokenizer *t, const char *line, size_t size);

#endif
