/* Wan's autoencoders and TAEHV: sizes of the published networks, gradients, and what holds for clips of any numbers. */
#include "base/alloc.h"
#include "base/rng.h"
#include "graph/exec.h"
#include "models/taehv.h"
#include "models/wan2d.h"
#include "models/wan_tiles.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

/* ---- sizes, without memory for the weights ---- */

static int64_t count_parameters(zn_graph *g, int *tensors)
{
    int64_t count = 0;
    assert_int_equal(zn_graph_status(g), ZN_OK);
    for (int i = 0; i < zn_graph_count(g); i++)
        if (zn_graph_at(g, i)->op == &zn_op_parameter) {
            count += zn_shape_count(zn_graph_at(g, i)->shape);
            ++*tensors;
        }
    zn_graph_free(g);
    return count;
}

static void check_wan(const zn_wan_form *k, int64_t encoder, int64_t decoder, int tensors)
{
    int found = 0;
    zn_graph *g = zn_graph_new();
    zn_wan_encoder((zn_scope){ g, "" }, zn_graph_input(g, "x", ZN_SHAPE(1, 32, 32, 3)), k, NULL);
    assert_int_equal(count_parameters(g, &found), encoder);
    g = zn_graph_new();
    zn_wan_decoder((zn_scope){ g, "" }, zn_graph_input(g, "z", ZN_SHAPE(1, 2, 2, k->latent)), k, NULL);
    assert_int_equal(count_parameters(g, &found), decoder);
    assert_int_equal(found, tensors);
}

static int64_t taehv_size(const zn_taehv_form *k, int64_t *encoder, int *tensors)
{
    zn_graph *g = zn_graph_new();
    zn_taehv_encoder((zn_scope){ g, "encoder" }, zn_graph_input(g, "x", ZN_SHAPE(4, 16, 16, 3)), k, NULL);
    *encoder = count_parameters(g, tensors);
    g = zn_graph_new();
    zn_taehv_decoder((zn_scope){ g, "decoder" }, zn_graph_input(g, "z", ZN_SHAPE(1, 2, 2, k->latent)), k, NULL);
    return *encoder + count_parameters(g, tensors);
}

static void published_networks_have_their_sizes(void **state)
{
    (void)state;
    int64_t encoder;
    int tensors = 0;
    check_wan(&zn_wan21, 53595872 + 1056, 73295331 + 272, 194);
    check_wan(&zn_wan22, 149627776 + 9312, 555049228 + 2352, 196);
    assert_int_equal(taehv_size(&zn_taew21, &encoder, &tensors), 11315539);
    assert_int_equal(encoder, 1470928);
    assert_int_equal(tensors, 128);
    assert_int_equal(taehv_size(&zn_taew22, &encoder, &tensors), 11418108);
    zn_graph *g = zn_graph_new();
    tensors = 0;
    zn_wan2d_encoder((zn_scope){ g, "encoder" }, zn_graph_input(g, "x", ZN_SHAPE(1, 16, 16, 3)), &zn_wan2d);
    assert_int_equal(count_parameters(g, &tensors), 26047688);
    g = zn_graph_new();
    zn_wan2d_decoder((zn_scope){ g, "decoder" }, zn_graph_input(g, "z", ZN_SHAPE(1, 1, 1, 4)), &zn_wan2d);
    assert_int_equal(count_parameters(g, &tensors), 28334851);
    assert_int_equal(tensors, 236);
}

/* ---- small ones ---- */

static const zn_wan_form small[2] = {
    { .width = 4,
      .back_width = 4,
      .levels = 3,
      .mult = { 1, 2, 2 },
      .blocks = 1,
      .time = { false, true },
      .latent = 3 },
    { .staged = true,
      .width = 4,
      .back_width = 8,
      .levels = 3,
      .mult = { 1, 2, 2 },
      .blocks = 1,
      .time = { false, true },
      .latent = 3 },
};

typedef struct setting {
    zn_graph *graph;
    zn_exec *exec;
    zn_pool *pool;
    zn_node *x, *y;
} setting;

static void setting_free(setting *s)
{
    zn_exec_free(s->exec);
    zn_graph_free(s->graph);
    zn_pool_free(s->pool);
    *s = (setting){ 0 };
}

