/* Reads tokenizers from the lists of GGUF files, in place. */
#include "base/fail.h"
#include "base/span.h"
#include "text/added.h"

enum { NORMAL = 1, CONTROL = 3, USER_DEFINED = 4, UNUSED = 5 };

typedef struct string {
    const char *text;
    size_t size;
} string;

static string next(const uint8_t **at)
{
    const string s = { (const char *)*at + 8, (size_t)zn_load64(*at) };
    *at += 8 + s.size;
    return s;
}

static int type_of(const zn_token_lists *l, uint64_t id)
{
    return l->types ? (int)(int32_t)zn_load32(l->types + 4 * id) : NORMAL;
}

static zn_status read_token(zn_tokenizer *t, string s, int type, int32_t id)
{
    switch (type) {
    case NORMAL:
        return zn_bpe_token(&t->bpe, s.text, s.size, id);
    case CONTROL:
    case USER_DEFINED:
        return s.size ? zn_tokenizer_add(t, s.text, s.size, id)
                      : ZN_FAIL(ZN_EFORMAT, "%s: added token %d has no text", t->bpe.name, id);
    case UNUSED:
        return ZN_OK;
    default:
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s: token %d is of type %d, which Qwen's tokenizers do not have", t->bpe.name,
                       id, type);
    }
}

static zn_status fill(zn_tokenizer *t, const zn_token_lists *l)
{
    size_t bytes = 0;
    const uint8_t *at = l->tokens;
    if (!l->token_count || l->token_count > ZN_MAX_TOKENS || l->merge_count > ZN_MAX_TOKENS)
        return ZN_FAIL(ZN_ELIMIT, "%s: no tokens, or more than %d tokens or merges", t->bpe.name, ZN_MAX_TOKENS);
    for (uint64_t i = 0; i < l->token_count; i++)
        bytes += next(&at).size;
    ZN_TRY(zn_bpe_begin(&t->bpe, (size_t)l->token_count, bytes, (size_t)l->merge_count));
    at = l->tokens;
    for (uint64_t i = 0; i < l->token_count; i++) {
        const string s = next(&at);
        ZN_TRY(read_token(t, s, type_of(l, i), (int32_t)i));
    }
    ZN_TRY(zn_bpe_index(&t->bpe));
    at = l->merges;
    for (uint64_t i = 0; i < l->merge_count; i++) {
        const string s = next(&at);
        ZN_TRY(zn_tokenizer_merge(t, s.text, s.size));
    }
    return zn_bpe_finish(&t->bpe);
}

zn_status zn_tokenizer_read_lists(const zn_token_lists *lists, const char *name, zn_tokenizer **out)
{
    zn_tokenizer *t = NULL;
    *out = NULL;
    ZN_TRY(zn_tokenizer_new(name, &t));
    const zn_status status = fill(t, lists);
    if (status == ZN_OK)
        *out = t;
    else
        zn_tokenizer_free(t);
    return status;
}
