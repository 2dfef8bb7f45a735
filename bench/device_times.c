/* Times one part of a model on a device, from device memory to device memory and with copies. Our side of bench/cuda.
 *
 *     device-times MODEL encode|decode SIZE BATCH f32|bf16|f16 RUNS [profile|turns]
 *
 * MODEL: an architecture, with random weights. SIZE: side of the images. Prints a JSON object: medians of milliseconds
 * without and with copies, steps, steps that the CPU ran, bytes of activations. With `profile`, prints what a run spent
 * where. With `turns`, measures once for every line on standard input, so that others can run in between; {} says that
 * it is ready. */
#include "median.h"
#include "profile.h"
#include "turns.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"
#include "graph/compute.h"
#include "graph/exec.h"
#include "models/model.h"
#include "ops/ops.h"
#include "ops/passes/pairs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WARM_UPS = 5 };

typedef struct job {
    const char *model;
    zn_part part;
    int size, batch, runs;
    zn_precision math;
    bool profile, turns;
} job;

/* copies: the inputs go to the device before each run, and the output comes back. */
static zn_status time_runs(zn_exec *e, zn_device *d, zn_node *output, int runs, bool copies, double *result)
{
    double *ms = zn_calloc((size_t)runs + 1, sizeof *ms);
    if (!ms)
        return ZN_FAIL(ZN_ENOMEM, "out of memory");
    zn_status status = ZN_OK;
    for (int i = -WARM_UPS; i < runs && status == ZN_OK; i++) {
        const double start = zn_clock_ms();
        if (copies)
            zn_exec_send(e);
        status = zn_exec_run(e);
        if (status == ZN_OK)
            status = copies ? zn_exec_fetch(e, &output, 1) : zn_device_wait(d);
        if (i >= 0)
            ms[i] = zn_clock_ms() - start;
    }
    if (status == ZN_OK)
        *result = median(ms, runs);
    zn_free(ms);
    return status;
}

static zn_status measure(const job *j, zn_exec *e, zn_device *d, zn_node *output)
{
    double alone, whole;
    ZN_TRY(time_runs(e, d, output, j->runs, false, &alone));
    if (j->profile) {
        print_profile(e);
        return ZN_OK;
    }
    ZN_TRY(time_runs(e, d, output, j->runs, true, &whole));
    const zn_exec_places places = zn_exec_count_places(e);
    printf("{\"ms\": %.4f, \"ms_with_copies\": %.4f, \"steps\": %d, \"on_host\": %d, \"activation_mb\": %.1f}\n", alone,
           whole, places.steps, places.on_host, (double)zn_exec_activation_bytes(e) / 1048576.0);
    return ZN_OK;
}

static zn_status measure_all(const job *j, zn_exec *e, zn_device *d, zn_node *output)
{
    zn_exec_send(e);
    if (!j->turns)
        return measure(j, e, d, output);
    for (int i = 0; i < WARM_UPS; i++)
        ZN_TRY(zn_exec_run(e));
    ZN_TRY(zn_device_wait(d));
    announce_turns();
    while (next_turn())
        ZN_TRY(measure(j, e, d, output));
    return ZN_OK;
}

/* The graph of the part, whatever inputs it has. */
static zn_status build(const zn_model *m, const job *j, zn_network *out)
{
    const int scale = j->part == ZN_ENCODER ? 1 : m->config.downscale;
    const int channels = j->part == ZN_ENCODER ? 3 : m->config.latent;
    *out = (zn_network){ 0 };
    return m->arch->network ? zn_model_network(m, j->part, j->batch, j->size, j->size, out)
                            : zn_model_graph(m, j->part, ZN_SHAPE(j->batch, j->size / scale, j->size / scale, channels),
                                             &out->graph, &out->input[0], &out->output);
}

static zn_status run(const job *j)
{
    zn_pool *pool = NULL;
    zn_device *device = NULL;
    zn_model *model = NULL;
    zn_network network = { 0 };
    zn_exec *exec = NULL;
    zn_status status;
    ZN_TRY_DONE(zn_pool_new(4, &pool));
    ZN_TRY_DONE(zn_device_open("cuda", &device));
    ZN_TRY_DONE(zn_model_random(j->model, 1, &model));
    ZN_TRY_DONE(build(model, j, &network));
    zn_graph_fuse(network.graph, &network.output, 1);
    zn_graph_fuse_pairs(network.graph, &network.output, 1, j->math, zn_device_flags(device));
    const zn_exec_options options = {
        .pool = pool, .device = device, .math = j->math, .whole = true, .resident = true, .profile = j->profile
    };
    ZN_TRY_DONE(zn_exec_new(network.graph, &network.output, 1, &options, &exec));
    status = measure_all(j, exec, device, network.output);
done:
    if (status != ZN_OK)
        fprintf(stderr, "device-times: %s\n", zn_error_text());
    zn_exec_free(exec);
    zn_graph_free(network.graph);
    zn_model_free(model);
    zn_device_close(device);
    zn_pool_free(pool);
    return status;
}

int main(int argc, char **argv)
{
    static const char *const names[] = { "f32", "bf16", "f16" };
    if (argc < 7) {
        fprintf(stderr, "usage: device-times MODEL encode|decode SIZE BATCH f32|bf16|f16 RUNS [profile|turns]\n");
        return 2;
    }
    job j = { .model = argv[1],
              .part = strcmp(argv[2], "encode") ? ZN_DECODER : ZN_ENCODER,
              .size = atoi(argv[3]),
              .batch = atoi(argv[4]),
              .runs = atoi(argv[6]),
              .profile = argc > 7 && !strcmp(argv[7], "profile"),
              .turns = argc > 7 && !strcmp(argv[7], "turns") };
    for (int i = 0; i < 3; i++)
        if (!strcmp(argv[5], names[i]))
            j.math = zn_precision_or_f32((zn_precision)(ZN_PRECISION_F32 + i));
    if (j.size < 8 || j.size > 16384 || j.batch < 1 || j.batch > 4096 || j.runs < 1 || j.runs > 100000) {
        fprintf(stderr, "device-times: a size, batch or number of runs is out of range\n");
        return 2;
    }
    return run(&j) == ZN_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