/* Random numbers for everything that has none yet, the same in every run. */
static zn_status fill(zn_graph *g)
{
    zn_rng rng = zn_rng_new(5);
    for (int i = 0; i < zn_graph_count(g); i++) {
        zn_node *n = zn_graph_at(g, i);
        if (n->op != &zn_op_parameter)
            continue;
        const int64_t count = zn_shape_count(n->shape), out = n->shape.dim[n->shape.rank - 1];
        const bool gain = strstr(n->name, "gamma") != NULL;
        n->data = zn_arena_alloc(zn_graph_arena(g), sizeof(float) * (size_t)count);
        if (!n->data)
            return ZN_ENOMEM;
        for (int64_t k = 0; k < count; k++)
            n->data[k] = (gain ? 1 : 0) +
                         zn_rng_normal(&rng) * (n->shape.rank > 1 && !gain ? sqrtf((float)out / (float)count) : 0.1f);
    }
    return ZN_OK;
}

static zn_status start(setting *s, int threads, zn_node *const *outputs, int count, bool training)
{
    zn_status status = zn_pool_new(threads, &s->pool);
    zn_graph_fuse(s->graph, outputs, count);
    if (status == ZN_OK)
        status = zn_exec_new(s->graph, outputs, count, &(zn_exec_options){ .pool = s->pool, .training = training },
                             &s->exec);
    return status;
}

static void put(float *to, int64_t count)
{
    zn_rng rng = zn_rng_new(9);
    for (int64_t i = 0; i < count; i++)
        to[i] = zn_rng_normal(&rng);
}

/* The decoder on latents of `frames` frames of 2 x 3. */
static zn_status decode(const zn_wan_form *k, int frames, int threads, setting *s)
{
    *s = (setting){ .graph = zn_graph_new() };
    if (!s->graph)
        return ZN_ENOMEM;
    s->x = zn_graph_input(s->graph, "z", ZN_SHAPE(frames, 2, 3, k->latent));
    s->y = zn_wan_decoder((zn_scope){ s->graph, "" }, s->x, k, NULL);
    zn_status status = zn_graph_status(s->graph);
    if (status == ZN_OK)
        status = fill(s->graph);
    if (status == ZN_OK)
        status = start(s, threads, &s->y, 1, false);
    if (status != ZN_OK)
        return status;
    put(s->x->data, zn_shape_count(s->x->shape));
    return zn_exec_run(s->exec);
}

static void later_frames_change_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        setting all, some;
        assert_int_equal(decode(&small[i], 4, 2, &all), ZN_OK);
        assert_int_equal(decode(&small[i], 2, 2, &some), ZN_OK);
        assert_int_equal(all.y->shape.dim[0], 7);
        assert_int_equal(some.y->shape.dim[0], 3);
        for (int64_t k = 0; k < zn_shape_count(some.y->shape); k++)
            assert_float_equal(some.y->data[k], all.y->data[k], 1e-5f);
        setting_free(&all);
        setting_free(&some);
    }
}

static void threads_change_no_bit(void **state)
{
    (void)state;
    setting one, three;
    assert_int_equal(decode(&small[1], 3, 1, &one), ZN_OK);
    assert_int_equal(decode(&small[1], 3, 3, &three), ZN_OK);
    assert_memory_equal(one.y->data, three.y->data, sizeof(float) * (size_t)zn_shape_count(one.y->shape));
    setting_free(&one);
    setting_free(&three);
}

static double objective(setting *s, const float *seed)
{
    double sum = 0;
    assert_int_equal(zn_exec_run(s->exec), ZN_OK);
    for (int64_t i = 0; i < zn_shape_count(s->y->shape); i++)
        sum += (double)s->y->data[i] * (double)seed[i];
    return sum;
}

/* All parameters at once along a random direction, forwards and backwards. */
static double along(setting *s, const float *seed, float step)
{
    double values[2];
    for (int side = 0; side < 2; side++) {
        const float by = side ? -step : step;
        for (int pass = 0; pass < 2; pass++) {
            zn_rng rng = zn_rng_new(3);
            for (int i = 0; i < zn_graph_count(s->graph); i++) {
                zn_node *n = zn_graph_at(s->graph, i);
                for (int64_t k = 0; n->op == &zn_op_parameter && k < zn_shape_count(n->shape); k++)
                    n->data[k] += (pass ? -by : by) * zn_rng_normal(&rng);
            }
            if (pass == 0)
                values[side] = objective(s, seed);
        }
    }
    return (values[0] - values[1]) / (2 * (double)step);
}

