/* The encoder of prompts: size of the published one, and what it may not see. */
#include "models/qwen3/qwen3.h"
#include "setting.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

/* Without memory for the weights. */
static void published_networks_have_their_sizes(void **state)
{
    (void)state;
    int tensors = 0;
    zn_graph *g = zn_graph_new();
    zn_node *ids = zn_graph_input(g, "ids", ZN_SHAPE(1, 1, 1, 1));
    zn_node *x = zn_qwen3((zn_scope){ g, "" }, ids, &zn_qwen3_4b, zn_qwen3_4b.layers, NULL);
    zn_qwen3_norm((zn_scope){ g, "" }, x, &zn_qwen3_4b);
    assert_int_equal(setting_parameters(g, &tensors), 4022468096);
    assert_int_equal(tensors, 398);
}

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
        cmocka_unit_test(later_words_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
