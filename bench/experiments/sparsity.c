/* Times one block of the Prune family behind a mask. Our side of bench/experiments/sparsity.
 *
 *     prune-sparsity CHANNELS SIDE SRIG(0|1) THREADS RUNS
 *
 * For each structure of mask and each pruned share it prints a line of JSON: times of forward and backward of the block
 * (depthwise, transforms, mixer, norm; gradients of x and of all parameters) behind a mask that is a constant. "dense"
 * is the same block without a mask. Structures: "pixels", whole pixels at random; "channels", the same blocks of eight
 * channels in all pixels; "random", any block of any pixel. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/rng.h"
#include "graph/exec.h"
#include "models/zenith/zenith.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zenith/zenith.h>

enum { WARM_UPS = 5, MAX_PARAMETERS = 8 };
static const int percents[] = { 0, 50, 75, 90 };

typedef struct bench {
    int channels, side, threads, runs;
    bool srig;
    zn_pool *pool;
    zn_machine machine;
} bench;

static void fill(zn_rng *rng, zn_node *n, float mean, float deviation)
{
    for (int64_t i = 0; i < zn_shape_count(n->shape); i++)
        n->data[i] = mean + deviation * zn_rng_normal(rng);
}

/* The first `count` of 0 .. n-1 in a random order are 1. */
static void draw(zn_rng *rng, float *chosen, int64_t n, int64_t count)
{
    for (int64_t i = 0; i < n; i++)
        chosen[i] = i < count;
    for (int64_t i = n - 1; i > 0; i--) {
        const int64_t j = (int64_t)(zn_rng_next(rng) % (uint64_t)(i + 1));
        const float t = chosen[i];
        chosen[i] = chosen[j];
        chosen[j] = t;
    }
}

