/* GGUF files that are right: names, shapes, types, metadata, conversion; then cut, changed, and short of memory. What
 * the blocks stand for is tested in tests/base/test_quant.c and by tests/golden/zimage. */
#include "gguf_make.h"
#include "weights_test.h"

#include "base/alloc.h"
#include "base/convert.h"

#include <unistd.h>

static void tensors_are_found(void **state)
{
    (void)state;
    static const zn_dtype dtypes[GGUF_TYPES] = { ZN_F32,  ZN_F16,  ZN_Q4_0, ZN_Q4_1, ZN_Q5_0, ZN_Q5_1,
                                                 ZN_Q8_0, ZN_Q2_K, ZN_Q3_K, ZN_Q4_K, ZN_Q5_K, ZN_Q6_K,
                                                 ZN_I8,   ZN_I16,  ZN_I32,  ZN_I64,  ZN_F64,  ZN_BF16 };
    bytes b = make_gguf();
    zn_weights *w = must_open_bytes(&b);
    assert_string_equal(zn_weights_format(w), "gguf");
    assert_int_equal(zn_weights_count(w), GGUF_TYPES);
    for (int i = 0; i < GGUF_TYPES; i++) {
        const zn_weight *t = zn_weights_at(w, i);
        size_t size;
        assert_int_equal(t->dtype, dtypes[i]);
        assert_int_equal(t->rank, 2);
        assert_int_equal(t->shape[0], 1);
        assert_int_equal(t->shape[1], 256);
        assert_true(zn_dtype_bytes(t->dtype, 256, &size) && size == t->bytes);
        assert_int_equal(((const uint8_t *)t->data - b.data) % 64, 0);
        assert_ptr_equal(zn_weights_find(w, t->name), t);
    }
    assert_int_equal(((const uint8_t *)zn_weights_at(w, 1)->data)[1], 1);
    const zn_weight *last = zn_weights_at(w, GGUF_TYPES - 1);
    assert_ptr_equal((const uint8_t *)last->data + last->bytes, b.data + b.size);
    zn_weights_close(w);
    bytes_free(&b);
}

static void metadata_is_text(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        { "general.alignment", "64" }, { "type.0", "200" },   { "type.1", "-2" },
        { "type.2", "60000" },         { "type.3", "-2" },    { "type.5", "-2" },
        { "type.6", "0.100000001" },   { "type.7", "true" },  { "type.8", "na\xc3\xafve" },
        { "type.11", "-1" },           { "type.12", "-2.5" }, { "type.10", "18446744073709551615" },
    };
    bytes b = make_gguf();
    zn_weights *w = must_open_bytes(&b);
    assert_int_equal(zn_weights_metadata_count(w), GGUF_KEYS - 1); /* an array is not shown */
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        assert_string_equal(zn_weights_metadata(w, pairs[i][0]), pairs[i][1]);
    assert_null(zn_weights_metadata(w, "type.9"));
    zn_weights_close(w);
    bytes_free(&b);
}

/* Things real files contain: version 2, no keys, shapes of other ranks, nothing behind the header. */
static void tolerated(void **state)
{
    (void)state;
    bytes b = { 0 };
    gguf_begin(&b, 2, 3, 0);
    gguf_text(&b, "cube");
    bytes_number(&b, 3, 4);
    for (uint64_t side = 4; side > 1; side--)
        bytes_number(&b, side, 8);
    bytes_number(&b, 0, 4);
    bytes_number(&b, 32, 8);
    gguf_text(&b, "scalar");
    bytes_number(&b, 0, 4);
    bytes_number(&b, 0, 4);
    bytes_number(&b, 0, 8);
    gguf_matrix(&b, "empty", 0, 256, 12, 0);
    gguf_end(&b, 32, 32 + 96 + 5); /* padding behind the last tensor too */
    zn_weights *w = must_open_bytes(&b);
    const zn_weight *cube = zn_weights_find(w, "cube");
    assert_int_equal(cube->rank, 3);
    assert_memory_equal(cube->shape, ((int64_t[]){ 2, 3, 4 }), 24);
    assert_int_equal(((const uint8_t *)cube->data)[0], 32);
    assert_int_equal(zn_weights_find(w, "scalar")->bytes, 4);
    assert_int_equal(zn_weights_find(w, "empty")->bytes, 0);
    zn_weights_close(w);
    bytes_free(&b);
    gguf_begin(&b, 3, 0, 0);
    bytes_trim(&b);
    w = must_open_bytes(&b);
    assert_int_equal(zn_weights_count(w), 0);
    zn_weights_close(w);
    bytes_free(&b);
}

