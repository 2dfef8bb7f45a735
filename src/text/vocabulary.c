/* Words are kept once, with the number of times they occur. A merge counts all pairs anew: captions have few words. */
#include "text/vocabulary.h"

#include "base/alloc.h"
#include "base/arena.h"
#include "base/fail.h"
#include "text/split.h"
#include "text/unicode.h"

#include <stdlib.h>
#include <string.h>

enum { BYTES = 256, LEAST_COUNT = 2, MAX_WORD = 256 };

typedef struct word {
    int32_t *ids;
    int size;
    int64_t count;
} word;

typedef struct merge {
    int32_t left, right;
} merge;

typedef struct pair {
    uint64_t key; /* left id, right id */
    int64_t count;
} pair;

typedef struct learning {
    zn_arena arena;
    word *words;
    size_t word_count, word_capacity;
    merge *merges;
    size_t merge_count, merge_capacity;
    pair *pairs;
    size_t pair_count, pair_capacity;
} learning;

/* ---- bytes: the printable ones come first, as in the published vocabularies ---- */

static bool is_printable(int b) { return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174; }

/* The byte of token `id` below 256. */
static int byte_of(int id)
{
    for (int group = 1; group >= 0; group--)
        for (int b = 0; b < BYTES; b++)
            if (is_printable(b) == group && id-- == 0)
                return b;
    return 0;
}

/* The character that stands for a byte. */
static uint32_t symbol_of(int byte)
{
    uint32_t others = 0;
    if (is_printable(byte))
        return (uint32_t)byte;
    for (int b = 0; b < byte; b++)
        others += !is_printable(b);
    return 0x100 + others;
}

/* ---- words ---- */

static zn_status no_memory(void) { return ZN_FAIL(ZN_ENOMEM, "out of memory for a vocabulary"); }

static zn_status add_word(learning *l, const uint8_t *bytes, size_t size, const int32_t ids[BYTES])
{
    if (size > MAX_WORD)
        return ZN_OK;
    int32_t own[MAX_WORD];
    for (size_t i = 0; i < size; i++)
        own[i] = ids[bytes[i]];
    for (size_t i = 0; i < l->word_count; i++) {
        word *w = &l->words[i];
        if ((size_t)w->size == size && memcmp(w->ids, own, sizeof *own * size) == 0) {
            w->count++;
            return ZN_OK;
        }
    }
    word w = { zn_arena_alloc(&l->arena, sizeof *own * size), (int)size, 1 };
    if (!w.ids || !ZN_GROW(l->words, l->word_capacity, l->word_count + 1))
        return no_memory();
    memcpy(w.ids, own, sizeof *own * size);
    l->words[l->word_count++] = w;
    return ZN_OK;
}

static zn_status add_text(learning *l, const char *text, const int32_t ids[BYTES])
{
    uint32_t *points;
    size_t count;
    zn_status status = ZN_OK;
    if (!text[0])
        return ZN_OK;
    ZN_TRY(zn_utf8_to_nfc(text, strlen(text), "a caption", &points, &count));
    for (size_t at = 0; at < count && status == ZN_OK;) {
        const size_t length = zn_split_first(points + at, count - at);
        uint8_t bytes[4 * MAX_WORD];
        size_t size = 0;
        for (size_t i = at; i < at + length && size + 4 <= sizeof bytes; i++)
            size += (size_t)zn_utf8_put(points[i], bytes + size);
        status = add_word(l, bytes, size, ids);
        at += length;
    }
    zn_free(points);
    return status;
}

/* ---- merges ---- */

static int by_key(const void *a, const void *b)
{
    const pair *x = a, *y = b;
    return (x->key > y->key) - (x->key < y->key);
}

/* All pairs of neighbours, each once; of those that occur equally often the first wins, so the order is fixed. */
static zn_status count_pairs(learning *l, pair *best)
{
    l->pair_count = 0;
    for (size_t i = 0; i < l->word_count; i++)
        for (int k = 0; k + 1 < l->words[i].size; k++) {
            const int32_t *id = l->words[i].ids + k;
            if (!ZN_GROW(l->pairs, l->pair_capacity, l->pair_count + 1))
                return no_memory();
            l->pairs[l->pair_count++] = (pair){ (uint64_t)(uint32_t)id[0] << 32 | (uint32_t)id[1], l->words[i].count };
        }
    qsort(l->pairs, l->pair_count, sizeof *l->pairs, by_key);
    *best = (pair){ 0 };
    for (size_t i = 0, end; i < l->pair_count; i = end) {
        pair sum = { l->pairs[i].key, 0 };
        for (end = i; end < l->pair_count && l->pairs[end].key == sum.key; end++)
            sum.count += l->pairs[end].count;
        if (sum.count > best->count)
            *best = sum;
    }
    return ZN_OK;
}

