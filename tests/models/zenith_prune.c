/* Blocks of the Prune family behind masks: open ones change nothing, shut ones agree with the dense arithmetic, and
 * gates that are trained with a penalty really prune. */
#include "model_file.h"
#include "zenith_tests.h"

#include "base/alloc.h"
#include "graph/exec.h"
#include "models/zenith/zenith.h"
#include "train/data/wavelet.h"
#include "train/optimiser/optim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

enum { CHANNELS = 512, SIDE = 3, BLOCKS = CHANNELS / 8, PIXELS = SIDE * SIDE, MOST = 10 };

typedef enum form { DENSE, MASKED, IN_STEPS } form;

/* The block from single ops, every product of it computed. */
static zn_node *in_steps(zn_scope s, zn_node *x, zn_node *mask, bool srig)
{
    const int c = CHANNELS;
    zn_node *w = zn_plain_parameter(s, "eyes", ZN_SHAPE(c, 3, 3), ZN_ROLE_WEIGHT);
    zn_node *u = zn_wht(zn_gate_apply(zn_depthwise(x, w), mask), 3, 1);
    if (srig) {
        zn_node *taps = zn_plain_parameter(s, "srig_w", ZN_SHAPE(c, 5), ZN_ROLE_GAIN);
        u = zn_srig(u, taps, zn_vector(s, "srig_b", c, ZN_ROLE_BIAS));
    }
    u = zn_scale_channels(u, zn_vector(s, "scale", c, ZN_ROLE_UNIT_GAIN));
    u = zn_wht(zn_taps(u, zn_plain_parameter(s, "mixer", ZN_SHAPE(3, c), ZN_ROLE_GAIN)), 3, 1);
    zn_node *gamma = zn_vector(s, "gamma", c, ZN_ROLE_GAIN);
    return zn_group_norm(zn_relu(u), gamma, zn_vector(s, "beta", c, ZN_ROLE_BIAS), 32, 1e-5f);
}

/* The result and all gradients, one behind the other; the caller frees. shut: every third pixel and, elsewhere, every
 * other block. */
static float *block_results(form how, bool srig, bool shut, int64_t *count)
{
    zn_pool *pool;
    assert_int_equal(zn_pool_new(2, &pool), ZN_OK);
    zn_graph *g = zn_graph_new();
    zn_node *x = zn_graph_input(g, "x", ZN_SHAPE(1, SIDE, SIDE, CHANNELS));
    zn_node *seed = zn_graph_input(g, "seed", x->shape),
            *mask = zn_graph_input(g, "mask", ZN_SHAPE(1, SIDE, SIDE, BLOCKS));
    const zn_prune_spec spec = { .srig = srig, .mask = how == MASKED ? mask : NULL };
    const zn_scope s = { g, "" };
    zn_node *y = how == IN_STEPS ? in_steps(s, x, mask, srig) : zn_prune_block(s, x, &spec);
    static const char *const names[] = { "eyes", "scale", "mixer", "gamma", "beta", "srig_w", "srig_b" };
    zn_node *wrt[MOST] = { x }, *outputs[MOST + 1] = { y };
    int n = 1;
    for (int k = 0; k < (srig ? 7 : 5); k++)
        for (int i = 0; i < zn_graph_count(g); i++)
            if (zn_graph_at(g, i)->op == &zn_op_parameter && strcmp(zn_graph_at(g, i)->name, names[k]) == 0)
                wrt[n++] = zn_graph_at(g, i);
    assert_int_equal(n, srig ? 8 : 6);
    assert_int_equal(zn_graph_differentiate(g, y, seed, wrt, n, outputs + 1), ZN_OK);
    zn_rng rng = zn_rng_new(8);
    for (int i = 1; i < n; i++) {
        wrt[i]->data = zn_alloc(sizeof(float) * (size_t)zn_shape_count(wrt[i]->shape));
        for (int64_t k = 0; k < zn_shape_count(wrt[i]->shape); k++)
            wrt[i]->data[k] = zn_rng_normal(&rng) * (strcmp(wrt[i]->name, "scale") ? 0.5f : 0.01f);
    }
    zn_exec *e;
    assert_int_equal(zn_exec_new(g, outputs, n + 1, &(zn_exec_options){ .pool = pool, .training = true }, &e), ZN_OK);
    for (int64_t i = 0; i < PIXELS * BLOCKS && how != DENSE; i++)
        mask->data[i] = !shut || (i / BLOCKS % 3 != 1 && i % 2);
    for (int64_t i = 0; i < PIXELS * CHANNELS; i++) {
        x->data[i] = zn_rng_normal(&rng) * (how == DENSE ? 1 : mask->data[i / 8]);
        seed->data[i] = zn_rng_normal(&rng);
    }
    assert_int_equal(zn_exec_run(e), ZN_OK);
    *count = 0;
    for (int i = 0; i <= n; i++)
        *count += zn_shape_count(outputs[i]->shape);
    float *all = zn_alloc(sizeof(float) * (size_t)*count), *to = all;
    for (int i = 0; i <= n; i++) {
        const int64_t size = zn_shape_count(outputs[i]->shape);
        double square = 0; /* each to the size of one, so that they can be compared by one tolerance */
        for (int64_t k = 0; k < size; k++)
            square += (double)outputs[i]->data[k] * (double)outputs[i]->data[k];
        for (int64_t k = 0; k < size; k++)
            *to++ = how == IN_STEPS || shut ? outputs[i]->data[k] / (float)sqrt(square / (double)size)
                                            : outputs[i]->data[k];
    }
    zn_exec_free(e);
    for (int i = 1; i < n; i++)
        zn_free(wrt[i]->data);
    zn_graph_free(g);
    zn_pool_free(pool);
    return all;
}

