/* Quantised layers of MLX files: found, read, and refused where shapes do not fit together. */
#include "weights_test.h"

#include "../mlx_rows.h"

/* Two rows of 64 inputs, 4 bits, groups of 32: 8 words and 2 groups a row. */
#define LAYER(weight_type, words, scale_type, scale_shape, bias_shape, end)                                            \
    "{\"l.weight\":{\"dtype\":\"" weight_type "\",\"shape\":[2," #words "],\"data_offsets\":[0,64]},"                  \
    "\"l.scales\":{\"dtype\":\"" scale_type "\",\"shape\":" scale_shape ",\"data_offsets\":[64,80]},"                  \
    "\"l.biases\":{\"dtype\":\"F32\",\"shape\":" bias_shape ",\"data_offsets\":[80," #end "]}}"

static bytes make(const char *header, size_t data)
{
    bytes b = make_safetensors(header, data);
    const float scales[] = { 1, 2, -3, 0.5f, 0, 10, 100, 1000 };
    memcpy(b.data + b.size - data + 64, scales, data - 64 < sizeof scales ? data - 64 : sizeof scales);
    return b;
}

static void values(void **state)
{
    (void)state;
    bytes b = make(LAYER("U32", 8, "F32", "[2,2]", "[2,2]", 96), 96);
    zn_weights *w = must_open_bytes(&b);
    zn_mlx m;
    float out[128];
    assert_true(zn_mlx_has(w, "l") && !zn_mlx_has(w, "k"));
    assert_int_equal(zn_mlx_find(w, "l", 64, &m), ZN_OK);
    assert_true(m.rows == 2 && m.columns == 64 && m.form.bits == 4 && m.form.group == 32);
    mlx_rows(&m, out);
    const float scales[] = { 1, 2, -3, 0.5f }, biases[] = { 0, 10, 100, 1000 };
    for (int i = 0; i < 128; i++) /* byte k of the codes is k */
        assert_true(out[i] == scales[i / 32] * (float)(i / 2 >> 4 * (i % 2) & 15) + biases[i / 32]);
    zn_weights_close(w);
    bytes_free(&b);
}

static void refused(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        size_t data;
        int64_t columns;
        zn_status status;
        const char *word;
    } cases[] = {
        { LAYER("U32", 8, "F32", "[2,2]", "[2,2]", 96), 96, 63, ZN_EFORMAT, "no known quantisation" },
        { LAYER("U32", 8, "F32", "[2,2]", "[2,2]", 96), 96, 32, ZN_EFORMAT, "no known quantisation" },
        { LAYER("U32", 8, "F32", "[2,2]", "[2,2]", 96), 96, 0, ZN_EFORMAT, "no known quantisation" },
        { LAYER("U32", 8, "F32", "[2,2]", "[2,2]", 96), 96, INT64_MAX, ZN_EFORMAT, "no known quantisation" },
        { LAYER("U32", 8, "F32", "[2,2]", "[2,1]", 88), 88, 64, ZN_EFORMAT, "two of its rows" },
        { LAYER("U32", 8, "F32", "[4]", "[2,2]", 96), 96, 64, ZN_EFORMAT, "two of its rows" },
        { LAYER("U32", 8, "F32", "[4,1]", "[4,1]", 96), 96, 64, ZN_EFORMAT, "two of its rows" },
        { LAYER("F32", 8, "F32", "[2,2]", "[2,2]", 96), 96, 64, ZN_EFORMAT, "two of its rows" },
        { LAYER("U32", 8, "I32", "[2,2]", "[2,2]", 96), 96, 64, ZN_EFORMAT, "scales are I32" },
        { "{\"l.scales\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]}}", 16, 64, ZN_ENOTFOUND,
          "no weight" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bytes b = make_safetensors(cases[i].header, cases[i].data);
        zn_weights *w = must_open_bytes(&b);
        zn_mlx m;
        assert_int_equal(zn_mlx_find(w, "l", cases[i].columns, &m), cases[i].status);
        assert_non_null(strstr(zn_error_text(), cases[i].word));
        assert_non_null(strstr(zn_error_text(), "'l'"));
        zn_weights_close(w);
        bytes_free(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(values), cmocka_unit_test(refused) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
