/* Times the forward and backward pass of a model of the Prune family. Our side of bench/experiments/speed128.
 *
 *     prune-run MODEL SIZE THREADS WARM_UPS RUNS [FOLDER | profile]
 *
 * MODEL is the name of an architecture, whose weights are random. The input is normal noise, gates are hard, the
 * gradient of the result is all ones, and gradients of all parameters are computed. Prints a JSON object with the times
 * of each run, operations and bytes. With a FOLDER it leaves there, as 32-bit floats, input.f32, output.f32, and
 * w.NAME.f32 and g.NAME.f32 for each parameter and its gradient, so that others can compute the same. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/rng.h"
#include "graph/exec.h"
#include "models/model.h"
#include "ops/ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <zenith/zenith.h>

typedef struct job {
    const char *model, *folder;
    int size, threads, warm_ups, runs;
    bool profile;
} job;

/* A model as one graph, with gradients of everything if wanted. */
typedef struct setup {
    zn_graph *graph;
    zn_exec *exec;
    zn_node *x, *y, *seed;
    zn_node **outputs; /* y, then gradients by parameter */
    int count;
} setup;

static void setup_free(setup *s)
{
    zn_exec_free(s->exec);
    zn_graph_free(s->graph);
    zn_free(s->outputs);
}

static zn_status setup_new(const zn_model *m, const job *j, zn_pool *pool, bool backward, setup *s)
{
    const zn_arch *a = m->arch;
    *s = (setup){ .graph = zn_graph_new(), .outputs = zn_calloc((size_t)m->count + 1, sizeof *s->outputs) };
    zn_node **wrt = zn_calloc((size_t)m->count + 1, sizeof *wrt);
    zn_status status = ZN_ENOMEM;
    if (!s->graph || !s->outputs || !wrt)
        goto done;
    s->x = zn_graph_input(s->graph, "image", ZN_SHAPE(1, j->size, j->size, 3));
    zn_node *z = a->encode((zn_scope){ s->graph, a->scope[ZN_ENCODER] }, s->x, &m->config);
    s->y = a->decode((zn_scope){ s->graph, a->scope[ZN_DECODER] }, z, &m->config);
    s->outputs[0] = s->y;
    s->count = 1;
    status = zn_graph_status(s->graph);
    zn_model_bind(m, s->graph, "");
    if (status == ZN_OK && backward) {
        s->seed = zn_graph_input(s->graph, "seed", s->y->shape);
        for (int i = 0; i < m->count; i++)
            wrt[i] =
                zn_graph_parameter(s->graph, m->parameters[i].name, m->parameters[i].shape, m->parameters[i].layout);
        status = zn_graph_differentiate(s->graph, s->y, s->seed, wrt, m->count, s->outputs + 1);
        for (int i = 0; i < m->count; i++) /* those of gates that cannot learn are not there */
            if (s->outputs[1 + i])
                s->outputs[s->count++] = s->outputs[1 + i];
    }
    if (status == ZN_OK) {
        zn_graph_fuse(s->graph, s->outputs, s->count);
        const zn_exec_options o = { .pool = pool, .training = backward, .profile = true };
        status = zn_exec_new(s->graph, s->outputs, s->count, &o, &s->exec);
    }
    if (status == ZN_OK) {
        zn_rng rng = zn_rng_new(1);
        for (int64_t i = 0; i < zn_shape_count(s->x->shape); i++)
            s->x->data[i] = zn_rng_normal(&rng);
        for (int64_t i = 0; backward && i < zn_shape_count(s->y->shape); i++)
            s->seed->data[i] = 1;
    }
done:
    zn_free(wrt);
    return status;
}

/* Times of the nodes before and after the result. */
static void split(const setup *s, double *forward, double *backward)
{
    *forward = *backward = 0;
    for (int i = 0; i < zn_exec_rows(s->exec); i++) {
        const zn_exec_row row = zn_exec_row_at(s->exec, i);
        *(row.node->index <= s->y->index ? forward : backward) += row.ms;
    }
}

static void print_profile(const setup *s)
{
    for (int i = 0; i < zn_exec_rows(s->exec); i++) {
        const zn_exec_row row = zn_exec_row_at(s->exec, i);
        char text[96];
        printf("%-10s %-24s %-22s %-16s %9.4f ms %8.2f GFLOP/s %8.2f GB/s\n", row.node->name, row.node->op->name,
               row.kernel, zn_shape_text(row.node->shape, text, sizeof text), row.ms, row.flops / row.ms * 1e-6,
               row.bytes / row.ms * 1e-6);
    }
}

static bool write_floats(const char *folder, const char *name, const zn_node *n)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s.f32", folder, name);
    FILE *f = fopen(path, "wb");
    const size_t count = (size_t)zn_shape_count(n->shape);
    const bool whole = f && fwrite(n->data, sizeof(float), count, f) == count;
    return f && !fclose(f) && whole;
}

