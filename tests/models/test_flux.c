/* FLUX's autoencoder: sizes of the published one, files under both namings, gradients. */
#include "base/alloc.h"
#include "graph_file.h"
#include "models/flux/flux_vae.h"
#include "models/model.h"
#include "setting.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

/* Without memory for the weights. */
static void published_networks_have_their_sizes(void **state)
{
    (void)state;
    int tensors = 0;
    zn_graph *g = zn_graph_new();
    zn_flux_encoder((zn_scope){ g, "" }, zn_graph_input(g, "x", ZN_SHAPE(1, 8, 8, 3)), &zn_flux_vae);
    assert_int_equal(setting_parameters(g, &tensors), 34274208);
    g = zn_graph_new();
    zn_flux_decoder((zn_scope){ g, "" }, zn_graph_input(g, "z", ZN_SHAPE(1, 1, 1, 16)), &zn_flux_vae);
    assert_int_equal(setting_parameters(g, &tensors), 49545475);
    assert_int_equal(tensors, 244);
}

static const zn_flux_form little = { .levels = 3, .width = { 32, 32, 64 }, .blocks = 1, .latent = 3, .groups = 32 };

static zn_node *autoencoder(zn_graph *g, const zn_flux_form *k, int side)
{
    const zn_scope s = { g, "" };
    zn_node *moments = zn_flux_encoder(s, zn_graph_input(g, "x", ZN_SHAPE(1, side, side, 3)), k);
    return zn_flux_decoder(s, zn_slice_channels(moments, 0, k->latent), k);
}

static void both_namings_give_the_same_bits(void **state)
{
    (void)state;
    static const zn_flux_naming namings[] = { { false, 0, "" }, { true, 3, "first_stage_model." } };
    float results[2][8 * 8 * 3];
    for (int i = 0; i < 2; i++) {
        zn_graph *g = zn_graph_new();
        autoencoder(g, &little, 8);
        assert_int_equal(setting_fill(g), ZN_OK);
        file f = file_of(g, zn_flux_place, &namings[i]);
        zn_graph_free(g);
        zn_weights *w;
        assert_int_equal(zn_weights_open_memory(f.bytes, f.size, "little", &w), ZN_OK);
        const zn_weights *files[] = { w };
        zn_flux_form k;
        zn_flux_naming found;
        assert_int_equal(zn_flux_recognise(files, 1, NULL, &k, &found), ZN_OK);
        assert_true(found.original == namings[i].original && strcmp(found.prefix, namings[i].prefix) == 0);
        assert_true(k.levels == 3 && k.blocks == 1 && k.latent == 3);
        assert_memory_equal(k.width, little.width, 3 * sizeof *k.width);
        const zn_stored from = { files, 1, zn_flux_place, &found };
        setting s = { .graph = zn_graph_new() };
        s.y = autoencoder(s.graph, &k, 8);
        assert_int_equal(zn_stored_bind(&from, s.graph), ZN_OK);
        assert_int_equal(setting_start(&s, 2, &s.y, 1, false), ZN_OK);
        assert_int_equal(zn_exec_run(s.exec), ZN_OK);
        memcpy(results[i], s.y->data, sizeof results[i]);
        setting_free(&s);
        zn_weights_close(w);
        zn_free(f.bytes);
    }
    assert_memory_equal(results[0], results[1], sizeof results[0]);
}

/* A file in the original's names is a model; so is one without its encoder. */
static void files_are_models(void **state)
{
    (void)state;
    static const zn_flux_naming original = { true, 3, "vae." };
    static const char path[] = "test_flux_autoencoder.safetensors";
    zn_graph *g = zn_graph_new();
    zn_flux_decoder((zn_scope){ g, "" }, zn_graph_input(g, "z", ZN_SHAPE(1, 2, 2, 3)), &little);
    assert_int_equal(setting_fill(g), ZN_OK);
    file f = file_of(g, zn_flux_place, &original);
    zn_graph_free(g);
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(f.bytes, 1, f.size, out), f.size);
    fclose(out);
    zn_free(f.bytes);
    zn_model *m;
    assert_int_equal(zn_model_open(path, &m), ZN_OK);
    const zn_model_info *info = zn_model_info_of(m);
    assert_string_equal(info->architecture, "flux-vae-custom");
    assert_true(info->has_decoder && !info->has_encoder && info->downscale == 4 && info->latent_channels == 3);
    zn_model_free(m);
    remove(path);
}

static void gradients_are_those_of_differences(void **state)
{
    (void)state;
    const zn_flux_form k = { .levels = 2, .width = { 4, 8 }, .blocks = 1, .latent = 3, .groups = 2 };
    setting s = { .graph = zn_graph_new() };
    s.y = autoencoder(s.graph, &k, 8);
    setting_check_gradients(&s, 2e-4f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_networks_have_their_sizes),
        cmocka_unit_test(both_namings_give_the_same_bits),
        cmocka_unit_test(files_are_models),
        cmocka_unit_test(gradients_are_those_of_differences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
