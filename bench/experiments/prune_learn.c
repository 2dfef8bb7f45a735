/* Trains a hierarchical autoencoder whose gates learn to prune: straight-through masks with a penalty on their mean,
 * on pictures of wavelets. The training part of bench/experiments/sparsity.
 *
 *     prune-learn BASE SIDE STEPS PENALTY GATE_W SEED THREADS
 *
 * GATE_W: where the gates' scales start. Prints a line of JSON every so often: mean square error on held-out pictures
 * with hard masks, and for each gate the share of (pixel, block) pairs that is pruned, of pixels that are pruned whole,
 * and of blocks that are pruned in every pixel. */
#include "base/alloc.h"
#include "base/rng.h"
#include "graph/exec.h"
#include "models/model.h"
#include "models/zenith/zenith.h"
#include "train/data/wavelet.h"
#include "train/optimiser/optim.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zenith/zenith.h>

enum { BATCH = 4, TEST = 32, MAX = 128 };
static const float rate = 1e-3f;

typedef struct job {
    int base, side, steps, threads;
    float penalty, gate_w;
    uint64_t seed;
} job;

typedef struct net {
    zn_graph *graph;
    zn_exec *exec;
    zn_node *x, *loss, *mse, *mask[2];
} net;

static void draw(zn_rng *rng, int side, int count, float *images)
{
    for (int i = 0; i < count; i++) {
        zn_wavelet w[ZN_WAVELET_MAX];
        zn_wavelet_image(w, zn_wavelet_draw(rng, side, side, w), side, side, 3, images + (int64_t)i * side * side * 3);
    }
}

static zn_status net_new(const zn_model *m, const job *j, zn_pool *pool, bool train, net *n, zn_node **wrt,
                         zn_node **gradients)
{
    *n = (net){ .graph = zn_graph_new() };
    if (!n->graph)
        return ZN_ENOMEM;
    const zn_arch *a = m->arch;
    zn_prune_run run = { .mode = train ? ZN_PRUNE_STE : ZN_PRUNE_HARD };
    n->x = zn_graph_input(n->graph, "image", ZN_SHAPE(BATCH, j->side, j->side, 3));
    zn_node *z = zn_prune_encode((zn_scope){ n->graph, a->scope[0] }, n->x, &m->config, &run);
    zn_node *y = a->decode((zn_scope){ n->graph, a->scope[1] }, z, &m->config);
    n->mse = n->loss = zn_mean_square_error(y, n->x);
    for (int i = 0; i < 2; i++) {
        n->mask[i] = run.mask[i];
        n->loss = zn_add(n->loss, zn_scale(zn_mean(run.mask[i]), j->penalty));
    }
    zn_model_bind(m, n->graph, "");
    zn_status status = zn_graph_status(n->graph);
    zn_node *outputs[MAX + 4] = { n->loss, n->mse, n->mask[0], n->mask[1] };
    int count = 4;
    for (int i = 0; i < m->count && train && status == ZN_OK; i++)
        wrt[i] = zn_graph_parameter(n->graph, m->parameters[i].name, m->parameters[i].shape, m->parameters[i].layout);
    if (train && status == ZN_OK)
        status = zn_graph_differentiate(n->graph, n->loss, NULL, wrt, m->count, gradients);
    for (int i = 0; i < m->count && train && status == ZN_OK; i++)
        outputs[count++] = gradients[i];
    if (status == ZN_OK)
        status = zn_exec_new(n->graph, outputs, count, &(zn_exec_options){ .pool = pool, .training = true }, &n->exec);
    return status;
}

static void net_free(net *n)
{
    zn_exec_free(n->exec);
    zn_graph_free(n->graph);
}

/* Shares of pairs, of pixels and of blocks that are pruned; sums over batches. */
static void look(const zn_node *mask, double share[3])
{
    const int64_t all = zn_shape_count(mask->shape), blocks = mask->shape.dim[3], pixels = all / blocks;
    int64_t pairs = 0, whole = 0, dead = 0;
    for (int64_t p = 0; p < pixels; p++) {
        int64_t open = 0;
        for (int64_t b = 0; b < blocks; b++)
            open += mask->data[p * blocks + b] != 0;
        pairs += blocks - open;
        whole += open == 0;
    }
    for (int64_t b = 0; b < blocks; b++) {
        bool open = false;
        for (int64_t p = 0; p < pixels; p++)
            open |= mask->data[p * blocks + b] != 0;
        dead += !open;
    }
    share[0] += (double)pairs / (double)all;
    share[1] += (double)whole / (double)pixels;
    share[2] += (double)dead / (double)blocks;
}

static zn_status report(net *test, const float *pictures, const job *j, int step)
{
    const int64_t size = (int64_t)BATCH * j->side * j->side * 3;
    const double batches = (double)TEST / BATCH;
    double mse = 0, share[2][3] = { { 0 } };
    for (int i = 0; i < TEST / BATCH; i++) {
        memcpy(test->x->data, pictures + i * size, sizeof(float) * (size_t)size);
        const zn_status status = zn_exec_run(test->exec);
        if (status != ZN_OK)
            return status;
        mse += (double)test->mse->data[0];
        for (int k = 0; k < 2; k++)
            look(test->mask[k], share[k]);
    }
    printf("{\"step\": %d, \"mse\": %.5f", step, mse / batches);
    for (int k = 0; k < 2; k++)
        printf(", \"gate%d\": [%.4f, %.4f, %.4f]", k + 1, share[k][0] / batches, share[k][1] / batches,
               share[k][2] / batches);
    printf("}\n");
    fflush(stdout);
    return ZN_OK;
}

