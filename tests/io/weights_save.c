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
    static const zn_dtype targets[] = { ZN_F64, ZN_F32, ZN_F16, ZN_BF16, ZN_F8_E5M2 };
    zn_weights *w = must_open(TEST_DATA "/checkpoint.safetensors");
    for (int k = 0; k < 5; k++) {
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
            const float step = targets[k] == ZN_F8_E5M2 ? 1.0f / 8 : 1.0f / 256;
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

/* ---- 8 bits ---- */

enum { ROWS = 6, COLUMNS = 90 * 9 };

/* A convolution of six outputs, the third of which is all zeros, and what stays as it is. */
static zn_weights *write_float_layers(float *x, float third)
{
    for (int i = 0; i < ROWS * COLUMNS; i++)
        x[i] = i / COLUMNS == 2 ? third : ldexpf((float)(i * 7919 % 2001 - 1000) / 1000, i / COLUMNS - 3);
    const zn_weight t[] = {
        { .name = "c.weight", .dtype = ZN_F32, .rank = 4, .shape = { ROWS, 90, 3, 3 }, .data = x },
        { .name = "c.bias", .dtype = ZN_F32, .rank = 1, .shape = { ROWS }, .data = x },
        { .name = "small.weight", .dtype = ZN_F32, .rank = 2, .shape = { 45, 91 }, .data = x },
        { .name = "norm.weight", .dtype = ZN_F32, .rank = 1, .shape = { ROWS * COLUMNS }, .data = x },
        { .name = "table", .dtype = ZN_F32, .rank = 2, .shape = { ROWS, COLUMNS }, .data = x },
        { .name = "row.weight", .dtype = ZN_F32, .rank = 2, .shape = { 1, ROWS * COLUMNS }, .data = x },
    };
    const zn_metadata m = { "format", "test" };
    assert_int_equal(zn_safetensors_write(in_folder("out.safetensors"), t, 6, &m, 1), ZN_OK);
    return must_open(in_folder("out.safetensors"));
}

/* Saves over the file that is open, and opens the result. */
static zn_weights *save_again(zn_weights *w, zn_dtype dtype)
{
    if (zn_weights_save(w, in_folder("out.safetensors"), 1, dtype) != ZN_OK)
        fail_msg("%s", zn_error_text());
    zn_weights_close(w);
    return must_open(in_folder("out.safetensors"));
}

static void eight_bits(void **state)
{
    (void)state;
    float x[ROWS * COLUMNS], scales[ROWS], y[ROWS * COLUMNS];
    int8_t codes[ROWS * COLUMNS];
    zn_weights *w = save_again(write_float_layers(x, 0), ZN_I8);
    assert_int_equal(zn_weights_count(w), 7);
    const zn_weight *c = zn_weights_find(w, "c.weight"), *s = zn_weights_find(w, "c.weight_scale");
    assert_true(c->dtype == ZN_I8 && c->rank == 4 && s && s->dtype == ZN_F32 && s->rank == 1 && s->shape[0] == ROWS);
    memcpy(codes, c->data, sizeof codes);
    memcpy(scales, s->data, sizeof scales);
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        const float scale = scales[i / COLUMNS];
        assert_true(fabsf((float)codes[i] * scale - x[i]) <= 0.501f * scale);
    }
    for (int r = 0; r < ROWS; r++)
        assert_true(r == 2 ? scales[r] == 0 : fabsf(scales[r] * 127 / ldexpf(1, r - 3) - 1) < 0.01f);
    static const char *const kept[] = { "c.bias", "small.weight", "norm.weight", "table", "row.weight" };
    for (int i = 0; i < 5; i++)
        assert_true(zn_weights_find(w, kept[i])->dtype == ZN_F32);
    w = save_again(w, ZN_I8); /* nothing is left to do */
    assert_int_equal(zn_weights_count(w), 7);
    assert_memory_equal(zn_weights_find(w, "c.weight")->data, codes, sizeof codes);
    assert_memory_equal(zn_weights_find(w, "c.weight_scale")->data, scales, sizeof scales);
    w = save_again(w, ZN_F32);
    assert_int_equal(zn_weights_count(w), 6);
    assert_string_equal(zn_weights_metadata(w, "format"), "test");
    memcpy(y, zn_weights_find(w, "c.weight")->data, sizeof y);
    for (int i = 0; i < ROWS * COLUMNS; i++)
        assert_true(y[i] == (float)codes[i] * scales[i / COLUMNS]);
    zn_weights_close(w);
}

