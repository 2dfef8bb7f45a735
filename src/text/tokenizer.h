/* Converts text to token ids for Qwen's language models: added tokens that appear literally in the text (<|im_end|>),
 * NFC, splitting, byte-pair encoding.
 *
 *     zn_tokenizer *t;
 *     zn_tokens ids = { 0 };
 *     ZN_TRY(zn_tokenizer_open("tokenizer", &t));
 *     ZN_TRY(zn_tokenizer_chat(t, prompt, strlen(prompt), 512, &ids));
 *     zn_free(ids.ids);
 *     zn_tokenizer_free(t); */
#ifndef ZN_TOKENIZER_H
#define ZN_TOKENIZER_H

#include "text/bpe.h"

typedef struct zn_tokenizer zn_tokenizer;

/* path: a tokenizer.json file, or a folder with one, or a folder with vocab.json, merges.txt and tokenizer_config.json.
 * Fails with ZN_EUNSUPPORTED if the rules are not Qwen's. */
ZN_MUST_USE zn_status zn_tokenizer_open(const char *path, zn_tokenizer **out);
/* Reads the bytes of a tokenizer.json file; name is used in messages. */
ZN_MUST_USE zn_status zn_tokenizer_read(const void *json, size_t size, const char *name, zn_tokenizer **out);
/* Reads the bytes of the three files. config may be NULL: then there are no added tokens. */
ZN_MUST_USE zn_status zn_tokenizer_read_parts(const void *vocab, size_t vocab_size, const void *merges,
                                              size_t merges_size, const void *config, size_t config_size,
                                              const char *name, zn_tokenizer **out);
/* The lists of a GGUF file's metadata (tokenizer.ggml.tokens, merges, token_type). Strings are u64 length and bytes,
 * one after the other; types are i32: 1 for tokens of the vocabulary, 3 and 4 for added ones, 5 for ids without a
 * token. The caller has checked that all of it is readable. types may be NULL: then there are no added tokens. */
typedef struct zn_token_lists {
    const uint8_t *tokens, *merges, *types;
    uint64_t token_count, merge_count;
} zn_token_lists;
ZN_MUST_USE zn_status zn_tokenizer_read_lists(const zn_token_lists *lists, const char *name, zn_tokenizer **out);
void zn_tokenizer_free(zn_tokenizer *t);

/* Appends the tokens of a text, which must be UTF-8 and may contain NULs. Adds no tokens before or after it. */
ZN_MUST_USE zn_status zn_tokenizer_encode(const zn_tokenizer *t, const char *text, size_t size, zn_tokens *out);
/* Appends one user turn and the beginning of the answer. Tokens after the first `limit` are dropped. */
ZN_MUST_USE zn_status zn_tokenizer_chat(const zn_tokenizer *t, const char *prompt, size_t size, size_t limit,
                                        zn_tokens *out);

#endif
