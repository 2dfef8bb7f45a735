/* Times the selective scan of Mamba and its gradient alone.
 *
 *     scan-times SEQUENCES LENGTH CHANNELS STATES RUNS [cuda]
 *
 * Prints a JSON object: for each direction the median of milliseconds and GB/s of the bytes that it cannot do without:
 * maps, b and c, and h at every 64th token, each read or written once. On a GPU the times include those of a
 * launch and of waiting for it, some 10 us. */
#include "median.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/rng.h"
#include "graph/compute.h"
#include "graph/exec.h"
#include "kernels/scan.h"
#include "ops/ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WARM_UPS = 5, SOURCES = 7 };

typedef struct job {
    int sequences, length, channels, states, runs;
    const char *device; /* NULL: the CPU */
} job;

/* The time of the op's only node in the last run. */
static double time_of(const zn_exec *e, const zn_op *op)
{
    for (int i = 0; i < zn_exec_rows(e); i++)
        if (zn_exec_row_at(e, i).node->op == op)
            return zn_exec_row_at(e, i).ms;
    return 0;
}

static void print(const job *j, double *forward, double *back)
{
    const zn_scan_args a = {
        .sequences = j->sequences, .length = j->length, .channels = j->channels, .states = j->states
    };
    const double map = 4.0 * (double)a.sequences * (double)a.length * a.channels, few = map / a.channels * a.states;
    const double marks = 4.0 * (double)zn_scan_marks(&a);
    const double there = median(forward, j->runs), again = median(back, j->runs);
    printf("{\"forward_ms\": %.4f, \"forward_gbs\": %.0f, \"backward_ms\": %.4f, \"backward_gbs\": %.0f}\n", there,
           (3 * map + 2 * few + marks) / there * 1e-6, again, (5 * map + 4 * few + marks) / again * 1e-6);
}

static zn_status measure(const job *j, zn_exec *e)
{
    double *forward = zn_calloc(2 * (size_t)j->runs, sizeof *forward), *back = forward + j->runs;
    if (!forward)
        return ZN_FAIL(ZN_ENOMEM, "out of memory");
    zn_status status = ZN_OK;
    zn_exec_send(e);
    for (int i = -WARM_UPS; i < j->runs && status == ZN_OK; i++) {
        status = zn_exec_run(e);
        if (i >= 0) {
            forward[i] = time_of(e, &zn_op_scan);
            back[i] = time_of(e, &zn_op_scan_grad);
        }
    }
    if (status == ZN_OK)
        print(j, forward, back);
    zn_free(forward);
    return status;
}

/* Values as in a network that begins to learn: steps of 0.001 to 0.1, rates of 1, 2, 3... */
static void fill(zn_node *const in[SOURCES + 1])
{
    static const float mean[] = { 0, -4, 0, 0, 1.5f, 1, 0, 0 }, deviation[] = { 1, 1, 1, 1, 0.7f, 0, 0, 1 };
    zn_rng rng = zn_rng_new(1);
    for (int i = 0; i <= SOURCES; i++)
        for (int64_t k = 0; k < zn_shape_count(in[i]->shape); k++)
            in[i]->data[k] = mean[i] + deviation[i] * zn_rng_normal(&rng);
}

static zn_status build(const job *j, zn_graph *g, zn_node *in[SOURCES + 1], zn_node *outputs[SOURCES + 1])
{
    const int64_t n = j->sequences, l = j->length, c = j->channels, s = j->states;
    const zn_shape shapes[] = {
        ZN_SHAPE(n, 1, l, c), ZN_SHAPE(n, 1, l, c), ZN_SHAPE(n, 1, l, s), ZN_SHAPE(n, 1, l, s),
        ZN_SHAPE(c, s),       ZN_SHAPE(c),          ZN_SHAPE(c),          ZN_SHAPE(n, 1, l, c)
    };
    static const char *const names[] = { "u", "dt", "b", "c", "a_log", "d", "bias", "dy" };
    for (int i = 0; i <= SOURCES; i++)
        in[i] = zn_graph_input(g, names[i], shapes[i]);
    outputs[0] = zn_scan(&(zn_scan_sources){ in[0], in[1], in[2], in[3], in[4], in[5], in[6], NULL });
    ZN_TRY(zn_graph_status(g));
    return zn_graph_differentiate(g, outputs[0], in[SOURCES], in, SOURCES, outputs + 1);
}

static zn_status run(const job *j)
{
    zn_pool *pool = NULL;
    zn_device *device = NULL;
    zn_exec *exec = NULL;
    zn_graph *graph = zn_graph_new();
    zn_node *in[SOURCES + 1], *outputs[SOURCES + 1];
    zn_status status = graph ? ZN_OK : ZN_FAIL(ZN_ENOMEM, "out of memory");
    if (!graph)
        goto done;
    ZN_TRY_DONE(zn_pool_new(0, &pool));
    ZN_TRY_DONE(zn_device_open(j->device, &device));
    ZN_TRY_DONE(build(j, graph, in, outputs));
    const zn_exec_options options = {
        .pool = pool, .device = device, .whole = true, .training = true, .resident = true, .profile = true
    };
    ZN_TRY_DONE(zn_exec_new(graph, outputs, SOURCES + 1, &options, &exec));
    fill(in);
    status = measure(j, exec);
done:
    if (status != ZN_OK)
        fprintf(stderr, "scan-times: %s\n", zn_error_text());
    zn_exec_free(exec);
    zn_graph_free(graph);
    zn_device_close(device);
    zn_pool_free(pool);
    return status;
}

int main(int argc, char **argv)
{
    if (argc < 6) {
        fprintf(stderr, "usage: scan-times SEQUENCES LENGTH CHANNELS STATES RUNS [cuda]\n");
        return 2;
    }
    const job j = { .sequences = atoi(argv[1]),
                    .length = atoi(argv[2]),
                    .channels = atoi(argv[3]),
                    .states = atoi(argv[4]),
                    .runs = atoi(argv[5]),
                    .device = argc > 6 ? argv[6] : NULL };
    if (j.sequences < 1 || j.length < 1 || j.channels < 1 || j.states < 1 || j.runs < 1 || j.runs > 100000) {
        fprintf(stderr, "scan-times: a size or number of runs is out of range\n");
        return 2;
    }
    return run(&j) == ZN_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
