/* The small Gaussian autoencoder as a model: through a file and back, and which widths it can have. */
#include "base/alloc.h"
#include "base/file.h"
#include "model_file.h"
#include "models/wan2d/wan2d.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static zn_status resized(int width, int latent, zn_config *k)
{
    const zn_config *known;
    const zn_arch *arch = zn_arch_find("wan2d", &known);
    assert_non_null(arch);
    *k = *known;
    return zn_arch_resize(arch, k, &(zn_wishes){ .width = width, .latent = latent, .size = 32 });
}

static void models_come_back_from_files(void **state)
{
    (void)state;
    char path[] = "/tmp/zenith-wan2d.XXXXXX";
    zn_config k;
    zn_model *m, *back;
    assert_int_equal(resized(4, 3, &k), ZN_OK);
    assert_int_equal(zn_model_new(zn_arch_find("wan2d", &(const zn_config *){ NULL }), &k, &m), ZN_OK);
    assert_int_equal(zn_model_random_part(m, ZN_ENCODER, 1), ZN_OK);
    assert_int_equal(zn_model_random_part(m, ZN_DECODER, 1), ZN_OK);
    size_t size;
    uint8_t *bytes = model_bytes(m, &size);
    assert_true(mkstemp(path) >= 0);
    assert_int_equal(zn_file_write(path, bytes, size), ZN_OK);
    assert_int_equal(zn_model_open(path, &back), ZN_OK);
    assert_string_equal(back->info.architecture, "wan2d");
    assert_true(back->info.has_encoder && back->info.has_decoder);
    assert_int_equal(back->info.latent_channels, 3);
    assert_int_equal(back->config.width, 4);
    assert_int_equal(back->count, m->count);
    for (int i = 0; i < m->count; i++) {
        const zn_model_parameter *p = parameter_of(back, m->parameters[i].name);
        assert_memory_equal(p->data, m->parameters[i].data, sizeof(float) * (size_t)zn_shape_count(p->shape));
    }
    remove(path);
    zn_free(bytes);
    zn_model_free(back);
    zn_model_free(m);
}

static void widths_that_norms_do_not_allow_are_refused(void **state)
{
    (void)state;
    zn_config k;
    assert_int_equal(resized(8, 0, &k), ZN_OK);
    assert_int_equal(resized(0, 0, &k), ZN_OK);
    assert_int_equal(k.width, 64);
    assert_int_equal(resized(12, 0, &k), ZN_EINVALID);
    assert_non_null(strstr(zn_error_text(), "48 channels"));
}

/* Initial values depend on what parameters are used for, not on what they are called. */
static void names_do_not_decide_on_initial_values(void **state)
{
    (void)state;
    zn_config k;
    zn_model *usual, *renamed;
    assert_int_equal(resized(4, 3, &k), ZN_OK);
    const zn_arch *arch = zn_arch_find("wan2d", &(const zn_config *){ NULL });
    zn_arch other = *arch;
    other.scope[ZN_ENCODER] = "norm.encoder";
    assert_int_equal(zn_model_new(arch, &k, &usual), ZN_OK);
    assert_int_equal(zn_model_new(&other, &k, &renamed), ZN_OK);
    assert_int_equal(zn_model_random_part(usual, ZN_ENCODER, 1), ZN_OK);
    assert_int_equal(zn_model_random_part(renamed, ZN_ENCODER, 1), ZN_OK);
    assert_int_equal(usual->count, renamed->count);
    for (int i = 0; i < usual->count; i++) {
        const zn_model_parameter *p = &usual->parameters[i], *q = &renamed->parameters[i];
        assert_memory_equal(p->data, q->data, sizeof(float) * (size_t)zn_shape_count(p->shape));
        if (p->role == ZN_ROLE_GAIN)
            assert_true(p->data[0] == 1);
    }
    zn_model_free(usual);
    zn_model_free(renamed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_come_back_from_files),
        cmocka_unit_test(widths_that_norms_do_not_allow_are_refused),
        cmocka_unit_test(names_do_not_decide_on_initial_values),
    };
    return cmocka_run_group_tests_name("wan2d", tests, NULL, NULL);
}
