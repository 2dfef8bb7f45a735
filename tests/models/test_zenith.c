/* The Zenith networks: numbers of parameters and operations of the specification's tables, start values; then the tests
 * of files (zenith_files.c) and of runs (zenith_runs.c). Results themselves are held against golden files. */
#include "model_file.h"
#include "setting.h"
#include "zenith_tests.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>

/* Parameters, and operations for an image of this side, from the graphs alone. */
static void measure(const char *preset, int side, int64_t *parameters, double *flops)
{
    const zn_config *k;
    const zn_arch *a = zn_arch_find(preset, &k);
    assert_non_null(a);
    *parameters = 0;
    *flops = 0;
    for (int part = 0; part < 2; part++) {
        zn_graph *g = zn_graph_new();
        const int small = side / k->downscale;
        zn_node *x = zn_graph_input(g, "x", part ? ZN_SHAPE(1, small, small, k->latent) : ZN_SHAPE(1, side, side, 3));
        (part ? a->decode : a->encode)((zn_scope){ g, a->scope[part] }, x, k);
        if (zn_graph_status(g) != ZN_OK)
            fail_msg("%s: %s", preset, zn_error_text());
        for (int i = 0; i < zn_graph_count(g); i++) {
            const zn_node *n = zn_graph_at(g, i);
            if (n->op == &zn_op_parameter && n->layout != ZN_LAYOUT_INDEX)
                *parameters += zn_shape_count(n->shape);
            *flops += n->op->flops ? n->op->flops(n) : 0;
        }
        zn_graph_free(g);
    }
}

static void counts_are_those_of_the_specification(void **state)
{
    (void)state;
    static const struct {
        const char *preset;
        int side;
        int64_t parameters;
        double gflop, within; /* the tables leave out some scales and biases */
    } cases[] = {
        { "zenith-std", 512, 777191, 41.91, 0.01 },
        { "zenith-lite", 512, 364711, 19.64, 0.01 },
        { "zenith-spectral", 512, 43303, 5.44, 0.40 },
        { "zenith-vanilla", 512, 3850247, 185.5, 0.1 },
        { "zenith-hier-32", 128, 258171, 0.0321, 0.0004 },
        { "zenith-hier", 128, 129087, 0.0157, 0.0002 },
        { "zenith-srig-32", 128, 356475, 0.0541, 0.0004 },
        { "zenith-srig", 128, 178239, 0.0267, 0.0002 },
        { "zenith-baseline-32", 128, 134760236, 4.57, 0.01 },
        { "zenith-baseline", 128, 33694620, 1.144, 0.001 },
        { "zenith-hier-r", 128, 127039, 0.0152, 0.0002 },
        { "zenith-r", 512, 1063747, 15, 5 },
        { "zenith-f2", 512, 1831564, 53.9, 0.1 },
        { "zenith-f2-depthwise", 512, 1839692, 53.9, 1.2 }, /* of as many operations as zenith-f2 */
        { "zenith-f2-spectral", 512, 1965996, 53.9, 1.2 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t parameters;
        double flops;
        measure(cases[i].preset, cases[i].side, &parameters, &flops);
        if (parameters != cases[i].parameters || fabs(flops * 1e-9 - cases[i].gflop) > cases[i].within)
            fail_msg("%s has %lld parameters and %.4f GFLOP", cases[i].preset, (long long)parameters, flops * 1e-9);
    }
}

/* Mean and deviation of a parameter's values. */
static void expect(const zn_model *m, const char *name, double mean, double deviation)
{
    const zn_model_parameter *p = parameter_of(m, name);
    const int64_t count = zn_shape_count(p->shape);
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < count; i++)
        sum += (double)p->data[i];
    for (int64_t i = 0; i < count; i++)
        squares += ((double)p->data[i] - sum / (double)count) * ((double)p->data[i] - sum / (double)count);
    const double found = sqrt(squares / (double)count), slack = 5 * deviation / sqrt((double)count);
    if (fabs(sum / (double)count - mean) > slack + 1e-7 || fabs(found - deviation) > slack + 1e-7)
        fail_msg("%s: mean %g, deviation %g", name, sum / (double)count, found);
}

