/* TAESD cases: forward, one training step, single blocks with gradients, and real weights found by their hash. */
#include "network.h"

#include "base/alloc.h"
#include "base/fail.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

zn_node *zn_taesd_block(zn_scope s, zn_node *x, int out, bool pooled);

/* Runs one part on a map; *result is the caller's. */
static zn_status run_part(const golden *g, const zn_model *m, zn_part part, const float *x, zn_shape shape,
                          zn_shape *result_shape, float **result)
{
    zn_graph *graph;
    zn_node *input, *output;
    zn_exec *e = NULL;
    *result = NULL;
    ZN_TRY(zn_model_graph(m, part, shape, &graph, &input, &output));
    zn_graph_fuse(graph, &output, 1);
    zn_status status;
    ZN_TRY_DONE(zn_exec_new(graph, &output, 1, &(zn_exec_options){ .pool = g->pool, .device = g->device }, &e));
    memcpy(input->data, x, sizeof(float) * (size_t)zn_shape_count(shape));
    ZN_TRY_DONE(zn_exec_run(e));
    const size_t bytes = sizeof(float) * (size_t)zn_shape_count(output->shape);
    ZN_TRY_DONE(zn_alloc_for("a result", bytes, (void **)result));
    memcpy(*result, output->data, bytes);
    *result_shape = output->shape;
done:
    zn_exec_free(e);
    zn_graph_free(graph);
    return status;
}

static float scaled(float z) { return fminf(fmaxf(z / 6 + 0.5f, 0), 1); }

/* out.scaled<suffix>, and the 8-bit form under u8_name: one off is right within 1e-3 of a half. */
static zn_status compare_scaled(golden *g, const char *suffix, const char *u8_name, const float *z, zn_shape s)
{
    const int64_t count = zn_shape_count(s);
    float *values;
    char name[64];
    ZN_TRY(zn_alloc_for("a latent", 2 * sizeof(float) * (size_t)count, (void **)&values));
    float *tolerance = values + count;
    for (int64_t i = 0; i < count; i++)
        values[i] = scaled(z[i]);
    snprintf(name, sizeof name, "scaled%s", suffix);
    zn_status status = golden_compare(g, name, values, s, GOLDEN_MAP, GOLDEN_FORWARD);
    for (int64_t i = 0; i < count; i++) {
        const float v = 255 * values[i], to_half = fabsf(v - floorf(v) - 0.5f);
        tolerance[i] = to_half < 1e-3f ? 1 : 0;
        values[i] = rintf(v);
    }
    if (status == ZN_OK)
        status = golden_compare_each(g, u8_name, values, s, GOLDEN_MAP, tolerance);
    zn_free(values);
    return status;
}

/* Everything that follows from in.image<suffix>: latent, its 8-bit form, and the picture decoded again. */
static zn_status check_image(golden *g, const zn_model *m, const char *suffix)
{
    char name[64], u8[64];
    zn_shape si, sz, so;
    float *image = NULL, *z = NULL, *back = NULL;
    zn_status status;
    snprintf(name, sizeof name, "image%s", suffix);
    ZN_TRY_DONE(golden_load(g, "in.", name, &si, &image));
    ZN_TRY_DONE(run_part(g, m, ZN_ENCODER, image, si, &sz, &z));
    snprintf(name, sizeof name, "latent%s", suffix);
    ZN_TRY_DONE(golden_compare(g, name, z, sz, GOLDEN_MAP, GOLDEN_FORWARD));
    snprintf(u8, sizeof u8, suffix[0] ? "u8_%s" : "u8%s", suffix);
    ZN_TRY_DONE(compare_scaled(g, suffix, u8, z, sz));
    if (!m->info.has_decoder)
        goto done;
    ZN_TRY_DONE(run_part(g, m, ZN_DECODER, z, sz, &so, &back));
    snprintf(name, sizeof name, "decoded%s", suffix);
    ZN_TRY_DONE(golden_compare(g, name, back, so, GOLDEN_MAP, GOLDEN_FORWARD));
done:
    zn_free(image);
    zn_free(z);
    zn_free(back);
    return status;
}

