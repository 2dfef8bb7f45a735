/* The kinds of networks, and how they learn. */
#include "study.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "models/zenith/zenith.h"
#include "train/data/wavelet.h"

#include <string.h>
#include <zenith/zenith.h>

enum { BLOCKS = 3, WIDTH = 16 };
static const float drop = 0.1f;

/* ---- kinds ---- */

/* The original trains with noise in soft gates and with dropout of frequencies. What is drawn for each step is an input
 * of the graph: "noise" and "keep". The test graph has none of them. */
static zn_node *seed_encode(zn_scope s, zn_node *x, const zn_config *k, bool training)
{
    const int64_t n = x->shape.dim[0], h = x->shape.dim[1] / 32, w = x->shape.dim[2] / 32;
    zn_prune_run run = { .mode = ZN_PRUNE_SOFT, .temperature = 1, .drop = drop };
    for (int i = 0; i < 2 && training; i++)
        run.noise[i] = zn_graph_input(s.graph, "noise", ZN_SHAPE(n, h, w, 256 * k->width / ZN_GATE_BLOCK));
    for (int i = 0; i < BLOCKS && training; i++)
        run.keep[i] = zn_graph_input(s.graph, "keep", ZN_SHAPE((i ? 256 : 16) * k->width));
    return zn_prune_encode(s, x, k, &run);
}

/* Depthwise 3x3, ReLU, 1x1 in groups of `group` channels, scaled and added to x. */
static zn_node *separable(zn_scope s, zn_node *x, int group)
{
    zn_graph_name_layer(s.graph, s.prefix);
    const int c = zn_channels(x);
    zn_node *eyes = zn_plain_parameter(s, "eyes", ZN_SHAPE(c, 3, 3), ZN_ROLE_WEIGHT);
    zn_node *y = zn_depthwise(x, zn_starts(eyes, ZN_START(zn_start_eyes, 0.02f)));
    zn_node *w = zn_plain_parameter(s, "mix", ZN_SHAPE(c / group, group, group), ZN_ROLE_WEIGHT);
    y = zn_grouped_conv(zn_relu(y), w, zn_vector(s, "bias", c, ZN_ROLE_BIAS));
    zn_node *alpha = zn_starts(zn_vector(s, "alpha", c, ZN_ROLE_GATE), ZN_START(zn_start_value, 0.1f));
    return zn_add(x, zn_scale_channels(y, alpha));
}

static zn_node *skeleton(zn_scope s, zn_node *x, bool blocks)
{
    x = zn_pixel_unshuffle(zn_patch_conv(zn_at(s, "stem"), x, WIDTH, 2), 4);
    x = zn_pixel_unshuffle(blocks ? separable(zn_at(s, "block0"), x, 8) : x, 4);
    for (int i = 1; i < BLOCKS && blocks; i++)
        x = separable(zn_at(s, "block%d", i), x, 16);
    return x;
}

static zn_node *none_encode(zn_scope s, zn_node *x, const zn_config *k)
{
    (void)k;
    return skeleton(s, x, false);
}

static zn_node *depthwise_encode(zn_scope s, zn_node *x, const zn_config *k)
{
    (void)k;
    return skeleton(s, x, true);
}

/* As the original starts: its last convolution at full size. */
static zn_node *seed_decode(zn_scope s, zn_node *x, const zn_config *k)
{
    zn_node *y = zn_arch_find("zenith-srig", &(const zn_config *){ NULL })->decode(s, x, k);
    return zn_layer_starts(y, ZN_START(zn_start_he, 1), ZN_START_USUAL);
}

static const struct kind {
    const char *name, *preset;                                               /* of the family, for its configuration */
    zn_node *(*encode)(zn_scope s, zn_node *image, const zn_config *config); /* NULL: the preset's own, as below */
    zn_node *(*decode)(zn_scope s, zn_node *latent, const zn_config *config);
} kinds[] = { { "seed", "zenith-srig", NULL, seed_decode },
              { "residual", "zenith-hier-r", NULL, NULL },
              { "baseline", "zenith-baseline", NULL, NULL },
              { "none", "zenith-hier-r", none_encode, NULL },
              { "depthwise", "zenith-hier-r", depthwise_encode, NULL } };

