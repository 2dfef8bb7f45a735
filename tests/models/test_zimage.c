/* Z-Image's networks: sizes of the published ones, files under all names, gradients, threads, what a causal encoder may
 * not see, failing memory. */
#include "base/alloc.h"
#include "models/flux_vae.h"
#include "models/model.h"
#include "models/qwen3.h"
#include "models/zimage.h"
#include "setting.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

/* ---- sizes, without memory for the weights ---- */

static zn_node *transformer(zn_graph *g, const zn_zimage_form *k, int side, int words)
{
    const zn_scope s = { g, "" };
    zn_node *latent = zn_graph_input(g, "latent", ZN_SHAPE(1, side, side, k->channels));
    zn_node *time = zn_graph_input(g, "time", ZN_SHAPE(1, 1, 1, ZN_ZIMAGE_TIME));
    zn_node *features = zn_graph_input(g, "features", ZN_SHAPE(1, 1, words, k->caption));
    return zn_zimage(s, latent, time, zn_zimage_caption(s, features, k), k);
}

static void published_networks_have_their_sizes(void **state)
{
    (void)state;
    int tensors = 0;
    zn_graph *g = zn_graph_new();
    transformer(g, &zn_zimage_turbo, 4, 1);
    assert_int_equal(setting_parameters(g, &tensors), 6154908736);
    assert_int_equal(tensors, 521);
    g = zn_graph_new();
    tensors = 0;
    zn_node *ids = zn_graph_input(g, "ids", ZN_SHAPE(1, 1, 1, 1));
    zn_node *x = zn_qwen3((zn_scope){ g, "" }, ids, &zn_qwen3_4b, zn_qwen3_4b.layers, NULL);
    zn_qwen3_norm((zn_scope){ g, "" }, x, &zn_qwen3_4b);
    assert_int_equal(setting_parameters(g, &tensors), 4022468096);
    assert_int_equal(tensors, 398);
    g = zn_graph_new();
    tensors = 0;
    zn_flux_encoder((zn_scope){ g, "" }, zn_graph_input(g, "x", ZN_SHAPE(1, 8, 8, 3)), &zn_flux_vae);
    assert_int_equal(setting_parameters(g, &tensors), 34274208);
    g = zn_graph_new();
    zn_flux_decoder((zn_scope){ g, "" }, zn_graph_input(g, "z", ZN_SHAPE(1, 1, 1, 16)), &zn_flux_vae);
    assert_int_equal(setting_parameters(g, &tensors), 49545475);
    assert_int_equal(tensors, 244);
}

/* What a step at 1024 x 1024 needs beside the weights, which stay in their file. */
static void large_pictures_fit_into_memory(void **state)
{
    (void)state;
    size_t activations, prepared;
    zn_graph *g = zn_graph_new();
    zn_node *y = transformer(g, &zn_zimage_turbo, 128, 128);
    assert_int_equal(zn_exec_estimate(g, &y, 1, ZN_MATH_F32, 4, &activations, &prepared), ZN_OK);
    assert_true(activations < (size_t)1 << 30);
    assert_int_equal(prepared, 0);
    zn_graph_free(g);
}

/* ---- files ---- */

static const zn_zimage_form small = { .dim = 24,
                                      .heads = 2,
                                      .layers = 2,
                                      .refiners = 1,
                                      .caption = 10,
                                      .channels = 3,
                                      .inner = 20,
                                      .time = 12,
                                      .modulation = 8,
                                      .axes = { 4, 4, 4 },
                                      .eps = 1e-5f,
                                      .theta = 256,
                                      .time_scale = 1000 };
static const char small_config[] = "{\"axes_dims\":[4,4,4],\"n_kv_heads\":2}";

typedef struct file {
    uint8_t *bytes;
    size_t size;
} file;

typedef void (*placer)(const void *naming, zn_place *out);

