/* SHA-256 against the examples of FIPS 180-4 and against itself in pieces of every length. */
#include "base/sha256.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zenith/weights.h>

static void published_examples(void **state)
{
    (void)state;
    static const struct {
        const char *text, *hex;
    } cases[] = {
        { "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
        { "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
        { "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
    };
    char hex[65];
    for (int i = 0; i < 3; i++) {
        zn_sha256_hex(cases[i].text, strlen(cases[i].text), hex);
        assert_string_equal(hex, cases[i].hex);
    }
    char *million = malloc(1000000);
    memset(million, 'a', 1000000);
    zn_sha256_hex(million, 1000000, hex);
    assert_string_equal(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(million);
}

static void pieces(void **state)
{
    (void)state;
    uint8_t data[300], whole[32], parts[32];
    zn_sha256 h;
    for (int i = 0; i < 300; i++)
        data[i] = (uint8_t)(i * 7);
    for (size_t size = 0; size <= 300; size++)
        for (size_t step = 1; step < 150; step += 7) {
            zn_sha256_start(&h);
            zn_sha256_add(&h, data, size);
            zn_sha256_finish(&h, whole);
            zn_sha256_start(&h);
            for (size_t at = 0; at < size; at += step)
                zn_sha256_add(&h, data + at, size - at < step ? size - at : step);
            zn_sha256_finish(&h, parts);
            assert_memory_equal(whole, parts, 32);
        }
}

static void files(void **state)
{
    (void)state;
    char path[] = "/tmp/zenith-sha-XXXXXX", hex[65];
    const int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, "abc", 3) == 3 && close(fd) == 0);
    assert_int_equal(zn_file_sha256(path, hex), ZN_OK);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    unlink(path);
    assert_int_equal(zn_file_sha256(path, hex), ZN_ENOTFOUND);
    assert_int_equal(zn_file_sha256("/tmp", hex), ZN_EIO);
    assert_int_equal(zn_file_sha256(NULL, hex), ZN_EINVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(published_examples), cmocka_unit_test(pieces),
                                        cmocka_unit_test(files) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
