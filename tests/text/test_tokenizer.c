/* Tokens: Unicode by hand-picked cases, a small vocabulary made here, files that lie, and every string of the golden
 * file with the real vocabulary where it is at hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/sha256.h"
#include "real.h"
#include "small.h"
#include "text/tokenizer.h"
#include "text/unicode.h"
#include "text/vocabulary.h"

static void assert_nfc(const char *text, const char *want)
{
    uint32_t *points;
    size_t count, size = 0;
    uint8_t out[256];
    assert_int_equal(zn_utf8_to_nfc(text, strlen(text), "text", &points, &count), ZN_OK);
    for (size_t i = 0; i < count; i++)
        size += (size_t)zn_utf8_put(points[i], out + size);
    out[size] = 0;
    assert_string_equal((char *)out, want);
    zn_free(points);
}

static void normal_form(void **state)
{
    (void)state;
    assert_nfc("", "");
    assert_nfc("plain \xc3\xa9", "plain \xc3\xa9");
    assert_nfc("e\xcc\x81", "\xc3\xa9");
    assert_nfc("q\xcc\x87\xcc\xa3", "q\xcc\xa3\xcc\x87");               /* marks in order of class */
    assert_nfc("\xe1\xb8\x8b\xcc\xa3", "\xe1\xb8\x8d\xcc\x87");         /* d with dots: taken apart, joined anew */
    assert_nfc("\xe2\x84\xab", "\xc3\x85");                             /* angstrom sign */
    assert_nfc("\xe0\xa5\x98", "\xe0\xa4\x95\xe0\xa4\xbc");             /* excluded from composition */
    assert_nfc("\xe1\x84\x92\xe1\x85\xa1\xe1\x86\xab", "\xed\x95\x9c"); /* Hangul */
    assert_nfc("\xea\xb0\x80\xe1\x86\xa8", "\xea\xb0\x81");             /* and a final behind a syllable */
    assert_nfc("\xcd\x84", "\xcc\x88\xcc\x81");                         /* a mark of two */
    assert_nfc("\xe1\xbe\x82", "\xe1\xbe\x82");                         /* four parts and back */
    assert_nfc("a\xcc\x81\xcc\x81", "\xc3\xa1\xcc\x81");
    assert_nfc("\xf0\x91\x84\xb1\xf0\x91\x84\xa7", "\xf0\x91\x84\xae"); /* beyond 16 bits */
    uint32_t *points;
    size_t count;
    assert_int_equal(zn_utf8_to_nfc("ab\xff", 3, "the prompt", &points, &count), ZN_EINVALID);
    assert_string_equal(zn_error_text(), "the prompt is not UTF-8 at byte 2");
    assert_null(points);
}

static void assert_tokens(const zn_tokenizer *t, const char *text, size_t count, const int32_t *ids)
{
    zn_tokens out = { 0 };
    assert_int_equal(zn_tokenizer_encode(t, text, strlen(text), &out), ZN_OK);
    if (out.count != count || memcmp(out.ids, ids, count * sizeof *ids) != 0)
        fail_msg("'%s' gives %zu tokens, not the %zu expected", text, out.count, count);
    zn_free(out.ids);
}

#define TOKENS(t, text, ...)                                                                                           \
    assert_tokens(t, text, sizeof((int32_t[]){ __VA_ARGS__ }) / sizeof(int32_t), (int32_t[]){ __VA_ARGS__ })