static void start_values_are_those_of_the_specification(void **state)
{
    (void)state;
    zn_model *m = small_model("zenith-std", 32, 64, 1);
    expect(m, "enc.conv1.weight", 0, sqrt(2.0 / (9 * 32) / 3)); /* uniform: a third of He's variance */
    expect(m, "enc.lite0.Wc", 0, 0.05);
    expect(m, "dec.lite2.gate_v", 1, 0);
    expect(m, "dec.conv3.bias", 0, 0);
    zn_model_free(m);
    m = small_model("zenith-spectral", 32, 64, 1);
    expect(m, "enc.conv2.s", 0, 1 / sqrt(256.0));
    const zn_model_parameter *p = parameter_of(m, "enc.conv2.perm");
    int moved = 0;
    for (int i = 0; i < 512; i++)
        moved += p->data[i] != (float)(i % 256);
    assert_in_range(moved, 200, 256); /* the first row stays, the second does not */
    zn_model_free(m);
    m = small_model("zenith-srig", 4, 0, 1);
    expect(m, "block1.eyes", 0, sqrt(2.0 / (9 * 1024)));
    expect(m, "block1.scale", 1.0 / 1024, 0);
    expect(m, "block2.srig_w", 0, sqrt(0.4));
    expect(m, "block2.srig_b", -1, 0);
    expect(m, "gate1.w", 1, 0);
    expect(m, "gate1.v", 0, 0);
    assert_true(parameter_of(m, "block0.mixer")->data[64] == 1 && parameter_of(m, "block0.mixer")->data[0] == 0);
    zn_model_free(m);
    m = small_model("zenith-hier-r", 8, 0, 1);
    expect(m, "block1.th", 0.02, 0);
    assert_true(fabsf(parameter_of(m, "block1.eyes")->data[4] - 1) < 0.1f);
    zn_model_free(m);
    m = small_model("zenith-r", 16, 0, 1);
    expect(m, "enc.stem.weight", 0, sqrt(2.0 / 27));
    expect(m, "dec.out.weight", 0, 0.1 * sqrt(2.0 / (9 * 16)));
    expect(m, "dec.level3.block0.We", 0, 0.1 * sqrt(2.0 / 64));
    expect(m, "dec.level3.block0.gamma", 0.1, 0);
    p = parameter_of(m, "dec.up2.weight");
    assert_true(p->data[0] == p->data[3] && p->data[0] != p->data[4]); /* sub-pixels alike */
    zn_model_free(m);
    m = small_model("zenith-r", 32, 0, 1); /* wide enough to begin as a codec: Haar transforms */
    p = parameter_of(m, "enc.down1.weight");
    assert_true(p->data[0] == 0.5f && p->data[1] == 0.5f && p->data[64 + 1] == -0.5f && p->data[64 + 2] == 0.5f);
    expect(m, "dec.level3.block0.We", 0, 0.02 * sqrt(2.0 / 128));
    zn_model_free(m);
}

/* Its encoder: the decoder, with a norm and thirty ReLUs behind it, bends too much for differences in f32. */
static void gradients_of_zenith_f2_are_those_of_differences(void **state)
{
    (void)state;
    const zn_config *k;
    const zn_arch *a = zn_arch_find("zenith-f2", &k);
    setting s = { .graph = zn_graph_new() };
    s.x = zn_graph_input(s.graph, "x", ZN_SHAPE(1, 16, 24, 3));
    s.y = a->encode((zn_scope){ s.graph, a->scope[ZN_ENCODER] }, s.x, k);
    setting_check_gradients(&s, 2e-5f); /* below, rounding: on AVX-512 1 % at 2e-6; above 6e-5, bends */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_are_those_of_the_specification),
        cmocka_unit_test(start_values_are_those_of_the_specification),
        cmocka_unit_test(gradients_of_zenith_f2_are_those_of_differences),
        cmocka_unit_test(networks_come_back_from_their_files),
        cmocka_unit_test(a_bad_permutation_is_refused),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(parts_of_two_networks_are_refused),
        cmocka_unit_test(other_sizes_give_one_sentence),
        cmocka_unit_test(tiles_equal_the_whole),
        cmocka_unit_test(threads_do_not_change_a_bit),
        cmocka_unit_test(fusion_only_rounds),
        cmocka_unit_test(open_gates_equal_the_dense_path),
        cmocka_unit_test(shut_gates_skip),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(a_small_network_learns),
        cmocka_unit_test(an_open_mask_gives_the_dense_bits),
        cmocka_unit_test(what_is_skipped_is_zero),
        cmocka_unit_test(noise_of_another_shape_is_refused),
        cmocka_unit_test(gates_learn_to_prune),
    };
    return cmocka_run_group_tests_name("zenith", tests, NULL, NULL);
}