/* out.<result> = decoder of a map made from tensor prefix+name; the 8-bit form is unscaled first. */
static zn_status check_decode(golden *g, const zn_model *m, const char *prefix, const char *name, const char *result)
{
    zn_shape sz, so;
    float *z = NULL, *back = NULL;
    zn_status status;
    ZN_TRY_DONE(golden_load(g, prefix, name, &sz, &z));
    if (golden_find(g, prefix, name)->dtype == ZN_U8)
        for (int64_t i = 0; i < zn_shape_count(sz); i++)
            z[i] = (z[i] / 255 - 0.5f) * 6;
    ZN_TRY_DONE(run_part(g, m, ZN_DECODER, z, sz, &so, &back));
    ZN_TRY_DONE(golden_compare(g, result, back, so, GOLDEN_MAP, GOLDEN_FORWARD));
done:
    zn_free(z);
    zn_free(back);
    return status;
}

static zn_config config_of(const golden *g)
{
    const bool deep = golden_int(g, "downscale", 8) == 32;
    const zn_config *base;
    zn_arch_find(deep ? "taesana" : "taesd", &base);
    zn_config k = *base;
    k.latent = (int)golden_int(g, "latent_channels", k.latent);
    k.pooled = golden_flag(g, "use_midblock_gn");
    return k;
}

/* ---- random weights: forward and one training step ---- */

static double number(const zn_json_node *n, double fallback)
{
    double value;
    return zn_json_double(n, &value) ? value : fallback;
}

static zn_status check_adamw(golden *g, const zn_model_parameter *p, const float *gradient)
{
    const zn_json_node *k = zn_json_get(g->config, "adamw"), *betas = zn_json_get(k, "betas");
    const zn_json_node *b1 = zn_json_first(betas), *b2 = b1 ? zn_json_next(betas, b1) : NULL;
    const zn_optim_options o = { .kind = ZN_ADAMW,
                                 .lr = (float)number(zn_json_get(k, "lr"), 1e-3),
                                 .beta1 = (float)number(b1, 0.9),
                                 .beta2 = (float)number(b2, 0.999),
                                 .eps = (float)number(zn_json_get(k, "eps"), 1e-8),
                                 .weight_decay = (float)number(zn_json_get(k, "weight_decay"), 0.01) };
    const zn_update u = { p->shape, p->layout, p->data, gradient };
    float *after;
    char name[300];
    snprintf(name, sizeof name, "train.adamw.%s", p->name);
    ZN_TRY(zn_alloc_for("a step", sizeof(float) * (size_t)zn_shape_count(p->shape), (void **)&after));
    const zn_status status = compare_update(g, name, &o, &u, after);
    zn_free(after);
    return status;
}

typedef struct training {
    zn_graph *graph;
    zn_exec *exec;
    zn_node *input, *loss;
    zn_node **wrt, **gradients; /* by parameter of the model */
} training;

static zn_status training_build(const golden *g, const zn_model *m, zn_shape shape, training *t)
{
    t->graph = zn_graph_new();
    t->wrt = zn_calloc((size_t)m->count * 3 + 2, sizeof *t->wrt);
    if (!t->graph || !t->wrt)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a training graph");
    t->gradients = t->wrt + m->count;
    t->input = zn_graph_input(t->graph, "image", shape);
    zn_node *z = m->arch->encode((zn_scope){ t->graph, "encoder" }, t->input, &m->config);
    zn_node *y = m->arch->decode((zn_scope){ t->graph, "decoder" }, z, &m->config);
    t->loss = zn_mean_square_error(y, t->input);
    ZN_TRY(zn_graph_status(t->graph));
    zn_model_bind(m, t->graph, "");
    for (int i = 0; i < m->count; i++)
        t->wrt[i] =
            zn_graph_parameter(t->graph, m->parameters[i].name, m->parameters[i].shape, m->parameters[i].layout);
    ZN_TRY(zn_graph_differentiate(t->graph, t->loss, NULL, t->wrt, m->count, t->gradients));
    zn_node **outputs = t->gradients + m->count;
    int count = 0;
    outputs[count++] = t->loss;
    for (int i = 0; i < m->count; i++)
        if (t->gradients[i])
            outputs[count++] = t->gradients[i];
    zn_graph_fuse(t->graph, outputs, count);
    return zn_exec_new(t->graph, outputs, count, &(zn_exec_options){ .pool = g->pool, .training = true }, &t->exec);
}

