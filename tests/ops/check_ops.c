/* check-ops: every op of ops.def is run in a graph whose gradients are checked against differences, forward or as part
 * of a gradient. No test library, so that it also runs under an emulator of another CPU. */
#include "base/alloc.h"
#include "base/rng.h"
#include "graph/exec.h"
#include "op_case.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SAMPLES = 40 };
#define TOLERANCE 4e-3 /* of a difference, in units of the largest gradient */

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

/* A graph that runs, with one of its inputs. */
typedef struct probe {
    zn_exec *e;
    const zn_node *y, *seed;
    zn_node *in;
} probe;

/* The objective's slope from element i to either side of it, `step` away. */
static void slopes(const probe *p, int64_t i, float step, double *above, double *below)
{
    const float keep = p->in->data[i];
    const double here = objective(p->e, p->y, p->seed);
    p->in->data[i] = keep + step;
    *above = (objective(p->e, p->y, p->seed) - here) / ((double)p->in->data[i] - (double)keep);
    p->in->data[i] = keep - step;
    *below = (here - objective(p->e, p->y, p->seed)) / ((double)keep - (double)p->in->data[i]);
    p->in->data[i] = keep;
}

/* How far the gradient of element i is from the difference quotient. Thresholds and ReLUs have kinks: where one lies
 * within the step, the two sides disagree and a smaller step is tried; where it is closer than the smallest, the
 * gradient has to be the slope of one side. No element is left out. */
static double error_at(const probe *p, int64_t i, double analytic, double scale)
{
    double above = NAN, below = NAN;
    for (float step = 1e-2f; step > 1e-3f; step /= 2) {
        slopes(p, i, step, &above, &below);
        if (fabs(above - below) <= TOLERANCE * scale)
            return fabs((above + below) / 2 - analytic) / scale;
    }
    return fmin(fabs(above - analytic), fabs(below - analytic)) / scale;
}

static void compare(const op_case *c, const probe *p, const float *analytic, zn_rng *rng, int which)
{
    const int64_t count = zn_shape_count(p->in->shape);
    double worst = 0, scale = 1e-3;
    for (int64_t i = 0; i < count; i++)
        scale = fabs((double)analytic[i]) > scale ? fabs((double)analytic[i]) : scale;
    for (int k = 0; k < SAMPLES; k++) {
        const int64_t i = count <= SAMPLES ? k % count : (int64_t)(zn_rng_next(rng) % (uint64_t)count);
        const double d = error_at(p, i, (double)analytic[i], scale);
        if (!(d <= worst)) /* NaN counts as worst */
            worst = d;
    }
    const bool pass = worst < TOLERANCE;
    printf("%-20s input %d  worst relative difference %.1e  %s\n", c->op, which, worst, pass ? "PASS" : "FAIL");
    failures += !pass;
    checks++;
}

static const char *const names[] = {
#define ZN_OP(name) #name,
#include "ops/ops.def"
#undef ZN_OP
};
enum { OPS = sizeof names / sizeof *names };
static bool seen[OPS]; /* in a graph whose gradients were compared */

enum { NODES = 4096 }; /* of a graph, at most */

/* Marks what n is computed from in `walked`, by index; returns whether the op is among it. */
static bool walk(const zn_node *n, const char *op, bool walked[NODES])
{
    if (n->index >= NODES || walked[n->index])
        return false;
    walked[n->index] = true;
    for (int k = 0; k < OPS; k++)
        seen[k] |= !strcmp(n->op->name, names[k]);
    bool found = !strcmp(n->op->name, op);
    for (int i = 0; i < n->source_count; i++)
        found |= walk(n->source[i], op, walked);
    return found;
}

static void check(const op_case *c, zn_pool *pool, bool fused)
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
    if (status == ZN_OK && fused)
        zn_graph_fuse(g, outputs, count + 1);
    if (status == ZN_OK)
        status = zn_exec_new(g, outputs, count + 1, &(zn_exec_options){ .pool = pool, .training = true }, &e);
    if (status != ZN_OK) {
        printf("%-20s %s  FAIL\n", c->op, zn_error_text());
        failures++;
        zn_graph_free(g);
        return;
    }
    bool walked[NODES] = { false };
    if (!walk(y, c->op, walked)) {
        printf("%-20s is not in the graph of its case  FAIL\n", c->op);
        failures++;
    }
    for (int i = 0; i < count; i++)
        walk(gradients[i], c->op, walked);
    for (int i = 0; i < count; i++)
        fill(&rng, in[i], c->away_from_zero);
    fill(&rng, seed, false);
    for (int i = 0; i < count; i++) {
        objective(e, y, seed);
        const size_t bytes = sizeof(float) * (size_t)zn_shape_count(in[i]->shape);
        float *analytic = zn_alloc(bytes);
        memcpy(analytic, gradients[i]->data, bytes);
        compare(c, &(probe){ e, y, seed, in[i] }, analytic, &rng, i);
        zn_free(analytic);
    }
    zn_exec_free(e);
    zn_graph_free(g);
}

static const op_case *const lists[] = { op_cases, op_cases_sequence };
enum { LISTS = sizeof lists / sizeof *lists };

/* Every line of ops.def must have been run. */
static void check_list(void)
{
    for (int i = 0; i < OPS; i++)
        if (!seen[i]) {
            printf("%-20s is in no graph that was checked  FAIL\n", names[i]);
            failures++;
        }
}

int main(void)
{
    zn_pool *pool;
    if (zn_pool_new(2, &pool) != ZN_OK)
        return 1;
    for (int i = 0; i < LISTS; i++)
        for (const op_case *c = lists[i]; c->op; c++) {
            check(c, pool, false);
            if (op_case_is_fused(c))
                check(c, pool, true);
        }
    check_list();
    zn_pool_free(pool);
    printf("%d passed, %d failed\n", checks - failures, failures);
    return failures || !checks;
}