/* One tensor of the header; returns how long it is. */
static size_t describe(char *header, size_t room, const char *name, zn_shape s, size_t begin, size_t end)
{
    size_t used = (size_t)snprintf(header, room, "%c\"%s\":{\"dtype\":\"F32\",\"shape\":", begin ? ',' : '{', name);
    for (int i = 0; i < s.rank; i++)
        used += (size_t)snprintf(header + used, room - used, "%c%lld", i ? ',' : '[', (long long)s.dim[i]);
    return used + (size_t)snprintf(header + used, room - used, "],\"data_offsets\":[%zu,%zu]}", begin, end);
}

/* A safetensors file with the parameters of a filled graph under the names of a naming; fused parts follow each other
 * in the graph, so that they make one tensor. */
static file file_of(zn_graph *g, placer place, const void *naming)
{
    enum { ROOM = 1 << 16, DATA = 1 << 22 };
    char *header = zn_calloc(1, ROOM);
    float *data = zn_alloc(DATA);
    size_t used = 0, at = 0, begin = 0;
    assert_true(header && data);
    for (int i = 0; i < zn_graph_count(g); i++) {
        const zn_node *n = zn_graph_at(g, i);
        zn_place p = { .parts = 1 };
        if (n->op != &zn_op_parameter)
            continue;
        zn_shape s = zn_weight_file_shape(n->shape, n->layout);
        snprintf(p.name, sizeof p.name, "%s", n->name);
        place(naming, &p);
        zn_weight_export(n->data, n->shape, n->layout, data + at);
        at += (size_t)zn_shape_count(s);
        s.dim[0] *= p.parts;
        const size_t end = begin + sizeof *data * (size_t)zn_shape_count(s);
        if (p.part == 0) {
            used += describe(header + used, ROOM - used, p.name, s, begin, end);
            begin = end;
        }
    }
    header[used++] = '}';
    file f = { zn_calloc(1, 8 + used + begin), 8 + used + begin };
    for (int i = 0; i < 8; i++)
        f.bytes[i] = (uint8_t)((uint64_t)used >> 8 * i);
    memcpy(f.bytes + 8, header, used);
    memcpy(f.bytes + 8 + used, data, begin);
    zn_free(header);
    zn_free(data);
    return f;
}

static file small_file(const zn_zimage_naming *naming)
{
    zn_graph *g = zn_graph_new();
    transformer(g, &small, 4, 3);
    assert_int_equal(setting_fill(g), ZN_OK);
    const file f = file_of(g, zn_zimage_place, naming);
    zn_graph_free(g);
    return f;
}

/* Opens the file, recognises it and runs the network. y: [6,10,channels]. */
static zn_status run_file(const file *f, int threads, float *y)
{
    zn_weights *w;
    zn_json config = { 0 };
    zn_zimage_form k;
    zn_zimage_naming naming;
    setting s = { 0 };
    zn_status status = zn_weights_open_memory(f->bytes, f->size, "small", &w);
    if (status != ZN_OK)
        return status;
    const zn_weights *files[] = { w };
    const zn_stored from = { files, 1, zn_zimage_place, &naming };
    status = zn_json_parse(&config, small_config, sizeof small_config - 1, "config");
    if (status == ZN_OK)
        status = zn_zimage_recognise(files, 1, config.root, &k, &naming);
    if (status == ZN_OK) {
        s.graph = zn_graph_new();
        status = s.graph ? ZN_OK : ZN_ENOMEM;
    }
    if (status == ZN_OK) {
        const zn_scope top = { s.graph, "" };
        s.x = zn_graph_input(s.graph, "latent", ZN_SHAPE(1, 6, 10, k.channels));
        zn_node *time = zn_graph_input(s.graph, "time", ZN_SHAPE(1, 1, 1, ZN_ZIMAGE_TIME));
        zn_node *features = zn_graph_input(s.graph, "features", ZN_SHAPE(1, 1, 35, k.caption));
        s.y = zn_zimage(top, s.x, time, zn_zimage_caption(top, features, &k), &k);
        status = zn_stored_bind(&from, s.graph);
    }
    if (status == ZN_OK)
        status = setting_start(&s, threads, &s.y, 1, false);
    if (status == ZN_OK)
        status = zn_exec_run(s.exec);
    if (status == ZN_OK)
        memcpy(y, s.y->data, sizeof *y * (size_t)zn_shape_count(s.y->shape));
    setting_free(&s);
    zn_json_free(&config);
    zn_weights_close(w);
    return status;
}

