/* Text to the numbers that Qwen's language models read: tokens that are written out in the text (<|im_end|>), NFC,
 * pieces, byte-pair encoding.
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

/* A tokenizer.json file, or a folder that holds one, or else vocab.json, merges.txt and tokenizer_config.json. Other
 * rules than Qwen's are refused with ZN_EUNSUPPORTED. */
ZN_MUST_USE zn_status zn_tokenizer_open(const char *path, zn_tokenizer **out);
/* The bytes of a tokenizer.json file; name is used in messages. */
ZN_MUST_USE zn_status zn_tokenizer_read(const void *json, size_t size, const char *name, zn_tokenizer **out);
/* The bytes of the three files; config may be NULL: there are no written-out tokens then. */
ZN_MUST_USE zn_status zn_tokenizer_read_parts(const void *vocab, size_t vocab_size, const void *merges,
                                              size_t merges_size, const void *config, size_t config_size,
                                              const char *name, zn_tokenizer **out);
void zn_tokenizer_free(zn_tokenizer *t);

/* Appends the tokens of a text, which must be UTF-8 and may hold NULs. Nothing is put before or after. */
ZN_MUST_USE zn_status zn_tokenizer_encode(const zn_tokenizer *t, const char *text, size_t size, zn_tokens *out);
/* One turn of a user and the beginning of the answer; tokens beyond `limit` are cut off. */
ZN_MUST_USE zn_status zn_tokenizer_chat(const zn_tokenizer *t, const char *prompt, size_t size, size_t limit,
                                        zn_tokens *out);

#endif
