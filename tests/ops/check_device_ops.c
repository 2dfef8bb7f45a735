/* check-device-ops: every case of check-ops, with its gradients, on the device against the CPU; and without them, with
 * maps of 16 bits where the op knows these. Prints the ops that the
 * CPU had to run because the device has no kernel for them. Exit status 77 if there is no device.
 *
 *     check-device-ops [--whole] [OP]     --whole: an op without a kernel is a failure */
#include "base/alloc.h"
#include "base/fail.h"
#include "base/rng.h"
#include "graph/exec.h"
#include "op_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUGH     3e-2 /* in bf16 */
#define TOLERANCE 1e-5 /* relative RMS: three products of TF32 numbers, and sums in another order */

static int failures, checks, whole;
static zn_pool *pool;
static zn_device *device;

/* The graph of a case with its gradients. */
typedef struct built {
    zn_graph *graph;
    zn_node *inputs[MAX_INPUTS + 1], *outputs[MAX_INPUTS + 1];
    int input_count, output_count;
    zn_exec *exec;
} built;

static void fill(const built *b)
{
    zn_rng rng = zn_rng_new(7);
    for (int i = 0; i < b->input_count; i++)
        for (int64_t k = 0; k < zn_shape_count(b->inputs[i]->shape); k++)
            b->inputs[i]->data[k] = zn_rng_normal(&rng);
}

static zn_status build(const op_case *c, zn_device *on, zn_precision math, built *b)
{
    int count = 0;
    *b = (built){ .graph = zn_graph_new() };
    for (; count < MAX_INPUTS && c->shapes[count].rank; count++)
        b->inputs[count] = zn_graph_input(b->graph, "x", c->shapes[count]);
    zn_node *y = b->outputs[0] = c->build(b->inputs), *seed = zn_graph_input(b->graph, "seed", y->shape);
    zn_status status = zn_graph_differentiate(b->graph, y, seed, b->inputs, count, b->outputs + 1);
    b->inputs[count] = seed;
    b->input_count = b->output_count = count + 1;
    if (status == ZN_OK && on && op_case_is_fused(c))
        zn_graph_fuse(b->graph, b->outputs, count + 1);
    if (status == ZN_OK)
        status =
            zn_exec_new(b->graph, b->outputs, count + 1,
                        &(zn_exec_options){ .pool = pool, .device = on, .training = true, .math = math }, &b->exec);
    if (status != ZN_OK)
        return status;
    fill(b);
    return zn_exec_run(b->exec);
}

/* A map as its values are, but in 16 bits where those who read it can: modulation by zeros has any types. */
static zn_node *narrowed(built *b, zn_node *x)
{
    const zn_shape s = x->shape;
    return s.rank != 4 || zn_is_poison(x)
               ? x
               : zn_modulate(x, zn_graph_input(b->graph, "zeros", ZN_SHAPE(s.dim[0], 1, 1, s.dim[3])), NULL);
}

/* The case without gradients; its first input and its result are 16 bits on a device, if the op knows that. */
static zn_status build_narrow(const op_case *c, zn_device *on, built *b)
{
    zn_node *given[MAX_INPUTS] = { 0 };
    *b = (built){ .graph = zn_graph_new(), .output_count = 1 };
    for (; b->input_count < MAX_INPUTS && c->shapes[b->input_count].rank; b->input_count++)
        given[b->input_count] = b->inputs[b->input_count] = zn_graph_input(b->graph, "x", c->shapes[b->input_count]);
    given[0] = narrowed(b, given[0]);
    b->outputs[0] = narrowed(b, c->build(given));
    ZN_TRY(zn_exec_new(
        b->graph, b->outputs, 1,
        &(zn_exec_options){ .pool = pool, .device = on, .math = on ? ZN_PRECISION_BF16 : ZN_PRECISION_F32 }, &b->exec));
    fill(b);
    return zn_exec_run(b->exec);
}

static void drop(built *b)
{
    zn_exec_free(b->exec);
    zn_graph_free(b->graph);
}