static zn_status check_training(golden *g, const zn_model *m)
{
    zn_shape shape;
    float *image = NULL;
    training t = { 0 };
    zn_status status;
    if (!golden_has(g, "out.", "train.loss"))
        return ZN_OK;
    if (g->device) {
        golden_skip(g, "", "training runs on the CPU");
        return ZN_OK;
    }
    ZN_TRY_DONE(golden_load(g, "in.", "image2", &shape, &image));
    ZN_TRY_DONE(training_build(g, m, shape, &t));
    memcpy(t.input->data, image, sizeof(float) * (size_t)zn_shape_count(shape));
    ZN_TRY_DONE(zn_exec_run(t.exec));
    ZN_TRY_DONE(golden_compare(g, "train.loss", t.loss->data, t.loss->shape, ZN_LAYOUT_PLAIN, GOLDEN_FORWARD));
    for (int i = 0; i < m->count; i++) {
        const zn_model_parameter *p = &m->parameters[i];
        char name[300];
        snprintf(name, sizeof name, "train.grad.%s", p->name);
        if (!t.gradients[i])
            continue;
        ZN_TRY_DONE(golden_compare(g, name, t.gradients[i]->data, p->shape, p->layout, GOLDEN_GRADIENT));
        snprintf(name, sizeof name, "train.adamw.%s", p->name);
        if (golden_has(g, "out.", name))
            ZN_TRY_DONE(check_adamw(g, p, t.gradients[i]->data));
    }
done:
    zn_free(image);
    zn_exec_free(t.exec);
    zn_free(t.wrt);
    zn_graph_free(t.graph);
    return status;
}

static bool taesd_matches(const golden *g) { return golden_has(g, "w.", "encoder.0.weight"); }

static zn_status taesd_run(golden *g)
{
    zn_model *m;
    const zn_config *preset, k = config_of(g);
    zn_status status;
    ZN_TRY(zn_model_new(zn_arch_find("taesd", &preset), &k, &m));
    ZN_TRY_DONE(zn_model_load_part(m, ZN_ENCODER, g->file, &(zn_naming){ true, "w.encoder.", 0 }));
    if (golden_has(g, "w.", "decoder.1.weight"))
        ZN_TRY_DONE(zn_model_load_part(m, ZN_DECODER, g->file, &(zn_naming){ true, "w.decoder.", 0 }));
    for (int64_t i = 0; i < zn_weights_count(g->file); i++) {
        const char *name = zn_weights_at(g->file, i)->name;
        char result[128];
        if (strncmp(name, "in.image", 8) == 0)
            ZN_TRY_DONE(check_image(g, m, name + 8));
        if (strncmp(name, "in.latent_", 10) == 0) {
            snprintf(result, sizeof result, "decoded_%s", name + 10);
            ZN_TRY_DONE(check_decode(g, m, "in.", name + 3, result));
        }
    }
    status = check_training(g, m);
done:
    zn_model_free(m);
    return status;
}

const golden_kind golden_taesd = { "taesd", taesd_matches, taesd_run };

/* ---- single blocks ---- */

static bool block_matches(const golden *g)
{
    return golden_has(g, "w.", "gn.conv.0.weight") || golden_has(g, "w.", "skip.conv.0.weight");
}

static zn_status bind_block(const golden *g, zn_graph *graph)
{
    for (int i = 0; i < zn_graph_count(graph); i++) {
        zn_node *n = zn_graph_at(graph, i);
        if (n->op != &zn_op_parameter)
            continue;
        const zn_weight *w = golden_find(g, "w.", n->name);
        if (!w)
            return ZN_FAIL(ZN_ENOTFOUND, "no tensor 'w.%s'", n->name);
        n->data = zn_arena_alloc(zn_graph_arena(graph), sizeof(float) * (size_t)zn_shape_count(n->shape));
        ZN_TRY(zn_weight_import(w, n->shape, n->layout, n->data));
    }
    return ZN_OK;
}

