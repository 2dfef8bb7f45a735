/* Scaled layers of ComfyUI's files: FP8 with one scale, int8 with one for each row, ConvRot; found, read and refused.
 */
#include "weights_test.h"

#include "base/alloc.h"
#include "base/packed.h"
#include "io/weights/scaled.h"
#include "models/stored.h"
#include "nn/transformer.h"

#include <math.h>

/* Two rows of 256: WEIGHT, then the scales, then a description of 64 bytes. */
#define LAYER(type, scales, name, end)                                                                                 \
    "{\"l.weight\":{\"dtype\":\"" type "\",\"shape\":[2,256],\"data_offsets\":[0,512]},"                               \
    "\"l." name "\":{\"dtype\":\"F32\",\"shape\":" scales ",\"data_offsets\":[512," #end "]}"
#define DESCRIBED(begin, end)                                                                                          \
    ",\"l.comfy_quant\":{\"dtype\":\"U8\",\"shape\":[72],\"data_offsets\":[" #begin "," #end "]}}"

static bytes make(const char *header, size_t scales, const char *description)
{
    const size_t told = description ? 72 : 0, data = 512 + 4 * scales + told;
    bytes b = make_safetensors(header, data);
    uint8_t *at = b.data + b.size - data;
    const float values[] = { 0.5f, -3 };
    memcpy(at + 512, values, 4 * scales);
    if (description) {
        memset(at + 512 + 4 * scales, ' ', told);
        memcpy(at + 512 + 4 * scales, description, strlen(description));
    }
    return b;
}

/* Rows of the layer as floats. */
static void read_rows(const bytes *b, float *out)
{
    zn_weights *w = must_open_bytes(b);
    zn_graph *g = zn_graph_new();
    zn_node *y = zn_matrix_no_bias(zn_at((zn_scope){ g, "" }, "l"), zn_graph_input(g, "x", ZN_SHAPE(1, 1, 1, 256)), 2);
    const zn_weights *files[] = { w };
    if (zn_stored_bind(&(zn_stored){ files, 1, NULL, NULL }, g) != ZN_OK)
        fail_msg("%s", zn_error_text());
    const zn_packed *m = y->source[1]->packed, last = zn_packed_from(m, 1);
    zn_packed_row(m, 0, 0, 256, out);
    zn_packed_row(&last, 0, 0, 256, out + 256);
    zn_graph_free(g);
    zn_weights_close(w);
}

static void one_scale(void **state)
{
    (void)state;
    static const char *const headers[] = { LAYER("F8_E4M3", "[]", "weight_scale", 516) "}",
                                           LAYER("F8_E4M3", "[1]", "scale_weight", 516) "}" };
    for (int h = 0; h < 2; h++) {
        bytes b = make(headers[h], 1, NULL);
        uint8_t *codes = b.data + b.size - 516;
        memset(codes, 0x38, 512); /* 1 */
        codes[300] = 0xc0;        /* -2 */
        float rows[512];
        read_rows(&b, rows);
        for (int i = 0; i < 512; i++)
            assert_true(rows[i] == (i == 300 ? -1 : 0.5f));
        bytes_free(&b);
    }
}

static int hadamard(int i, int j)
{
    int sign = 1;
    for (; i || j; i /= 4, j /= 4)
        sign *= i % 4 + j % 4 == 3 ? -1 : 1;
    return sign;
}

static void rotated(void **state)
{
    (void)state;
    bytes b = make(LAYER("I8", "[2,1]", "weight_scale", 520) DESCRIBED(520, 592), 2,
                   "{\"format\":\"int8_tensorwise\",\"convrot\":true,\"convrot_groupsize\":256}");
    int8_t *codes = (int8_t *)b.data + b.size - 592;
    for (int i = 0; i < 512; i++)
        codes[i] = (int8_t)(i * 37 % 255 - 127);
    float rows[512];
    read_rows(&b, rows);
    for (int r = 0; r < 2; r++)
        for (int i = 0; i < 256; i++) {
            int sum = 0;
            for (int j = 0; j < 256; j++)
                sum += codes[256 * r + j] * hadamard(i, j);
            assert_true(rows[256 * r + i] == (r ? -3.0f : 0.5f) * ((float)sum / 16));
        }
    bytes_free(&b);
}

static void rotating_twice_changes_nothing(void **state)
{
    (void)state;
    for (int group = 4; group <= ZN_PACKED_ROTATED; group *= 4) {
        float x[512], y[512];
        for (int i = 0; i < 512; i++)
            x[i] = y[i] = (float)(i * 29 % 251 - 125);
        zn_packed_rotate(x, 512, group);
        assert_true(memcmp(x, y, sizeof x) != 0);
        zn_packed_rotate(x, 512, group);
        assert_memory_equal(x, y, sizeof x);
    }
}

