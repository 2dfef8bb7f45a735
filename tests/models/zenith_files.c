/* Zenith networks in files: recognised from their tensors, loaded as they were, refused with a reason. */
#include "model_file.h"
#include "zenith_tests.h"

#include "base/alloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *preset;
    int width, side;
} networks[] = {
    { "zenith-std", 16, 32 },        { "zenith-lite", 16, 32 },      { "zenith-spectral", 16, 64 },
    { "zenith-vanilla", 4, 0 },      { "zenith-hier", 4, 0 },        { "zenith-srig", 4, 0 },
    { "zenith-hier-r", 4, 0 },       { "zenith-baseline", 2, 0 },    { "zenith-r", 8, 0 },
    { "zenith-f2", 8, 0 },           { "zenith-restore", 6, 0 },     { "zenith-restore-spectral", 8, 0 },
    { "zenith-f2-depthwise", 8, 0 }, { "zenith-f2-spectral", 8, 0 },
};
enum { NETWORKS = sizeof networks / sizeof *networks };

/* Recognises and loads; *out is NULL on failure. */
static zn_status load(const uint8_t *bytes, size_t size, zn_model **out)
{
    zn_weights *w;
    *out = NULL;
    assert_int_equal(zn_weights_open_memory(bytes, size, "memory", &w), ZN_OK);
    zn_status status = ZN_ENOTFOUND;
    for (int i = 0; zn_archs[i] && !*out && status != ZN_EFORMAT; i++) {
        zn_config k = { 0 };
        zn_naming naming[ZN_PARTS];
        bool is_it = false;
        status = zn_archs[i]->recognise(w, &k, naming, &is_it);
        if (status != ZN_OK || !is_it)
            continue;
        assert_int_equal(zn_model_new(zn_archs[i], &k, out), ZN_OK);
        for (int part = 0; part < 2 && status == ZN_OK; part++)
            if (naming[part].present)
                status = zn_model_load_part(*out, (zn_part)part, w, &naming[part]);
    }
    zn_weights_close(w);
    if (status != ZN_OK) {
        zn_model_free(*out);
        *out = NULL;
    }
    return status;
}

void networks_come_back_from_their_files(void **state)
{
    (void)state;
    for (int i = 0; i < NETWORKS; i++) {
        zn_model *m = small_model(networks[i].preset, networks[i].width, networks[i].side, 5), *back;
        size_t size;
        uint8_t *bytes = model_bytes(m, &size);
        if (load(bytes, size, &back) != ZN_OK)
            fail_msg("%s: %s", networks[i].preset, zn_error_text());
        if (!back)
            fail_msg("%s was not recognised", networks[i].preset);
        assert_string_equal(back->config.name, networks[i].preset);
        assert_int_equal(back->config.width, networks[i].width);
        assert_int_equal(back->config.made_width, networks[i].side);
        assert_int_equal(back->config.latent, m->config.latent);
        assert_true((back->info.has_encoder && back->info.has_decoder) || back->info.restores);
        assert_int_equal(back->info.parameters, m->info.parameters);
        assert_int_equal(back->count, m->count);
        for (int k = 0; k < m->count; k++) {
            const zn_model_parameter *p = &m->parameters[k], *q = parameter_of(back, p->name);
            assert_memory_equal(p->data, q->data, sizeof(float) * (size_t)zn_shape_count(p->shape));
        }
        zn_model_free(back);
        zn_model_free(m);
        zn_free(bytes);
    }
}

/* What loading says of a model. */
static void refused(const zn_model *m, zn_status code, const char *words)
{
    size_t size;
    uint8_t *bytes = model_bytes(m, &size);
    zn_model *back;
    assert_int_equal(load(bytes, size, &back), code);
    if (!strstr(zn_error_text(), words))
        fail_msg("'%s' does not speak of '%s'", zn_error_text(), words);
    zn_free(bytes);
}

void a_bad_permutation_is_refused(void **state)
{
    (void)state;
    static const float bad[] = { 128, -1, 1e9f, 0 /* twice */ };
    zn_model *m = small_model("zenith-spectral", 16, 32, 5);
    zn_model_parameter *p = parameter_of(m, "enc.conv2.perm");
    assert_int_equal(p->shape.dim[1], 128);
    p->data[0] = 0; /* the identity stands in row 0 */
    for (int i = 0; i < 4; i++) {
        p->data[7] = bad[i];
        refused(m, ZN_EFORMAT, "enc.conv2.perm");
    }
    zn_model_free(m);
}

void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    zn_model *m = small_model("zenith-lite", 16, 32, 5);
    parameter_of(m, "enc.lite1.gate_v")->shape = ZN_SHAPE(8); /* of 16 */
    refused(m, ZN_ESHAPE, "enc.lite1.gate_v");
    parameter_of(m, "enc.lite1.gate_v")->shape = ZN_SHAPE(16);
    parameter_of(m, "enc.lite2.We")->name = "enc.lite9.We";
    refused(m, ZN_ENOTFOUND, "enc.lite2.We");
    zn_model_free(m);
    m = small_model("zenith-std", 16, 32, 5);
    m->config.made_height = 48; /* rows that cannot be transformed */
    assert_int_equal(zn_model_random_part(m, ZN_ENCODER, 1), ZN_ESHAPE);
    assert_non_null(strstr(zn_error_text(), "power of two, not 48"));
    zn_model_free(m);
}

void parts_of_two_networks_are_refused(void **state)
{
    (void)state;
    zn_model *m = small_model("zenith-r", 8, 0, 5);
    zn_model_parameter *p = parameter_of(m, "dec.in.weight");
    p->shape.dim[2] = 8; /* latent channels of the decoder; the encoder has 16 */
    refused(m, ZN_EFORMAT, "do not belong together");
    zn_model_free(m);
}
