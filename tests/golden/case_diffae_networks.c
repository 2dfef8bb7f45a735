/* DiffAE's networks: encoder and U-Net with traces, samplers, a training step; the latent net likewise (specification
 * A3 to A10). */
#include "network.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "models/diffae.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const zn_json_node *section(const golden *g)
{
    const char *name = zn_weights_metadata(g->file, "case");
    const zn_json_node *own = zn_json_get(g->config, name ? name : "");
    return own ? own : g->config;
}

static int number(const zn_json_node *k, const char *key, int fallback)
{
    int64_t value;
    return zn_json_i64(zn_json_get(k, key), &value) ? (int)value : fallback;
}

static zn_unet walk_of(const zn_json_node *k, const char *mult, const char *blocks, int out)
{
    zn_unet u = { .width = number(k, "model_channels", 0),
                  .blocks = number(k, blocks, 0),
                  .heads = number(k, "num_heads", 1),
                  .out = out };
    ZN_JSON_EACH(m, zn_json_get(k, mult))
    {
        int64_t value = 0;
        if (u.levels < ZN_UNET_LEVELS && zn_json_i64(m, &value))
            u.mult[u.levels++] = (int)value;
    }
    ZN_JSON_EACH(r, zn_json_get(k, "attention_resolutions"))
    {
        int64_t value = 0;
        for (int level = 0; zn_json_i64(r, &value) && level < u.levels; level++)
            u.attention[level] |= number(k, "image_size", 0) >> level == value;
    }
    return u;
}

static void unet_of(const golden *g, zn_unet *encoder, zn_unet *unet, int *embed)
{
    const zn_json_node *k = section(g);
    *embed = number(k, "embed_channels", 0);
    *encoder = walk_of(k, "enc_channel_mult", "enc_num_res_block", number(k, "enc_out_channels", 0));
    *unet = walk_of(k, "channel_mult", "num_res_blocks", 3);
}

/* out.trace.NAME is mean, deviation and the first eight values of a block's result: of the last sum or product that
 * bears its name. */
static zn_status check_trace(golden *g, zn_graph *graph, const char *name)
{
    const size_t length = strlen(name + 6);
    const zn_node *last = NULL;
    for (int i = 0; i < zn_graph_count(graph); i++) {
        const zn_node *n = zn_graph_at(graph, i);
        const bool ends = n->op == &zn_op_add || n->op == &zn_op_conv || n->op == &zn_op_dense;
        if (ends && strncmp(n->name, name + 6, length) == 0 && n->name[length] == '.')
            last = n;
    }
    if (!last || !last->data)
        return ZN_OK;
    const zn_shape s = last->shape;
    const int64_t count = zn_shape_count(s), pixels = s.dim[1] * s.dim[2], c = s.dim[3];
    double sum = 0, square = 0;
    float row[10];
    for (int64_t i = 0; i < count; i++)
        sum += (double)last->data[i];
    for (int64_t i = 0; i < count; i++)
        square += ((double)last->data[i] - sum / (double)count) * ((double)last->data[i] - sum / (double)count);
    row[0] = (float)(sum / (double)count);
    row[1] = (float)sqrt(square / (double)count);
    for (int64_t i = 0; i < 8; i++) /* in the file's order, channels first; rows of samples are [1,1,N,C] */
        row[2 + i] = pixels > 1 && s.dim[0] > 1 ? last->data[i % pixels * c + i / pixels] : last->data[i];
    return golden_compare(g, name, row, ZN_SHAPE(10), GOLDEN_MAP, GOLDEN_FORWARD);
}

static zn_status unet_new(golden *g, zn_shape shape, bool traced, network *n)
{
    zn_unet encoder, unet;
    int embed;
    unet_of(g, &encoder, &unet, &embed);
    *n = (network){ .g = g, .graph = zn_graph_new(), .samples = shape.dim[0], .width = unet.width };
    n->x = zn_graph_input(n->graph, "x", shape);
    n->time = zn_graph_input(n->graph, "time", ZN_SHAPE(1, 1, n->samples, n->width));
    n->cond = zn_graph_input(n->graph, "cond", ZN_SHAPE(1, 1, n->samples, encoder.out));
    n->y = zn_diffae_unet((zn_scope){ n->graph, "" }, n->x, n->time, n->cond, embed, &unet);
    ZN_TRY(network_bind(g, n->graph, "w."));
    return network_start(n, traced);
}

static zn_status check_traces(golden *g, zn_graph *graph, bool of_encoder)
{
    for (int64_t i = 0; i < zn_weights_count(g->file); i++) {
        const char *name = zn_weights_at(g->file, i)->name;
        if (strncmp(name, "out.trace.", 10) == 0 && (strncmp(name + 10, "encoder.", 8) == 0) == of_encoder)
            ZN_TRY(check_trace(g, graph, name + 4));
    }
    return ZN_OK;
}

