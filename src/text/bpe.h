/* Byte-pair encoding. A piece of text starts as single bytes. While some neighbours are a pair of the merge list, the
 * pair that is listed first is merged, leftmost first.
 *
 *     ZN_TRY(zn_bpe_begin(&b, tokens, bytes, merges));
 *     ... zn_bpe_token for each, zn_bpe_index, zn_bpe_merge for each in order, zn_bpe_finish ...
 *     ZN_TRY(zn_bpe_encode(&b, &work, piece, size, &ids)); */
#ifndef ZN_BPE_H
#define ZN_BPE_H

#include <stddef.h>
#include <stdint.h>
#include <zenith/status.h>

enum { ZN_BPE_MAX_TOKEN = 1024 }; /* bytes */

typedef struct zn_tokens { /* zero it before use; release with zn_free(ids) */
    int32_t *ids;
    size_t count, capacity;
} zn_tokens;
ZN_MUST_USE zn_status zn_tokens_add(zn_tokens *t, int32_t id);

typedef struct zn_bpe {
    const char *name; /* name of the file, for messages; borrowed */
    struct zn_bpe_token *tokens;
    struct zn_bpe_merge *merges;
    uint8_t *text;
    size_t token_count, token_limit, merge_count, merge_limit, text_size, text_limit;
    int32_t byte_ids[256];
} zn_bpe;

/* Allocates tables for this many tokens, bytes of all tokens together, and merges. The caller sets b->name. */
ZN_MUST_USE zn_status zn_bpe_begin(zn_bpe *b, size_t tokens, size_t bytes, size_t merges);
void zn_bpe_free(zn_bpe *b);

/* symbols: UTF-8 text of the printable characters that represent bytes. */
ZN_MUST_USE zn_status zn_bpe_token(zn_bpe *b, const char *symbols, size_t size, int32_t id);
ZN_MUST_USE zn_status zn_bpe_index(zn_bpe *b); /* after the last token; no duplicates, and every byte needs a token */
ZN_MUST_USE zn_status zn_bpe_merge(zn_bpe *b, const char *left, size_t left_size, const char *right, size_t right_size);
ZN_MUST_USE zn_status zn_bpe_finish(zn_bpe *b); /* after the last merge */

typedef struct zn_bpe_work { /* buffer of zn_bpe_encode, reused between calls; zero it first, release with
                                zn_free(memory) */
    void *memory;
    size_t capacity;
} zn_bpe_work;

/* Appends the tokens of one piece. */
ZN_MUST_USE zn_status zn_bpe_encode(const zn_bpe *b, zn_bpe_work *work, const uint8_t *piece, size_t size,
                                    zn_tokens *out);

#endif
