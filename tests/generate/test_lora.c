/* LoRAs of all spellings, added to a tiny model at run time. */
#include "tiny.h"

#include "base/file.h"
#include "io/weights/writer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zenith/generate.h>

enum { SIDE = 32, BYTES = SIDE * SIDE * 3, RANK = 2, DIM = 32 };

static char lora[4096];

static int make_model(void **state)
{
    const int status = tiny_setup(state);
    snprintf(lora, sizeof lora, "%s/style.safetensors", tiny_root);
    return status;
}

static float down[RANK * DIM], up[3 * DIM * RANK], alpha[1] = { RANK };

static void fill(void)
{
    for (int i = 0; i < RANK * DIM; i++) {
        down[i] = 0.2f * (float)(i % 7 - 3);
        up[i] = 0.2f * (float)(i % 5 - 2); /* what follows, for k and v, stays 0 */
    }
}

/* A file with one pair; ends: names after `layer`; rows: of the second matrix; alpha is left out if ends[2] is NULL.
 */
static void write_pair(const char *layer, const char *const ends[3], int rows)
{
    char names[3][256];
    for (int i = 0; i < 3 && ends[i]; i++)
        snprintf(names[i], sizeof names[i], "%s%s", layer, ends[i]);
    const zn_weight tensors[] = {
        { .name = names[0], .dtype = ZN_F32, .rank = 2, .shape = { RANK, DIM }, .data = down },
        { .name = names[1], .dtype = ZN_F32, .rank = 2, .shape = { rows, RANK }, .data = up },
        { .name = names[2], .dtype = ZN_F32, .rank = 1, .shape = { 1 }, .data = alpha },
    };
    assert_int_equal(zn_safetensors_write(lora, tensors, ends[2] ? 3 : 2, NULL, 0), ZN_OK);
}

static zn_generator *open_model(void)
{
    zn_generator *g;
    const zn_generator_files files = { .size = sizeof files, .model = tiny_folder, .cache = "" };
    if (zn_generator_open(&files, NULL, &g) != ZN_OK)
        fail_msg("%s", zn_error_text());
    return g;
}

/* The image with the file's LoRA once for each strength, up to the first 0. */
static zn_image *make(const double *strengths)
{
    zn_generator *g = open_model();
    zn_image *image;
    const zn_generation r = { .size = sizeof r, .prompt = "fox", .width = SIDE, .height = SIDE, .steps = 2 };
    for (; *strengths != 0; strengths++)
        if (zn_generator_add_lora(g, lora, *strengths) != ZN_OK)
            fail_msg("%s", zn_error_text());
    if (zn_generate(g, &r, &image) != ZN_OK)
        fail_msg("%s", zn_error_text());
    zn_generator_free(g);
    return image;
}

static int differ(const zn_image *a, const zn_image *b) { return memcmp(a->pixels, b->pixels, BYTES) != 0; }

static const char *const peft[] = { ".lora_A.weight", ".lora_B.weight", NULL };
static const char *const kohya[] = { ".lora_down.weight", ".lora_up.weight", ".alpha" };

static void every_spelling_does_the_same(void **state)
{
    (void)state;
    static const struct {
        const char *layer;
        const char *const *ends;
        int rows;
    } files[] = {
        { "transformer.layers.1.attention.to_q", peft, DIM },
        { "layers.1.attention.to_q", kohya, DIM },
        { "diffusion_model.layers.1.attention.to_q", kohya, DIM },
        { "lora_unet_layers_1_attention_to_q", kohya, DIM },
        { "diffusion_model.layers.1.attention.qkv", peft, 3 * DIM },
        { "lora_unet_layers_1_attention_qkv", kohya, 3 * DIM },
    };
    zn_image *plain = make((double[]){ 0 }), *first = NULL;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        write_pair(files[i].layer, files[i].ends, files[i].rows);
        zn_image *image = make((double[]){ 0.8, 0 });
        assert_true(differ(plain, image));
        if (first) {
            assert_false(differ(first, image));
            zn_image_free(image);
        } else {
            first = image;
        }
    }
    zn_image *none = make((double[]){ 0.8, -0.8, 0 }); /* two that cancel each other */
    zn_image_difference d;
    assert_int_equal(zn_image_compare(plain, none, &d), ZN_OK);
    assert_true(d.max_difference <= 1);
    zn_image_free(plain);
    zn_image_free(first);
    zn_image_free(none);
}

static void alpha_scales(void **state)
{
    (void)state;
    write_pair("layers.0.attention.out", kohya, DIM); /* the original's name of to_out.0 */
    zn_image *half = make((double[]){ 0.5, 0 });
    alpha[0] = RANK / 2.0f;
    write_pair("layers.0.attention.out", kohya, DIM);
    zn_image *whole = make((double[]){ 1, 0 });
    assert_false(differ(half, whole));
    alpha[0] = RANK;
    zn_image_free(half);
    zn_image_free(whole);
}

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    zn_generator *g = open_model();
    write_pair("layers.0.attention.to_q", peft, DIM - 1);
    assert_int_equal(zn_generator_add_lora(g, lora, 1), ZN_ESHAPE);
    assert_non_null(strstr(zn_error_text(), "another model"));
    assert_non_null(strstr(zn_error_text(), "style.safetensors"));
    write_pair("text_model.encoder.layers.0.self_attn.q_proj", peft, DIM);
    assert_int_equal(zn_generator_add_lora(g, lora, 1), ZN_ENOTFOUND);
    assert_non_null(strstr(zn_error_text(), "no LoRA for Z-Image"));
    assert_int_equal(zn_generator_add_lora(g, "missing.safetensors", 1), ZN_ENOTFOUND);
    assert_int_equal(zn_generator_add_lora(g, lora, 1000), ZN_EINVALID);
    zn_generator_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_spelling_does_the_same),
        cmocka_unit_test(alpha_scales),
        cmocka_unit_test(what_does_not_fit_is_refused),
    };
    fill();
    return cmocka_run_group_tests(tests, make_model, tiny_teardown);
}