/* Byte b has id b; 300: "ab", 301: "bc", 302: "abc", 303: " a", 400: "<x>", 401: "<x>y". Merges: a b, b c, ab c. */
static void small_vocabulary(void **state)
{
    (void)state;
    char *json = small_tokenizer(NULL, NULL);
    zn_tokenizer *t;
    zn_tokens none = { 0 };
    if (zn_tokenizer_read(json, strlen(json), "small", &t) != ZN_OK)
        fail_msg("%s", zn_error_text());
    TOKENS(t, "ab", 300);
    TOKENS(t, "bc", 301);
    TOKENS(t, "abc", 302);
    TOKENS(t, "bcabab", 301, 300, 300);
    TOKENS(t, "abbc", 300, 301);
    TOKENS(t, "a<x>bc<x>y<", 'a', 400, 301, 401, '<');
    TOKENS(t, " a", ' ', 'a'); /* in the vocabulary, but nothing makes it */
    TOKENS(t, "a b12", 'a', ' ', 'b', '1', '2');
    TOKENS(t, "\xc3\xa9", 0xc3, 0xa9);
    assert_int_equal(zn_tokenizer_encode(t, "", 0, &none), ZN_OK);
    assert_int_equal(none.count, 0);
    assert_int_equal(zn_tokenizer_encode(t, "a\xff", 2, &none), ZN_EINVALID);
    assert_int_equal(zn_tokenizer_chat(t, "a", 1, 512, &none), ZN_EUNSUPPORTED);
    zn_free(none.ids);
    zn_tokenizer_free(t);
    free(json);
}

/* A piece of a million letters, and as many marks: neither may take the square of that. */
static void long_pieces(void **state)
{
    (void)state;
    enum { COUNT = 1 << 20 };
    char *json = small_tokenizer(NULL, NULL), *text = malloc(2 * COUNT);
    zn_tokenizer *t;
    zn_tokens out = { 0 };
    assert_int_equal(zn_tokenizer_read(json, strlen(json), "small", &t), ZN_OK);
    for (int i = 0; i < COUNT; i++)
        text[i] = (char)('a' + i % 3);
    assert_int_equal(zn_tokenizer_encode(t, text, COUNT, &out), ZN_OK);
    assert_int_equal(out.count, (COUNT + 2) / 3); /* abc ... and "a" at the end */
    out.count = 0;
    for (int i = 0; i < COUNT; i++)
        memcpy(text + 2 * i, i % 2 ? "\xcc\x81" : "\xcc\xa3", 2);
    assert_int_equal(zn_tokenizer_encode(t, text, 2 * COUNT, &out), ZN_OK);
    assert_int_equal(out.count, 2 * COUNT);
    assert_int_equal(out.ids[1], 0xa3);
    assert_int_equal(out.ids[2 * COUNT - 1], 0x81);
    zn_free(out.ids);
    zn_tokenizer_free(t);
    free(text);
    free(json);
}

static void files_that_lie(void **state)
{
    (void)state;
    for (int i = 0; small_lies[i].from; i++) {
        char *json = small_tokenizer(small_lies[i].from, small_lies[i].to);
        zn_tokenizer *t;
        const zn_status status = zn_tokenizer_read(json, strlen(json), "lie.json", &t);
        if (status != small_lies[i].status || t || !strstr(zn_error_text(), small_lies[i].word) ||
            !strstr(zn_error_text(), "lie.json"))
            fail_msg("'%s' for '%s': status %d: %s", small_lies[i].to, small_lies[i].from, status, zn_error_text());
        free(json);
    }
}

static void cut_and_short_of_memory(void **state)
{
    (void)state;
    char *json = small_tokenizer(NULL, NULL);
    const size_t size = strlen(json);
    zn_tokenizer *t;
    for (size_t n = 0; n < size; n += 7) {
        assert_int_not_equal(zn_tokenizer_read(json, n, "cut", &t), ZN_OK);
        assert_null(t);
    }
    int failures = 0;
    for (int64_t n = 1;; n++) {
        zn_tokens out = { 0 };
        zn_alloc_fail_at(n);
        zn_status status = zn_tokenizer_read(json, size, "file", &t);
        if (status == ZN_OK)
            status = zn_tokenizer_encode(t, "abc <x> q\xcc\x87", 11, &out);
        zn_alloc_fail_at(0);
        zn_free(out.ids);
        zn_tokenizer_free(t);
        if (status == ZN_OK)
            break;
        assert_int_equal(status, ZN_ENOMEM);
        failures++;
    }
    assert_true(failures > 8);
    free(json);
}

