/* Z-Image's transformer: size of the published one, files under all names, gradients, threads, failing memory. */
#include "base/alloc.h"
#include "graph_file.h"
#include "models/zimage/zimage.h"
#include "ops/ops.h"
#include "setting.h"

#include "base/cpu.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- sizes, without memory for the weights ---- */

static zn_node *transformer(zn_graph *g, const zn_zimage_form *k, int side, int words)
{
    const zn_scope s = { g, "" };
    zn_node *latent = zn_graph_input(g, "latent", ZN_SHAPE(1, side, side, k->channels));
    zn_node *time = zn_graph_input(g, "time", ZN_SHAPE(1, 1, 1, ZN_ZIMAGE_TIME));
    zn_node *features = zn_graph_input(g, "features", ZN_SHAPE(1, 1, words, k->caption));
    return zn_zimage(s, latent, zn_zimage_modulation(s, time, k), zn_zimage_caption(s, features, k), k);
}

static void the_published_network_has_its_size(void **state)
{
    (void)state;
    int tensors = 0;
    zn_graph *g = zn_graph_new();
    transformer(g, &zn_zimage_turbo, 4, 1);
    assert_int_equal(setting_parameters(g, &tensors), 6154908736);
    assert_int_equal(tensors, 521);
}

/* What a step at 1024 x 1024 needs beside the weights, which stay in their file. */
static void large_pictures_fit_into_memory(void **state)
{
    (void)state;
    size_t activations, prepared;
    zn_graph *g = zn_graph_new();
    zn_node *y = transformer(g, &zn_zimage_turbo, 128, 128);
    const zn_prepare p = { .math = ZN_PRECISION_F32, .cpu = zn_cpu_flags(), .constant_parameters = true, .threads = 4 };
    assert_int_equal(zn_exec_estimate(g, &y, 1, &p, &activations, &prepared), ZN_OK);
    assert_true(activations < (size_t)450 << 20);
    assert_true(prepared < (size_t)1 << 20); /* tables, no weights */
    zn_graph_free(g);
}

/* How attention multiplies on a CPU with matrix instructions if all matrices have this type. */
static zn_precision attention_with(zn_dtype weights, zn_precision asked)
{
    zn_graph *g = zn_graph_new();
    zn_node *y = transformer(g, &zn_zimage_turbo, 32, 32);
    const zn_packed stored = { .dtype = weights };
    const zn_prepare p = { .math = asked, .cpu = ZN_CPU_AMX_BF16 | ZN_CPU_AVX512BF16, .threads = 1 };
    zn_precision math = ZN_PRECISION_DEFAULT;
    assert_non_null(y);
    for (int i = 0; i < zn_graph_count(g); i++) {
        zn_node *n = zn_graph_at(g, i);
        if (n->op == &zn_op_matrix)
            n->source[1]->packed = &stored;
        if (n->op == &zn_op_attend)
            math = n->op->math(n, &p);
    }
    zn_graph_free(g);
    return math;
}

