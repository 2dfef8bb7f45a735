/* Reads tokenizers: tokenizer.json, or the older vocab.json, merges.txt and tokenizer_config.json. */
#include "base/alloc.h"
#include "base/fail.h"
#include "base/json.h"
#include "text/added.h"
#include "text/split.h"

#include <stdlib.h>
#include <string.h>

zn_status zn_tokenizer_new(const char *name, zn_tokenizer **out)
{
    zn_tokenizer *t = zn_calloc(1, sizeof *t);
    if (t)
        t->bpe.name = zn_arena_copy(&t->arena, name);
    if (!t || !t->bpe.name) {
        zn_tokenizer_free(t);
        return ZN_FAIL(ZN_ENOMEM, "out of memory: tokenizer %s", name);
    }
    *out = t;
    return ZN_OK;
}

static zn_status read_vocabulary(zn_tokenizer *t, const zn_json_node *vocab, size_t merges)
{
    size_t bytes = 0;
    if (!vocab || vocab->kind != ZN_JSON_OBJECT)
        return ZN_FAIL(ZN_EFORMAT, "%s: the vocabulary is not an object", t->bpe.name);
    if (vocab->length > ZN_MAX_TOKENS || merges > ZN_MAX_TOKENS)
        return ZN_FAIL(ZN_ELIMIT, "%s: more than %d tokens or merges", t->bpe.name, ZN_MAX_TOKENS);
    ZN_JSON_EACH(key, vocab) { bytes += key->length; }
    ZN_TRY(zn_bpe_begin(&t->bpe, vocab->length, bytes, merges));
    ZN_JSON_EACH(key, vocab)
    {
        int64_t id;
        if (!zn_json_i64(key + 1, &id) || id < 0 || id > INT32_MAX)
            return ZN_FAIL(ZN_EFORMAT, "%s: the id of token '%s' is no number from 0 to %d", t->bpe.name,
                           key->value.text, INT32_MAX);
        ZN_TRY(zn_bpe_token(&t->bpe, key->value.text, key->length, (int32_t)id));
    }
    return zn_bpe_index(&t->bpe);
}

zn_status zn_tokenizer_merge(zn_tokenizer *t, const char *line, size_t size)
{
    const char *space = memchr(line, ' ', size);
    if (!space)
        return ZN_FAIL(ZN_EFORMAT, "%s: merge %zu is not of two tokens", t->bpe.name, t->bpe.merge_count);
    const size_t left = (size_t)(space - line);
    return zn_bpe_merge(&t->bpe, line, left, space + 1, size - left - 1);
}

static zn_status read_merges(zn_tokenizer *t, const zn_json_node *merges)
{
    ZN_JSON_EACH(m, merges)
    {
        if (m->kind == ZN_JSON_STRING)
            ZN_TRY(zn_tokenizer_merge(t, m->value.text, m->length));
        else if (m->kind == ZN_JSON_ARRAY && m->length == 2 && m[1].kind == ZN_JSON_STRING &&
                 m[2].kind == ZN_JSON_STRING)
            ZN_TRY(zn_bpe_merge(&t->bpe, m[1].value.text, m[1].length, m[2].value.text, m[2].length));
        else
            return ZN_FAIL(ZN_EFORMAT, "%s: merge %zu is not of two tokens", t->bpe.name, t->bpe.merge_count);
    }
    return zn_bpe_finish(&t->bpe);
}

static bool is_true(const zn_json_node *n) { return n && n->kind == ZN_JSON_BOOL && n->value.magnitude; }

static bool is_text(const zn_json_node *n, const char *text)
{
    const char *own = zn_json_string(n);
    return own && strcmp(own, text) == 0;
}

zn_status zn_tokenizer_add(zn_tokenizer *t, const char *text, size_t size, int32_t id)
{
    if (t->added_count == ZN_MAX_ADDED)
        return ZN_FAIL(ZN_ELIMIT, "%s: more than %d added tokens", t->bpe.name, ZN_MAX_ADDED);
    char *copy = zn_arena_alloc(&t->arena, size);
    if (!copy)
        return ZN_FAIL(ZN_ENOMEM, "out of memory: added tokens of %s", t->bpe.name);
    memcpy(copy, text, size);
    t->added[t->added_count++] = (zn_added){ copy, size, id };
    t->begins[(uint8_t)copy[0]] = true;
    return ZN_OK;
}

static zn_status add_token(zn_tokenizer *t, const zn_json_node *token, int64_t id)
{
    const zn_json_node *content = zn_json_get(token, "content");
    if (!content || content->kind != ZN_JSON_STRING || !content->length || id < 0 || id > INT32_MAX)
        return ZN_FAIL(ZN_EFORMAT, "%s: added token %d has no text or no id from 0 to %d", t->bpe.name, t->added_count,
                       INT32_MAX);
    if (is_true(zn_json_get(token, "lstrip")) || is_true(zn_json_get(token, "rstrip")) ||
        is_true(zn_json_get(token, "single_word")) || is_true(zn_json_get(token, "normalized")))
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s: added token '%s' is not to be found as it is written", t->bpe.name,
                       content->value.text);
    return zn_tokenizer_add(t, content->value.text, content->length, (int32_t)id);
}