static void replace(word *w, merge m, int32_t id)
{
    int to = 0;
    for (int i = 0; i < w->size; i++) {
        const bool both = i + 1 < w->size && w->ids[i] == m.left && w->ids[i + 1] == m.right;
        w->ids[to++] = both ? id : w->ids[i];
        i += both;
    }
    w->size = to;
}

static zn_status learn(learning *l, int merges)
{
    while (l->merge_count < (size_t)merges) {
        pair best = { 0 };
        ZN_TRY(count_pairs(l, &best));
        if (best.count < LEAST_COUNT)
            break;
        if (!ZN_GROW(l->merges, l->merge_capacity, l->merge_count + 1))
            return no_memory();
        const merge m = { (int32_t)(best.key >> 32), (int32_t)(uint32_t)best.key };
        const int32_t id = (int32_t)(BYTES + l->merge_count);
        l->merges[l->merge_count++] = m;
        for (size_t i = 0; i < l->word_count; i++)
            replace(&l->words[i], m, id);
    }
    return ZN_OK;
}

/* ---- the file ---- */

/* The symbols of a token, at most MAX_WORD bytes of them. */
static size_t symbols_of(const learning *l, int32_t id, char *out)
{
    if (id >= BYTES) {
        const merge *m = &l->merges[id - BYTES];
        const size_t left = symbols_of(l, m->left, out);
        return left + symbols_of(l, m->right, out + left);
    }
    return (size_t)zn_utf8_put(symbol_of(byte_of(id)), (uint8_t *)out);
}

static void write_token(zn_json_out *out, const learning *l, int32_t id)
{
    char text[2 * MAX_WORD + 1];
    text[symbols_of(l, id, text)] = 0;
    zn_json_out_string(out, text);
}

static void write_file(zn_json_out *out, const learning *l)
{
    static const char *const added[ZN_VOCABULARY_ADDED] = { "<|endoftext|>", "<|im_start|>", "<|im_end|>" };
    const int32_t tokens = (int32_t)(BYTES + l->merge_count);
    zn_json_out_format(out, "{\"version\": \"1.0\", \"added_tokens\": [");
    for (int i = 0; i < ZN_VOCABULARY_ADDED; i++)
        zn_json_out_format(out,
                           "%s\n{\"id\": %d, \"content\": \"%s\", \"single_word\": false, \"lstrip\": false, "
                           "\"rstrip\": false, \"normalized\": false, \"special\": true}",
                           i ? "," : "", tokens + i, added[i]);
    zn_json_out_format(out, "],\n\"normalizer\": {\"type\": \"NFC\"},\n\"pre_tokenizer\": {\"type\": \"Sequence\", "
                            "\"pretokenizers\": [\n{\"type\": \"Split\", \"pattern\": {\"Regex\": ");
    zn_json_out_string(out, zn_split_pattern);
    zn_json_out_format(out, "}, \"behavior\": \"Isolated\", \"invert\": false},\n{\"type\": \"ByteLevel\", "
                            "\"add_prefix_space\": false, \"trim_offsets\": false, \"use_regex\": false}]},\n"
                            "\"model\": {\"type\": \"BPE\", \"ignore_merges\": false, \"byte_fallback\": false, "
                            "\"vocab\": {");
    for (int32_t i = 0; i < tokens; i++) {
        zn_json_out_format(out, i ? ",\n" : "\n");
        write_token(out, l, i);
        zn_json_out_format(out, ": %d", i);
    }
    zn_json_out_format(out, "},\n\"merges\": [");
    for (size_t i = 0; i < l->merge_count; i++) {
        zn_json_out_format(out, i ? ",\n[" : "\n[");
        write_token(out, l, l->merges[i].left);
        zn_json_out_format(out, ", ");
        write_token(out, l, l->merges[i].right);
        zn_json_out_format(out, "]");
    }
    zn_json_out_format(out, "]}}\n");
}

zn_status zn_vocabulary_learn(const char *const *texts, int64_t count, int size, zn_json_out *out)
{
    static const char *const turn[] = { "user\n", "assistant\n" };
    learning l = { 0 };
    int32_t ids[BYTES];
    zn_status status = ZN_OK;
    for (int i = 0; i < BYTES; i++)
        ids[byte_of(i)] = i;
    for (int64_t i = 0; i < count && status == ZN_OK; i++) {
        status = add_text(&l, texts[i], ids);
        for (int k = 0; k < 2 && status == ZN_OK; k++)
            status = add_text(&l, turn[k], ids);
    }
    if (status == ZN_OK)
        status = learn(&l, size - ZN_VOCABULARY_LEAST);
    if (status == ZN_OK)
        write_file(out, &l);
    if (status == ZN_OK && out->failed)
        status = no_memory();
    zn_free(l.words);
    zn_free(l.merges);
    zn_free(l.pairs);
    zn_arena_free(&l.arena);
    return status;
}
