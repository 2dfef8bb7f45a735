/* check-ops: every op of ops.def has its gradient checked against central differences, or is itself the gradient of one
 * that is. No test library, so that it also runs under an emulator of another CPU. */
#include "base/alloc.h"
#include "base/rng.h"
#include "graph/exec.h"
#include "ops/ops.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_INPUTS = 4, SAMPLES = 40 };

typedef struct op_case {
    const char *op;      /* name in ops.def */
    const char *through; /* checked as the gradient of this op instead; NULL: has its own case */
    zn_shape shapes[MAX_INPUTS];
    zn_node *(*build)(zn_node **in);
    bool away_from_zero; /* inputs keep clear of a kink at 0 */
} op_case;

static zn_node *conv_3x3(zn_node **in) { return zn_conv(in[0], in[1], in[2], (zn_conv_spec){ .stride = 1, .pad = 1 }); }
static zn_node *conv_s2(zn_node **in) { return zn_conv(in[0], in[1], NULL, (zn_conv_spec){ .stride = 2, .pad = 1 }); }
static zn_node *conv_1x1(zn_node **in) { return zn_conv(in[0], in[1], in[2], (zn_conv_spec){ .stride = 1 }); }
static zn_node *relu(zn_node **in) { return zn_relu(in[0]); }
static zn_node *soft_clamp(zn_node **in) { return zn_soft_clamp(in[0], 3); }
static zn_node *scale(zn_node **in) { return zn_scale(in[0], -1.7f); }
static zn_node *add(zn_node **in) { return zn_add(in[0], in[1]); }
static zn_node *add_self(zn_node **in) { return zn_add(in[0], in[0]); }
static zn_node *sub(zn_node **in) { return zn_sub(in[0], in[1]); }
static zn_node *upsample2(zn_node **in) { return zn_upsample2(in[0]); }
static zn_node *group_norm(zn_node **in) { return zn_group_norm(in[0], in[1], in[2], 2, 1e-5f); }
static zn_node *mse(zn_node **in) { return zn_mean_square_error(in[0], in[1]); }
static zn_node *ones(zn_node **in) { return zn_add(in[0], zn_ones_like(in[0])); }

#define MAP(...) { .rank = 4, .dim = { __VA_ARGS__ } }
#define ROW(n)   { .rank = 1, .dim = { n } }
static const op_case cases[] = {
    { "conv", NULL, { MAP(2, 5, 7, 3), MAP(3, 3, 3, 4), ROW(4) }, conv_3x3, false },
    { "conv", NULL, { MAP(1, 9, 13, 16), MAP(3, 3, 16, 20), ROW(20) }, conv_3x3, false },
    { "conv", NULL, { MAP(2, 6, 8, 5), MAP(3, 3, 5, 6) }, conv_s2, false },
    { "conv", NULL, { MAP(1, 4, 3, 8), MAP(1, 1, 8, 12), ROW(12) }, conv_1x1, false },
    { "conv_weight_grad", "conv", { ROW(0) }, NULL, false },
    { "flip_weights", "conv", { ROW(0) }, NULL, false },
    { "channel_sum", "conv", { ROW(0) }, NULL, false },
    { "dilate2", "conv", { ROW(0) }, NULL, false },
    { "relu", NULL, { MAP(1, 4, 5, 3) }, relu, true },
    { "relu_grad", "relu", { ROW(0) }, NULL, false },
    { "soft_clamp", NULL, { MAP(1, 4, 5, 3) }, soft_clamp, false },
    { "soft_clamp_grad", "soft_clamp", { ROW(0) }, NULL, false },
    { "scale", NULL, { ROW(17) }, scale, false },
    { "add", NULL, { MAP(1, 2, 3, 4), MAP(1, 2, 3, 4) }, add, false },
    { "add", NULL, { ROW(9) }, add_self, false },
    { "sub", NULL, { ROW(7), ROW(7) }, sub, false },
    { "upsample2", NULL, { MAP(2, 3, 4, 5) }, upsample2, false },
    { "upsample2_grad", "upsample2", { ROW(0) }, NULL, false },
    { "group_norm", NULL, { MAP(2, 3, 5, 8), ROW(8), ROW(8) }, group_norm, false },
    { "group_norm_grad", "group_norm", { ROW(0) }, NULL, false },
    { "group_norm_param_grad", "group_norm", { ROW(0) }, NULL, false },
    { "mean_square_error", NULL, { MAP(1, 3, 4, 2), MAP(1, 3, 4, 2) }, mse, false },
    { "multiply_scalar", "mean_square_error", { ROW(0) }, NULL, false },
    { "ones", NULL, { ROW(5) }, ones, false },
};
enum { CASES = sizeof cases / sizeof *cases };

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
    for (int k = 0; k < SAMPLES; k++) {
        const int64_t i = k < count ? (count <= SAMPLES ? k : (int64_t)(zn_rng_next(rng) % (uint64_t)count)) : k % count;
        const float keep = in->data[i];
        in->data[i] = keep + step;
        const double up = objective(e, y, seed), high = (double)in->data[i];
        in->data[i] = keep - step;
        const double down = objective(e, y, seed), low = (double)in->data[i];
        in->data[i] = keep;
        const double d = fabs((up - down) / (high - low) - (double)analytic[i]) / scale;
        if (!(d <= worst))
            worst = d;
    }
    const bool pass = worst < 2e-3;
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

/* Every line of ops.def must appear above. */
static void check_list(void)
{
    static const char *const names[] = {
#define ZN_OP(name) #name,
#include "ops/ops.def"
#undef ZN_OP
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        bool found = false;
        for (int k = 0; k < CASES; k++)
            found |= strcmp(cases[k].op, names[i]) == 0;
        if (!found) {
            printf("%-20s has no gradient test  FAIL\n", names[i]);
            failures++;
        }
    }
}

int main(void)
{
    zn_pool *pool;
    if (zn_pool_new(2, &pool) != ZN_OK)
        return 1;
    check_list();
    for (int i = 0; i < CASES; i++)
        if (!cases[i].through)
            check(&cases[i], pool);
    zn_pool_free(pool);
    printf("%d passed, %d failed\n", checks - failures, failures);
    return failures || !checks;
}
