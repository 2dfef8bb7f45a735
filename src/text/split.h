/* Cuts text into the pieces that byte-pair encoding works on, by the rules of Qwen's tokenizers. */
#ifndef ZN_SPLIT_H
#define ZN_SPLIT_H

#include <stddef.h>
#include <stdint.h>

/* Code points of the first piece of a text of `count` > 0: at least one. */
size_t zn_split_first(const uint32_t *text, size_t count);

/* The rules as a tokenizer.json file states them, for comparison. */
extern const char zn_split_pattern[];

#endif
