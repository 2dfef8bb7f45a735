/* The counts behind the roofline (ops/slots.h) against counts by hand, which are written out here. */
#include "base/cpu.h"
#include "ops/passes/fuse.h"
#include "ops/slots.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

/* A map of 8x16 positions (H x W) with c channels, and a parameter of any shape. */
enum { H = 8, W = 16, MAP = H * W };

static zn_node *map_of(zn_graph *g, int64_t c) { return zn_graph_input(g, "x", ZN_SHAPE(1, H, W, c)); }

static zn_node *weights(zn_graph *g, const char *name, zn_shape shape)
{
    return zn_graph_parameter(g, name, shape, ZN_LAYOUT_PLAIN);
}

/* n is of this op and takes `slots`; without CPU flags, so that convolutions are those of the reference. */
static void expect_of(const zn_node *n, const zn_op *op, bool constant_parameters, double slots)
{
    assert_int_equal(zn_graph_status(n->graph), ZN_OK);
    assert_string_equal(n->op->name, op->name);
    const zn_prepare p = { .math = ZN_PRECISION_F32, .constant_parameters = constant_parameters };
    const double found = n->op->slots ? n->op->slots(n, &p) : 0.5 * n->op->flops(n);
    if (found != slots)
        fail_msg("%s takes %.3f slots an element, not %.3f", n->op->name, found / (double)zn_shape_count(n->shape),
                 slots / (double)zn_shape_count(n->shape));
}

static void expect(const zn_node *n, const zn_op *op, double slots) { expect_of(n, op, true, slots); }

static void single_ops(void **state)
{
    (void)state;
    zn_graph *g = zn_graph_new();
    zn_node *x = map_of(g, 4), *w = weights(g, "w", ZN_SHAPE(4)), *rows = weights(g, "gate", ZN_SHAPE(W));
    const double n = MAP * 4;
    expect(zn_relu(x), &zn_op_relu, n);
    expect(zn_add(x, x), &zn_op_add, n);
    expect(zn_gelu(x), &zn_op_gelu, n * (2 + 8 + 3 + 2));
    expect(zn_add_channels(x, w), &zn_op_add_channels, n);
    expect(zn_scale_channels(x, w), &zn_op_mix, n);
    expect(zn_taps(x, weights(g, "t", ZN_SHAPE(3, 4))), &zn_op_mix, n * 3); /* product, two multiply-adds */
    expect(zn_rms_norm(x, w, 1e-6f), &zn_op_rms_norm, n * 3);               /* square and sum, two factors */
    expect(zn_wht(x, 2, 1), &zn_op_wht, n * 4);                             /* W = 16: four steps */
    expect(zn_wht(x, 3, 0.5f), &zn_op_wht, n * (2 + 0.5));                  /* a factor in one of two steps */
    expect(zn_spectral(x, rows, 2), &zn_op_spectral, n * (3 + 2 + 3));      /* steps, [a b; b a], steps */
    zn_node *tile = weights(g, "tile", ZN_SHAPE(8, 4)), *th = weights(g, "th", ZN_SHAPE(8, 4));
    expect(zn_tile_mix(x, tile, th, 2, 0), &zn_op_tile_mix, n * (3 + 3 + 3 + 0.5)); /* steps, threshold, steps, gate */
    zn_graph_free(g);
}

static void convolutions(void **state)
{
    (void)state;
    zn_graph *g = zn_graph_new();
    zn_node *x = map_of(g, 8), *b = weights(g, "b", ZN_SHAPE(8));
    zn_node *w = weights(g, "w", ZN_SHAPE(3, 3, 8, 8));
    const zn_conv_spec k = { .stride = 1, .pad = 1 };
    expect(zn_conv(x, w, NULL, k), &zn_op_conv, MAP * 8 * 72);
    zn_node *y = zn_relu(zn_add(zn_conv(x, w, b, k), x));
    zn_graph_fuse(g, &y, 1);
    expect(y, &zn_op_conv, MAP * 8 * (72 + 2)); /* the sum begins with the bias; residual and ReLU */
    expect(zn_grouped_conv(x, weights(g, "wg", ZN_SHAPE(4, 1, 2)), NULL), &zn_op_grouped, MAP * 4 * 2);
    expect(zn_depthwise(x, weights(g, "wd", ZN_SHAPE(8, 3, 3))), &zn_op_depthwise, MAP * 8 * 9);
    expect(zn_depthwise_residual(x, weights(g, "wd", ZN_SHAPE(8, 3, 3))), &zn_op_depthwise, MAP * 8 * 9);
    zn_graph_free(g);
}