static zn_status encoder_run(golden *g, float **cond, zn_shape *shape)
{
    zn_unet encoder, unet;
    int embed;
    float *image = NULL;
    network n = { .g = g, .graph = zn_graph_new() };
    zn_status status;
    unet_of(g, &encoder, &unet, &embed);
    ZN_TRY_DONE(golden_load(g, "in.", "image", shape, &image));
    n.x = zn_graph_input(n.graph, "image", *shape);
    n.y = zn_diffae_encoder((zn_scope){ n.graph, "encoder" }, n.x, &encoder);
    ZN_TRY_DONE(network_bind(g, n.graph, "w."));
    ZN_TRY_DONE(network_start(&n, true));
    memcpy(n.x->data, image, sizeof(float) * (size_t)zn_shape_count(*shape));
    ZN_TRY_DONE(zn_exec_run(n.exec));
    const size_t bytes = sizeof(float) * (size_t)zn_shape_count(n.y->shape);
    ZN_TRY_DONE(zn_alloc_for("a condition", bytes, (void **)cond));
    memcpy(*cond, n.y->data, bytes);
    ZN_TRY_DONE(golden_compare(g, "cond", *cond, ZN_SHAPE(shape->dim[0], encoder.out), GOLDEN_MAP, GOLDEN_FORWARD));
    status = check_traces(g, n.graph, true);
done:
    zn_free(image);
    network_free(&n);
    return status;
}

/* Results of all conditional layers, in the order of the blocks, for each sample. */
static zn_status check_style(golden *g, zn_graph *graph, int64_t samples)
{
    const zn_weight *w = golden_find(g, "out.", "stylespace");
    if (!w)
        return ZN_OK;
    float *style;
    ZN_TRY(zn_alloc_for("a style", sizeof(float) * (size_t)(w->shape[0] * w->shape[1]), (void **)&style));
    int64_t at = 0;
    for (int i = 0; i < zn_graph_count(graph); i++) {
        const zn_node *n = zn_graph_at(graph, i);
        const char *end = n->name ? strstr(n->name, "cond_emb_layers.1") : NULL;
        if (n->op->is_leaf || !end || end[17] || at + n->shape.dim[3] > w->shape[1] ||
            (n->op != &zn_op_conv && n->op != &zn_op_dense))
            continue;
        for (int64_t s = 0; s < samples; s++)
            memcpy(style + s * w->shape[1] + at, n->data + s * n->shape.dim[3],
                   sizeof(float) * (size_t)n->shape.dim[3]);
        at += n->shape.dim[3];
    }
    const zn_status status =
        golden_compare(g, "stylespace", style, ZN_SHAPE(samples, w->shape[1]), GOLDEN_MAP, GOLDEN_FORWARD);
    zn_free(style);
    return status;
}

/* Traces are of the step in the middle of the configuration's list. */
static int middle_step(const golden *g)
{
    const zn_json_node *list = zn_json_get(section(g), "ts"), *at = zn_json_first(list);
    int count = 0;
    ZN_JSON_EACH(step, list)
    count++;
    for (int i = 0; i < count / 2 && at; i++)
        at = zn_json_next(list, at);
    int64_t value;
    return zn_json_i64(at, &value) ? (int)value : -1;
}

/* out.unet.tN with traces, out.unet.t_mixed. */
static zn_status check_forward(golden *g, const float *x, zn_shape shape, const float *cond)
{
    network n;
    float *t = NULL, *y = NULL;
    zn_shape ts;
    const int traced = middle_step(g);
    zn_status status = unet_new(g, shape, true, &n);
    ZN_TRY_DONE(status);
    ZN_TRY_DONE(golden_load(g, "in.", "t_mixed", &ts, &t));
    ZN_TRY_DONE(zn_alloc_for("a result", sizeof(float) * (size_t)zn_shape_count(shape), (void **)&y));
    memcpy(n.cond->data, cond, sizeof(float) * (size_t)zn_shape_count(n.cond->shape));
    for (int64_t i = 0; i < zn_weights_count(g->file); i++) {
        const char *name = zn_weights_at(g->file, i)->name;
        if (strncmp(name, "out.unet.t", 10) == 0 && name[10] != '_') {
            ZN_TRY_DONE(network_predict(&n, x, atoi(name + 10), y));
            ZN_TRY_DONE(golden_compare(g, name + 4, y, shape, GOLDEN_MAP, GOLDEN_FORWARD));
            if (atoi(name + 10) == traced)
                ZN_TRY_DONE(check_traces(g, n.graph, false));
        }
    }
    for (int64_t i = 0; i < n.samples; i++)
        zn_time_embedding((double)t[i], n.width, n.time->data + i * n.width);
    ZN_TRY_DONE(zn_exec_run(n.exec));
    ZN_TRY_DONE(golden_compare(g, "unet.t_mixed", n.y->data, shape, GOLDEN_MAP, GOLDEN_FORWARD));
    status = check_style(g, n.graph, n.samples);
done:
    zn_free(t);
    zn_free(y);
    network_free(&n);
    return status;
}