static zn_status unsupported(const zn_tokenizer *t, const char *part)
{
    return ZN_FAIL(ZN_EUNSUPPORTED, "%s: its %s is not that of Qwen's tokenizers", t->bpe.name, part);
}

/* The splitting rules are compiled in. A file with other rules would give wrong tokens. */
static zn_status check_rules(const zn_tokenizer *t, const zn_json_node *root)
{
    const zn_json_node *model = zn_json_get(root, "model"), *steps = zn_json_get(root, "pre_tokenizer");
    const zn_json_node *list = zn_json_get(steps, "pretokenizers"), *split = zn_json_first(list);
    const zn_json_node *bytes = split ? zn_json_next(list, split) : NULL;
    if (!is_text(zn_json_get(model, "type"), "BPE") || is_true(zn_json_get(model, "ignore_merges")) ||
        is_true(zn_json_get(model, "byte_fallback")))
        return unsupported(t, "model");
    if (!is_text(zn_json_get(zn_json_get(root, "normalizer"), "type"), "NFC"))
        return unsupported(t, "normalizer");
    if (!is_text(zn_json_get(steps, "type"), "Sequence") || !list || list->length != 2 ||
        !is_text(zn_json_get(split, "type"), "Split") || !is_text(zn_json_get(split, "behavior"), "Isolated") ||
        is_true(zn_json_get(split, "invert")) ||
        !is_text(zn_json_get(zn_json_get(split, "pattern"), "Regex"), zn_split_pattern) ||
        !is_text(zn_json_get(bytes, "type"), "ByteLevel") || is_true(zn_json_get(bytes, "add_prefix_space")) ||
        is_true(zn_json_get(bytes, "use_regex")))
        return unsupported(t, "pre-tokenizer");
    return ZN_OK;
}

static zn_status fill(zn_tokenizer *t, const zn_json_node *root)
{
    const zn_json_node *model = zn_json_get(root, "model"), *merges = zn_json_get(model, "merges");
    ZN_TRY(check_rules(t, root));
    if (!merges || merges->kind != ZN_JSON_ARRAY)
        return ZN_FAIL(ZN_EFORMAT, "%s: the merges are not an array", t->bpe.name);
    ZN_TRY(read_vocabulary(t, zn_json_get(model, "vocab"), merges->length));
    ZN_TRY(read_merges(t, merges));
    ZN_JSON_EACH(token, zn_json_get(root, "added_tokens"))
    {
        int64_t id;
        ZN_TRY(add_token(t, token, zn_json_i64(zn_json_get(token, "id"), &id) ? id : -1));
    }
    return ZN_OK;
}

static zn_status finish(zn_tokenizer *t, zn_status status, zn_tokenizer **out)
{
    if (status == ZN_OK)
        *out = t;
    else
        zn_tokenizer_free(t);
    return status;
}

zn_status zn_tokenizer_read(const void *json, size_t size, const char *name, zn_tokenizer **out)
{
    zn_json doc;
    zn_tokenizer *t = NULL;
    *out = NULL;
    ZN_TRY(zn_json_parse(&doc, json, size, name));
    zn_status status = zn_tokenizer_new(name, &t);
    if (status == ZN_OK)
        status = fill(t, doc.root);
    zn_json_free(&doc);
    return finish(t, status, out);
}

/* Lines of "left right"; the first may be a comment. */
static zn_status read_merge_lines(zn_tokenizer *t, const char *text, size_t size)
{
    for (size_t at = 0; at < size;) {
        const char *line = text + at, *end = memchr(line, '\n', size - at);
        size_t length = end ? (size_t)(end - line) : size - at;
        const bool comment = at == 0 && length > 9 && memcmp(line, "#version:", 9) == 0;
        at += length + 1;
        if (length && line[length - 1] == '\r')
            length--;
        if (length && !comment)
            ZN_TRY(zn_tokenizer_merge(t, line, length));
    }
    return zn_bpe_finish(&t->bpe);
}

static zn_status read_config(zn_tokenizer *t, const void *config, size_t size)
{
    zn_json doc;
    zn_status status = ZN_OK;
    ZN_TRY(zn_json_parse(&doc, config, size, t->bpe.name));
    ZN_JSON_EACH(key, zn_json_get(doc.root, "added_tokens_decoder"))
    {
        char *end;
        const long id = strtol(key->value.text, &end, 10);
        if (status == ZN_OK)
            status = add_token(t, key + 1, end != key->value.text && !*end ? id : -1);
    }
    zn_json_free(&doc);
    return status;
}

zn_status zn_tokenizer_read_parts(const void *vocab, size_t vocab_size, const void *merges, size_t merges_size,
                                  const void *config, size_t config_size, const char *name, zn_tokenizer **out)
{
    zn_json doc;
    zn_tokenizer *t = NULL;
    size_t lines = 1;
    *out = NULL;
    for (size_t i = 0; i < merges_size; i++)
        lines += ((const char *)merges)[i] == '\n';
    ZN_TRY(zn_json_parse(&doc, vocab, vocab_size, name));
    zn_status status = zn_tokenizer_new(name, &t);
    if (status == ZN_OK)
        status = read_vocabulary(t, doc.root, lines);
    zn_json_free(&doc);
    if (status == ZN_OK)
        status = read_merge_lines(t, merges, merges_size);
    if (status == ZN_OK && config)
        status = read_config(t, config, config_size);
    return finish(t, status, out);
}