static zn_status make_model(study *s, const char *name, zn_arch *arch)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const zn_config *config;
        if (strcmp(name, kinds[i].name))
            continue;
        *arch = *zn_arch_find(kinds[i].preset, &config);
        if (kinds[i].encode)
            arch->encode = kinds[i].encode;
        if (kinds[i].decode)
            arch->decode = kinds[i].decode;
        ZN_TRY(zn_model_new(arch, config, &s->model));
        ZN_TRY(zn_model_random_part(s->model, ZN_ENCODER, s->options.seed));
        return zn_model_random_part(s->model, ZN_DECODER, s->options.seed);
    }
    return ZN_FAIL(ZN_ENOTFOUND, "no kind of network is called '%s'", name);
}

/* ---- graphs ---- */

static void build(study *s, study_net *n, bool seed, bool training)
{
    const zn_arch *a = s->model->arch;
    const zn_shape shape = ZN_SHAPE(s->options.batch, s->options.side, s->options.side, 3);
    const zn_scope scope = { n->graph, "" };
    n->x = zn_graph_input(n->graph, "input", shape);
    n->target = zn_graph_input(n->graph, "target", shape);
    zn_node *z =
        seed ? seed_encode(scope, n->x, &s->model->config, training) : a->encode(scope, n->x, &s->model->config);
    n->y = a->decode(scope, z, &s->model->config);
    n->weight = training && s->options.weighted ? zn_graph_input(n->graph, "weight", shape) : NULL;
    n->loss = n->weight ? zn_mean_square_error(zn_multiply(n->y, n->weight), zn_multiply(n->target, n->weight))
                        : zn_mean_square_error(n->y, n->target);
    zn_model_bind(s->model, n->graph, "");
}

static void count_work(study *s)
{
    const study_net *n = &s->test;
    for (int i = 0; i < zn_graph_count(n->graph); i++) {
        const zn_node *k = zn_graph_at(n->graph, i);
        if (k == n->loss || k == n->target)
            continue;
        s->flops += k->op->flops ? k->op->flops(k) / s->options.batch : 0;
        s->bytes += 4.0 * (double)zn_shape_count(k->shape) / (k->op == &zn_op_parameter ? 1 : s->options.batch);
    }
}

static zn_status net_new(study *s, study_net *n, bool seed, bool training)
{
    const zn_model *m = s->model;
    zn_learner *l = &s->learner;
    n->graph = zn_graph_new();
    zn_node **outputs = zn_calloc(2 * (size_t)m->count + 2, sizeof *outputs), **wrt = outputs + m->count + 2;
    zn_status status = ZN_ENOMEM;
    if (!n->graph || !outputs)
        goto done;
    build(s, n, seed, training);
    ZN_TRY_DONE(zn_graph_status(n->graph));
    int count = 0;
    outputs[count++] = n->loss;
    outputs[count++] = n->y;
    for (int i = 0; i < m->count && training; i++)
        wrt[i] = zn_graph_parameter(n->graph, m->parameters[i].name, m->parameters[i].shape, m->parameters[i].layout);
    if (training)
        ZN_TRY_DONE(zn_graph_differentiate(n->graph, n->loss, NULL, wrt, m->count, l->gradients));
    for (int i = 0; i < m->count && training; i++)
        if (l->gradients[i])
            outputs[count++] = l->gradients[i];
    if (!training)
        count_work(s);
    zn_graph_fuse(n->graph, outputs, count);
    const zn_exec_options options = { .pool = s->options.pool, .training = true, .profile = training };
    status = zn_exec_new(n->graph, outputs, count, &options, &n->exec);
done:
    zn_free(outputs);
    return status;
}

