/* check-ops: every op of ops.def has its gradient checked against central differences, or is itself the gradient of one
 * that is. No test library, so that it also runs under an emulator of another CPU. */
#include "base/alloc.h"
#include "base/rng.h"
#include "graph/exec.h"
#include "op_case.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SAMPLES = 40 };

static int failures, checks;

/* sum(y * seed), in double */
static double objective(zn_exec *e, const zn_node *y, const zn_node *seed)
{
    double sum = 0;
    if (zn_exec_run(e) != ZN_OK)
        return NAN;
    for (int64_t i = 0; i < zn_shape_count(y->shape); i++)
        sum += (double)y->data[i] * (double)seed->data[i];
    return sum;
}

static void fill(zn_rng *rng, zn_node *n, bool away_from_zero)
{
    for (int64_t i = 0; i < zn_shape_count(n->shape); i++) {
        const float v = zn_rng_normal(rng);
        n->data[i] = away_from_zero ? v + (v < 0 ? -0.1f : 0.1f) : v;
    }
}

static void compare(const op_case *c, zn_exec *e, zn_node *y, zn_node *seed, zn_node *in, const float *analytic,
                    zn_rng *rng, int which)
{
    const int64_t count = zn_shape_count(in->shape);
    const float step = 1e-2f;
    double worst = 0, scale = 1e-3;
    for (int64_t i = 0; i < count; i++)
        scale = fabs((double)analytic[i]) > scale ? fabs((double)analytic[i]) : scale;
    int used = 0;
    for (int k = 0; k < SAMPLES; k++) {
        const int64_t i = count <= SAMPLES ? k % count : (int64_t)(zn_rng_next(rng) % (uint64_t)count);
        const float keep = in->data[i];
        const double here = objective(e, y, seed);
        in->data[i] = keep + step;
        const double up = objective(e, y, seed), high = (double)in->data[i];
        in->data[i] = keep - step;
        const double down = objective(e, y, seed), low = (double)in->data[i];
        in->data[i] = keep;
        /* thresholds and ReLUs have kinks: where the two sides disagree there is no derivative to compare with */
        if (fabs((up - here) / (high - (double)keep) - (here - down) / ((double)keep - low)) > 0.01 * scale)
            continue;
        const double d = fabs((up - down) / (high - low) - (double)analytic[i]) / scale;
        if (!(d <= worst))
            worst = d;
        used++;
    }
    const bool pass = worst < 4e-3 && 2 * used >= SAMPLES;
    printf("%-20s input %d  worst relative difference %.1e  %s\n", c->op, which, worst, pass ? "PASS" : "FAIL");
    failures += !pass;
    checks++;
}

static void check(const op_case *c, zn_pool *pool)
{
    zn_rng rng = zn_rng_new(7);
    zn_graph *g = zn_graph_new();
    zn_node *in[MAX_INPUTS] = { 0 }, *outputs[MAX_INPUTS + 1], **gradients = outputs + 1;
    int count = 0;
    for (; count < MAX_INPUTS && c->shapes[count].rank; count++)
        in[count] = zn_graph_input(g, "x", c->shapes[count]);
    zn_node *y = outputs[0] = c->build(in), *seed = zn_graph_input(g, "seed", y->shape);
    zn_exec *e = NULL;
    zn_status status = zn_graph_differentiate(g, y, seed, in, count, gradients);
    if (status == ZN_OK)
        status = zn_exec_new(g, outputs, count + 1, &(zn_exec_options){ .pool = pool, .training = true }, &e);
    if (status != ZN_OK) {
        printf("%-20s %s  FAIL\n", c->op, zn_error_text());
        failures++;
        zn_graph_free(g);
        return;
    }
    for (int i = 0; i < count; i++)
        fill(&rng, in[i], c->away_from_zero);
    fill(&rng, seed, false);
    for (int i = 0; i < count; i++) {
        objective(e, y, seed);
        const size_t bytes = sizeof(float) * (size_t)zn_shape_count(in[i]->shape);
        float *analytic = zn_alloc(bytes);
        memcpy(analytic, gradients[i]->data, bytes);
        compare(c, e, y, seed, in[i], analytic, &rng, i);
        zn_free(analytic);
    }
    zn_exec_free(e);
    zn_graph_free(g);
}

static const op_case *const lists[] = { op_cases, op_cases_sequence };
enum { LISTS = sizeof lists / sizeof *lists };

static bool has_case(const char *name)
{
    for (int i = 0; i < LISTS; i++)
        for (const op_case *c = lists[i]; c->op; c++)
            if (strcmp(c->op, name) == 0)
                return true;
    return false;
}

/* Every line of ops.def must have a case. */
static void check_list(void)
{
    static const char *const names[] = {
#define ZN_OP(name) #name,
#include "ops/ops.def"
#undef ZN_OP
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!has_case(names[i])) {
            printf("%-20s has no gradient test  FAIL\n", names[i]);
            failures++;
        }
}

int main(void)
{
    zn_pool *pool;
    if (zn_pool_new(2, &pool) != ZN_OK)
        return 1;
    check_list();
    for (int i = 0; i < LISTS; i++)
        for (const op_case *c = lists[i]; c->op; c++)
            if (!c->through)
                check(c, pool);
    zn_pool_free(pool);
    printf("%d passed, %d failed\n", checks - failures, failures);
    return failures || !checks;
}