/* ---- sampling ---- */

/* Noise for each step, in the order of the steps, as [steps,N,C,H,W] in the file. */
static zn_status load_noise(const golden *g, zn_shape shape, float **out)
{
    const zn_weight *w = golden_find(g, "in.", "ddpm_noise");
    const int64_t pixels = shape.dim[1] * shape.dim[2], c = shape.dim[3], maps = w->shape[0] * shape.dim[0];
    const float *from = w->data;
    ZN_TRY(zn_alloc_for("noise", sizeof(float) * (size_t)(maps * pixels * c), (void **)out));
    for (int64_t m = 0; m < maps; m++)
        for (int64_t k = 0; k < c; k++)
            for (int64_t p = 0; p < pixels; p++)
                memcpy(*out + (m * pixels + p) * c + k, from + (m * c + k) * pixels + p, sizeof(float));
    return ZN_OK;
}

/* One walk from a copy of `start`. */
typedef struct trip {
    sampler_fn sampler;
    zn_spacing spacing;
    int steps;
    bool clamp;
    const char *begin, *last; /* names of the results, or NULL */
    bool goes_on;             /* from where the one before ended */
} trip;

/* x: room for two. */
static zn_status travel(walk *w, const trip *t, const char *betas, const float *start, float *x)
{
    zn_diffusion *schedule;
    ZN_TRY(zn_diffusion_new(betas, t->spacing, t->steps, &schedule));
    const int64_t count = zn_shape_count(w->shape);
    for (int i = 0; i < 2 && !t->goes_on; i++)
        memcpy(x + i * count, start, sizeof(float) * (size_t)count);
    w->begin = t->begin;
    w->last = t->last;
    const zn_status status = walk_run(w, t->sampler, schedule, t->clamp, x, x + count);
    zn_diffusion_free(schedule);
    return status;
}

static zn_status check_sampling(golden *g, const float *start, zn_shape shape, const float *cond)
{
    static const trip from_noise[] = {
        { zn_ddim, ZN_SPACING_DDIM, 5, true, "ddim5.clip", NULL, false },
        { zn_ddim, ZN_SPACING_DDIM, 5, false, NULL, "ddim5.noclip.final", false },
        { zn_ddim, ZN_SPACING_DDIM, 10, true, NULL, "ddim10.final", false },
        { zn_ddpm, ZN_SPACING_DDPM, 5, true, NULL, "ddpm5.final", false },
    };
    static const trip from_image[] = {
        { zn_ddim_invert, ZN_SPACING_DDIM, 5, true, "invert5", NULL, false },
        { zn_ddim, ZN_SPACING_DDIM, 5, true, NULL, "invert5.roundtrip", true },
    };
    network n = { 0 };
    const char *betas = zn_json_string(zn_json_get(g->config, "beta_schedule"));
    float *x = NULL, *image = NULL, *noise = NULL;
    zn_status status;
    if (!golden_has(g, "out.", "ddim10.final"))
        return ZN_OK;
    ZN_TRY_DONE(unet_new(g, shape, false, &n));
    memcpy(n.cond->data, cond, sizeof(float) * (size_t)zn_shape_count(n.cond->shape));
    ZN_TRY_DONE(zn_alloc_for("a sample", 2 * sizeof(float) * (size_t)zn_shape_count(shape), (void **)&x));
    ZN_TRY_DONE(golden_load(g, "in.", "image", &shape, &image));
    ZN_TRY_DONE(load_noise(g, shape, &noise));
    walk w = { .n = &n, .shape = shape, .noise = noise };
    for (size_t i = 0; i < sizeof from_noise / sizeof *from_noise; i++)
        ZN_TRY_DONE(travel(&w, &from_noise[i], betas, start, x));
    for (size_t i = 0; i < sizeof from_image / sizeof *from_image; i++)
        ZN_TRY_DONE(travel(&w, &from_image[i], betas, image, x));
done:
    zn_free(x);
    zn_free(image);
    zn_free(noise);
    network_free(&n);
    return status;
}