/* Blocks become floats when a dtype is asked for; .safetensors has no name for them otherwise. */
static void saving(void **state)
{
    (void)state;
    char folder[] = "/tmp/zenith-gguf-XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/out.safetensors", folder);
    bytes b = make_gguf();
    zn_weights *w = must_open_bytes(&b);
    assert_int_equal(zn_weights_save(w, path, 0, ZN_F32), ZN_EUNSUPPORTED);
    assert_non_null(strstr(zn_error_text(), "'w.2' is Q4_0"));
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(zn_weights_save(w, path, 1, ZN_F32), ZN_OK);
    zn_weights *copy = must_open(path);
    for (int64_t i = 0; i < zn_weights_count(w); i++) {
        const zn_weight *from = zn_weights_at(w, i), *to = zn_weights_find(copy, from->name);
        float want[256];
        assert_non_null(to);
        if (zn_dtype_block(from->dtype) == 1)
            continue;
        zn_to_f32(want, from->data, from->dtype, 256);
        assert_int_equal(to->dtype, ZN_F32);
        assert_memory_equal(to->data, want, sizeof want);
    }
    zn_weights_close(copy);
    zn_weights_close(w);
    bytes_free(&b);
    unlink(path);
    assert_int_equal(rmdir(folder), 0);
}

static zn_status try_open(const uint8_t *data, size_t size)
{
    zn_weights *w = NULL;
    uint8_t *exact = malloc(size ? size : 1); /* so that the sanitizer sees the end */
    memcpy(exact, data, size);
    const zn_status status = zn_weights_open_memory(exact, size, "file", &w);
    float floats[256];
    for (int64_t i = 0; status == ZN_OK && i < zn_weights_count(w); i++) {
        const zn_weight *t = zn_weights_at(w, i);
        const size_t block = zn_dtype_block(t->dtype);
        for (size_t at = 0; at < t->bytes; at += zn_dtype_size(t->dtype))
            zn_to_f32(floats, (const uint8_t *)t->data + at, t->dtype, block);
    }
    zn_weights_close(w);
    free(exact);
    return status;
}

static void cut_and_changed(void **state)
{
    (void)state;
    static const uint8_t values[] = { 0x00, 0xff, 0x80, 0x01, 0x09, 0x40 };
    bytes b = make_gguf();
    assert_int_equal(try_open(b.data, b.size), ZN_OK);
    for (size_t size = 0; size < b.size; size++)
        if (try_open(b.data, size) == ZN_OK)
            fail_msg("a file cut to %zu bytes was accepted", size);
    int refused = 0;
    for (size_t i = 0; i < b.size - 10240; i++) { /* the header and some of the data */
        const uint8_t kept = b.data[i];
        for (size_t k = 0; k < sizeof values; k++) {
            b.data[i] = values[k];
            refused += try_open(b.data, b.size) != ZN_OK;
        }
        b.data[i] = kept;
    }
    assert_true(refused > 1000);
    bytes_free(&b);
}

static void short_of_memory(void **state)
{
    (void)state;
    bytes b = make_gguf();
    zn_weights *w;
    assert_true(open_short_of_memory("file", &b, &w) >= 5);
    zn_weights_close(w);
    bytes_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_are_found), cmocka_unit_test(metadata_is_text),
        cmocka_unit_test(tolerated),         cmocka_unit_test(saving),
        cmocka_unit_test(cut_and_changed),   cmocka_unit_test(short_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
