/* Wan: the small autoencoder for pictures, three steps of its training, and the pieces of a step by themselves
 * (specification 4). */
#include "clips.h"
#include "network.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "models/wan2d/wan2d.h"
#include "train/optimiser/optim.h"
#include "train/optimiser/scaler.h"

#include <stdio.h>
#include <string.h>

enum { PARAMETERS = 512, STEPS = 16 };

static bool matches(const golden *g)
{
    const char *own = zn_weights_metadata(g->file, "case");
    return own && strcmp(own, "train2d") == 0;
}

static int read_list(const golden *g, const char *key, int *out)
{
    int count = 0;
    ZN_JSON_EACH(n, zn_json_get(g->config, key))
    {
        int64_t value = 0;
        if (count < ZN_WAN2D_LEVELS && zn_json_i64(n, &value))
            out[count++] = (int)value;
    }
    return count;
}

static void form_of(const golden *g, zn_wan2d_form *k)
{
    *k = (zn_wan2d_form){ .width = (int)golden_int(g, "base", 64),
                          .middle_heads = (int)golden_int(g, "mid_heads", 1),
                          .blocks = (int)golden_int(g, "num_res_blocks", 2),
                          .groups = (int)golden_int(g, "groups", 32),
                          .latent = (int)golden_int(g, "z", 4) };
    k->levels = read_list(g, "mults", k->mult);
    read_list(g, "heads", k->heads);
}

/* The divergence as this network counts it: summed over channels. */
static zn_node *divergence(zn_node *mean, zn_node *logvar)
{
    return zn_scale(zn_kl_gaussian(mean, logvar), (float)zn_channels(mean));
}

static zn_status compare_map(golden *g, const char *name, const zn_node *n, int how)
{
    return golden_compare(g, name, n->data, n->shape, n->shape.rank == 4 ? GOLDEN_MAP : ZN_LAYOUT_PLAIN, how);
}

/* ---- a step ---- */

typedef struct training {
    golden *g;
    zn_graph *graph;
    zn_exec *exec;
    zn_optim optim;
    zn_node *x, *eps, *mean, *logvar, *z, *y;
    zn_node *losses[3]; /* all, picture, divergence */
    zn_node *wrt[PARAMETERS], *gradients[PARAMETERS];
    int count;
} training;

static void build(training *t, const zn_wan2d_form *k, zn_shape image, zn_shape latent)
{
    const zn_scope s = { t->graph, "" };
    t->x = zn_graph_input(t->graph, "x", image);
    t->eps = zn_graph_input(t->graph, "eps", latent);
    zn_node *moments = zn_wan2d_encoder(zn_at(s, "encoder"), t->x, k);
    t->mean = zn_slice_channels(moments, 0, k->latent);
    t->logvar = zn_slice_channels(moments, k->latent, k->latent);
    t->z = zn_gaussian(t->mean, t->logvar, t->eps);
    t->y = zn_wan2d_decoder(zn_at(s, "decoder"), t->z, k);
    t->losses[1] = zn_mean_square_error(t->y, t->x);
    t->losses[2] = divergence(t->mean, t->logvar);
    const float weight = (float)golden_double(t->g, "kl_weight", 0.001);
    t->losses[0] = zn_add(t->losses[1], zn_scale(t->losses[2], weight));
}

static zn_status prepare(training *t)
{
    zn_node *outputs[PARAMETERS + 7] = { t->losses[0], t->losses[1], t->losses[2], t->mean, t->logvar, t->z, t->y };
    int count = 7;
    int64_t total = 0;
    ZN_TRY(network_bind(t->g, t->graph, "w."));
    for (int i = 0; i < zn_graph_count(t->graph) && t->count < PARAMETERS; i++)
        if (zn_graph_at(t->graph, i)->op == &zn_op_parameter) {
            t->wrt[t->count++] = zn_graph_at(t->graph, i);
            total += zn_shape_count(zn_graph_at(t->graph, i)->shape);
        }
    ZN_TRY(zn_graph_differentiate(t->graph, t->losses[0], NULL, t->wrt, t->count, t->gradients));
    for (int i = 0; i < t->count; i++)
        outputs[count++] = t->gradients[i];
    zn_graph_fuse(t->graph, outputs, count);
    const float lr = (float)golden_double(t->g, "lr", 1e-4);
    ZN_TRY(zn_optim_new(&t->optim, total, &(zn_optim_options){ .kind = ZN_ADAMW, .lr = lr, .weight_decay = 0.01f }));
    return golden_exec_new(t->g, t->graph, outputs, count, &(zn_exec_options){ .training = true }, &t->exec);
}