static zn_status check_training(golden *g)
{
    zn_unet encoder, unet;
    int embed;
    zn_shape shape;
    float *image = NULL, *noise = NULL;
    lesson l = { .g = g, .graph = zn_graph_new() };
    zn_status status;
    unet_of(g, &encoder, &unet, &embed);
    ZN_TRY_DONE(golden_load(g, "in.", "image", &shape, &image));
    ZN_TRY_DONE(golden_load(g, "in.", "train_noise", &shape, &noise));
    zn_node *x0 = lesson_input(&l, "image", shape, image), *x = lesson_input(&l, "x", shape, NULL);
    zn_node *time = lesson_input(&l, "time", ZN_SHAPE(1, 1, shape.dim[0], unet.width), NULL);
    zn_node *wanted = lesson_input(&l, "noise", shape, noise);
    ZN_TRY_DONE(noised(g, zn_json_string(zn_json_get(g->config, "beta_schedule")), image, shape, noise, unet.width,
                       x->data, time->data));
    ZN_TRY_DONE(golden_compare(g, "train.x_t", x->data, shape, GOLDEN_MAP, GOLDEN_FORWARD));
    zn_node *cond = zn_diffae_encoder((zn_scope){ l.graph, "encoder" }, x0, &encoder);
    l.loss = zn_mean_square_error(zn_diffae_unet((zn_scope){ l.graph, "" }, x, time, cond, embed, &unet), wanted);
    status = lesson_run(&l, "adam");
    l.graph = NULL;
done:
    zn_free(image);
    zn_free(noise);
    zn_graph_free(l.graph);
    return status;
}

/* The loss of each sample, from the network as it is used. */
static zn_status check_sample_losses(golden *g, const float *cond)
{
    network n = { 0 };
    zn_shape shape;
    float *image = NULL, *noise = NULL, losses[64];
    zn_status status;
    if (!golden_has(g, "out.", "train.loss_per_sample"))
        return ZN_OK;
    ZN_TRY_DONE(golden_load(g, "in.", "image", &shape, &image));
    ZN_TRY_DONE(golden_load(g, "in.", "train_noise", &shape, &noise));
    ZN_TRY_DONE(unet_new(g, shape, false, &n));
    memcpy(n.cond->data, cond, sizeof(float) * (size_t)zn_shape_count(n.cond->shape));
    ZN_TRY_DONE(noised(g, zn_json_string(zn_json_get(g->config, "beta_schedule")), image, shape, noise, n.width,
                       n.x->data, n.time->data));
    ZN_TRY_DONE(zn_exec_run(n.exec));
    const int64_t count = zn_shape_count(shape) / n.samples;
    for (int64_t i = 0; i < n.samples && i < 64; i++) {
        double sum = 0;
        for (int64_t k = i * count; k < (i + 1) * count; k++)
            sum += ((double)n.y->data[k] - (double)noise[k]) * ((double)n.y->data[k] - (double)noise[k]);
        losses[i] = (float)(sum / (double)count);
    }
    status = golden_compare(g, "train.loss_per_sample", losses, ZN_SHAPE(n.samples), GOLDEN_MAP, GOLDEN_FORWARD);
done:
    zn_free(image);
    zn_free(noise);
    network_free(&n);
    return status;
}

static bool networks_matches(const golden *g) { return golden_has(g, "w.", "input_blocks.0.0.weight"); }

static zn_status networks_run(golden *g)
{
    zn_shape shape;
    float *cond = NULL, *x = NULL;
    zn_status status;
    ZN_TRY_DONE(encoder_run(g, &cond, &shape));
    ZN_TRY_DONE(golden_load(g, "in.", "x", &shape, &x));
    ZN_TRY_DONE(check_forward(g, x, shape, cond));
    ZN_TRY_DONE(check_sampling(g, x, shape, cond));
    ZN_TRY_DONE(check_sample_losses(g, cond));
    status = golden_has(g, "out.", "train.loss") ? check_training(g) : ZN_OK;
done:
    zn_free(cond);
    zn_free(x);
    return status;
}

const golden_kind golden_diffae_networks = { "diffae networks", networks_matches, networks_run };

/* ---- latent net ---- */

static bool latent_matches(const golden *g) { return golden_has(g, "w.", "layers.0.linear_emb.weight"); }

static zn_latent_net latent_of(const golden *g, int *width)
{
    const zn_json_node *k = section(g);
    *width = number(k, "num_time_emb_channels", 64);
    return (zn_latent_net){ .channels = number(k, "num_channels", 0),
                            .hidden = number(k, "num_hid_channels", 0),
                            .layers = number(k, "num_layers", 0) };
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