/* Two outputs of 64 channels and 2x2 taps. */
#define CONVOLUTION(scales, name, end)                                                                                 \
    "{\"l.weight\":{\"dtype\":\"I8\",\"shape\":[2,64,2,2],\"data_offsets\":[0,512]},"                                  \
    "\"l." name "\":{\"dtype\":\"F32\",\"shape\":" scales ",\"data_offsets\":[512," #end "]}}"

static void convolutions(void **state)
{
    (void)state;
    bytes b = make(CONVOLUTION("[2]", "weight_scale", 520), 2, NULL);
    int8_t *codes = (int8_t *)b.data + b.size - 520;
    for (int i = 0; i < 512; i++)
        codes[i] = (int8_t)(i * 37 % 255 - 127);
    zn_weights *w = must_open_bytes(&b);
    zn_weight plain;
    float *copy;
    assert_int_equal(zn_scaled_unpack(w, zn_weights_find(w, "l.weight"), &plain, &copy), ZN_OK);
    assert_true(plain.dtype == ZN_F32 && plain.rank == 4 && plain.bytes == 512 * sizeof(float) && plain.data == copy);
    for (int i = 0; i < 512; i++)
        assert_true(copy[i] == (i < 256 ? 0.5f : -3.0f) * (float)codes[i]);
    zn_free(copy);
    zn_weights_close(w);
    bytes_free(&b);
}

static void refuse_convolution(const char *header, float second, const char *word)
{
    bytes b = make(header, 2, NULL);
    memcpy(b.data + b.size - sizeof second, &second, sizeof second);
    zn_weights *w = must_open_bytes(&b);
    zn_weight plain;
    float *copy;
    assert_int_not_equal(zn_scaled_unpack(w, zn_weights_find(w, "l.weight"), &plain, &copy), ZN_OK);
    assert_null(copy);
    if (!strstr(zn_error_text(), word))
        fail_msg("%s", zn_error_text());
    zn_weights_close(w);
    bytes_free(&b);
}

static void refused_convolutions(void **state)
{
    (void)state;
    refuse_convolution(CONVOLUTION("[2]", "other", 520), 1, "'l.weight_scale' is missing");
    refuse_convolution(CONVOLUTION("[1,2]", "weight_scale", 520), 1, "2 scales for 2 rows");
    refuse_convolution(CONVOLUTION("[2]", "weight_scale", 520), NAN, "the scale of row 1 is not finite");
    refuse_convolution(CONVOLUTION("[2]", "weight_scale", 520), INFINITY, "the scale of row 1 is not finite");
}

static void refused(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        size_t scales;
        const char *description, *word;
    } cases[] = {
        { LAYER("I8", "[2,1]", "weight_scale", 520) DESCRIBED(520, 592), 2, "{\"format\":\"nvfp4\"}", "'nvfp4'" },
        { LAYER("I8", "[2,1]", "weight_scale", 520) DESCRIBED(520, 592), 2, "{\"format\":", "byte" },
        { LAYER("I8", "[2,1]", "weight_scale", 520) DESCRIBED(520, 592), 2,
          "{\"convrot\":true,\"convrot_groupsize\":32}", "groups" },
        { LAYER("I8", "[2,1]", "weight_scale", 520) DESCRIBED(520, 592), 2,
          "{\"convrot\":true,\"convrot_groupsize\":-4}", "groups" },
        { LAYER("I8", "[1,2]", "weight_scale", 520) "}", 2, NULL, "2 scales for 2 rows" },
        { LAYER("U8", "[2,1]", "weight_scale", 520) "}", 2, NULL, "blocks" },
        { LAYER("F8_E4M3", "[2]", "weight_scale_inv", 520) "}", 2, NULL, "blocks" },
        { LAYER("I8", "[2]", "other", 520) DESCRIBED(520, 592), 2, "{\"convrot\":true}", "no scales" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bytes b = make(cases[i].header, cases[i].scales, cases[i].description);
        zn_weights *w = must_open_bytes(&b);
        zn_scaled s;
        assert_int_not_equal(zn_scaled_find(w, "l", zn_weights_find(w, "l.weight"), &s), ZN_OK);
        if (!strstr(zn_error_text(), cases[i].word))
            fail_msg("case %zu: %s", i, zn_error_text());
        zn_weights_close(w);
        bytes_free(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(one_scale),
                                        cmocka_unit_test(rotated),
                                        cmocka_unit_test(rotating_twice_changes_nothing),
                                        cmocka_unit_test(convolutions),
                                        cmocka_unit_test(refused_convolutions),
                                        cmocka_unit_test(refused) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
