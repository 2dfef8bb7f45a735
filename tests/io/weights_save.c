/* Writing .safetensors: round trips, conversion, metadata, and that a failed write leaves nothing. */
#include "weights_test.h"

#include "base/convert.h"
#include "io/weights/writer.h"

#include <math.h>
#include <unistd.h>

#include "../skip.h"

static char folder[64];

static const char *in_folder(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/zenith-save-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int drop_folder(void **state)
{
    (void)state;
    unlink(in_folder("out.safetensors"));
    return rmdir(folder); /* fails if a temporary is left */
}

static void copies_are_exact(void **state)
{
    (void)state;
    static const char *const files[] = { TEST_DATA "/checkpoint_p2.pth", TEST_DATA "/checkpoint.safetensors" };
    for (int f = 0; f < 2; f++) {
        zn_weights *w = must_open(files[f]);
        assert_int_equal(zn_weights_save(w, in_folder("out.safetensors"), 0, ZN_F32), ZN_OK);
        zn_weights *copy = must_open(in_folder("out.safetensors"));
        assert_int_equal(zn_weights_count(copy), zn_weights_count(w));
        for (int64_t i = 0; i < zn_weights_count(w); i++)
            assert_same_tensor(zn_weights_at(w, i), zn_weights_at(copy, i));
        assert_int_equal(zn_weights_metadata_count(copy), zn_weights_metadata_count(w));
        for (int64_t i = 0; i < zn_weights_metadata_count(w); i++) {
            const char *value, *key = zn_weights_metadata_at(w, i, &value);
            assert_string_equal(zn_weights_metadata(copy, key), value);
        }
        zn_weights_close(copy);
        zn_weights_close(w);
    }
}

static void conversion(void **state)
{
    (void)state;
    static const zn_dtype targets[] = { ZN_F64, ZN_F32, ZN_F16, ZN_BF16, ZN_F8_E4M3, ZN_F8_E5M2 };
    zn_weights *w = must_open(TEST_DATA "/checkpoint.safetensors");
    for (int k = 0; k < 6; k++) {
        assert_int_equal(zn_weights_save(w, in_folder("out.safetensors"), 1, targets[k]), ZN_OK);
        zn_weights *copy = must_open(in_folder("out.safetensors"));
        for (int64_t i = 0; i < zn_weights_count(w); i++) {
            const zn_weight *a = zn_weights_at(w, i), *b = zn_weights_at(copy, i);
            assert_int_equal(b->dtype, zn_dtype_is_float(a->dtype) ? targets[k] : a->dtype);
            const size_t count = a->bytes / zn_dtype_size(a->dtype);
            float x[64], y[64];
            assert_true(count <= 64);
            assert_int_equal(b->bytes, count * zn_dtype_size(b->dtype));
            zn_to_f32(x, a->data, a->dtype, count);
            zn_to_f32(y, b->data, b->dtype, count);
            const float step = targets[k] < ZN_F8_E4M3 ? 1.0f / 256 : targets[k] == ZN_F8_E4M3 ? 1.0f / 16 : 1.0f / 8;
            for (size_t j = 0; j < count; j++)
                assert_true(fabsf(x[j] - y[j]) <= step * fabsf(x[j]));
        }
        zn_weights_close(copy);
    }
    assert_int_equal(zn_weights_save(w, in_folder("out.safetensors"), 1, ZN_I32), ZN_EINVALID);
    zn_weights_close(w);
}

/* More elements than are converted at a time. */
static void large_conversion(void **state)
{
    (void)state;
    enum { COUNT = 100003 };
    float *x = malloc(COUNT * sizeof *x);
    for (int i = 0; i < COUNT; i++)
        x[i] = (float)(i % 2048) / 4;
    const zn_weight t = { .name = "x", .dtype = ZN_F32, .rank = 1, .shape = { COUNT }, .data = x };
    assert_int_equal(zn_safetensors_write(in_folder("out.safetensors"), &t, 1, NULL, 0), ZN_OK);
    zn_weights *w = must_open(in_folder("out.safetensors"));
    assert_memory_equal(zn_weights_at(w, 0)->data, x, COUNT * sizeof *x);
    assert_int_equal((uintptr_t)zn_weights_at(w, 0)->data % 8, 0);
    assert_int_equal(zn_weights_save(w, in_folder("out.safetensors"), 1, ZN_F16), ZN_OK); /* over the mapped file */
    zn_weights *half = must_open(in_folder("out.safetensors"));
    float *y = malloc(COUNT * sizeof *y);
    zn_to_f32(y, zn_weights_at(half, 0)->data, ZN_F16, COUNT);
    assert_memory_equal(x, y, COUNT * sizeof *x);
    zn_weights_close(half);
    zn_weights_close(w);
    free(x);
    free(y);
}

static void hard_names(void **state)
{
    (void)state;
    const char value[] = { 1 };
    const zn_weight t[] = {
        { .name = "quote\" back\\ tab\t", .dtype = ZN_U8, .rank = 1, .shape = { 1 }, .data = value },
        { .name = "\xf0\x9f\x98\x80", .dtype = ZN_BOOL, .data = value },
        { .name = "", .dtype = ZN_F32, .rank = 2, .shape = { 0, 7 }, .data = value }
    };
    const zn_metadata m[] = { { "k\n", "v\x7f\x01" }, { "bad utf8", "\xff" } };
    assert_int_equal(zn_safetensors_write(in_folder("out.safetensors"), t, 3, m, 2), ZN_OK);
    zn_weights *w = must_open(in_folder("out.safetensors"));
    for (int i = 0; i < 3; i++)
        assert_non_null(zn_weights_find(w, t[i].name));
    assert_string_equal(zn_weights_metadata(w, "k\n"), "v\x7f\x01");
    assert_string_equal(zn_weights_metadata(w, "bad utf8"), "\xef\xbf\xbd");
    zn_weights_close(w);
}

static void refused_tensors(void **state)
{
    (void)state;
    const char value[8] = { 0 };
    const zn_weight good = { .name = "a", .dtype = ZN_U8, .rank = 1, .shape = { 1 }, .data = value };
    zn_weight bad[] = { good, good, good, good, good };
    bad[0].name = "__metadata__";
    bad[1].name = "\xff";
    bad[2].shape[0] = -1;
    bad[3].rank = 9;
    bad[4].dtype = ZN_DTYPE_COUNT;
    unlink(in_folder("out.safetensors"));
    for (int i = 0; i < 5; i++)
        assert_int_equal(zn_safetensors_write(in_folder("out.safetensors"), &bad[i], 1, NULL, 0), ZN_EINVALID);
    const zn_weight twice[] = { good, good };
    assert_int_equal(zn_safetensors_write(in_folder("out.safetensors"), twice, 2, NULL, 0), ZN_EINVALID);
    assert_int_equal(access(in_folder("out.safetensors"), F_OK), -1);
}

static void full_disk(void **state)
{
    (void)state;
    if (access("/dev/full", W_OK) != 0)
        skip_because("there is no /dev/full");
    zn_weights *w = must_open(TEST_DATA "/checkpoint.safetensors");
    assert_int_equal(zn_weights_save(w, "/dev/full", 0, ZN_F32), ZN_EIO);
    assert_non_null(strstr(zn_error_text(), "/dev/full"));
    assert_int_equal(zn_weights_save(w, in_folder("no/such/out.safetensors"), 0, ZN_F32), ZN_EIO);
    assert_int_equal(zn_weights_save(NULL, "x", 0, ZN_F32), ZN_EINVALID);
    zn_weights_close(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_are_exact), cmocka_unit_test(conversion),      cmocka_unit_test(large_conversion),
        cmocka_unit_test(hard_names),       cmocka_unit_test(refused_tensors), cmocka_unit_test(full_disk),
    };
    return cmocka_run_group_tests(tests, make_folder, drop_folder);
}