static zn_status leave(const zn_model *m, const setup *s, const char *folder)
{
    bool whole = write_floats(folder, "input", s->x) && write_floats(folder, "output", s->y);
    for (int i = 0; i < m->count && whole; i++) {
        zn_node *p =
            zn_graph_parameter(s->graph, m->parameters[i].name, m->parameters[i].shape, m->parameters[i].layout);
        char name[300];
        snprintf(name, sizeof name, "w.%s", p->name);
        whole = write_floats(folder, name, p);
        snprintf(name, sizeof name, "g.%s", p->name);
        if (whole && p->gradient && p->gradient->data)
            whole = write_floats(folder, name, p->gradient);
    }
    return whole ? ZN_OK : ZN_EIO;
}

static void print_list(const char *name, const double *ms, int count)
{
    printf("\"%s\": [", name);
    for (int i = 0; i < count; i++)
        printf("%s%.4f", i ? ", " : "", ms[i]);
    printf("], ");
}

static double total(const setup *s, bool bytes)
{
    double sum = 0;
    for (int i = 0; i < zn_exec_rows(s->exec); i++) {
        const zn_exec_row row = zn_exec_row_at(s->exec, i);
        sum += bytes ? row.bytes : row.flops;
    }
    return sum;
}

static zn_status measure(const zn_model *m, const job *j, zn_pool *pool)
{
    setup alone = { 0 }, both = { 0 };
    double *ms = zn_calloc(3 * (size_t)j->runs + 1, sizeof *ms);
    zn_status status = ms ? setup_new(m, j, pool, false, &alone) : ZN_ENOMEM;
    for (int i = -j->warm_ups; i < j->runs && status == ZN_OK; i++) {
        const double start = zn_clock_ms();
        status = zn_exec_run(alone.exec);
        if (i >= 0)
            ms[i] = zn_clock_ms() - start;
    }
    if (status == ZN_OK)
        status = setup_new(m, j, pool, true, &both);
    for (int i = -j->warm_ups; i < j->runs && status == ZN_OK; i++) {
        status = zn_exec_run(both.exec);
        if (i >= 0)
            split(&both, ms + j->runs + i, ms + 2 * j->runs + i);
    }
    if (status == ZN_OK && j->folder)
        status = leave(m, &both, j->folder);
    if (status == ZN_OK && j->profile) {
        print_profile(&alone);
        print_profile(&both);
    }
    if (status == ZN_OK) {
        struct rusage usage;
        getrusage(RUSAGE_SELF, &usage);
        zn_machine machine;
        status = zn_machine_measure(zn_pool_threads(pool), ZN_PRECISION_F32, &machine);
        printf("{\"model\": \"%s\", \"parameters\": %lld, ", m->info.architecture, (long long)m->info.parameters);
        print_list("inference_ms", ms, j->runs);
        print_list("forward_ms", ms + j->runs, j->runs);
        print_list("backward_ms", ms + 2 * j->runs, j->runs);
        printf("\"flops\": %.0f, \"bytes\": %.0f, \"all_flops\": %.0f, \"all_bytes\": %.0f, \"rss_mb\": %.0f, "
               "\"peak_gflops\": %.1f, \"bandwidth_gbs\": %.1f}\n",
               total(&alone, false), total(&alone, true), total(&both, false), total(&both, true),
               (double)usage.ru_maxrss / 1024, machine.peak_gflops, machine.bandwidth_gbs);
    }
    setup_free(&alone);
    setup_free(&both);
    zn_free(ms);
    return status;
}

int main(int argc, char **argv)
{
    if (argc < 6 || argc > 7) {
        fprintf(stderr, "usage: prune-run MODEL SIZE THREADS WARM_UPS RUNS [FOLDER | profile]\n");
        return 2;
    }
    job j = { .model = argv[1],
              .size = atoi(argv[2]),
              .threads = atoi(argv[3]),
              .warm_ups = atoi(argv[4]),
              .runs = atoi(argv[5]) };
    j.profile = argc > 6 && strcmp(argv[6], "profile") == 0;
    j.folder = argc > 6 && !j.profile ? argv[6] : NULL;
    if (j.size < 32 || j.size > 4096 || j.warm_ups < 0 || j.warm_ups > 1000 || j.runs < 1 || j.runs > 10000) {
        fprintf(stderr, "prune-run: a size or number of runs is out of range\n");
        return 2;
    }
    zn_pool *pool = NULL;
    zn_model *model = NULL;
    zn_status status = zn_pool_new(j.threads, &pool);
    if (status == ZN_OK)
        status = zn_model_random(j.model, 1, &model);
    if (status == ZN_OK)
        status = measure(model, &j, pool);
    if (status != ZN_OK)
        fprintf(stderr, "prune-run: %s\n", zn_error_text());
    zn_model_free(model);
    zn_pool_free(pool);
    return status == ZN_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
