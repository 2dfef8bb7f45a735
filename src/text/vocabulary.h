/* Learns a vocabulary of byte pairs from texts, for a text encoder that is trained here.
 *
 *     zn_json_out json = { 0 };
 *     ZN_TRY(zn_vocabulary_learn(texts, count, 1024, &json));     // the bytes of a tokenizer.json
 *     ZN_TRY(zn_tokenizer_read(json.bytes, json.size, "vocabulary", &tokenizer));
 *     zn_json_out_free(&json);
 *
 * The pair of neighbours that occurs most often becomes a token, and so on (Sennrich, Haddow, Birch, 2016), until there
 * are as many tokens as asked for or no pair occurs twice. Rules and added tokens are those of Qwen's tokenizers. */
#ifndef ZN_VOCABULARY_H
#define ZN_VOCABULARY_H

#include "base/json.h"

#include <stdint.h>
#include <zenith/status.h>

enum { ZN_VOCABULARY_ADDED = 3, ZN_VOCABULARY_LEAST = 256 + ZN_VOCABULARY_ADDED };

/* size: tokens, added ones included, at least ZN_VOCABULARY_LEAST. The words of a user's turn are learned too. */
ZN_MUST_USE zn_status zn_vocabulary_learn(const char *const *texts, int64_t count, int size, zn_json_out *out);

#endif