/* One tile of F(6x6, 3x3): 64 products, 14 lines of 24 in and 14 of 20 out for each channel. */
static void winograd(void **state)
{
    (void)state;
    const zn_conv_shape s = { 1, 6, 6, 40, 24, 3, 3, 1, 1, .oh = 6, .ow = 6 };
    int found = 0;
    for (int i = 0; zn_conv_kernels[i]; i++)
        if (!strncmp(zn_conv_kernels[i]->name, "winograd-f32", 12)) {
            assert_true(zn_conv_kernels[i]->slots(&s) == 64.0 * 40 * 24 + 14 * 24 * 40 + 14 * 20 * 24);
            found++;
        }
    assert_true(found > 0);
}

/* What fusion makes of the head of a Lite-R block: norm, taps, product. */
static void head(void **state)
{
    (void)state;
    zn_graph *g = zn_graph_new();
    zn_node *y = zn_rms_norm(map_of(g, 32), weights(g, "gain", ZN_SHAPE(32)), 1e-6f);
    y = zn_depthwise_residual(y, weights(g, "taps", ZN_SHAPE(32, 3, 3)));
    y = zn_grouped_interleaved(y, weights(g, "w", ZN_SHAPE(4, 4, 8)), weights(g, "b", ZN_SHAPE(16)));
    zn_graph_fuse(g, &y, 1);
    expect(y, &zn_op_lite_head, MAP * 32 * (3 + 9) + MAP * 16 * 8);
    zn_graph_free(g);
}

/* What fusion makes of a Lite block: its passes. */
static void lite(void **state)
{
    (void)state;
    zn_graph *g = zn_graph_new();
    zn_node *x = map_of(g, 64);
    zn_node *t = zn_grouped_conv(x, weights(g, "wc", ZN_SHAPE(4, 4, 16)), weights(g, "bc", ZN_SHAPE(16)));
    t = zn_spectral(t, weights(g, "gh", ZN_SHAPE(W)), 2);
    zn_node *m = zn_spectral(t, weights(g, "gv", ZN_SHAPE(H)), 1);
    zn_node *y = zn_add(zn_grouped_conv(m, weights(g, "we", ZN_SHAPE(4, 16, 4)), weights(g, "be", ZN_SHAPE(64))), x);
    zn_graph_fuse(g, &y, 1);
    expect(t, &zn_op_lite_rows, MAP * 16 * (16 + 8));  /* product, both transforms of 16 */
    expect(m, &zn_op_lite_columns, MAP * 16 * 6);      /* both transforms of 8 */
    expect(y, &zn_op_lite_expand, MAP * 64 * (4 + 1)); /* product, bias */
    zn_graph_free(g);
}

static void squares(void **state)
{
    (void)state;
    zn_graph *g = zn_graph_new();
    zn_node *gate = weights(g, "gate", ZN_SHAPE(8, 4)), *th = weights(g, "th", ZN_SHAPE(8, 4));
    zn_node *y = zn_gelu(zn_tile_mix(zn_tile_mix(map_of(g, 4), gate, th, 2, 0), gate, th, 1, 0));
    zn_graph_fuse(g, &y, 1);
    expect(y, &zn_op_tile_square, MAP * 4 * (2 * (3 + 3.5 + 3) + 15));
    zn_graph_free(g);
}

static int32_t *first(zn_graph *g, int count, int there)
{
    int32_t *from = zn_arena_alloc(zn_graph_arena(g), sizeof *from * (size_t)count);
    for (int i = 0; i < count; i++)
        from[i] = i < there ? i : -1;
    return from;
}

/* 4 channels filled up to 16, three stages, 2 kept; or the product with the matrix of it all. */
static void spectral_linear(void **state)
{
    (void)state;
    zn_graph *g = zn_graph_new();
    zn_node *s = weights(g, "s", ZN_SHAPE(3, 16));
    zn_node *order = zn_graph_parameter(g, "perm", ZN_SHAPE(3, 16), ZN_LAYOUT_INDEX);
    zn_node *y = zn_select_channels(map_of(g, 4), first(g, 16, 4), 16);
    for (int i = 0; i < 3; i++)
        y = zn_wht(zn_scale_channels(zn_permute_channels(y, order, i), zn_row(s, i)), 3, 1);
    y = zn_add_channels(zn_select_channels(y, first(g, 2, 2), 2), weights(g, "bias", ZN_SHAPE(2)));
    zn_graph_fuse(g, &y, 1);
    const double in = 2 + 4 * 2, whole = 8 + 16 * 4, out = 8 + (8 + 4 + 2) + 2; /* factors, steps */
    expect_of(y, &zn_op_spectral_linear, false, MAP * (in + whole + out + 2));
    expect_of(y, &zn_op_spectral_linear, true, MAP * 4 * 2);
    zn_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(single_ops),
        cmocka_unit_test(convolutions),
        cmocka_unit_test(winograd),
        cmocka_unit_test(head),
        cmocka_unit_test(lite),
        cmocka_unit_test(squares),
        cmocka_unit_test(spectral_linear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