enum { RESULT = 6 * 10 * 3 };

static void every_naming_gives_the_same_bits(void **state)
{
    (void)state;
    static const zn_zimage_naming namings[] = { { ZN_ZIMAGE_DIFFUSERS, false, "" },
                                                { ZN_ZIMAGE_DIFFUSERS, false, "transformer." },
                                                { ZN_ZIMAGE_ORIGINAL, true, "model.diffusion_model." },
                                                { ZN_ZIMAGE_ORIGINAL, false, "" },
                                                { ZN_ZIMAGE_MLX, false, "" } };
    float first[RESULT], other[RESULT];
    for (size_t i = 0; i < sizeof namings / sizeof *namings; i++) {
        file f = small_file(&namings[i]);
        assert_int_equal(run_file(&f, 2, i ? other : first), ZN_OK);
        if (i)
            assert_memory_equal(first, other, sizeof first);
        zn_free(f.bytes);
    }
}

static void threads_change_no_bit(void **state)
{
    (void)state;
    float one[RESULT], three[RESULT];
    file f = small_file(&(zn_zimage_naming){ 0 });
    assert_int_equal(run_file(&f, 1, one), ZN_OK);
    assert_int_equal(run_file(&f, 3, three), ZN_OK);
    assert_memory_equal(one, three, sizeof one);
    zn_free(f.bytes);
}

/* One letter of a tensor's name, or of its shape, makes a file that is refused with a sentence. */
static void broken_files_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *find, *put, *says;
        zn_status status;
    } breaks[] = {
        { "layers.1.feed_forward.w2.weight", "layers.1.feed_forward.x2.weight", "layers.1.feed_forward.w2.weight",
          ZN_ENOTFOUND },
        { "cap_embedder.0.weight", "cap_embeddex.0.weight", "no Z-Image transformer", ZN_ENOTFOUND },
        { "context_refiner.0.attention_norm1", "context_refinex.0.attention_norm1", "no blocks of Z-Image",
          ZN_EFORMAT },
        { "layers.0.attention.norm_q.weight", "layers.0.attention.norm_x.weight", "heads of 0", ZN_EFORMAT },
        { "to_q.weight\":{\"dtype\":\"F32\",\"shape\":[24,24]", "to_q.weight\":{\"dtype\":\"F32\",\"shape\":[48,12]",
          "is 48x12, but the network needs 24x24", ZN_ESHAPE },
    };
    float y[RESULT];
    for (size_t i = 0; i < sizeof breaks / sizeof *breaks; i++) {
        file f = small_file(&(zn_zimage_naming){ 0 });
        const size_t n = strlen(breaks[i].find);
        uint8_t *at = f.bytes;
        while (at + n < f.bytes + f.size && memcmp(at, breaks[i].find, n) != 0)
            at++;
        assert_true(at + n < f.bytes + f.size);
        memcpy(at, breaks[i].put, n);
        assert_int_equal(run_file(&f, 1, y), breaks[i].status);
        assert_non_null(strstr(zn_error_text(), breaks[i].says));
        zn_free(f.bytes);
    }
}

static void failing_memory_is_an_error(void **state)
{
    (void)state;
    float y[RESULT];
    file f = small_file(&(zn_zimage_naming){ .style = ZN_ZIMAGE_ORIGINAL, .fused = true });
    const int64_t before = zn_alloc_calls();
    assert_int_equal(run_file(&f, 1, y), ZN_OK);
    const int64_t calls = zn_alloc_calls() - before;
    for (int64_t nth = 1; nth <= calls; nth++) {
        zn_alloc_fail_at(nth);
        const zn_status status = run_file(&f, 1, y);
        zn_alloc_fail_at(0);
        assert_true(status == ZN_OK || status == ZN_ENOMEM);
    }
    zn_free(f.bytes);
}