static zn_status compare_first(training *t)
{
    char name[300];
    ZN_TRY(compare_map(t->g, "mean", t->mean, GOLDEN_FORWARD));
    ZN_TRY(compare_map(t->g, "logvar", t->logvar, GOLDEN_FORWARD));
    ZN_TRY(compare_map(t->g, "z", t->z, GOLDEN_FORWARD));
    ZN_TRY(compare_map(t->g, "recon", t->y, GOLDEN_FORWARD));
    for (int i = 0; i < t->count; i++) {
        snprintf(name, sizeof name, "grad.%s", t->wrt[i]->name);
        ZN_TRY(golden_compare(t->g, name, t->gradients[i]->data, t->wrt[i]->shape, t->wrt[i]->layout, GOLDEN_GRADIENT));
    }
    return ZN_OK;
}

/* out.losses after each step, out.final_mean after the last. */
static zn_status learn(training *t, const float *eps, int steps)
{
    const int64_t count = zn_shape_count(t->eps->shape);
    float losses[3 * STEPS];
    for (int step = 0; step <= steps; step++) {
        memcpy(t->eps->data, eps + (step < steps ? step : 0) * count, sizeof(float) * (size_t)count);
        ZN_TRY(zn_exec_run(t->exec));
        if (step == 0)
            ZN_TRY(compare_first(t));
        if (step == steps)
            break;
        for (int i = 0; i < 3; i++)
            losses[3 * step + i] = t->losses[i]->data[0];
        zn_optim_begin(&t->optim, -1);
        for (int i = 0; i < t->count; i++)
            zn_optim_update(&t->optim, t->g->pool, t->wrt[i]->data, t->gradients[i]->data,
                            zn_shape_count(t->wrt[i]->shape), NULL);
    }
    ZN_TRY(golden_compare(t->g, "losses", losses, ZN_SHAPE(steps, 3), ZN_LAYOUT_PLAIN, GOLDEN_FORWARD));
    return compare_map(t->g, "final_mean", t->mean, GOLDEN_TRAINED);
}

static zn_status check_training(golden *g)
{
    training *t = zn_calloc(1, sizeof *t);
    zn_wan2d_form k;
    zn_shape image;
    float *x = NULL;
    clip eps = { 0 };
    zn_status status = t ? ZN_OK : ZN_FAIL(ZN_ENOMEM, "out of memory for a training");
    ZN_TRY_DONE(status);
    form_of(g, &k);
    t->g = g;
    t->graph = zn_graph_new();
    ZN_TRY_DONE(golden_load(g, "in.", "x", &image, &x));
    ZN_TRY_DONE(clip_load(g, "eps", FRAMES_FIRST, &eps));
    zn_shape latent = eps.shape;
    latent.dim[0] = image.dim[0];
    const int steps = (int)(eps.shape.dim[0] / image.dim[0]);
    build(t, &k, image, latent);
    ZN_TRY_DONE(prepare(t));
    memcpy(t->x->data, x, sizeof(float) * (size_t)zn_shape_count(image));
    status = learn(t, eps.data, steps < STEPS ? steps : STEPS);
done:
    if (t) {
        zn_exec_free(t->exec);
        zn_graph_free(t->graph);
        zn_optim_free(&t->optim);
    }
    zn_free(t);
    zn_free(x);
    clip_free(&eps);
    return status;
}

/* ---- its pieces ---- */

/* out.reparam.* and out.kl.*: a sample and the divergence, with gradients, far beyond where log-variances are clamped.
 */
