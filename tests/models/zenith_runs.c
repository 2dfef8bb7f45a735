/* Zenith networks at work: sizes, tiles, threads, gates, failing memory, and that the trainable one learns. */
#include "model_file.h"
#include "part_run.h"
#include "zenith_tests.h"

#include "base/alloc.h"
#include "models/zenith/zenith.h"
#include "train/data/wavelet.h"
#include "train/optimiser/optim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

void other_sizes_give_one_sentence(void **state)
{
    (void)state;
    zn_model *m = small_model("zenith-lite", 16, 64, 1);
    zn_graph *g;
    zn_node *x, *y;
    assert_int_equal(zn_model_graph(m, ZN_ENCODER, ZN_SHAPE(1, 64, 128, 3), &g, &x, &y), ZN_ESHAPE);
    assert_string_equal(zn_error_text(), "this network was made for 64x64 images, not 128x64");
    assert_int_equal(zn_model_graph(m, ZN_DECODER, ZN_SHAPE(1, 9, 8, 4), &g, &x, &y), ZN_ESHAPE);
    assert_string_equal(zn_error_text(), "this network was made for 64x64 images, not 64x72");
    assert_int_equal(zn_model_graph(m, ZN_DECODER, ZN_SHAPE(2, 8, 8, 4), &g, &x, &y), ZN_OK);
    zn_graph_free(g);
    zn_model_free(m);
}

/* Spectral tiles of 32 at 1/8 are 256 pixels, with borders at 0 and 128: the sizes cut them everywhere. */
void tiles_equal_the_whole(void **state)
{
    (void)state;
    static const struct {
        const char *preset;
        zn_part part;
        int width, height, tile;
    } cases[] = {
        { "zenith-r", ZN_ENCODER, 600, 328, 128 },      { "zenith-r", ZN_DECODER, 600, 328, 128 },
        { "zenith-r", ZN_ENCODER, 1048, 40, 256 },      { "zenith-r", ZN_DECODER, 1048, 40, 96 },
        { "zenith-r", ZN_ENCODER, 4104, 40, 256 },      { "zenith-r", ZN_DECODER, 4104, 40, 256 },
        { "zenith-r", ZN_DECODER, 776, 520, 256 },      { "zenith-hier", ZN_ENCODER, 160, 96, 64 },
        { "zenith-vanilla", ZN_DECODER, 136, 200, 64 }, { "zenith-baseline", ZN_ENCODER, 160, 96, 64 },
        { "zenith-baseline", ZN_DECODER, 160, 96, 64 },
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        zn_model *m = small_model(cases[k].preset, strcmp(cases[k].preset, "zenith-r") ? 4 : 8, 0, 3);
        for (int i = 0; i < m->count; i++) /* branches that count */
            if (strstr(m->parameters[i].name, ".gamma") && m->parameters[i].data[0] == 0.1f)
                for (int64_t c = 0; c < zn_shape_count(m->parameters[i].shape); c++)
                    m->parameters[i].data[c] = 3;
        int64_t n, nt;
        float *whole = result_of(m, cases[k].part, cases[k].width, cases[k].height, 2, ZN_TILE_OFF, 0, &n);
        float *tiled = result_of(m, cases[k].part, cases[k].width, cases[k].height, 2, cases[k].tile, 0, &nt);
        assert_int_equal(n, nt);
        if (memcmp(whole, tiled, sizeof(float) * (size_t)n))
            fail_msg("case %zu, %s, tiles of %d: differs", k, cases[k].preset, cases[k].tile);
        zn_free(whole);
        zn_free(tiled);
        zn_model_free(m);
    }
}

void threads_do_not_change_a_bit(void **state)
{
    (void)state;
    static const char *const presets[] = { "zenith-r",    "zenith-std",  "zenith-spectral", "zenith-vanilla",
                                           "zenith-hier", "zenith-srig", "zenith-hier-r",   "zenith-baseline" };
    for (int k = 0; k < 8; k++) {
        zn_model *m = small_model(presets[k], k < 3 ? 16 : 4, 64, 3);
        for (int part = 0; part < 2; part++) {
            int64_t n1, n3;
            float *one = result_of(m, (zn_part)part, 64, 64, 1, ZN_TILE_OFF, 0, &n1);
            float *three = result_of(m, (zn_part)part, 64, 64, 3, ZN_TILE_OFF, 0, &n3);
            assert_int_equal(n1, n3);
            assert_memory_equal(one, three, sizeof(float) * (size_t)n1);
            zn_free(one);
            zn_free(three);
        }
        zn_model_free(m);
    }
}

