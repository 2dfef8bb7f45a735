/* Encoding: finds added tokens in the raw text, leftmost and longest. The text between them is normalised to NFC and
 * split into pieces, and each piece is encoded. */
#include "text/tokenizer.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "text/added.h"
#include "text/split.h"
#include "text/unicode.h"

#include <string.h>

void zn_tokenizer_free(zn_tokenizer *t)
{
    if (!t)
        return;
    zn_bpe_free(&t->bpe);
    zn_arena_free(&t->arena);
    zn_free(t);
}

static const zn_added *added_at(const zn_tokenizer *t, const char *text, size_t size)
{
    const zn_added *best = NULL;
    if (!t->begins[(uint8_t)text[0]])
        return NULL;
    for (int i = 0; i < t->added_count; i++) {
        const zn_added *a = &t->added[i];
        if (a->size <= size && memcmp(a->text, text, a->size) == 0 && (!best || a->size > best->size))
            best = a;
    }
    return best;
}

static zn_status encode_pieces(const zn_tokenizer *t, zn_bpe_work *work, const uint32_t *points, size_t count,
                               uint8_t *bytes, zn_tokens *out)
{
    for (size_t at = 0; at < count;) {
        const size_t length = zn_split_first(points + at, count - at);
        size_t size = 0;
        for (size_t i = at; i < at + length; i++)
            size += (size_t)zn_utf8_put(points[i], bytes + size);
        ZN_TRY(zn_bpe_encode(&t->bpe, work, bytes, size, out));
        at += length;
    }
    return ZN_OK;
}

/* Encodes text without added tokens. */
static zn_status encode_plain(const zn_tokenizer *t, zn_bpe_work *work, const char *text, size_t size, zn_tokens *out)
{
    uint32_t *points = NULL;
    uint8_t *bytes = NULL;
    size_t count;
    zn_status status;
    if (size == 0)
        return ZN_OK;
    ZN_TRY_DONE(zn_utf8_to_nfc(text, size, "the text", &points, &count));
    ZN_TRY_DONE(zn_alloc_for("text", 4 * count + 4, (void **)&bytes));
    status = encode_pieces(t, work, points, count, bytes, out);
done:
    zn_free(points);
    zn_free(bytes);
    return status;
}

static zn_status encode(const zn_tokenizer *t, zn_bpe_work *work, const char *text, size_t size, zn_tokens *out)
{
    size_t begin = 0;
    for (size_t i = 0; i < size;) {
        const zn_added *a = added_at(t, text + i, size - i);
        if (!a) {
            i++;
            continue;
        }
        ZN_TRY(encode_plain(t, work, text + begin, i - begin, out));
        ZN_TRY(zn_tokens_add(out, a->id));
        i += a->size;
        begin = i;
    }
    return encode_plain(t, work, text + begin, size - begin, out);
}

zn_status zn_tokenizer_encode(const zn_tokenizer *t, const char *text, size_t size, zn_tokens *out)
{
    zn_bpe_work work = { 0 };
    const zn_status status = encode(t, &work, text, size, out);
    zn_free(work.memory);
    return status;
}

zn_status zn_tokenizer_chat(const zn_tokenizer *t, const char *prompt, size_t size, size_t limit, zn_tokens *out)
{
    static const char before[] = "<|im_start|>user\n", behind[] = "<|im_end|>\n<|im_start|>assistant\n";
    const size_t head = sizeof before - 1, tail = sizeof behind - 1, begin = out->count;
    char *text;
    if (!added_at(t, before, head) || !added_at(t, behind, tail))
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s has no tokens <|im_start|> and <|im_end|>", t->bpe.name);
    ZN_TRY(zn_alloc_for("a prompt", head + size + tail, (void **)&text));
    memcpy(text, before, head);
    memcpy(text + head, prompt, size);
    memcpy(text + head + size, behind, tail);
    const zn_status status = zn_tokenizer_encode(t, text, head + size + tail, out);
    if (status == ZN_OK && out->count - begin > limit)
        out->count = begin + limit;
    zn_free(text);
    return status;
}