zn_status study_new(const char *kind, const study_options *options, study *s)
{
    static zn_arch arch; /* models point to it; one study at a time */
    enum { MAX = 64 };
    const zn_model_parameter *list[MAX];
    *s = (study){ .options = *options, .rng = zn_rng_new(options->seed + 77), .temperature = 1 };
    ZN_TRY(make_model(s, kind, &arch));
    for (int i = 0; i < s->model->count && i < MAX; i++)
        list[i] = &s->model->parameters[i];
    const zn_optim_options adam = { .kind = options->adam_of_seed ? ZN_ADAM_SEED : ZN_ADAM };
    ZN_TRY(zn_learner_new(&s->learner, list, s->model->count,
                          &(zn_learner_options){ .optim = adam, .parts = 1, .pool = s->options.pool }));
    ZN_TRY(net_new(s, &s->train, !strcmp(kind, "seed"), true));
    return net_new(s, &s->test, !strcmp(kind, "seed"), false);
}

static void net_free(study_net *n)
{
    zn_exec_free(n->exec);
    zn_graph_free(n->graph);
}

void study_free(study *s)
{
    net_free(&s->train);
    net_free(&s->test);
    zn_learner_free(&s->learner);
    zn_model_free(s->model);
}

/* ---- steps ---- */

static void draw_inputs(study *s)
{
    for (int i = 0; i < zn_graph_count(s->train.graph); i++) {
        zn_node *n = zn_graph_at(s->train.graph, i);
        if (n->op != &zn_op_input || !n->data)
            continue;
        const bool noise = !strcmp(n->name, "noise"), keep = !strcmp(n->name, "keep");
        for (int64_t k = 0; (noise || keep) && k < zn_shape_count(n->shape); k++)
            n->data[k] = noise ? s->temperature * zn_rng_normal(&s->rng) : zn_rng_uniform(&s->rng) >= drop;
    }
}

zn_status study_step(study *s, double rate, double clip)
{
    draw_inputs(s);
    ZN_TRY(zn_exec_run(s->train.exec));
    zn_learner_gather(&s->learner, 0, 1);
    ZN_TRY(zn_learner_clip(&s->learner, clip));
    return zn_learner_update(&s->learner, &(zn_learner_step){ .lr = rate, .gate_lr = 1 });
}

zn_status study_measure_work(const study *s, study_work *work)
{
    zn_machine machine;
    ZN_TRY(zn_machine_measure(zn_pool_threads(s->options.pool), ZN_PRECISION_F32, &machine));
    *work = (study_work){ .peak_gflops = machine.peak_gflops, .bandwidth_gbs = machine.bandwidth_gbs };
    for (int i = 0; i < zn_exec_rows(s->train.exec); i++) {
        const zn_exec_row row = zn_exec_row_at(s->train.exec, i);
        work->flops += row.flops;
        work->bytes += row.bytes;
    }
    return ZN_OK;
}

zn_status study_error(study *s, const float *inputs, const float *targets, int count, double *error)
{
    const int64_t floats = zn_shape_count(s->test.x->shape);
    *error = 0;
    for (int i = 0; i < count / s->options.batch; i++) {
        memcpy(s->test.x->data, inputs + i * floats, sizeof(float) * (size_t)floats);
        memcpy(s->test.target->data, targets + i * floats, sizeof(float) * (size_t)floats);
        ZN_TRY(zn_exec_run(s->test.exec));
        *error += (double)s->test.loss->data[0] * s->options.batch / count;
    }
    return ZN_OK;
}

void study_pictures(zn_rng *rng, int side, int count, float *out)
{
    for (int i = 0; i < count; i++) {
        zn_wavelet w[ZN_WAVELET_MAX];
        zn_wavelet_image(w, zn_wavelet_draw(rng, side, side, w), side, side, 3, out + (int64_t)i * side * side * 3);
    }
}