static zn_status check_block(golden *g, const char *prefix)
{
    enum { MAX = 64 };
    zn_graph *graph = zn_graph_new();
    zn_exec *e = NULL;
    float *x = NULL, *dy = NULL;
    zn_shape sx, sy;
    char name[300];
    zn_status status;
    snprintf(name, sizeof name, "%s.x", prefix);
    ZN_TRY_DONE(golden_load(g, "in.", name, &sx, &x));
    snprintf(name, sizeof name, "%s.dy", prefix);
    ZN_TRY_DONE(golden_load(g, "in.", name, &sy, &dy));
    snprintf(name, sizeof name, "%s.pool.0.weight", prefix);
    zn_node *input = zn_graph_input(graph, "x", sx), *seed = zn_graph_input(graph, "dy", sy);
    const zn_scope scope = { graph, prefix };
    zn_node *y = zn_taesd_block(scope, input, (int)sy.dim[3], golden_has(g, "w.", name));
    ZN_TRY_DONE(zn_graph_status(graph));
    ZN_TRY_DONE(bind_block(g, graph));
    zn_node *wrt[MAX] = { input }, *outputs[2 * MAX] = { y }, **gradients = outputs + 1;
    int count = 1;
    for (int i = 0; i < zn_graph_count(graph) && count < MAX; i++)
        if (zn_graph_at(graph, i)->op == &zn_op_parameter)
            wrt[count++] = zn_graph_at(graph, i);
    ZN_TRY_DONE(zn_graph_differentiate(graph, y, seed, wrt, count, gradients));
    zn_graph_fuse(graph, outputs, count + 1);
    ZN_TRY_DONE(zn_exec_new(graph, outputs, count + 1, &(zn_exec_options){ .pool = g->pool, .training = true }, &e));
    memcpy(input->data, x, sizeof(float) * (size_t)zn_shape_count(sx));
    memcpy(seed->data, dy, sizeof(float) * (size_t)zn_shape_count(sy));
    ZN_TRY_DONE(zn_exec_run(e));
    snprintf(name, sizeof name, "%s.y", prefix);
    ZN_TRY_DONE(golden_compare(g, name, y->data, y->shape, GOLDEN_MAP, GOLDEN_FORWARD));
    for (int i = 0; i < count; i++) {
        const bool map = i == 0;
        snprintf(name, sizeof name, "%s.grad.%s", prefix, map ? "x" : wrt[i]->name + strlen(prefix) + 1);
        ZN_TRY_DONE(golden_compare(g, name, gradients[i]->data, wrt[i]->shape, map ? GOLDEN_MAP : (int)wrt[i]->layout,
                                   GOLDEN_GRADIENT));
    }
done:
    zn_exec_free(e);
    zn_graph_free(graph);
    zn_free(x);
    zn_free(dy);
    return status;
}

static zn_status block_run(golden *g)
{
    if (golden_has(g, "in.", "gn.x"))
        ZN_TRY(check_block(g, "gn"));
    if (golden_has(g, "in.", "skip.x"))
        ZN_TRY(check_block(g, "skip"));
    return ZN_OK;
}

const golden_kind golden_taesd_block = { "taesd block", block_matches, block_run };

/* ---- real weights ---- */

static bool real_matches(const golden *g)
{
    return zn_json_get(g->config, "sha256") != NULL && golden_has(g, "in.", "image");
}

/* Loads every file the case names; *missing is the name of one that is not there. */
static zn_status load_real(const golden *g, zn_model *m, const char **missing)
{
    const zn_json_node *hashes = zn_json_get(g->config, "sha256");
    *missing = NULL;
    ZN_JSON_EACH(key, hashes)
    {
        const char *name = zn_json_string(key), *sha256 = zn_json_string(zn_json_get(hashes, name ? name : ""));
        char path[4096];
        if (!name || !sha256)
            continue;
        golden_find_file(sha256, path, sizeof path);
        if (!path[0]) {
            *missing = name;
            return ZN_OK;
        }
        zn_weights *w;
        ZN_TRY(zn_weights_open(path, &w));
        zn_config found = { 0 };
        zn_naming naming[ZN_PARTS];
        bool is_it;
        zn_status status = m->arch->recognise(w, &found, naming, &is_it);
        if (status == ZN_OK && (!is_it || found.latent != m->config.latent || found.pooled != m->config.pooled))
            status = ZN_FAIL(ZN_EFORMAT, "%s was not recognised as what the case says", path);
        for (int part = 0; part < 2 && status == ZN_OK; part++)
            if (naming[part].present)
                status = zn_model_load_part(m, (zn_part)part, w, &naming[part]);
        zn_weights_close(w);
        ZN_TRY(status);
    }
    return ZN_OK;
}

static zn_status real_run(golden *g)
{
    zn_model *m;
    const zn_config *preset, k = config_of(g);
    const char *missing;
    zn_status status;
    ZN_TRY(zn_model_new(zn_arch_find("taesd", &preset), &k, &m));
    ZN_TRY_DONE(load_real(g, m, &missing));
    if (missing) {
        char why[300];
        snprintf(why, sizeof why, "%s is not under $ZENITH_MODELS", missing);
        golden_skip(g, "", why);
        goto done;
    }
    ZN_TRY_DONE(check_image(g, m, ""));
    if (golden_has(g, "out.", "recon"))
        ZN_TRY_DONE(check_decode(g, m, "out.", "latent", "recon"));
    if (golden_has(g, "out.", "recon_u8"))
        ZN_TRY_DONE(check_decode(g, m, "out.", "u8", "recon_u8"));
done:
    zn_model_free(m);
    return status;
}

const golden_kind golden_taesd_real = { "taesd with real weights", real_matches, real_run };
