/* A tokenizer of 260 tokens, and broken versions of it. */
#ifndef SMALL_H
#define SMALL_H

#include <zenith/status.h>

char *small_vocabulary_text(void); /* vocab.json; free */
/* tokenizer.json with the first `from` replaced by `to`, unless `from` is NULL; free. */
char *small_tokenizer(const char *from, const char *to);

typedef struct small_lie {
    const char *from, *to;
    zn_status status;
    const char *word;
} small_lie;
extern const small_lie small_lies[]; /* ends with from NULL */

#endif