/* The result of one part of a small network, fused or as it is written. */
static float *graph_result(const zn_model *m, zn_part part, bool fused, int64_t *count)
{
    zn_pool *pool = pool_of(2);
    zn_graph *g;
    zn_node *input, *output;
    zn_exec *e;
    const zn_shape shape = part == ZN_ENCODER ? ZN_SHAPE(1, 64, 64, 3) : ZN_SHAPE(1, 8, 8, m->config.latent);
    assert_int_equal(zn_model_graph(m, part, shape, &g, &input, &output), ZN_OK);
    if (fused)
        zn_graph_fuse(g, &output, 1);
    assert_int_equal(zn_exec_new(g, &output, 1, &(zn_exec_options){ .pool = pool }, &e), ZN_OK);
    fill(input->data, zn_shape_count(shape), 9);
    assert_int_equal(zn_exec_run(e), ZN_OK);
    *count = zn_shape_count(output->shape);
    float *copy = zn_alloc(sizeof *copy * (size_t)*count);
    memcpy(copy, output->data, sizeof *copy * (size_t)*count);
    zn_exec_free(e);
    zn_graph_free(g);
    zn_pool_free(pool);
    return copy;
}

void fusion_only_rounds(void **state)
{
    (void)state;
    static const char *const presets[] = { "zenith-r",        "zenith-std",     "zenith-lite",
                                           "zenith-spectral", "zenith-vanilla", "zenith-spectral" };
    for (int k = 0; k < 6; k++) {
        zn_model *m = small_model(presets[k], k < 5 ? 16 : 64, 64, 3); /* wide enough for bands of t */
        for (int part = 0; part < 2; part++) {
            int64_t count, other;
            float *plain = graph_result(m, (zn_part)part, false, &count);
            float *fused = graph_result(m, (zn_part)part, true, &other);
            double worst = 0, scale = 0;
            assert_int_equal(count, other);
            for (int64_t i = 0; i < count; i++) {
                const double d = fabs((double)plain[i] - (double)fused[i]), v = fabs((double)plain[i]);
                worst = d <= worst ? worst : d;
                scale = v <= scale ? scale : v;
            }
            if (!(worst <= 2e-5 * scale))
                fail_msg("%s: fused, the result differs by %g of %g", presets[k], worst, scale);
            zn_free(plain);
            zn_free(fused);
        }
        zn_model_free(m);
    }
}

/* Runs depthwise with and without a mask of this value on the same numbers. */
static void masked(float value, float *dense, float *sparse, int64_t count)
{
    zn_pool *pool = pool_of(2);
    zn_graph *g = zn_graph_new();
    zn_node *x = zn_graph_input(g, "x", ZN_SHAPE(2, 5, 7, 24)), *w = zn_graph_input(g, "w", ZN_SHAPE(24, 3, 3));
    zn_node *mask = zn_graph_input(g, "mask", ZN_SHAPE(2, 5, 7, 3));
    zn_node *y[] = { zn_depthwise(x, w), zn_sparse_depthwise(x, w, mask) };
    zn_exec *e;
    assert_int_equal(zn_exec_new(g, y, 2, &(zn_exec_options){ .pool = pool }, &e), ZN_OK);
    fill(x->data, zn_shape_count(x->shape), 1);
    fill(w->data, zn_shape_count(w->shape), 2);
    for (int64_t i = 0; i < zn_shape_count(mask->shape); i++)
        mask->data[i] = value;
    if (value == 0)
        w->data[0] = NAN; /* what is skipped cannot hurt */
    assert_int_equal(zn_exec_run(e), ZN_OK);
    assert_int_equal(zn_shape_count(y[0]->shape), count);
    memcpy(dense, y[0]->data, sizeof(float) * (size_t)count);
    memcpy(sparse, y[1]->data, sizeof(float) * (size_t)count);
    zn_exec_free(e);
    zn_graph_free(g);
    zn_pool_free(pool);
}

enum { MASKED = 2 * 5 * 7 * 24 };

void open_gates_equal_the_dense_path(void **state)
{
    (void)state;
    static float dense[MASKED], sparse[MASKED];
    masked(1, dense, sparse, MASKED);
    assert_memory_equal(dense, sparse, sizeof dense);
}

void shut_gates_skip(void **state)
{
    (void)state;
    static float dense[MASKED], sparse[MASKED];
    masked(0, dense, sparse, MASKED);
    assert_true(isnan(dense[(7 + 1) * 24])); /* a pixel with all its neighbours */
    for (int i = 0; i < MASKED; i++)
        assert_true(sparse[i] == 0);
}

