#include "pipeline/bench/subject.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/rng.h"
#include "diffusion/schedule.h"
#include "graph/exec.h"
#include "models/model.h"
#include "ops/passes/pairs.h"

enum { STEP = 500 }; /* of the thousand of training: all take the same time */

struct zn_subject {
    zn_part part;
    zn_runner *runner;
    zn_network network;
    zn_exec *exec;
    zn_runner_options options;
    double flops;
    zn_runner_rows rows;
    char plan[4096];
};

static zn_status open_network(const zn_model *model, zn_subject *s)
{
    const int side = model->config.size;
    ZN_TRY(zn_model_network(model, s->part, 1, side, side, &s->network));
    s->flops = zn_graph_flops(s->network.graph, s->network.output);
    zn_graph_fuse(s->network.graph, &s->network.output, 1);
    zn_graph_fuse_pairs(s->network.graph, &s->network.output, 1, s->options.math, zn_device_flags(s->options.device));
    const zn_exec_options options = { .pool = s->options.pool,
                                      .device = s->options.device,
                                      .packs = s->options.packs,
                                      .math = s->options.math,
                                      .whole = true,
                                      .profile = s->options.profile,
                                      .progress = s->options.progress,
                                      .user = s->options.user };
    ZN_TRY(zn_exec_new(s->network.graph, &s->network.output, 1, &options, &s->exec));
    zn_exec_describe(s->exec, s->plan, sizeof s->plan);
    return ZN_OK;
}

zn_status zn_subject_new(const zn_model *model, zn_part part, zn_shape shape, const zn_runner_options *options,
                         zn_subject **out)
{
    *out = NULL;
    zn_subject *s = zn_calloc(1, sizeof *s);
    if (!s)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a benchmark");
    s->part = part;
    s->options = *options;
    const zn_status status =
        model->info.diffuses ? open_network(model, s) : zn_runner_new(model, part, shape, options, &s->runner);
    if (status != ZN_OK)
        zn_subject_free(s);
    else
        *out = s;
    return status;
}

void zn_subject_free(zn_subject *s)
{
    if (!s)
        return;
    zn_runner_free(s->runner);
    zn_exec_free(s->exec);
    zn_graph_free(s->network.graph);
    zn_free(s->rows.row);
    zn_free(s);
}

static void fill(const zn_subject *s, zn_rng *rng, zn_shape shape, float *x)
{
    const int64_t count = zn_shape_count(shape);
    for (int64_t i = 0; i < count; i++)
        x[i] = s->part == ZN_ENCODER ? zn_rng_uniform(rng) : zn_rng_normal(rng);
}

void zn_subject_fill(zn_subject *s, uint64_t seed)
{
    zn_rng rng = zn_rng_new(seed);
    if (s->runner) {
        fill(s, &rng, zn_runner_input_shape(s->runner), zn_runner_input(s->runner));
        return;
    }
    zn_node *const *input = s->network.input;
    for (int i = 0; i < ZN_NETWORK_INPUTS && input[i]; i++)
        fill(s, &rng, input[i]->shape, input[i]->data);
    if (s->part == ZN_DECODER)
        zn_time_embedding(STEP, zn_channels(input[1]), input[1]->data);
}

zn_status zn_subject_run(zn_subject *s)
{
    if (s->runner)
        return zn_runner_run(s->runner);
    ZN_TRY(zn_exec_run(s->exec));
    return s->options.profile ? zn_runner_add_rows(&s->rows, s->exec) : ZN_OK;
}

double zn_subject_flops(const zn_subject *s) { return s->runner ? zn_runner_flops(s->runner) : s->flops; }
double zn_subject_coarse(const zn_subject *s)
{
    return s->runner ? zn_runner_coarse(s->runner) : zn_exec_coarse(s->exec);
}
const char *zn_subject_plan(const zn_subject *s) { return s->runner ? zn_runner_plan(s->runner) : s->plan; }

void zn_subject_clear_rows(zn_subject *s)
{
    s->rows.count = 0;
    if (s->runner)
        zn_runner_clear_rows(s->runner);
}

const zn_runner_rows *zn_subject_profile(const zn_subject *s)
{
    return s->runner ? zn_runner_profile(s->runner) : &s->rows;
}
