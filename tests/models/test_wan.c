/* Wan's autoencoders and TAEHV: sizes of the published networks, gradients, and what holds for clips of any numbers. */
#include "base/alloc.h"
#include "graph/exec.h"
#include "models/taehv/taehv.h"
#include "models/wan/wan.h"
#include "models/wan/wan_tiles.h"
#include "models/wan2d/wan2d.h"
#include "setting.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* ---- sizes, without memory for the weights ---- */

static void check_wan(const zn_wan_form *k, int64_t encoder, int64_t decoder, int tensors)
{
    int found = 0;
    zn_graph *g = zn_graph_new();
    zn_wan_encoder((zn_scope){ g, "" }, zn_graph_input(g, "x", ZN_SHAPE(1, 32, 32, 3)), k, NULL);
    assert_int_equal(setting_parameters(g, &found), encoder);
    g = zn_graph_new();
    zn_wan_decoder((zn_scope){ g, "" }, zn_graph_input(g, "z", ZN_SHAPE(1, 2, 2, k->latent)), k, NULL);
    assert_int_equal(setting_parameters(g, &found), decoder);
    assert_int_equal(found, tensors);
}

static int64_t taehv_size(const zn_taehv_form *k, int64_t *encoder, int *tensors)
{
    zn_graph *g = zn_graph_new();
    zn_taehv_encoder((zn_scope){ g, "encoder" }, zn_graph_input(g, "x", ZN_SHAPE(4, 16, 16, 3)), k, NULL);
    *encoder = setting_parameters(g, tensors);
    g = zn_graph_new();
    zn_taehv_decoder((zn_scope){ g, "decoder" }, zn_graph_input(g, "z", ZN_SHAPE(1, 2, 2, k->latent)), k, NULL);
    return *encoder + setting_parameters(g, tensors);
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
    assert_int_equal(setting_parameters(g, &tensors), 26047688);
    g = zn_graph_new();
    zn_wan2d_decoder((zn_scope){ g, "decoder" }, zn_graph_input(g, "z", ZN_SHAPE(1, 1, 1, 4)), &zn_wan2d);
    assert_int_equal(setting_parameters(g, &tensors), 28334851);
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
        status = setting_fill(s->graph);
    if (status == ZN_OK)
        status = setting_start(s, threads, &s->y, 1, false);
    return status == ZN_OK ? zn_exec_run(s->exec) : status;
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

static void gradients_are_those_of_differences(void **state)
{
    (void)state;
    for (int form = 0; form < 2; form++) {
        const zn_wan_form *k = &small[form];
        setting s = { .graph = zn_graph_new() };
        const zn_scope top = { s.graph, "" };
        s.x = zn_graph_input(s.graph, "x", ZN_SHAPE(5, 16, 16, 3));
        zn_node *z = zn_slice_channels(zn_wan_encoder(top, s.x, k, NULL), 0, k->latent);
        s.y = zn_wan_decoder(top, z, k, NULL);
        setting_check_gradients(&s, 2e-5f);
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