/* Zenith's own networks have [height][width][inputs][outputs]: a scale belongs to the last dimension. */
static void eight_bits_outputs_last(void **state)
{
    (void)state;
    enum { OUTPUTS = 16, INPUTS = 40, ALL = 3 * 3 * INPUTS * OUTPUTS };
    float x[ALL];
    for (int i = 0; i < ALL; i++)
        x[i] = ldexpf((float)(i * 7919 % 2001 - 1000) / 1000, i % OUTPUTS - 8);
    const zn_weight t = {
        .name = "c.weight", .dtype = ZN_F32, .rank = 4, .shape = { 3, 3, INPUTS, OUTPUTS }, .data = x
    };
    assert_int_equal(zn_safetensors_write(in_folder("out.safetensors"), &t, 1, NULL, 0), ZN_OK);
    zn_weights *w = save_again(must_open(in_folder("out.safetensors")), ZN_I8);
    const zn_weight *s = zn_weights_find(w, "c.weight_scale");
    assert_true(s && s->rank == 4 && s->shape[0] == 1 && s->shape[1] == 1 && s->shape[2] == 1 &&
                s->shape[3] == OUTPUTS);
    w = save_again(w, ZN_F32);
    const float *y = (const float *)zn_weights_find(w, "c.weight")->data;
    for (int i = 0; i < ALL; i++)
        assert_true(fabsf(y[i] - x[i]) <= 0.501f * ldexpf(1, i % OUTPUTS - 8) / 127);
    zn_weights_close(w);
}

/* E4M3: one scale, which makes the largest magnitude 448. Other 8-bit weights become such, too. */
static void eight_bits_floating(void **state)
{
    (void)state;
    float x[ROWS * COLUMNS], y[ROWS * COLUMNS], scale;
    for (int from = 0; from < 2; from++) {
        zn_weights *w = write_float_layers(x, 0);
        if (from)
            w = save_again(w, ZN_I8);
        w = save_again(w, ZN_F8_E4M3);
        assert_int_equal(zn_weights_count(w), 7);
        const zn_weight *c = zn_weights_find(w, "c.weight"), *s = zn_weights_find(w, "c.weight_scale");
        assert_true(c->dtype == ZN_F8_E4M3 && c->rank == 4 && s->dtype == ZN_F32 && s->rank == 1 && s->shape[0] == 1);
        memcpy(&scale, s->data, sizeof scale);
        assert_true(fabsf(scale * 448 - 4) < 0.01f);
        assert_true(zn_weights_find(w, "norm.weight")->dtype == ZN_F32);
        w = save_again(w, ZN_F8_E4M3); /* nothing is left to do */
        assert_int_equal(zn_weights_count(w), 7);
        w = save_again(w, ZN_F32);
        assert_int_equal(zn_weights_count(w), 6);
        memcpy(y, zn_weights_find(w, "c.weight")->data, sizeof y);
        for (int i = 0; i < ROWS * COLUMNS; i++) /* half of the last bit, and of int8's */
            assert_true(fabsf(y[i] - x[i]) <= fabsf(x[i]) / 15 + scale / 500 + (from ? 0.02f : 0));
        zn_weights_close(w);
    }
    memset(x, 0, sizeof x);
    const zn_weight t = { .name = "c.weight", .dtype = ZN_F32, .rank = 2, .shape = { ROWS, COLUMNS }, .data = x };
    assert_int_equal(zn_safetensors_write(in_folder("out.safetensors"), &t, 1, NULL, 0), ZN_OK);
    zn_weights *zero = save_again(save_again(must_open(in_folder("out.safetensors")), ZN_F8_E4M3), ZN_F32);
    assert_memory_equal(zn_weights_at(zero, 0)->data, x, sizeof x);
    zn_weights_close(zero);
}

/* Layers that the metadata describes: a matrix of int8, rotated, large or small. Of the copy, only those that are as
 * they were are described. */