static void parts(void **state)
{
    (void)state;
    char *vocab = small_vocabulary_text();
    static const char merges[] = "#version: 0.2\na b\r\nb c\nab c",
                      config[] = "{\"added_tokens_decoder\":{\"400\":{\"content\":\"<x>\",\"lstrip\":false}}}";
    zn_tokenizer *t;
    if (zn_tokenizer_read_parts(vocab, strlen(vocab), merges, strlen(merges), config, strlen(config), "parts", &t) !=
        ZN_OK)
        fail_msg("%s", zn_error_text());
    TOKENS(t, "abc<x>bc", 302, 400, 301);
    zn_tokenizer_free(t);
    static const char *const bad[] = { "a", "a  b", "a b\na b", "a c", "#version: 1\nx" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(zn_tokenizer_read_parts(vocab, strlen(vocab), bad[i], strlen(bad[i]), NULL, 0, "bad", &t),
                         ZN_EFORMAT);
        assert_non_null(strstr(zn_error_text(), "bad: merge"));
    }
    static const char wrong_id[] = "{\"added_tokens_decoder\":{\"4x\":{\"content\":\"<x>\"}}}";
    assert_int_equal(
        zn_tokenizer_read_parts(vocab, strlen(vocab), merges, strlen(merges), wrong_id, strlen(wrong_id), "bad", &t),
        ZN_EFORMAT);
    free(vocab);
}

/* A file, a folder with tokenizer.json, a folder with the three parts, and nothing at all. */
static void opened_from_folders(void **state)
{
    (void)state;
    char folder[] = "/tmp/zenith-text-XXXXXX", path[64];
    char *json = small_tokenizer(NULL, NULL), *vocab = small_vocabulary_text();
    zn_tokenizer *t;
    assert_non_null(mkdtemp(folder));
    assert_int_equal(zn_tokenizer_open(folder, &t), ZN_ENOTFOUND);
    assert_non_null(strstr(zn_error_text(), "tokenizer.json"));
    const struct {
        const char *name, *text;
    } files[] = { { "vocab.json", vocab },
                  { "merges.txt", "a b\nb c\nab c\n" },
                  { "tokenizer_config.json", "{}" },
                  { "tokenizer.json", json } };
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i].name);
        assert_int_equal(zn_file_write(path, files[i].text, strlen(files[i].text)), ZN_OK);
        const zn_status status = zn_tokenizer_open(folder, &t);
        assert_int_equal(status, i < 2 ? ZN_ENOTFOUND : ZN_OK);
        if (i == 2) /* no tokens are written out */
            TOKENS(t, "abc<x>", 302, '<', 'x', '>');
        if (i == 3)
            TOKENS(t, "abc<x>", 302, 400);
        zn_tokenizer_free(t);
    }
    assert_int_equal(zn_tokenizer_open(path, &t), ZN_OK);
    TOKENS(t, "bc<x>y", 301, 401);
    zn_tokenizer_free(t);
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i].name);
        unlink(path);
    }
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(zn_tokenizer_open(folder, &t), ZN_ENOTFOUND);
    free(json);
    free(vocab);
}

/* ---- a vocabulary that is learned ---- */

static size_t tokens_of(const zn_tokenizer *t, const char *text)
{
    zn_tokens ids = { 0 };
    assert_int_equal(zn_tokenizer_encode(t, text, strlen(text), &ids), ZN_OK);
    const size_t count = ids.count;
    zn_free(ids.ids);
    return count;
}

