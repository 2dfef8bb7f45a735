/* The folder of a tiny model: real structure, real names, small numbers. */
#include "tiny.h"

#include "base/alloc.h"
#include "base/file.h"
#include "graph_file.h"
#include "models/flux/flux_vae.h"
#include "models/qwen3/qwen3.h"
#include "models/zimage/zimage.h"
#include "setting.h"
#include "small.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const zn_zimage_form transformer = { .dim = 32,
                                            .heads = 2,
                                            .layers = 3,
                                            .refiners = 2,
                                            .caption = 24,
                                            .channels = 16,
                                            .inner = 40,
                                            .time = 16,
                                            .modulation = 8,
                                            .axes = { 4, 6, 6 },
                                            .eps = 1e-5f,
                                            .theta = 256,
                                            .time_scale = 1000 };
static const char transformer_config[] =
    "{\"axes_dims\":[4,6,6],\"n_kv_heads\":2,\"norm_eps\":1e-5,\"rope_theta\":256.0,\"t_scale\":1000.0}";

static const zn_qwen3_form text = { .vocabulary = 512,
                                    .hidden = 24,
                                    .layers = 3,
                                    .heads = 4,
                                    .groups = 2,
                                    .head = 8,
                                    .inner = 48,
                                    .eps = 1e-6f,
                                    .theta = 1e6 };
static const char text_config[] = "{\"num_hidden_layers\":3,\"rms_norm_eps\":1e-6,\"rope_theta\":1000000.0}";

static const zn_flux_form vae = {
    .levels = 4, .width = { 4, 4, 8, 8 }, .blocks = 2, .latent = 16, .groups = 4, .scale = 0.3611, .shift = 0.1159
};
static const char vae_config[] = "{\"norm_num_groups\":4,\"scaling_factor\":0.3611,\"shift_factor\":0.1159}";

static void write_text(const char *folder, const char *name, const char *content)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(zn_file_write(path, content, strlen(content)), ZN_OK);
}

/* Fills the graph's parameters, writes them, and frees the graph. */
static void write_part(const char *folder, const char *part, const char *name, zn_graph *g,
                       void (*place)(const void *naming, zn_place *out), const void *naming, const char *config)
{
    char own[2048], path[4096];
    snprintf(own, sizeof own, "%s/%s", folder, part);
    snprintf(path, sizeof path, "%s/%s", own, name);
    assert_int_equal(zn_folder_make(own), ZN_OK);
    assert_int_equal(zn_graph_status(g), ZN_OK);
    assert_int_equal(setting_fill(g), ZN_OK);
    const file f = file_of(g, place, naming);
    assert_int_equal(zn_file_write(path, f.bytes, f.size), ZN_OK);
    zn_free(f.bytes);
    zn_graph_free(g);
    write_text(own, "config.json", config);
}

static void write_transformer(const char *folder)
{
    static const zn_zimage_naming naming = { .style = ZN_ZIMAGE_DIFFUSERS };
    const zn_zimage_form *k = &transformer;
    zn_graph *g = zn_graph_new();
    const zn_scope s = { g, "" };
    zn_node *latent = zn_graph_input(g, "latent", ZN_SHAPE(1, 2, 2, k->channels));
    zn_node *time = zn_graph_input(g, "time", ZN_SHAPE(1, 1, 1, ZN_ZIMAGE_TIME));
    zn_node *features = zn_graph_input(g, "features", ZN_SHAPE(1, 1, 1, k->caption));
    zn_zimage(s, latent, zn_zimage_modulation(s, time, k), zn_zimage_caption(s, features, k), k);
    write_part(folder, "transformer", "diffusion_pytorch_model.safetensors", g, zn_zimage_place, &naming,
               transformer_config);
}

static void write_text_encoder(const char *folder)
{
    static const zn_qwen3_naming naming = { .prefix = "model." };
    zn_graph *g = zn_graph_new();
    const zn_scope s = { g, "" };
    zn_node *ids = zn_graph_input(g, "ids", ZN_SHAPE(1, 1, 1, 1));
    zn_qwen3_norm(s, zn_qwen3(s, ids, &text, text.layers, NULL), &text);
    write_part(folder, "text_encoder", "model.safetensors", g, zn_qwen3_place, &naming, text_config);
}

static void write_vae(const char *folder)
{
    static const zn_flux_naming naming = { .levels = 4 };
    zn_graph *g = zn_graph_new();
    const zn_scope s = { g, "" };
    zn_flux_encoder(s, zn_graph_input(g, "image", ZN_SHAPE(1, 8, 8, 3)), &vae);
    zn_flux_decoder(s, zn_graph_input(g, "latent", ZN_SHAPE(1, 1, 1, 16)), &vae);
    write_part(folder, "vae", "diffusion_pytorch_model.safetensors", g, zn_flux_place, &naming, vae_config);
}

static void write_tokenizer(const char *folder)
{
    char own[2048];
    char *json = small_tokenizer("{\"id\":400,\"content\":\"<x>\",\"lstrip\":false},{\"id\":401,\"content\":\"<x>y\"}",
                                 "{\"id\":400,\"content\":\"<|im_start|>\"},{\"id\":401,\"content\":\"<|im_end|>\"}");
    snprintf(own, sizeof own, "%s/tokenizer", folder);
    assert_int_equal(zn_folder_make(own), ZN_OK);
    write_text(own, "tokenizer.json", json);
    free(json);
}

void tiny_model(const char *folder)
{
    assert_int_equal(zn_folder_make(folder), ZN_OK);
    write_text(folder, "model_index.json", "{\"_class_name\":\"ZImagePipeline\"}");
    write_transformer(folder);
    write_text_encoder(folder);
    write_vae(folder);
    write_tokenizer(folder);
}

/* ---- for groups of tests ---- */

char tiny_root[32], tiny_folder[64];

int tiny_setup(void **state)
{
    (void)state;
    snprintf(tiny_root, sizeof tiny_root, "/tmp/zenith-generate-XXXXXX");
    assert_non_null(mkdtemp(tiny_root));
    snprintf(tiny_folder, sizeof tiny_folder, "%s/tiny", tiny_root);
    tiny_model(tiny_folder);
    return 0;
}

int tiny_teardown(void **state)
{
    (void)state;
    char command[96];
    snprintf(command, sizeof command, "rm -rf '%s'", tiny_root);
    return system(command);
}