void an_open_mask_gives_the_dense_bits(void **state)
{
    (void)state;
    for (int srig = 0; srig < 2; srig++) {
        int64_t n, m;
        float *dense = block_results(DENSE, srig, false, &n), *open = block_results(MASKED, srig, false, &m);
        assert_int_equal(n, m);
        assert_memory_equal(dense, open, sizeof(float) * (size_t)n);
        zn_free(dense);
        zn_free(open);
    }
}

void what_is_skipped_is_zero(void **state)
{
    (void)state;
    for (int srig = 0; srig < 2; srig++) {
        int64_t n, m;
        float *skip = block_results(MASKED, srig, true, &n), *steps = block_results(IN_STEPS, srig, true, &m);
        assert_int_equal(n, m);
        for (int64_t i = 0; i < n; i++)
            if (!(fabsf(skip[i] - steps[i]) < 2e-3f))
                fail_msg("srig %d: value %lld is %g, should be %g", srig, (long long)i, (double)skip[i],
                         (double)steps[i]);
        zn_free(skip);
        zn_free(steps);
    }
}

void noise_of_another_shape_is_refused(void **state)
{
    (void)state;
    for (int64_t side = SIDE - 1; side <= SIDE; side++) {
        zn_graph *g = zn_graph_new();
        zn_node *x = zn_graph_input(g, "x", ZN_SHAPE(1, SIDE, SIDE, CHANNELS));
        zn_node *w = zn_graph_input(g, "w", ZN_SHAPE(BLOCKS)), *v = zn_graph_input(g, "v", ZN_SHAPE(BLOCKS));
        zn_node *noise = zn_graph_input(g, "noise", ZN_SHAPE(1, side, SIDE, BLOCKS));
        zn_gate_mask(x, w, v, noise, ZN_GATE_SOFT, 1);
        assert_int_equal(zn_graph_status(g), side == SIDE ? ZN_OK : ZN_ESHAPE);
        zn_graph_free(g);
    }
}

/* Straight-through masks and a penalty on their mean: the error falls and blocks are shut. */
void gates_learn_to_prune(void **state)
{
    (void)state;
    enum { SIZE = 32, STEPS = 60, MAX = 64 };
    zn_model *m = small_model("zenith-hier", 4, 0, 4);
    zn_pool *pool;
    assert_int_equal(zn_pool_new(2, &pool), ZN_OK);
    zn_graph *g = zn_graph_new();
    zn_node *x = zn_graph_input(g, "image", ZN_SHAPE(2, SIZE, SIZE, 3));
    zn_prune_run run = { .mode = ZN_PRUNE_STE };
    zn_node *z = zn_prune_encode((zn_scope){ g, m->arch->scope[0] }, x, &m->config, &run);
    zn_node *mse = zn_mean_square_error(m->arch->decode((zn_scope){ g, m->arch->scope[1] }, z, &m->config), x);
    zn_node *penalty = zn_add(zn_mean(run.mask[0]), zn_mean(run.mask[1])), *loss = zn_add(mse, zn_scale(penalty, 0.3f));
    zn_node *wrt[MAX], *outputs[MAX + 3] = { loss, mse, penalty }, **gradients = outputs + 3;
    assert_int_equal(zn_graph_status(g), ZN_OK);
    zn_model_bind(m, g, "");
    for (int i = 0; i < m->count; i++)
        wrt[i] = zn_graph_parameter(g, m->parameters[i].name, m->parameters[i].shape, m->parameters[i].layout);
    assert_int_equal(zn_graph_differentiate(g, loss, NULL, wrt, m->count, gradients), ZN_OK);
    zn_exec *e;
    assert_int_equal(zn_exec_new(g, outputs, m->count + 3, &(zn_exec_options){ .pool = pool, .training = true }, &e),
                     ZN_OK);
    zn_optim o;
    assert_int_equal(zn_optim_new(&o, m->info.parameters, &(zn_optim_options){ .kind = ZN_ADAM, .lr = 4e-3f }), ZN_OK);
    zn_rng rng = zn_rng_new(9);
    for (int i = 0; i < 2; i++) {
        zn_wavelet w[ZN_WAVELET_MAX];
        zn_wavelet_image(w, zn_wavelet_draw(&rng, SIZE, SIZE, w), SIZE, SIZE, 3, x->data + i * SIZE * SIZE * 3);
    }
    double first = 0, open = 0;
    for (int step = 0; step < STEPS; step++) {
        assert_int_equal(zn_exec_run(e), ZN_OK);
        if (step == 0) {
            first = (double)mse->data[0];
            open = (double)penalty->data[0];
        }
        zn_optim_begin(&o, -1);
        for (int i = 0; i < m->count; i++) {
            const char *name = m->parameters[i].name;
            const int64_t size = zn_shape_count(wrt[i]->shape);
            const float factor = strstr(name, ".scale") ? 1 / (float)size : strstr(name, "gate") ? 30 : 1;
            zn_optim_update(&o, pool, wrt[i]->data, gradients[i]->data, size,
                            &(zn_optim_tensor){ .lr_factor = factor });
        }
    }
    if (!(open > 1.9 && (double)penalty->data[0] < 0.75 * open && (double)mse->data[0] < 0.5 * first))
        fail_msg("open masks %g to %g, error %g to %g", open, (double)penalty->data[0], first, (double)mse->data[0]);
    zn_optim_free(&o);
    zn_exec_free(e);
    zn_graph_free(g);
    zn_pool_free(pool);
    zn_model_free(m);
}
