/* DiffAE's latent net: a forward, five steps of DDIM to conditions, a training step (specification A7, A10). */
#include "diffae_nets.h"

#include "base/alloc.h"
#include "base/fail.h"

#include <string.h>

static bool latent_matches(const golden *g) { return golden_has(g, "w.", "layers.0.linear_emb.weight"); }

static zn_latent_net latent_of(const golden *g, int *width)
{
    const zn_json_node *k = diffae_section(g);
    *width = diffae_number(k, "num_time_emb_channels", 64);
    return (zn_latent_net){ .channels = diffae_number(k, "num_channels", 0),
                            .hidden = diffae_number(k, "num_hid_channels", 0),
                            .layers = diffae_number(k, "num_layers", 0) };
}

/* out.pred at in.t, then five steps of DDIM from the same noise, and the conditions that gives. */
static zn_status check_latent(golden *g, const zn_latent_net *k, int width, zn_shape shape, float *x)
{
    network n = { .g = g, .graph = zn_graph_new(), .samples = shape.dim[0], .width = width };
    zn_diffusion *schedule = NULL;
    zn_shape s;
    float *t = NULL, *mean = NULL, *deviation = NULL, *shaken = NULL;
    const char *betas = zn_json_string(zn_json_get(g->config, "latent_beta_schedule"));
    zn_status status;
    n.x = zn_graph_input(n.graph, "z", ZN_SHAPE(1, 1, n.samples, k->channels));
    n.time = zn_graph_input(n.graph, "time", ZN_SHAPE(1, 1, n.samples, width));
    n.y = zn_diffae_latent((zn_scope){ n.graph, "" }, n.x, n.time, k);
    ZN_TRY_DONE(network_bind(g, n.graph, "w."));
    ZN_TRY_DONE(network_start(&n, false));
    ZN_TRY_DONE(golden_load(g, "in.", "t", &s, &t));
    memcpy(n.x->data, x, sizeof(float) * (size_t)zn_shape_count(shape));
    for (int64_t i = 0; i < n.samples; i++)
        zn_time_embedding((double)t[i], width, n.time->data + i * width);
    ZN_TRY_DONE(zn_exec_run(n.exec));
    ZN_TRY_DONE(golden_compare(g, "pred", n.y->data, shape, GOLDEN_MAP, GOLDEN_FORWARD));
    ZN_TRY_DONE(zn_diffusion_new(betas, ZN_SPACING_DDIM, 5, &schedule));
    walk w = { .n = &n, .begin = "ddim5", .shape = shape };
    ZN_TRY_DONE(zn_alloc_for("a sample", sizeof(float) * (size_t)zn_shape_count(shape), (void **)&shaken));
    memcpy(shaken, x, sizeof(float) * (size_t)zn_shape_count(shape));
    ZN_TRY_DONE(walk_run(&w, zn_ddim, schedule, false, x, shaken));
    ZN_TRY_DONE(golden_load(g, "in.", "conds_mean", &s, &mean));
    ZN_TRY_DONE(golden_load(g, "in.", "conds_std", &s, &deviation));
    for (int64_t i = 0; i < zn_shape_count(shape); i++)
        x[i] = x[i] * deviation[i % k->channels] + mean[i % k->channels];
    status = golden_compare(g, "ddim5.denormalized", x, shape, GOLDEN_MAP, GOLDEN_FORWARD);
done:
    zn_diffusion_free(schedule);
    zn_free(shaken);
    zn_free(t);
    zn_free(mean);
    zn_free(deviation);
    network_free(&n);
    return status;
}

static zn_status check_latent_training(golden *g, const zn_latent_net *k, int width)
{
    zn_shape shape, s;
    float *cond = NULL, *noise = NULL, *mean = NULL, *deviation = NULL;
    lesson l = { .g = g, .graph = zn_graph_new() };
    zn_status status;
    ZN_TRY_DONE(golden_load(g, "in.", "train_cond_raw", &shape, &cond));
    ZN_TRY_DONE(golden_load(g, "in.", "train_noise", &shape, &noise));
    ZN_TRY_DONE(golden_load(g, "in.", "conds_mean", &s, &mean));
    ZN_TRY_DONE(golden_load(g, "in.", "conds_std", &s, &deviation));
    for (int64_t i = 0; i < zn_shape_count(shape); i++)
        cond[i] = (cond[i] - mean[i % k->channels]) / deviation[i % k->channels];
    const zn_shape row = ZN_SHAPE(1, 1, shape.dim[0], shape.dim[1]);
    zn_node *x = lesson_input(&l, "z", row, NULL), *wanted = lesson_input(&l, "noise", row, noise);
    zn_node *time = lesson_input(&l, "time", ZN_SHAPE(1, 1, shape.dim[0], width), NULL);
    ZN_TRY_DONE(noised(g, zn_json_string(zn_json_get(g->config, "latent_beta_schedule")), cond, shape, noise, width,
                       x->data, time->data));
    ZN_TRY_DONE(golden_compare(g, "train.x_t", x->data, shape, GOLDEN_MAP, GOLDEN_FORWARD));
    l.loss = zn_mean_absolute_error(zn_diffae_latent((zn_scope){ l.graph, "" }, x, time, k), wanted);
    status = lesson_run(&l, "adamw");
    l.graph = NULL;
done:
    zn_free(cond);
    zn_free(noise);
    zn_free(mean);
    zn_free(deviation);
    zn_graph_free(l.graph);
    return status;
}

static zn_status latent_run(golden *g)
{
    int width;
    const zn_latent_net k = latent_of(g, &width);
    zn_shape shape;
    float *x;
    ZN_TRY(golden_load(g, "in.", "x", &shape, &x));
    zn_status status = check_latent(g, &k, width, shape, x);
    if (status == ZN_OK && golden_has(g, "out.", "train.loss"))
        status = check_latent_training(g, &k, width);
    zn_free(x);
    return status;
}

const golden_kind golden_diffae_latent = { "diffae latent net", latent_matches, latent_run };