/* int8 stands for "as precise as the weights": docs/results/quantised.md. */
static void attention_is_as_precise_as_the_weights(void **state)
{
    (void)state;
    assert_int_equal(attention_with(ZN_Q4_0, ZN_PRECISION_INT8), ZN_PRECISION_BF16);
    assert_int_equal(attention_with(ZN_Q8_0, ZN_PRECISION_INT8), ZN_PRECISION_BF16);
    assert_int_equal(attention_with(ZN_F8_E4M3, ZN_PRECISION_INT8), ZN_PRECISION_BF16);
    assert_int_equal(attention_with(ZN_BF16, ZN_PRECISION_INT8), ZN_PRECISION_F32);
    assert_int_equal(attention_with(ZN_F32, ZN_PRECISION_INT8), ZN_PRECISION_F32);
    assert_int_equal(attention_with(ZN_BF16, ZN_PRECISION_BF16), ZN_PRECISION_BF16);
    assert_int_equal(attention_with(ZN_Q4_0, ZN_PRECISION_F32), ZN_PRECISION_F32);
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

/* W + factor B A, in place. */
static void merge(zn_graph *g, const zn_adapter *a)
{
    char name[160];
    snprintf(name, sizeof name, "%s.weight", a->layer);
    const zn_node *w = zn_graph_parameter(g, name, ZN_SHAPE(1, 1, 24, 24), ZN_LAYOUT_ROWS);
    const float *down = (const float *)a->a.data, *up = (const float *)a->b.data;
    for (int j = 0; j < 24; j++)
        for (int i = 0; i < 24; i++)
            for (int r = 0; r < a->rank; r++)
                w->data[j * 24 + i] += a->factor * up[j * a->rank + r] * down[r * 24 + i];
}

/* merged: an adapter to add to its matrix, or NULL. */
static file merged_file(const zn_zimage_naming *naming, const zn_adapter *merged)
{
    zn_graph *g = zn_graph_new();
    transformer(g, &small, 4, 3);
    assert_int_equal(setting_fill(g), ZN_OK);
    if (merged)
        merge(g, merged);
    const file f = file_of(g, zn_zimage_place, naming);
    zn_graph_free(g);
    return f;
}

static file small_file(const zn_zimage_naming *naming) { return merged_file(naming, NULL); }

/* Opens the file, recognises it and runs the network as `how` says. y: [6,10,channels]. */
static zn_status run_file_as(const file *f, int threads, const zn_zimage_form *how, float *y)
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
        k.piece = how->piece;
        k.adapters = how->adapters;
        k.adapter_count = how->adapter_count;
        s.x = zn_graph_input(s.graph, "latent", ZN_SHAPE(1, 6, 10, k.channels));
        zn_node *time = zn_graph_input(s.graph, "time", ZN_SHAPE(1, 1, 1, ZN_ZIMAGE_TIME));
        zn_node *features = zn_graph_input(s.graph, "features", ZN_SHAPE(1, 1, 35, k.caption));
        s.y = zn_zimage(top, s.x, zn_zimage_modulation(top, time, &k), zn_zimage_caption(top, features, &k), &k);
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

static zn_status run_file(const file *f, int threads, float *y) { return run_file_as(f, threads, &small, y); }

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

/* The feed-forward part takes tokens in pieces of any size. */
static void pieces_change_no_bit(void **state)
{
    (void)state;
    float whole[RESULT], apart[RESULT];
    file f = small_file(&(zn_zimage_naming){ 0 });
    assert_int_equal(run_file(&f, 2, whole), ZN_OK);
    for (int piece = 1; piece < 64; piece += 11) {
        assert_int_equal(run_file_as(&f, 2, &(zn_zimage_form){ .piece = piece }, apart), ZN_OK);
        assert_memory_equal(whole, apart, sizeof whole);
    }
    zn_free(f.bytes);
}

static void adapters_do_what_merging_does(void **state)
{
    (void)state;
    enum { RANK = 3 };
    float down[RANK * 24], up[24 * RANK], plain[RESULT], added[RESULT], merged[RESULT];
    for (int i = 0; i < RANK * 24; i++) {
        down[i] = 0.1f * (float)(i % 7 - 3);
        up[i] = 0.1f * (float)(i % 5 - 2);
    }
    const zn_adapter a = { .layer = "layers.1.attention.to_q",
                           .a = zn_packed_floats(down, 24),
                           .b = zn_packed_floats(up, RANK),
                           .rank = RANK,
                           .factor = 0.5f };
    file f = small_file(&(zn_zimage_naming){ 0 }), m = merged_file(&(zn_zimage_naming){ 0 }, &a);
    assert_int_equal(run_file(&f, 2, plain), ZN_OK);
    assert_int_equal(run_file(&m, 2, merged), ZN_OK);
    assert_int_equal(run_file_as(&f, 2, &(zn_zimage_form){ .adapters = &a, .adapter_count = 1 }, added), ZN_OK);
    float moved = 0;
    for (int i = 0; i < RESULT; i++) {
        assert_true(fabsf(added[i] - merged[i]) < 1e-4f);
        moved = fmaxf(moved, fabsf(added[i] - plain[i]));
    }
    assert_true(moved > 1e-2f);
    zn_free(f.bytes);
    zn_free(m.bytes);
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
        { "context_refiner.0.attention_norm1", "context_refinex.0.attention_norm1", "not blocks of Z-Image",
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

/* ---- gradients ---- */

static void gradients_are_those_of_differences(void **state)
{
    (void)state;
    setting s = { .graph = zn_graph_new() };
    s.y = transformer(s.graph, &small, 6, 5);
    setting_check_gradients(&s, 2e-4f);
}

/* ---- batches, as in training ---- */

enum { SAMPLES = 2, SIDE = 16, WORDS = 32, SHORT = 20 }; /* the second caption is shorter */

static zn_node *batch(zn_graph *g, zn_node *in[4])
{
    const zn_scope s = { g, "" };
    in[0] = zn_graph_input(g, "latent", ZN_SHAPE(SAMPLES, SIDE, SIDE, small.channels));
    in[1] = zn_graph_input(g, "time", ZN_SHAPE(1, 1, SAMPLES, ZN_ZIMAGE_TIME));
    in[2] = zn_graph_input(g, "features", ZN_SHAPE(SAMPLES, 1, WORDS, small.caption));
    in[3] = zn_fixed(g, "ids", ZN_SHAPE(SAMPLES, 1, WORDS, 1));
    for (int i = 0; i < WORDS; i++)
        in[3]->data[WORDS + i] = i < SHORT ? 7 : -1;
    zn_node *caption = zn_zimage_captions(s, in[2], in[3], &small);
    return zn_zimage(s, in[0], zn_zimage_modulation(s, in[1], &small), caption, &small);
}

/* Parameters of one graph get the values of the same names in another. */
static void take_values(zn_graph *to, zn_graph *from)
{
    for (int i = 0; i < zn_graph_count(to); i++)
        for (int k = 0; k < zn_graph_count(from); k++) {
            zn_node *a = zn_graph_at(to, i);
            const zn_node *b = zn_graph_at(from, k);
            if (a->op == &zn_op_parameter && b->op == &zn_op_parameter && strcmp(a->name, b->name) == 0)
                a->data = b->data;
        }
}

static void samples_of_a_batch_are_those_alone(void **state)
{
    (void)state;
    setting all = { .graph = zn_graph_new() };
    zn_node *in[4];
    all.y = batch(all.graph, in);
    assert_int_equal(setting_fill(all.graph), ZN_OK);
    zn_graph_multiply_by_convolutions(all.graph);
    assert_int_equal(setting_start(&all, 2, &all.y, 1, false), ZN_OK);
    assert_int_equal(zn_exec_run(all.exec), ZN_OK);
    for (int k = 0; k < SAMPLES; k++) {
        setting one = { .graph = zn_graph_new() };
        one.y = transformer(one.graph, &small, SIDE, k ? SHORT : WORDS);
        assert_int_equal(setting_fill(one.graph), ZN_OK); /* for what only images with gaps need */
        take_values(one.graph, all.graph);
        assert_int_equal(setting_start(&one, 1, &one.y, 1, false), ZN_OK);
        for (int i = 0; i < 3; i++) {
            zn_node *own = zn_graph_at(one.graph, i);
            const int64_t count = zn_shape_count(own->shape), each = zn_shape_count(in[i]->shape) / SAMPLES;
            memcpy(own->data, in[i]->data + k * each, sizeof(float) * (size_t)count);
        }
        assert_int_equal(zn_exec_run(one.exec), ZN_OK);
        const int64_t count = zn_shape_count(one.y->shape);
        for (int64_t i = 0; i < count; i++)
            assert_true(fabsf(one.y->data[i] - all.y->data[k * count + i]) < 2e-4f);
        setting_free(&one);
    }
    setting_free(&all);
}

static void gradients_of_a_batch_are_those_of_differences(void **state)
{
    (void)state;
    zn_node *in[4];
    setting s = { .graph = zn_graph_new() };
    s.y = batch(s.graph, in);
    setting_check_gradients(&s, 2e-4f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_published_network_has_its_size),
        cmocka_unit_test(large_pictures_fit_into_memory),
        cmocka_unit_test(attention_is_as_precise_as_the_weights),
        cmocka_unit_test(every_naming_gives_the_same_bits),
        cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(pieces_change_no_bit),
        cmocka_unit_test(adapters_do_what_merging_does),
        cmocka_unit_test(broken_files_are_refused),
        cmocka_unit_test(failing_memory_is_an_error),
        cmocka_unit_test(gradients_are_those_of_differences),
        cmocka_unit_test(samples_of_a_batch_are_those_alone),
        cmocka_unit_test(gradients_of_a_batch_are_those_of_differences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
