/* SHA-1 against the examples of FIPS 180-4, and against itself in pieces of every length. */
#include "base/sha1.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

static void hash(const char *text, size_t size, size_t piece, char hex[41])
{
    zn_sha1 h;
    zn_sha1_start(&h);
    for (size_t at = 0; at < size; at += piece)
        zn_sha1_add(&h, text + at, size - at < piece ? size - at : piece);
    zn_sha1_finish_hex(&h, hex);
}

static void published_examples(void **state)
{
    (void)state;
    static const struct {
        const char *text, *hex;
    } cases[] = {
        { "", "da39a3ee5e6b4b0d3255bfef95601890afd80709" },
        { "abc", "a9993e364706816aba3e25717850c26c9cd0d89d" },
        { "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", "84983e441c3bd26ebaae4aa1f95129e5e54670f1" },
    };
    char hex[41];
    for (int i = 0; i < 3; i++) {
        hash(cases[i].text, strlen(cases[i].text), 64, hex);
        assert_string_equal(hex, cases[i].hex);
    }
}

static void pieces(void **state)
{
    (void)state;
    char text[200], whole[41], parts[41];
    memset(text, 'a', sizeof text);
    for (size_t size = 0; size <= sizeof text; size++)
        for (size_t piece = 1; piece < 130; piece += 21) {
            hash(text, size, sizeof text, whole);
            hash(text, size, piece, parts);
            assert_string_equal(parts, whole);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(published_examples), cmocka_unit_test(pieces) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
