/* Where results lie: nothing is overwritten before its last reader, and maps of several sizes leave no gaps. */
#include "graph/plan.h"

#include "graph/exec.h"
#include "ops/ops.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { SIDE = 8, NODES = 40, OUTPUTS = NODES + 1 };

static uint32_t next(uint32_t *state) { return (*state = *state * 1664525u + 1013904223u) >> 16; }

/* One more node of maps with 2 to 32 channels, made of earlier ones. */
static zn_node *grow(zn_node *const *nodes, int count, uint32_t *state)
{
    const int back = count < 6 ? count : 6;
    zn_node *a = nodes[count - 1 - (int)(next(state) % (unsigned)back)], *b = nodes[count - 1];
    const int channels = (int)a->shape.dim[3];
    switch (next(state) % 5) {
    case 0:
        return zn_shape_equal(a->shape, b->shape) ? zn_add(a, b) : zn_silu(a);
    case 1:
        return channels <= 16 ? zn_concat(a, a) : zn_slice_channels(a, 0, channels / 2);
    case 2:
        return channels >= 4 ? zn_slice_channels(a, channels / 2, channels / 2) : zn_concat(a, a);
    case 3:
        return zn_scale(a, 0.5f);
    default:
        return zn_silu(a);
    }
}

static int make_nodes(zn_graph *g, uint32_t seed, zn_node **nodes)
{
    nodes[0] = zn_graph_input(g, "x", ZN_SHAPE(1, SIDE, SIDE, 4));
    for (int i = 1; i <= NODES; i++)
        nodes[i] = grow(nodes, i, &seed);
    return OUTPUTS;
}

/* The last result of a random graph. apart: no result gives its memory up. */
static size_t result_of(uint32_t seed, bool apart, zn_pool *pool, float *out, int64_t *count)
{
    zn_graph *g = zn_graph_new();
    zn_node *nodes[OUTPUTS];
    zn_exec *e;
    const int made = make_nodes(g, seed, nodes), first = apart ? 1 : made - 1;
    assert_int_equal(zn_exec_new(g, nodes + first, made - first, &(zn_exec_options){ .pool = pool }, &e), ZN_OK);
    for (int i = 0; i < SIDE * SIDE * 4; i++)
        nodes[0]->data[i] = (float)(i * 37 % 101) / 101.0f - 0.3f;
    assert_int_equal(zn_exec_run(e), ZN_OK);
    *count = zn_shape_count(nodes[made - 1]->shape);
    memcpy(out, nodes[made - 1]->data, sizeof *out * (size_t)*count);
    const size_t bytes = zn_exec_activation_bytes(e);
    zn_exec_free(e);
    zn_graph_free(g);
    return bytes;
}

static void nothing_is_overwritten_too_early(void **state)
{
    (void)state;
    static float results[2][SIDE * SIDE * 64];
    zn_pool *pool;
    assert_int_equal(zn_pool_new(1, &pool), ZN_OK);
    for (uint32_t seed = 1; seed <= 200; seed++) {
        int64_t counts[2];
        const size_t apart = result_of(seed, true, pool, results[0], &counts[0]);
        const size_t shared = result_of(seed, false, pool, results[1], &counts[1]);
        assert_true(shared < apart);
        assert_int_equal(counts[0], counts[1]);
        assert_memory_equal(results[0], results[1], sizeof(float) * (size_t)counts[0]);
    }
    zn_pool_free(pool);
}

/* A small map, then three of twice its size at the same time: the small one is gone by then. */
static void maps_of_several_sizes_leave_no_gaps(void **state)
{
    (void)state;
    zn_graph *g = zn_graph_new();
    zn_plan plan;
    const size_t map = sizeof(float) * SIDE * SIDE * 32;
    zn_node *x = zn_graph_input(g, "x", ZN_SHAPE(1, SIDE, SIDE, 16));
    float values[SIDE * SIDE * 16];
    x->data = values;
    zn_node *small = zn_silu(x), *a = zn_concat(small, small), *b = zn_silu(a), *c = zn_add(a, b);
    zn_node *y = zn_add(zn_add(b, c), a);
    assert_int_equal(zn_plan_make(g, &y, 1, true, true, &plan), ZN_OK);
    assert_int_equal(plan.block, 3 * map);
    zn_plan_free(&plan);
    zn_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_overwritten_too_early),
        cmocka_unit_test(maps_of_several_sizes_leave_no_gaps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