static void gradients_are_those_of_differences(void **state)
{
    (void)state;
    enum { MOST = 400 };
    static zn_node *wrt[MOST], *gradients[MOST + 1];
    for (int form = 0; form < 2; form++) {
        const zn_wan_form *k = &small[form];
        setting s = { .graph = zn_graph_new() };
        const zn_scope top = { s.graph, "" };
        int count = 0;
        s.x = zn_graph_input(s.graph, "x", ZN_SHAPE(5, 16, 16, 3));
        zn_node *z = zn_slice_channels(zn_wan_encoder(top, s.x, k, NULL), 0, k->latent);
        s.y = zn_wan_decoder(top, z, k, NULL);
        zn_node *seed = zn_graph_input(s.graph, "seed", s.y->shape);
        assert_int_equal(fill(s.graph), ZN_OK);
        for (int i = 0; i < zn_graph_count(s.graph); i++)
            if (zn_graph_at(s.graph, i)->op == &zn_op_parameter)
                wrt[count++] = zn_graph_at(s.graph, i);
        gradients[0] = s.y;
        assert_int_equal(zn_graph_differentiate(s.graph, s.y, seed, wrt, count, gradients + 1), ZN_OK);
        assert_int_equal(start(&s, 2, gradients, count + 1, true), ZN_OK);
        put(s.x->data, zn_shape_count(s.x->shape));
        put(seed->data, zn_shape_count(seed->shape));
        const double difference = along(&s, seed->data, 2e-5f);
        objective(&s, seed->data);
        double analytic = 0;
        zn_rng rng = zn_rng_new(3);
        for (int i = 0; i < count; i++)
            for (int64_t n = 0; n < zn_shape_count(wrt[i]->shape); n++)
                analytic += (double)gradients[i + 1]->data[n] * (double)zn_rng_normal(&rng);
        assert_true(fabs(analytic) > 1);
        assert_true(fabs(analytic - difference) < 1e-2 * fabs(analytic));
        setting_free(&s);
    }
}

static void misfits_are_refused(void **state)
{
    (void)state;
    static const zn_shape shapes[] = { { 4, { 1, 12, 16, 3 } }, { 4, { 3, 16, 16, 3 } }, { 4, { 6, 16, 16, 3 } } };
    for (int i = 0; i < 3; i++) {
        zn_stream later = { .first = false };
        zn_graph *g = zn_graph_new();
        zn_node *x = zn_graph_input(g, "x", shapes[i]);
        zn_wan_encoder((zn_scope){ g, "" }, x, &small[1], &later);
        assert_int_equal(zn_graph_status(g), i < 2 ? ZN_ESHAPE : ZN_OK);
        zn_graph_free(g);
        g = zn_graph_new();
        x = zn_graph_input(g, "x", shapes[i]);
        zn_taehv_encoder((zn_scope){ g, "" }, x, &zn_taew21, &later);
        assert_int_equal(zn_graph_status(g), ZN_ESHAPE); /* frames by 4 */
        zn_graph_free(g);
    }
}

/* ---- failing memory ---- */

static zn_status twice(void *self, const float *x, zn_shape in, float *y, zn_shape out)
{
    (void)self;
    for (int64_t i = 0; i < out.dim[1]; i++)
        for (int64_t j = 0; j < out.dim[2]; j++)
            y[i * out.dim[2] + j] = x[i / 2 * in.dim[2] + j / 2];
    return ZN_OK;
}

static zn_status everything(void)
{
    float x[35], y[140];
    setting s;
    for (int i = 0; i < 35; i++)
        x[i] = 1;
    const zn_wan_tiles t = { 4, 3, 6, 2, 1 };
    zn_status status = decode(&small[1], 2, 1, &s);
    setting_free(&s);
    if (status == ZN_OK)
        status = zn_wan_tiled(&t, twice, NULL, x, ZN_SHAPE(1, 7, 5, 1), y, ZN_SHAPE(1, 14, 10, 1));
    for (int i = 0; i < 140 && status == ZN_OK; i++)
        assert_true(y[i] == 1);
    return status;
}

static void failing_memory_is_an_error(void **state)
{
    (void)state;
    const int64_t before = zn_alloc_calls();
    assert_int_equal(everything(), ZN_OK);
    const int64_t calls = zn_alloc_calls() - before;
    for (int64_t nth = 1; nth <= calls; nth++) {
        zn_alloc_fail_at(nth);
        const zn_status status = everything();
        zn_alloc_fail_at(0);
        assert_true(status == ZN_OK || status == ZN_ENOMEM);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_networks_have_their_sizes),
        cmocka_unit_test(later_frames_change_nothing),
        cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(gradients_are_those_of_differences),
        cmocka_unit_test(misfits_are_refused),
        cmocka_unit_test(failing_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
