/* Words are kept once, with the number of times they occur, and pairs with the words that they occur in: a merge counts
 * the pairs of those words alone anew. */
#include "text/vocabulary.h"

#include "base/alloc.h"
#include "base/arena.h"
#include "base/fail.h"
#include "text/split.h"
#include "text/unicode.h"

#include <stdbool.h>
#include <string.h>

enum { BYTES = 256, LEAST_COUNT = 2, MAX_WORD = 256, FEWEST_SLOTS = 1024 /* a power of 2 */ };

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
    size_t last; /* its last occurrence, counted from 1; 0: none */
} pair;

/* The number of a word that a pair occurred in when it was noted. */
typedef struct occurrence {
    size_t at, before; /* the pair's occurrence before this one, as in `last` */
} occurrence;

/* Where an item of a list is found by its hash. */
typedef struct slot {
    uint64_t hash;
    size_t item; /* counted from 1; 0: free */
} slot;

typedef struct table {
    slot *slots;
    size_t capacity /* a power of 2 */, used;
} table;

typedef struct learning {
    zn_arena arena;
    word *words;
    size_t word_count, word_capacity;
    table words_by_ids;
    merge *merges;
    size_t merge_count, merge_capacity;
    pair *pairs;
    size_t pair_count, pair_capacity;
    table pairs_by_key;
    occurrence *occurrences;
    size_t occurrence_count, occurrence_capacity;
} learning;

/* ---- tables ---- */

static slot *first_slot(const table *t, uint64_t hash) { return &t->slots[hash & (t->capacity - 1)]; }
static slot *next_slot(const table *t, slot *s) { return ++s < t->slots + t->capacity ? s : t->slots; }

/* Keeps half of the slots free, one more item included. */
static bool make_room(table *t)
{
    if (2 * (t->used + 1) <= t->capacity)
        return true;
    table larger = { NULL, t->capacity ? 2 * t->capacity : FEWEST_SLOTS, t->used };
    larger.slots = zn_calloc(larger.capacity, sizeof *larger.slots);
    if (!larger.slots)
        return false;
    for (size_t i = 0; i < t->capacity; i++) {
        if (!t->slots[i].item)
            continue;
        slot *s = first_slot(&larger, t->slots[i].hash);
        while (s->item)
            s = next_slot(&larger, s);
        *s = t->slots[i];
    }
    zn_free(t->slots);
    *t = larger;
    return true;
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 32;
}

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
    uint64_t hash = size;
    for (size_t i = 0; i < size; i++)
        hash = mix(hash, (uint64_t)own[i]);
    if (!make_room(&l->words_by_ids))
        return no_memory();
    slot *s = first_slot(&l->words_by_ids, hash);
    for (; s->item; s = next_slot(&l->words_by_ids, s)) {
        word *w = &l->words[s->item - 1];
        if (s->hash == hash && (size_t)w->size == size && memcmp(w->ids, own, sizeof *own * size) == 0) {
            w->count++;
            return ZN_OK;
        }
    }
    word w = { zn_arena_alloc(&l->arena, sizeof *own * size), (int)size, 1 };
    if (!w.ids || !ZN_GROW(l->words, l->word_capacity, l->word_count + 1))
        return no_memory();
    memcpy(w.ids, own, sizeof *own * size);
    l->words[l->word_count++] = w;
    *s = (slot){ hash, l->word_count };
    l->words_by_ids.used++;
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

/* The pair, which is added if it is new; NULL when out of memory. */
static pair *pair_of(learning *l, int32_t left, int32_t right)
{
    const uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right, hash = mix(mix(0, key), 0);
    if (!make_room(&l->pairs_by_key) || !ZN_GROW(l->pairs, l->pair_capacity, l->pair_count + 1))
        return NULL;
    slot *s = first_slot(&l->pairs_by_key, hash);
    for (; s->item; s = next_slot(&l->pairs_by_key, s))
        if (l->pairs[s->item - 1].key == key)
            return &l->pairs[s->item - 1];
    l->pairs[l->pair_count++] = (pair){ .key = key };
    *s = (slot){ hash, l->pair_count };
    l->pairs_by_key.used++;
    return &l->pairs[l->pair_count - 1];
}

static bool note_word(learning *l, pair *p, size_t at)
{
    if (p->last && l->occurrences[p->last - 1].at == at)
        return true;
    if (!ZN_GROW(l->occurrences, l->occurrence_capacity, l->occurrence_count + 1))
        return false;
    l->occurrences[l->occurrence_count++] = (occurrence){ at, p->last };
    p->last = l->occurrence_count;
    return true;
}

/* Counts the pairs of neighbours in a word `times` times, and notes the word with those that hold token `id` (-1: with
 * all). A negative number takes back what was counted. */
static zn_status count_pairs(learning *l, size_t at, int64_t times, int32_t id)
{
    const word *w = &l->words[at];
    for (int k = 0; k + 1 < w->size; k++) {
        const int32_t left = w->ids[k], right = w->ids[k + 1];
        pair *p = pair_of(l, left, right);
        const bool noted = times > 0 && (id < 0 || left == id || right == id);
        if (!p || (noted && !note_word(l, p, at)))
            return no_memory();
        p->count += times;
    }
    return ZN_OK;
}

/* Of those that occur equally often, the one with the least key: the order is fixed. */
static pair most_frequent(const learning *l)
{
    pair best = { 0 };
    for (size_t i = 0; i < l->pair_count; i++) {
        const pair *p = &l->pairs[i];
        if (p->count > best.count || (p->count == best.count && p->key < best.key))
            best = *p;
    }
    return best;
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

/* Words in which the pair no longer occurs are noted with it too: they stay as they are. */
static zn_status merge_everywhere(learning *l, const pair *p, merge m, int32_t id)
{
    for (size_t o = p->last; o; o = l->occurrences[o - 1].before) {
        const size_t at = l->occurrences[o - 1].at;
        ZN_TRY(count_pairs(l, at, -l->words[at].count, id));
        replace(&l->words[at], m, id);
        ZN_TRY(count_pairs(l, at, l->words[at].count, id));
    }
    return ZN_OK;
}

static zn_status learn(learning *l, int merges)
{
    for (size_t i = 0; i < l->word_count; i++)
        ZN_TRY(count_pairs(l, i, l->words[i].count, -1));
    while (l->merge_count < (size_t)merges) {
        const pair best = most_frequent(l);
        if (best.count < LEAST_COUNT)
            break;
        if (!ZN_GROW(l->merges, l->merge_capacity, l->merge_count + 1))
            return no_memory();
        const merge m = { (int32_t)(best.key >> 32), (int32_t)(uint32_t)best.key };
        const int32_t id = (int32_t)(BYTES + l->merge_count);
        l->merges[l->merge_count++] = m;
        ZN_TRY(merge_everywhere(l, &best, m, id));
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
    zn_free(l.occurrences);
    zn_free(l.words_by_ids.slots);
    zn_free(l.pairs_by_key.slots);
    zn_arena_free(&l.arena);
    return status;
}
