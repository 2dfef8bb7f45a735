/* Fills a vocabulary. Tokens and pairs are found by binary search in sorted tables, so no choice of names can make it
 * slow. */
#include "base/alloc.h"
#include "base/fail.h"
#include "base/json.h"
#include "text/bpe.h"
#include "text/bpe_tables.h"

#include <stdlib.h>
#include <string.h>

/* The byte that a character represents. Printable bytes represent themselves; the 68 others are represented, in order,
 * by U+0100 and following. -1: not a byte. */
static int byte_of(uint32_t c)
{
    if ((c >= 33 && c <= 126) || (c >= 161 && c <= 172) || (c >= 174 && c <= 255))
        return (int)c;
    if (c < 0x100 || c >= 0x100 + 68)
        return -1;
    const int n = (int)c - 0x100; /* 0 to 32, 127 to 160, 173 */
    return n < 33 ? n : n < 67 ? 127 + n - 33 : 173;
}

/* Converts symbols to bytes. Returns their number, or 0 if there are none or too many, or if one does not represent a
 * byte. */
static size_t bytes_of(const char *symbols, size_t size, uint8_t out[ZN_BPE_MAX_TOKEN])
{
    size_t count = 0;
    for (size_t i = 0; i < size;) {
        const uint8_t *p = (const uint8_t *)symbols + i;
        const int length = zn_utf8_sequence(p, size - i);
        const int byte = length == 1 ? byte_of(p[0]) : length == 2 ? byte_of((p[0] & 31u) << 6 | (p[1] & 63u)) : -1;
        if (byte < 0 || count == ZN_BPE_MAX_TOKEN)
            return 0;
        out[count++] = (uint8_t)byte;
        i += (size_t)length;
    }
    return count;
}

zn_status zn_bpe_begin(zn_bpe *b, size_t tokens, size_t bytes, size_t merges)
{
    b->token_limit = tokens;
    b->text_limit = bytes;
    b->merge_limit = merges;
    b->tokens = zn_calloc(tokens + 1, sizeof *b->tokens);
    b->merges = zn_calloc(merges + 1, sizeof *b->merges);
    b->text = zn_alloc(bytes + 1);
    if (!b->tokens || !b->merges || !b->text)
        return ZN_FAIL(ZN_ENOMEM, "out of memory: %zu tokens of %s", tokens, b->name);
    return ZN_OK;
}

void zn_bpe_free(zn_bpe *b)
{
    zn_free(b->tokens);
    zn_free(b->merges);
    zn_free(b->text);
    b->tokens = NULL;
    b->merges = NULL;
    b->text = NULL;
}

zn_status zn_bpe_token(zn_bpe *b, const char *symbols, size_t size, int32_t id)
{
    uint8_t bytes[ZN_BPE_MAX_TOKEN];
    const size_t count = bytes_of(symbols, size, bytes);
    if (!count)
        return ZN_FAIL(ZN_EFORMAT, "%s: token %d does not stand for 1 to %d bytes", b->name, id, ZN_BPE_MAX_TOKEN);
    if (b->token_count == b->token_limit || count > b->text_limit - b->text_size)
        return ZN_FAIL(ZN_EFORMAT, "%s: more tokens than announced", b->name);
    uint8_t *place = b->text + b->text_size;
    memcpy(place, bytes, count);
    b->text_size += count;
    b->tokens[b->token_count++] = (zn_bpe_token_entry){ place, (uint32_t)count, id };
    return ZN_OK;
}

static int order_of(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size)
{
    const int order = memcmp(a, b, a_size < b_size ? a_size : b_size);
    return order ? order : (a_size > b_size) - (a_size < b_size);
}

static int by_bytes(const void *a, const void *b)
{
    const zn_bpe_token_entry *x = a, *y = b;
    return order_of(x->bytes, x->size, y->bytes, y->size);
}

/* The id of these bytes, or -1. */
static int32_t id_of(const zn_bpe *b, const uint8_t *bytes, size_t size)
{
    size_t low = 0, high = b->token_count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        const zn_bpe_token_entry *t = &b->tokens[middle];
        const int order = order_of(bytes, size, t->bytes, t->size);
        if (order == 0)
            return t->id;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return -1;
}

zn_status zn_bpe_index(zn_bpe *b)
{
    qsort(b->tokens, b->token_count, sizeof *b->tokens, by_bytes);
    for (size_t i = 1; i < b->token_count; i++)
        if (by_bytes(&b->tokens[i - 1], &b->tokens[i]) == 0)
            return ZN_FAIL(ZN_EFORMAT, "%s: tokens %d and %d are alike", b->name, b->tokens[i - 1].id, b->tokens[i].id);
    for (int i = 0; i < 256; i++) {
        b->byte_ids[i] = id_of(b, &(uint8_t){ (uint8_t)i }, 1);
        if (b->byte_ids[i] < 0)
            return ZN_FAIL(ZN_EFORMAT, "%s: no token stands for byte %d alone", b->name, i);
    }
    return ZN_OK;
}

zn_status zn_bpe_merge(zn_bpe *b, const char *left, size_t left_size, const char *right, size_t right_size)
{
    uint8_t bytes[2 * ZN_BPE_MAX_TOKEN];
    const size_t a = bytes_of(left, left_size, bytes), c = a ? bytes_of(right, right_size, bytes + a) : 0;
    const int32_t x = a ? id_of(b, bytes, a) : -1, y = c ? id_of(b, bytes + a, c) : -1;
    const int32_t joined = x >= 0 && y >= 0 ? id_of(b, bytes, a + c) : -1;
    if (joined < 0)
        return ZN_FAIL(ZN_EFORMAT, "%s: merge %zu is of tokens, or makes one, that the vocabulary has not", b->name,
                       b->merge_count);
    if (b->merge_count == b->merge_limit)
        return ZN_FAIL(ZN_EFORMAT, "%s: more merges than announced", b->name);
    b->merges[b->merge_count] = (zn_bpe_merge_entry){ zn_bpe_pair(x, y), (uint32_t)b->merge_count, joined };
    b->merge_count++;
    return ZN_OK;
}

static int by_pair(const void *a, const void *b)
{
    const zn_bpe_merge_entry *x = a, *y = b;
    return (x->pair > y->pair) - (x->pair < y->pair);
}

zn_status zn_bpe_finish(zn_bpe *b)
{
    qsort(b->merges, b->merge_count, sizeof *b->merges, by_pair);
    for (size_t i = 1; i < b->merge_count; i++)
        if (b->merges[i - 1].pair == b->merges[i].pair)
            return ZN_FAIL(ZN_EFORMAT, "%s: merges %u and %u are of the same tokens", b->name, b->merges[i - 1].rank,
                           b->merges[i].rank);
    return ZN_OK;
}