/* Warm-up over the first twentieth, then a cosine to 2 %. */
static float rate_at(int step, int steps)
{
    const double warm = steps / 20.0, t = (step - warm) / (steps - warm);
    return rate * (float)(step < warm ? (step + 1) / warm : 0.02 + 0.98 * 0.5 * (1 + cos(3.14159265358979 * t)));
}

static zn_status train(zn_model *m, const job *j, zn_pool *pool, net *n, net *test, zn_node **wrt, zn_node **gradients,
                       float *pictures)
{
    zn_optim o;
    float *values[MAX];
    int64_t counts[MAX];
    zn_status status = zn_optim_new(&o, m->info.parameters, &(zn_optim_options){ .kind = ZN_ADAM, .lr = rate });
    zn_rng rng = zn_rng_new(j->seed + 1000), held = zn_rng_new(99);
    draw(&held, j->side, TEST, pictures);
    for (int i = 0; i < m->count; i++) {
        values[i] = gradients[i]->data;
        counts[i] = zn_shape_count(wrt[i]->shape);
    }
    for (int step = 0; step <= j->steps && status == ZN_OK; step++) {
        if (step % (j->steps / 8) == 0)
            status = report(test, pictures, j, step);
        draw(&rng, j->side, BATCH, n->x->data);
        if (status == ZN_OK && step < j->steps)
            status = zn_exec_run(n->exec);
        zn_clip_norm(values, counts, m->count, 1);
        zn_optim_begin(&o, rate_at(step, j->steps));
        for (int i = 0; i < m->count && status == ZN_OK && step < j->steps; i++) {
            /* a scale starts at 1 / channels: steps of the common size would be larger than it; the scores of gates
             * are sums of eight values and have far to go */
            const bool scale = strstr(m->parameters[i].name, ".scale"), gate = strstr(m->parameters[i].name, "gate");
            const zn_optim_tensor special = { .lr_factor = scale ? 1 / (float)counts[i] : gate ? 30 : 1 };
            zn_optim_update(&o, pool, wrt[i]->data, values[i], counts[i], &special);
        }
    }
    zn_optim_free(&o);
    return status;
}

static zn_status run(const job *j)
{
    zn_pool *pool = NULL;
    zn_model *m = NULL;
    net n = { 0 }, test = { 0 };
    zn_node *wrt[MAX], *gradients[MAX];
    float *pictures = zn_calloc((size_t)TEST * (size_t)j->side * (size_t)j->side * 3, sizeof *pictures);
    zn_status status = pictures ? zn_pool_new(j->threads, &pool) : ZN_ENOMEM;
    if (status == ZN_OK)
        status = zn_model_random(j->base == 32 ? "zenith-hier-32" : "zenith-hier", j->seed, &m);
    for (int i = 0; status == ZN_OK && i < m->count; i++) {
        const char *name = m->parameters[i].name;
        const bool score = strcmp(name, "gate1.w") == 0 || strcmp(name, "gate2.w") == 0;
        for (int64_t k = 0; k < zn_shape_count(m->parameters[i].shape) && score; k++)
            m->parameters[i].data[k] = j->gate_w;
    }
    if (status == ZN_OK && m->count > MAX)
        status = ZN_EINVALID;
    if (status == ZN_OK)
        status = net_new(m, j, pool, true, &n, wrt, gradients);
    if (status == ZN_OK)
        status = net_new(m, j, pool, false, &test, NULL, NULL);
    if (status == ZN_OK)
        status = train(m, j, pool, &n, &test, wrt, gradients, pictures);
    if (status != ZN_OK)
        fprintf(stderr, "prune-learn: %s\n", zn_error_text());
    net_free(&n);
    net_free(&test);
    zn_model_free(m);
    zn_pool_free(pool);
    zn_free(pictures);
    return status;
}

int main(int argc, char **argv)
{
    if (argc != 8) {
        fprintf(stderr, "usage: prune-learn BASE SIDE STEPS PENALTY GATE_W SEED THREADS\n");
        return 2;
    }
    const job j = { .base = atoi(argv[1]),
                    .side = atoi(argv[2]),
                    .steps = atoi(argv[3]),
                    .penalty = (float)atof(argv[4]),
                    .gate_w = (float)atof(argv[5]),
                    .seed = (uint64_t)atoll(argv[6]),
                    .threads = atoi(argv[7]) };
    if ((j.base != 16 && j.base != 32) || j.side < 32 || j.side % 32 || j.side > 512 || j.steps < 8) {
        fprintf(stderr, "prune-learn: base 16 or 32, a side that is a multiple of 32, eight steps or more\n");
        return 2;
    }
    return run(&j) == ZN_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