/* Ones are open. Returns the share that is pruned. */
static double make_mask(zn_rng *rng, const char *structure, int percent, zn_node *mask)
{
    const int64_t all = zn_shape_count(mask->shape), blocks = mask->shape.dim[3], pixels = all / blocks;
    const bool by_pixel = !strcmp(structure, "pixels"), by_block = !strcmp(structure, "channels");
    const int64_t n = by_pixel ? pixels : by_block ? blocks : all, open = n - (n * percent + 50) / 100;
    float *chosen = zn_calloc((size_t)n, sizeof *chosen);
    if (!chosen)
        return -1;
    draw(rng, chosen, n, open);
    for (int64_t i = 0; i < all; i++)
        mask->data[i] = chosen[by_pixel ? i / blocks : by_block ? i % blocks : i];
    zn_free(chosen);
    return 1 - (double)open / (double)n;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_times(const char *name, double *ms, int runs, const char *after)
{
    qsort(ms, (size_t)runs, sizeof *ms, by_value);
    printf("\"%s\": [%.4f, %.4f, %.4f]%s", name, ms[runs / 2], ms[0], ms[runs - 1], after);
}

/* Operations and bytes of forward and backward as if nothing were pruned, and what this machine can do. */
static void print_work(const bench *b, const zn_exec *e, const zn_node *y)
{
    double flops[2] = { 0, 0 }, bytes[2] = { 0, 0 };
    for (int i = 0; i < zn_exec_rows(e); i++) {
        const zn_exec_row row = zn_exec_row_at(e, i);
        flops[row.node->index > y->index] += row.flops;
        bytes[row.node->index > y->index] += row.bytes;
    }
    printf("\"mflop\": [%.3f, %.3f], \"mbyte\": [%.3f, %.3f], \"peak_gflops\": %.1f, \"bandwidth_gbs\": %.1f, ",
           flops[0] * 1e-6, flops[1] * 1e-6, bytes[0] * 1e-6, bytes[1] * 1e-6, b->machine.peak_gflops,
           b->machine.bandwidth_gbs);
}

static zn_status measure(const bench *b, const char *structure, int percent)
{
    const bool dense = !strcmp(structure, "dense");
    const zn_shape shape = ZN_SHAPE(1, b->side, b->side, b->channels);
    zn_graph *g = zn_graph_new();
    zn_exec *e = NULL;
    double *ms = zn_calloc(2 * (size_t)b->runs, sizeof *ms);
    if (!g || !ms)
        return ZN_ENOMEM;
    zn_rng rng = zn_rng_new(3);
    zn_node *x = zn_graph_input(g, "x", shape), *seed = zn_graph_input(g, "seed", shape), *wrt[MAX_PARAMETERS + 1];
    zn_node *mask = dense ? NULL : zn_graph_input(g, "mask", ZN_SHAPE(1, b->side, b->side, b->channels / 8));
    zn_node *y = zn_prune_block((zn_scope){ g, "" }, x, &(zn_prune_spec){ .srig = b->srig, .mask = mask });
    int count = 1;
    wrt[0] = x;
    for (int i = 0; i < zn_graph_count(g); i++)
        if (zn_graph_at(g, i)->op == &zn_op_parameter && count <= MAX_PARAMETERS)
            wrt[count++] = zn_graph_at(g, i);
    zn_node *outputs[MAX_PARAMETERS + 2] = { y };
    zn_status status = zn_graph_differentiate(g, y, seed, wrt, count, outputs + 1);
    for (int i = 1; i < count && status == ZN_OK; i++) {
        wrt[i]->data = zn_calloc((size_t)zn_shape_count(wrt[i]->shape), sizeof(float));
        if (!wrt[i]->data)
            status = ZN_ENOMEM;
        else
            fill(&rng, wrt[i], 0.5f, 0.2f);
    }
    if (status == ZN_OK)
        status = zn_exec_new(g, outputs, count + 1,
                             &(zn_exec_options){ .pool = b->pool, .training = true, .profile = true }, &e);
    double pruned = 0;
    if (status == ZN_OK) {
        fill(&rng, x, 0, 1);
        fill(&rng, seed, 0, 1);
        pruned = mask ? make_mask(&rng, structure, percent, mask) : 0;
        for (int64_t i = 0; mask && i < zn_shape_count(shape); i++) /* x comes from the gate */
            x->data[i] *= mask->data[i / 8];
    }
    for (int run = -WARM_UPS; run < b->runs && status == ZN_OK; run++) {
        status = zn_exec_run(e);
        double part[2] = { 0, 0 };
        for (int i = 0; i < zn_exec_rows(e); i++)
            part[zn_exec_row_at(e, i).node->index > y->index] += zn_exec_row_at(e, i).ms;
        for (int k = 0; k < 2 && run >= 0; k++)
            ms[k * b->runs + run] = part[k];
    }
    if (status == ZN_OK) {
        printf("{\"structure\": \"%s\", \"pruned\": %.4f, ", structure, pruned);
        print_work(b, e, y);
        print_times("forward", ms, b->runs, ", ");
        print_times("backward", ms + b->runs, b->runs, "}\n");
    }
    zn_exec_free(e);
    for (int i = 1; i < count; i++)
        zn_free(wrt[i]->data);
    zn_graph_free(g);
    zn_free(ms);
    return status;
}

int main(int argc, char **argv)
{
    static const char *const structures[] = { "pixels", "channels", "random" };
    if (argc != 6) {
        fprintf(stderr, "usage: prune-sparsity CHANNELS SIDE SRIG(0|1) THREADS RUNS\n");
        return 2;
    }
    bench b = { .channels = atoi(argv[1]),
                .side = atoi(argv[2]),
                .srig = atoi(argv[3]) != 0,
                .threads = atoi(argv[4]),
                .runs = atoi(argv[5]) };
    if (b.channels < 8 || b.channels > 1 << 16 || b.side < 1 || b.side > 1024 || b.runs < 1 || b.runs > 10000) {
        fprintf(stderr, "prune-sparsity: a size or number of runs is out of range\n");
        return 2;
    }
    zn_status status = zn_pool_new(b.threads, &b.pool);
    if (status == ZN_OK)
        status = zn_machine_measure(zn_pool_threads(b.pool), ZN_PRECISION_F32, &b.machine);
    if (status == ZN_OK)
        status = measure(&b, "dense", 0);
    for (int s = 0; s < 3; s++)
        for (int p = 0; p < 4 && status == ZN_OK; p++)
            status = measure(&b, structures[s], percents[p]);
    if (status != ZN_OK)
        fprintf(stderr, "prune-sparsity: %s\n", zn_error_text());
    zn_pool_free(b.pool);
    return status == ZN_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
