/* Networks with random numbers. */
#include "setting.h"

#include "base/alloc.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

void setting_free(setting *s)
{
    zn_exec_free(s->exec);
    zn_graph_free(s->graph);
    zn_pool_free(s->pool);
    *s = (setting){ 0 };
}

int64_t setting_parameters(zn_graph *g, int *tensors)
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

/* Of a norm: near 1. */
static bool is_gain(const zn_node *n)
{
    const char *dot = strrchr(n->name, '.');
    return strstr(n->name, "gamma") || (n->shape.rank == 1 && dot && strcmp(dot, ".weight") == 0);
}

zn_status setting_fill(zn_graph *g)
{
    zn_rng rng = zn_rng_new(5);
    for (int i = 0; i < zn_graph_count(g); i++) {
        zn_node *n = zn_graph_at(g, i);
        if (n->op != &zn_op_parameter)
            continue;
        const int64_t count = zn_shape_count(n->shape), out = n->shape.dim[n->shape.rank - 1];
        const bool gain = is_gain(n);
        n->data = zn_arena_alloc(zn_graph_arena(g), sizeof(float) * (size_t)count);
        if (!n->data)
            return ZN_ENOMEM;
        for (int64_t k = 0; k < count; k++)
            n->data[k] = (gain ? 1 : 0) +
                         zn_rng_normal(&rng) * (n->shape.rank > 1 && !gain ? sqrtf((float)out / (float)count) : 0.1f);
    }
    return ZN_OK;
}

zn_status setting_start(setting *s, int threads, zn_node *const *outputs, int count, bool training)
{
    enum { MOST = 16 };
    zn_node *empty[MOST];
    int inputs = 0;
    for (int i = 0; i < zn_graph_count(s->graph); i++) {
        zn_node *n = zn_graph_at(s->graph, i);
        if (n->op == &zn_op_input && !n->data && inputs < MOST)
            empty[inputs++] = n;
    }
    zn_status status = zn_pool_new(threads, &s->pool);
    zn_graph_fuse(s->graph, outputs, count);
    if (status == ZN_OK)
        status = zn_exec_new(s->graph, outputs, count, &(zn_exec_options){ .pool = s->pool, .training = training },
                             &s->exec);
    for (int i = 0; i < inputs && status == ZN_OK; i++) {
        zn_rng rng = zn_rng_new(9);
        for (int64_t k = 0; k < zn_shape_count(empty[i]->shape) && empty[i]->data; k++)
            empty[i]->data[k] = zn_rng_normal(&rng);
    }
    return status;
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

void setting_check_gradients(setting *s, float step)
{
    enum { MOST = 400 };
    static zn_node *wrt[MOST], *gradients[MOST + 1];
    int count = 0;
    zn_node *seed = zn_graph_input(s->graph, "seed", s->y->shape);
    assert_int_equal(zn_graph_status(s->graph), ZN_OK);
    assert_int_equal(setting_fill(s->graph), ZN_OK);
    for (int i = 0; i < zn_graph_count(s->graph) && count < MOST; i++)
        if (zn_graph_at(s->graph, i)->op == &zn_op_parameter)
            wrt[count++] = zn_graph_at(s->graph, i);
    gradients[0] = s->y;
    assert_int_equal(zn_graph_differentiate(s->graph, s->y, seed, wrt, count, gradients + 1), ZN_OK);
    assert_int_equal(setting_start(s, 2, gradients, count + 1, true), ZN_OK);
    const double difference = along(s, seed->data, step);
    objective(s, seed->data);
    double analytic = 0;
    zn_rng rng = zn_rng_new(3);
    for (int i = 0; i < count; i++)
        for (int64_t n = 0; n < zn_shape_count(wrt[i]->shape); n++)
            analytic += (double)gradients[i + 1]->data[n] * (double)zn_rng_normal(&rng);
    assert_true(fabs(analytic) > 1);
    assert_true(fabs(analytic - difference) < 1e-2 * fabs(analytic));
    setting_free(s);
}