/* Fails allocation 1, 2, 3, ... until everything succeeds. */
void every_allocation_may_fail(void **state)
{
    (void)state;
    static const char *const presets[] = { "zenith-r", "zenith-spectral", "zenith-srig" };
    for (int k = 0; k < 3; k++) {
        zn_model *m = small_model(presets[k], k == 2 ? 4 : 16, 32, 1), *back = NULL;
        size_t size;
        uint8_t *bytes = model_bytes(m, &size);
        zn_status status = ZN_ENOMEM;
        for (int64_t nth = 1; status != ZN_OK; nth += 1 + nth / 4) {
            zn_pool *pool = NULL;
            zn_runner *r = NULL;
            zn_weights *w = NULL;
            zn_alloc_fail_at(nth);
            status = zn_pool_new(1, &pool);
            if (status == ZN_OK)
                status = zn_weights_open_memory(bytes, size, "memory", &w);
            if (status == ZN_OK)
                status = zn_model_new(m->arch, &m->config, &back);
            if (status == ZN_OK)
                status = zn_model_load_part(back, ZN_ENCODER, w, &(zn_naming){ .present = true });
            if (status == ZN_OK)
                status =
                    zn_runner_new(back, ZN_ENCODER, ZN_SHAPE(1, 32, 32, 3), &(zn_runner_options){ .pool = pool }, &r);
            if (status == ZN_OK)
                status = zn_runner_run(r);
            zn_alloc_fail_at(0);
            if (status != ZN_OK && status != ZN_ENOMEM)
                fail_msg("%s, allocation %lld: %s", presets[k], (long long)nth, zn_error_text());
            zn_runner_free(r);
            zn_model_free(back);
            back = NULL;
            zn_weights_close(w);
            zn_pool_free(pool);
        }
        zn_model_free(m);
        zn_free(bytes);
    }
}

/* One picture, learnt by heart: encoder and decoder in one graph, Adam with clipping. */
static void learn(const char *preset, int width, int steps, float lr, double *first, double *last)
{
    enum { SIDE = 32, MAX = 512 };
    zn_model *m = small_model(preset, width, 0, 4);
    const zn_arch *a = m->arch;
    zn_pool *pool = pool_of(2);
    zn_graph *g = zn_graph_new();
    zn_node *x = zn_graph_input(g, "image", ZN_SHAPE(1, SIDE, SIDE, 3));
    zn_node *z = a->encode((zn_scope){ g, a->scope[0] }, x, &m->config);
    zn_node *loss = zn_mean_square_error(a->decode((zn_scope){ g, a->scope[1] }, z, &m->config), x);
    zn_node *wrt[MAX], *outputs[MAX + 1] = { loss }, **gradients = outputs + 1;
    float *values[MAX];
    int64_t counts[MAX];
    assert_true(m->count < MAX);
    assert_int_equal(zn_graph_status(g), ZN_OK);
    zn_model_bind(m, g, "");
    for (int i = 0; i < m->count; i++)
        wrt[i] = zn_graph_parameter(g, m->parameters[i].name, m->parameters[i].shape, m->parameters[i].layout);
    assert_int_equal(zn_graph_differentiate(g, loss, NULL, wrt, m->count, gradients), ZN_OK);
    zn_graph_fuse(g, outputs, m->count + 1);
    zn_exec *e;
    assert_int_equal(zn_exec_new(g, outputs, m->count + 1, &(zn_exec_options){ .pool = pool, .training = true }, &e),
                     ZN_OK);
    zn_optim o;
    assert_int_equal(zn_optim_new(&o, m->info.parameters, &(zn_optim_options){ .kind = ZN_ADAM, .lr = lr }), ZN_OK);
    zn_rng rng = zn_rng_new(9);
    zn_wavelet w[ZN_WAVELET_MAX];
    zn_wavelet_image(w, zn_wavelet_draw(&rng, SIDE, SIDE, w), SIDE, SIDE, 3, x->data);
    for (int i = 0; i < m->count; i++) {
        values[i] = gradients[i]->data;
        counts[i] = zn_shape_count(wrt[i]->shape);
    }
    for (int step = 0; step < steps; step++) {
        assert_int_equal(zn_exec_run(e), ZN_OK);
        *(step ? last : first) = (double)loss->data[0];
        zn_clip_norm(values, counts, m->count, 1);
        zn_optim_begin(&o, -1);
        for (int i = 0; i < m->count; i++)
            zn_optim_update(&o, pool, wrt[i]->data, values[i], counts[i], NULL);
    }
    zn_optim_free(&o);
    zn_exec_free(e);
    zn_graph_free(g);
    zn_pool_free(pool);
    zn_model_free(m);
}

void a_small_network_learns(void **state)
{
    (void)state;
    double first, last;
    learn("zenith-r", 8, 60, 4e-3f, &first, &last);
    if (!(last < 0.1 * first))
        fail_msg("zenith-r: the loss went from %g to %g", first, last);
    learn("zenith-hier-r", 4, 60, 4e-3f, &first, &last);
    if (!(last < 0.1 * first))
        fail_msg("zenith-hier-r: the loss went from %g to %g", first, last);
}