static void a_vocabulary_is_learned_from_captions(void **state)
{
    (void)state;
    static const char *const captions[] = { "a photo of a fox, an animal", "a photo of a dog, an animal", "" };
    zn_json_out json = { 0 }, again = { 0 };
    zn_tokenizer *t;
    zn_tokens ids = { 0 };
    assert_int_equal(zn_vocabulary_learn(captions, 3, 512, &json), ZN_OK);
    assert_int_equal(zn_vocabulary_learn(captions, 3, 512, &again), ZN_OK);
    assert_int_equal(json.size, again.size);
    assert_memory_equal(json.bytes, again.bytes, json.size);
    assert_int_equal(zn_tokenizer_read(json.bytes, json.size, "learned", &t), ZN_OK);
    assert_int_equal(tokens_of(t, " photo"), 1);
    assert_int_equal(tokens_of(t, "a photo of an animal"), 5);
    assert_int_equal(tokens_of(t, "\xc3\xa9"), 2); /* a letter of two bytes that no caption has */
    assert_int_equal(zn_tokenizer_chat(t, "a dog", 5, SIZE_MAX, &ids), ZN_OK);
    assert_true(ids.count >= 8 && ids.ids[0] == ids.ids[ids.count - 3]); /* both turns begin alike */
    zn_free(ids.ids);
    zn_tokenizer_free(t);
    zn_json_out_free(&json);
    zn_json_out_free(&again);
    /* no room for merges: bytes alone */
    assert_int_equal(zn_vocabulary_learn(captions, 3, ZN_VOCABULARY_LEAST, &json), ZN_OK);
    assert_int_equal(zn_tokenizer_read(json.bytes, json.size, "bytes", &t), ZN_OK);
    assert_int_equal(tokens_of(t, " photo"), 6);
    zn_tokenizer_free(t);
    zn_json_out_free(&json);
}

/* The hash is that of a search which counted all pairs of all words anew for every merge. */
static void a_learned_vocabulary_stays_the_same(void **state)
{
    (void)state;
    enum { TEXTS = 200, LETTERS = 63, SIZE = 600 };
    static char texts[TEXTS][LETTERS + 1];
    const char *pointers[TEXTS];
    uint32_t x = 1;
    for (int i = 0; i < TEXTS; i++) {
        for (int k = 0; k < LETTERS; k++) {
            x = x * 1664525u + 1013904223u;
            const uint32_t c = x >> 28;
            texts[i][k] = c < 4 ? ' ' : (char)('a' + c % 5);
        }
        pointers[i] = texts[i];
    }
    zn_json_out json = { 0 };
    assert_int_equal(zn_vocabulary_learn(pointers, TEXTS, SIZE, &json), ZN_OK);
    char hex[65];
    zn_sha256_hex(json.bytes, json.size, hex);
    assert_string_equal(hex, "e13d0f5af3156f6f77d74319f77c00261241072bbd5731fa397695beeccbee35");
    zn_json_out_free(&json);
}

static void learning_runs_out_of_memory(void **state)
{
    (void)state;
    static const char *const captions[] = { "a photo of a fox, an animal", "a photo of a dog, an animal" };
    zn_status status = ZN_ENOMEM;
    for (int nth = 1; status != ZN_OK; nth++) {
        zn_json_out json = { 0 };
        zn_alloc_fail_at(nth);
        status = zn_vocabulary_learn(captions, 2, 300, &json);
        zn_alloc_fail_at(0);
        assert_true(status == ZN_OK || status == ZN_ENOMEM);
        zn_json_out_free(&json);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_vocabulary_is_learned_from_captions),
        cmocka_unit_test(a_learned_vocabulary_stays_the_same),
        cmocka_unit_test(learning_runs_out_of_memory),
        cmocka_unit_test(normal_form),
        cmocka_unit_test(small_vocabulary),
        cmocka_unit_test(long_pieces),
        cmocka_unit_test(files_that_lie),
        cmocka_unit_test(parts),
        cmocka_unit_test(cut_and_short_of_memory),
        cmocka_unit_test(opened_from_folders),
        cmocka_unit_test(golden_strings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
