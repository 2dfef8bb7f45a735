/* DiffAE's encoder and U-Net: results with traces, and a training step (specification A3 to A6, A10). */
#include "diffae_nets.h"

#include "base/alloc.h"
#include "base/fail.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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
    diffae_unets(g, &encoder, &unet, &embed);
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
    const zn_json_node *list = zn_json_get(diffae_section(g), "ts"), *at = zn_json_first(list);
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
    zn_status status = diffae_unet_new(g, shape, true, &n);
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

static zn_status check_training(golden *g)
{
    zn_unet encoder, unet;
    int embed;
    zn_shape shape;
    float *image = NULL, *noise = NULL;
    lesson l = { .g = g, .graph = zn_graph_new() };
    zn_status status;
    diffae_unets(g, &encoder, &unet, &embed);
    ZN_TRY_DONE(golden_load(g, "in.", "image", &shape, &image));
    ZN_TRY_DONE(golden_load(g, "in.", "train_noise", &shape, &noise));
    zn_node *x0 = lesson_input(&l, "image", shape, image), *x = lesson_input(&l, "x", shape, NULL);
    zn_node *time = lesson_input(&l, "time", ZN_SHAPE(1, 1, shape.dim[0], unet.width), NULL);
    zn_node *wanted = lesson_input(&l, "noise", shape, noise);
    ZN_TRY_DONE(noised(g, zn_json_string(zn_json_get(g->config, "beta_schedule")), image, shape, noise, unet.width,
                       x->data, time->data));
    ZN_TRY_DONE(golden_compare(g, "train.x_t", x->data, shape, GOLDEN_MAP, GOLDEN_FORWARD));
    zn_node *cond = zn_diffae_encoder((zn_scope){ l.graph, "encoder" }, x0, &encoder);
    const zn_unet_facts facts = { .time = time, .cond = cond, .embed = embed };
    l.loss = zn_mean_square_error(zn_diffae_unet((zn_scope){ l.graph, "" }, x, &facts, &unet), wanted);
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
    ZN_TRY_DONE(diffae_unet_new(g, shape, false, &n));
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
    ZN_TRY_DONE(diffae_check_sampling(g, x, shape, cond));
    ZN_TRY_DONE(check_sample_losses(g, cond));
    status = golden_has(g, "out.", "train.loss") ? check_training(g) : ZN_OK;
done:
    zn_free(cond);
    zn_free(x);
    return status;
}

const golden_kind golden_diffae_networks = { "diffae networks", networks_matches, networks_run };
