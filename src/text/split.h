/* Splits text into pieces for byte-pair encoding, with the rules of Qwen's tokenizers. */
#ifndef ZN_SPLIT_H
#define ZN_SPLIT_H

#include <stddef.h>
#include <stdint.h>

/* Number of code points in the first piece of a text with `count` > 0 code points: at least one. */
size_t zn_split_first(const uint32_t *text, size_t count);

/* The rules as written in tokenizer.json files, for comparison. */
extern const char zn_split_pattern[];

#endif