static zn_status check_gaussian(golden *g)
{
    static const char *const inputs[] = { "reparam.mean", "reparam.logvar", "reparam.eps", "reparam.dz" };
    static const char *const names[] = { "reparam.z",       "kl.value", "reparam.dmean",
                                         "reparam.dlogvar", "kl.dmean", "kl.dlogvar" };
    lesson l = { .g = g, .graph = zn_graph_new() };
    zn_node *in[4], *outputs[6];
    zn_status status = ZN_OK;
    for (int i = 0; i < 4; i++) {
        zn_shape shape;
        float *values;
        ZN_TRY_DONE(golden_load(g, "in.", inputs[i], &shape, &values));
        in[i] = lesson_input(&l, inputs[i], shape, values);
        zn_free(values);
    }
    outputs[0] = zn_gaussian(in[0], in[1], in[2]);
    outputs[1] = divergence(in[0], in[1]);
    ZN_TRY_DONE(zn_graph_differentiate(l.graph, outputs[0], in[3], in, 2, outputs + 2));
    ZN_TRY_DONE(zn_graph_differentiate(l.graph, outputs[1], NULL, in, 2, outputs + 4));
    ZN_TRY_DONE(golden_exec_new(g, l.graph, outputs, 6, &(zn_exec_options){ .training = true }, &l.exec));
    ZN_TRY_DONE(zn_exec_run(l.exec));
    for (int i = 0; i < 6; i++)
        ZN_TRY_DONE(compare_map(g, names[i], outputs[i], i < 2 ? GOLDEN_FORWARD : GOLDEN_GRADIENT));
done:
    zn_exec_free(l.exec);
    zn_graph_free(l.graph);
    return status;
}

/* out.adamw.p: parameters after each step with the gradients of in.adamw.g. */
static zn_status check_optimiser(golden *g)
{
    zn_shape shape, steps;
    float *p = NULL, *gradients = NULL, *after = NULL;
    zn_optim o = { 0 };
    const float lr = (float)golden_double(g, "lr", 1e-4);
    zn_status status;
    ZN_TRY_DONE(golden_load(g, "in.", "adamw.p", &shape, &p));
    ZN_TRY_DONE(golden_load(g, "in.", "adamw.g", &steps, &gradients));
    const int64_t count = shape.dim[0];
    ZN_TRY_DONE(zn_alloc_for("parameters", sizeof(float) * (size_t)zn_shape_count(steps), (void **)&after));
    ZN_TRY_DONE(zn_optim_new(&o, count, &(zn_optim_options){ .kind = ZN_ADAMW, .lr = lr, .weight_decay = 0.01f }));
    for (int64_t i = 0; i < steps.dim[0]; i++) {
        zn_optim_begin(&o, -1);
        zn_optim_update(&o, g->pool, p, gradients + i * count, count, NULL);
        memcpy(after + i * count, p, sizeof(float) * (size_t)count);
    }
    status = golden_compare(g, "adamw.p", after, steps, GOLDEN_MAP, GOLDEN_FORWARD);
done:
    zn_optim_free(&o);
    zn_free(p);
    zn_free(gradients);
    zn_free(after);
    return status;
}

/* out.scaler.scale_after: the factor after each step, doubled after three good ones. */
static zn_status check_scaler(golden *g)
{
    zn_shape shape;
    float *found;
    zn_scaler s = ZN_SCALER_START;
    s.interval = 3;
    ZN_TRY(golden_load(g, "in.", "scaler.found_inf", &shape, &found));
    for (int64_t i = 0; i < shape.dim[0]; i++) {
        zn_scaler_step(&s, found[i] == 0);
        found[i] = s.scale;
    }
    const zn_status status = golden_compare_exact(g, "scaler.scale_after", found, shape.dim[0]);
    zn_free(found);
    return status;
}

static zn_status run(golden *g)
{
    ZN_TRY(check_training(g));
    ZN_TRY(check_gaussian(g));
    ZN_TRY(check_optimiser(g));
    return check_scaler(g);
}

const golden_kind golden_wan_train = { "wan training", matches, run };