/* ---- the autoencoder's files ---- */

static const zn_flux_form little = { .levels = 3, .width = { 32, 32, 64 }, .blocks = 1, .latent = 3, .groups = 32 };

static zn_node *autoencoder(zn_graph *g, const zn_flux_form *k, int side)
{
    const zn_scope s = { g, "" };
    zn_node *moments = zn_flux_encoder(s, zn_graph_input(g, "x", ZN_SHAPE(1, side, side, 3)), k);
    return zn_flux_decoder(s, zn_slice_channels(moments, 0, k->latent), k);
}

static void autoencoders_have_two_namings(void **state)
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
static void autoencoders_are_models(void **state)
{
    (void)state;
    static const zn_flux_naming original = { true, 3, "vae." };
    static const char path[] = "test_zimage_autoencoder.safetensors";
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

/* ---- gradients ---- */

static void gradients_are_those_of_differences(void **state)
{
    (void)state;
    setting s = { .graph = zn_graph_new() };
    s.y = transformer(s.graph, &small, 6, 5);
    setting_check_gradients(&s, 2e-4f);
    const zn_flux_form vae = { .levels = 2, .width = { 4, 8 }, .blocks = 1, .latent = 3, .groups = 2 };
    s.graph = zn_graph_new();
    s.y = autoencoder(s.graph, &vae, 8);
    setting_check_gradients(&s, 2e-4f);
}

/* ---- the encoder of prompts ---- */

static const zn_qwen3_form words = { .vocabulary = 40,
                                     .hidden = 12,
                                     .layers = 2,
                                     .heads = 4,
                                     .groups = 2,
                                     .head = 6,
                                     .inner = 16,
                                     .eps = 1e-6f,
                                     .theta = 1e6 };

static void encode(int tokens, int changed, float *y)
{
    setting s = { .graph = zn_graph_new() };
    s.x = zn_graph_input(s.graph, "ids", ZN_SHAPE(1, 1, tokens, 1));
    s.y = zn_qwen3((zn_scope){ s.graph, "" }, s.x, &words, words.layers, NULL);
    assert_int_equal(zn_graph_status(s.graph), ZN_OK);
    assert_int_equal(setting_fill(s.graph), ZN_OK);
    assert_int_equal(setting_start(&s, 2, &s.y, 1, false), ZN_OK);
    for (int i = 0; i < tokens; i++)
        s.x->data[i] = (float)(i == changed ? 3 : (7 * i + 5) % words.vocabulary);
    assert_int_equal(zn_exec_run(s.exec), ZN_OK);
    memcpy(y, s.y->data, sizeof *y * (size_t)zn_shape_count(s.y->shape));
    setting_free(&s);
}

static void later_words_change_nothing(void **state)
{
    (void)state;
    enum { TOKENS = 40, HIDDEN = 12, AT = 21 };
    float all[TOKENS * HIDDEN], other[TOKENS * HIDDEN], some[AT * HIDDEN];
    encode(TOKENS, -1, all);
    encode(TOKENS, AT, other);
    encode(AT, -1, some);
    assert_memory_equal(all, other, sizeof some);
    for (int i = 0; i < AT * HIDDEN; i++)
        assert_float_equal(all[i], some[i], 1e-5f);
    for (int t = AT; t < TOKENS; t++) /* but all that come behind see it */
        assert_memory_not_equal(all + t * HIDDEN, other + t * HIDDEN, sizeof(float) * HIDDEN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_networks_have_their_sizes),
        cmocka_unit_test(large_pictures_fit_into_memory),
        cmocka_unit_test(every_naming_gives_the_same_bits),
        cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(broken_files_are_refused),
        cmocka_unit_test(failing_memory_is_an_error),
        cmocka_unit_test(autoencoders_have_two_namings),
        cmocka_unit_test(autoencoders_are_models),
        cmocka_unit_test(gradients_are_those_of_differences),
        cmocka_unit_test(later_words_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