static void descriptions_follow_the_layers(void **state)
{
    (void)state;
    enum { OUT = 16, IN = 256 };
    static const char described[] = "{\"format\":\"int8_tensorwise\",\"convrot\":true,\"convrot_groupsize\":256}";
    int8_t codes[OUT * IN];
    float scales[OUT], x[OUT * IN];
    char text[300], small[200];
    for (int i = 0; i < OUT * IN; i++)
        codes[i] = (int8_t)(i * 7919 % 255 - 127);
    for (int i = 0; i < OUT; i++)
        scales[i] = (float)(1 + i) / 64;
    snprintf(text, sizeof text, "{\"format_version\":\"1.0\",\"layers\":{\"large\":%s,\"small\":%s}}", described,
             described);
    snprintf(small, sizeof small, "{\"format_version\":\"1.0\",\"layers\":{\"small\":%s}}", described);
    const zn_weight t[] = {
        { .name = "large.weight", .dtype = ZN_I8, .rank = 2, .shape = { OUT, IN }, .data = codes },
        { .name = "large.weight_scale", .dtype = ZN_F32, .rank = 2, .shape = { OUT, 1 }, .data = scales },
        { .name = "small.weight", .dtype = ZN_I8, .rank = 2, .shape = { 2, IN }, .data = codes },
        { .name = "small.weight_scale", .dtype = ZN_F32, .rank = 2, .shape = { 2, 1 }, .data = scales },
    };
    const zn_metadata m = { "_quantization_metadata", text };
    assert_int_equal(zn_safetensors_write(in_folder("out.safetensors"), t, 4, &m, 1), ZN_OK);
    zn_weights *w = save_again(must_open(in_folder("out.safetensors")), ZN_F32);
    assert_null(zn_weights_metadata(w, m.key));
    memcpy(x, zn_weights_find(w, "large.weight")->data, sizeof x);
    zn_weights_close(w);

    assert_int_equal(zn_safetensors_write(in_folder("out.safetensors"), t, 4, &m, 1), ZN_OK);
    w = save_again(must_open(in_folder("out.safetensors")), ZN_I8);
    assert_string_equal(zn_weights_metadata(w, m.key), text);
    w = save_again(w, ZN_F8_E4M3);
    assert_string_equal(zn_weights_metadata(w, m.key), small);
    w = save_again(w, ZN_F32);
    const float *y = zn_weights_find(w, "large.weight")->data, *z = zn_weights_find(w, "small.weight")->data;
    for (int i = 0; i < OUT * IN; i++)
        assert_true(fabsf(y[i] - x[i]) <= fabsf(x[i]) / 15 + 0.01f);
    assert_memory_equal(z, x, sizeof *x * 2 * IN);
    zn_weights_close(w);
}

/* A key may occur twice: readers take the first description, and so does the copy. */
static void one_description_is_copied(void **state)
{
    (void)state;
    char text[2][200];
    const uint8_t codes[4] = { 0 };
    const float one = 1;
    const zn_weight t[] = {
        { .name = "small.weight", .dtype = ZN_F8_E4M3, .rank = 2, .shape = { 2, 2 }, .data = codes },
        { .name = "small.weight_scale", .dtype = ZN_F32, .rank = 1, .shape = { 1 }, .data = &one },
    };
    for (int i = 0; i < 2; i++)
        snprintf(text[i], sizeof text[i], "{\"layers\":{\"small\":{\"format\":\"float8_e4m3fn\",\"more\":\"%0*d\"}}}",
                 100, i);
    const zn_metadata m[] = { { "_quantization_metadata", text[0] }, { "_quantization_metadata", text[1] } };
    assert_int_equal(zn_safetensors_write(in_folder("out.safetensors"), t, 2, m, 2), ZN_OK);
    zn_weights *w = save_again(must_open(in_folder("out.safetensors")), ZN_I8);
    assert_int_equal(zn_weights_metadata_count(w), 1);
    assert_string_equal(zn_weights_metadata(w, m[0].key), text[0]);
    zn_weights_close(w);
}

static void eight_bits_refused(void **state)
{
    (void)state;
    float x[ROWS * COLUMNS];
    const float bad[] = { NAN, INFINITY };
    for (int i = 0; i < 2; i++) {
        zn_weights *w = write_float_layers(x, bad[i]);
        unlink(in_folder("out.safetensors"));
        assert_int_equal(zn_weights_save(w, in_folder("out.safetensors"), 1, ZN_I8), ZN_ENUMERIC);
        assert_non_null(strstr(zn_error_text(), "'c.weight'"));
        assert_int_equal(access(in_folder("out.safetensors"), F_OK), -1);
        zn_weights_close(w);
    }
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
        cmocka_unit_test(copies_are_exact),
        cmocka_unit_test(conversion),
        cmocka_unit_test(large_conversion),
        cmocka_unit_test(eight_bits_outputs_last),
        cmocka_unit_test(eight_bits),
        cmocka_unit_test(eight_bits_refused),
        cmocka_unit_test(eight_bits_floating),
        cmocka_unit_test(descriptions_follow_the_layers),
        cmocka_unit_test(one_description_is_copied),
        cmocka_unit_test(hard_names),
        cmocka_unit_test(refused_tensors),
        cmocka_unit_test(full_disk),
    };
    return cmocka_run_group_tests(tests, make_folder, drop_folder);
}