static double difference(const zn_node *a, const zn_node *b)
{
    double off = 0, all = 1e-30;
    for (int64_t i = 0; i < zn_shape_count(a->shape); i++) {
        off += ((double)a->data[i] - (double)b->data[i]) * ((double)a->data[i] - (double)b->data[i]);
        all += (double)b->data[i] * (double)b->data[i];
    }
    return sqrt(off / all);
}

/* Names of the ops that the CPU ran. */
static void describe_places(const built *b, char *text, size_t size)
{
    text[0] = 0;
    for (int i = 0; i < zn_graph_count(b->graph); i++) {
        const zn_node *n = zn_graph_at(b->graph, i);
        const size_t used = strlen(text);
        if (n->on_host && !strstr(text, n->op->name))
            snprintf(text + used, size - used, "%s%s", used ? " " : "  on the CPU: ", n->op->name);
    }
}

/* math: of the device. */
static void check(const op_case *c, zn_precision math)
{
    built cpu, gpu;
    char text[400] = "";
    zn_status status = build(c, NULL, ZN_PRECISION_F32, &cpu);
    const zn_status there = build(c, device, math, &gpu);
    const double allowed = math == ZN_PRECISION_F32 ? TOLERANCE : ROUGH;
    status = status == ZN_OK ? there : status;
    double worst = 0;
    for (int i = 0; i < cpu.output_count && status == ZN_OK; i++)
        worst = fmax(worst, difference(gpu.outputs[i], cpu.outputs[i]));
    if (status == ZN_OK)
        describe_places(&gpu, text, sizeof text);
    const bool good = status == ZN_OK && worst <= allowed && !(whole && text[0]);
    printf("%-20s differs by %.1e%s%s%s%s\n", c->op, worst, math == ZN_PRECISION_F32 ? "" : " in bf16", text,
           status == ZN_OK ? "" : zn_error_text(), good ? "" : "  FAIL");
    failures += !good;
    checks++;
    drop(&cpu);
    drop(&gpu);
}

/* Only cases in which maps are 16 bits count. */
static void check_narrow(const op_case *c)
{
    built cpu, gpu;
    int narrow = 0;
    zn_status status = build_narrow(c, NULL, &cpu);
    const zn_status there = build_narrow(c, device, &gpu);
    status = status == ZN_OK ? there : status;
    for (int i = 0; i < zn_graph_count(gpu.graph); i++)
        narrow += zn_graph_at(gpu.graph, i)->type != ZN_TYPE_F32;
    const double worst = status == ZN_OK ? difference(gpu.outputs[0], cpu.outputs[0]) : 0;
    const bool good = status == ZN_OK && worst <= ROUGH;
    if (narrow || !good)
        printf("%-20s differs by %.1e with %d maps in bf16%s%s\n", c->op, worst, narrow,
               status == ZN_OK ? "" : zn_error_text(), good ? "" : "  FAIL");
    failures += !good;
    checks++;
    drop(&cpu);
    drop(&gpu);
}

int main(int argc, char **argv)
{
    static const op_case *const lists[] = { op_cases, op_cases_sequence };
    whole = argc > 1 && !strcmp(argv[1], "--whole");
    const char *only = argc > 1 + whole ? argv[1 + whole] : "";
    if (zn_device_open("cuda", &device) != ZN_OK) {
        printf("%s\n", zn_error_text());
        return 77;
    }
    if (zn_pool_new(2, &pool) != ZN_OK)
        return 1;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        for (const op_case *c = lists[i]; c->op; c++)
            if (strstr(c->op, only)) {
                check(c, ZN_PRECISION_F32);
                if (!strcmp(c->op, "conv") || !strcmp(c->op, "matrix")) /* they train with products of their own */
                    check(c, ZN_PRECISION_BF16);
                check_narrow(c);
            }
    zn_pool_free(pool);
    zn_device_close(device);
    printf("%d passed, %d failed\n", checks - failures, failures);
    return failures || !checks;
}
