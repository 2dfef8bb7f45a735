/* Weight files that lie: every one of tests/broken/weights gives its status and says why; files cut anywhere are
 * refused; files with any byte changed do no harm. Worth most under the sanitizers. */
#include "weights_test.h"

#include "broken.h"

static void every_broken_file(void **state)
{
    (void)state;
    broken_case c;
    int count = 0, wrong = 0;
    for (; broken_at(count, &c); count++) {
        bytes b = broken_make(&c);
        zn_weights *w = NULL;
        const zn_status status = zn_weights_open_memory(b.data, b.size, c.file, &w);
        if (status != c.status || w || !strstr(zn_error_text(), c.word)) {
            print_error("%s: status %d, wanted %d with '%s': %s\n", c.file, status, c.status, c.word, zn_error_text());
            wrong++;
        }
        if (!strstr(zn_error_text(), c.file)) {
            print_error("%s: the sentence does not name the file: %s\n", c.file, zn_error_text());
            wrong++;
        }
        zn_weights_close(w);
        bytes_free(&b);
    }
    assert_int_equal(wrong, 0);
    assert_true(count > 150);
}

static bytes load(const char *path)
{
    uint8_t buffer[1 << 16];
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    bytes b = { 0 };
    bytes_put(&b, buffer, fread(buffer, 1, sizeof buffer, f));
    fclose(f);
    return b;
}

static zn_status try_open(const uint8_t *data, size_t size)
{
    zn_weights *w = NULL;
    uint8_t *exact = malloc(size ? size : 1); /* so that the sanitizer sees the end */
    memcpy(exact, data, size);
    const zn_status status = zn_weights_open_memory(exact, size, "file", &w);
    unsigned sum = 0;
    for (int64_t i = 0; status == ZN_OK && i < zn_weights_count(w); i++) {
        const zn_weight *t = zn_weights_at(w, i);
        for (size_t k = 0; k < t->bytes; k++)
            sum += ((const uint8_t *)t->data)[k];
    }
    zn_weights_close(w);
    free(exact);
    return status == ZN_OK && sum == 1 ? ZN_OK : status;
}

static const char *const files[] = { TEST_DATA "/checkpoint.safetensors", TEST_DATA "/checkpoint_p2.pth",
                                     TEST_DATA "/checkpoint_p4.pth" };

static void cut_anywhere(void **state)
{
    (void)state;
    for (int f = 0; f < 3; f++) {
        bytes b = load(files[f]);
        assert_int_equal(try_open(b.data, b.size), ZN_OK);
        for (size_t size = 0; size < b.size; size++)
            if (try_open(b.data, size) == ZN_OK)
                fail_msg("%s cut to %zu bytes was accepted", files[f], size);
        bytes_free(&b);
    }
}

/* A pickle cut anywhere, in an archive that is right. */
static void pickle_cut_anywhere(void **state)
{
    (void)state;
    bytes p = { 0 };
    bytes_put(&p, "\x80\x02}", 3);
    pickle_text(&p, "w");
    pickle_tensor(&p, &(tensor_call){ .elements = 16, .rank = 2, .shape = { 4, 4 }, .stride = { 1, 4 } });
    bytes_put(&p, "s.", 2);
    for (size_t size = 0; size <= p.size; size++) {
        bytes b = make_checkpoint(p.data, size, 64);
        assert_int_equal(try_open(b.data, b.size) == ZN_OK, size == p.size);
        bytes_free(&b);
    }
    bytes_free(&p);
}

static void any_byte_changed(void **state)
{
    (void)state;
    static const uint8_t values[] = { 0x00, 0xff, 0x80, '.', 'a', '9' };
    int refused = 0;
    for (int f = 0; f < 3; f++) {
        bytes b = load(files[f]);
        for (size_t i = 0; i < b.size; i++) {
            const uint8_t kept = b.data[i];
            b.data[i] = i % 2 ? kept ^ 1 : values[i / 2 % sizeof values];
            refused += try_open(b.data, b.size) != ZN_OK;
            b.data[i] = kept;
        }
        bytes_free(&b);
    }
    assert_true(refused > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_broken_file),
        cmocka_unit_test(cut_anywhere),
        cmocka_unit_test(pickle_cut_anywhere),
        cmocka_unit_test(any_byte_changed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
