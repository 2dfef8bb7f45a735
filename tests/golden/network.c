/* Networks of golden files. */
#include "network.h"

#include "base/alloc.h"
#include "base/fail.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

zn_status network_bind(const golden *g, zn_graph *graph, const char *prefix)
{
    ZN_TRY(zn_graph_status(graph));
    for (int i = 0; i < zn_graph_count(graph); i++) {
        zn_node *n = zn_graph_at(graph, i);
        if (n->op != &zn_op_parameter)
            continue;
        const zn_weight *w = golden_find(g, prefix, n->name);
        if (!w)
            return ZN_FAIL(ZN_ENOTFOUND, "no tensor '%s%s'", prefix, n->name);
        n->data = zn_arena_alloc(zn_graph_arena(graph), sizeof(float) * (size_t)zn_shape_count(n->shape));
        if (!n->data)
            return ZN_FAIL(ZN_ENOMEM, "out of memory for '%s'", n->name);
        ZN_TRY(zn_weight_import(w, n->shape, n->layout, n->data));
    }
    return ZN_OK;
}

void network_free(network *n)
{
    zn_exec_free(n->exec);
    zn_graph_free(n->graph);
}

zn_status network_predict(network *n, const float *x, int step, float *noise)
{
    memcpy(n->x->data, x, sizeof(float) * (size_t)zn_shape_count(n->x->shape));
    for (int64_t i = 0; i < n->samples; i++)
        zn_time_embedding(step, n->width, n->time->data + i * n->width);
    ZN_TRY(zn_exec_run(n->exec));
    memcpy(noise, n->y->data, sizeof(float) * (size_t)zn_shape_count(n->y->shape));
    return ZN_OK;
}

zn_status graph_start(const golden *g, zn_graph *graph, zn_node *y, bool traced, zn_exec **exec)
{
    const zn_exec_options options = { .math = g->math };
    const int count = zn_graph_count(graph);
    if (!traced) {
        zn_graph_fuse(graph, &y, 1);
        return golden_exec_new(g, graph, &y, 1, &options, exec);
    }
    zn_node **all = zn_calloc((size_t)count + 1, sizeof *all);
    int outputs = 0;
    if (!all)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a network");
    all[outputs++] = y;
    for (int i = 0; i < count; i++)
        if (!zn_graph_at(graph, i)->op->is_leaf && zn_graph_at(graph, i) != y)
            all[outputs++] = zn_graph_at(graph, i);
    const zn_status status = golden_exec_new(g, graph, all, outputs, &options, exec);
    zn_free(all);
    return status;
}

zn_status network_start(network *n, bool traced) { return graph_start(n->g, n->graph, n->y, traced, &n->exec); }

const zn_node *graph_layer(const zn_graph *graph, const char *name)
{
    for (int i = 0; i < zn_graph_count(graph); i++)
        if (strcmp(zn_graph_at(graph, i)->name, name) == 0 && !zn_graph_at(graph, i)->op->is_leaf)
            return zn_graph_at(graph, i);
    return NULL;
}

/* ---- sampling ---- */

/* How far a path of many steps may be off: 5e-4, and what becomes of rounding in the network. Random weights can make a
 * path unstable (there and back again, an error grows a thousandfold), so it is walked twice, once with every
 * prediction shaken by 1e-5, which is what kernels may differ by. */
enum { SHAKE_SEED = 5 };
#define SHAKE 1e-5f

static zn_status compare_loop(walk *w, const char *name, const float *values, const float *shaken)
{
    const int64_t count = zn_shape_count(w->shape);
    float *tolerance, largest = 1, off = 0;
    ZN_TRY(zn_alloc_for(name, sizeof(float) * (size_t)count, (void **)&tolerance));
    for (int64_t i = 0; i < count; i++) {
        largest = fmaxf(largest, fabsf(values[i]));
        off = fmaxf(off, fabsf(values[i] - shaken[i]));
    }
    for (int64_t i = 0; i < count; i++)
        tolerance[i] = 5e-4f * largest + off;
    const zn_status status = golden_compare_each(w->n->g, name, values, w->shape, GOLDEN_MAP, tolerance);
    zn_free(tolerance);
    return status;
}

static zn_status walk_predict(void *self, const float *x, int step, float *noise)
{
    walk *w = self;
    const int64_t count = zn_shape_count(w->shape);
    float largest = 0;
    ZN_TRY(network_predict(w->n, x, step, noise));
    for (int64_t i = 0; i < count; i++)
        largest = fmaxf(largest, fabsf(noise[i]));
    for (int64_t i = 0; i < count && w->shaking; i++)
        noise[i] += (zn_rng_next(&w->rng) & 1 ? SHAKE : -SHAKE) * largest;
    return ZN_OK;
}

static void walk_noise(void *self, int index, float *out)
{
    (void)index;
    walk *w = self;
    const int64_t count = zn_shape_count(w->shape);
    memcpy(out, w->noise + w->next++ * count, sizeof(float) * (size_t)count);
}

static zn_status walk_done(void *self, int done, int of, const float *x)
{
    walk *w = self;
    const int64_t count = zn_shape_count(w->shape);
    float *shaken = w->shaken + (done - 1) * count;
    char name[64];
    snprintf(name, sizeof name, "%s.step%d.sample", w->begin ? w->begin : "", done - 1);
    if (w->shaking) {
        memcpy(shaken, x, sizeof(float) * (size_t)count);
        return ZN_OK;
    }
    if (w->begin)
        ZN_TRY(compare_loop(w, name, x, shaken));
    return done == of && w->last ? compare_loop(w, w->last, x, shaken) : ZN_OK;
}

zn_status walk_run(walk *w, sampler_fn sampler, const zn_diffusion *schedule, bool clamp, float *x, float *shaken)
{
    const int64_t count = zn_shape_count(w->shape);
    const zn_sampling s = { .schedule = schedule,
                            .count = count,
                            .clamp = clamp,
                            .predict = walk_predict,
                            .noise = walk_noise,
                            .done = walk_done,
                            .self = w };
    ZN_TRY(zn_alloc_for("a path", sizeof(float) * (size_t)(count * schedule->count), (void **)&w->shaken));
    w->rng = zn_rng_new(SHAKE_SEED);
    w->shaking = true;
    w->next = 0;
    zn_status status = sampler(&s, shaken);
    w->shaking = false;
    w->next = 0;
    if (status == ZN_OK)
        status = sampler(&s, x);
    zn_free(w->shaken);
    return status;
}

/* ---- training ---- */

zn_node *lesson_input(lesson *l, const char *name, zn_shape shape, const float *values)
{
    zn_node *n = zn_graph_input(l->graph, name, shape);
    n->data = zn_arena_alloc(zn_graph_arena(l->graph), sizeof(float) * (size_t)(zn_shape_count(shape) + 1));
    if (n->data && values)
        memcpy(n->data, values, sizeof(float) * (size_t)zn_shape_count(shape));
    return n;
}

static zn_status lesson_start(lesson *l)
{
    const int nodes = zn_graph_count(l->graph);
    l->wrt = zn_calloc(3 * (size_t)nodes + 2, sizeof *l->wrt);
    if (!l->wrt)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a lesson");
    l->gradients = l->wrt + nodes;
    for (int i = 0; i < nodes; i++)
        if (zn_graph_at(l->graph, i)->op == &zn_op_parameter)
            l->wrt[l->count++] = zn_graph_at(l->graph, i);
    ZN_TRY(zn_graph_differentiate(l->graph, l->loss, NULL, l->wrt, l->count, l->gradients));
    zn_node **outputs = l->gradients + nodes;
    int count = 0;
    outputs[count++] = l->loss;
    for (int i = 0; i < l->count; i++)
        if (l->gradients[i])
            outputs[count++] = l->gradients[i];
    zn_graph_fuse(l->graph, outputs, count);
    return golden_exec_new(l->g, l->graph, outputs, count, &(zn_exec_options){ .training = true }, &l->exec);
}

zn_status compare_update(golden *g, const char *name, const zn_optim_options *o, const zn_update *u, float *after)
{
    const int64_t count = zn_shape_count(u->shape);
    zn_optim optim;
    float *tolerance = NULL, largest = 0;
    zn_status status;
    ZN_TRY(zn_optim_new(&optim, count, o));
    ZN_TRY_DONE(zn_alloc_for("a step", sizeof(float) * (size_t)count, (void **)&tolerance));
    memcpy(after, u->start, sizeof(float) * (size_t)count);
    zn_optim_begin(&optim, -1);
    zn_optim_update(&optim, g->pool, after, u->gradient, count, NULL);
    for (int64_t i = 0; i < count; i++)
        largest = fmaxf(largest, fabsf(u->gradient[i]));
    for (int64_t i = 0; i < count; i++)
        tolerance[i] = fabsf(u->gradient[i]) > 1e-3f * largest ? 1e-2f * o->lr : 2 * o->lr;
    status = golden_compare_each(g, name, after, u->shape, u->layout, tolerance);
done:
    zn_free(tolerance);
    zn_optim_free(&optim);
    return status;
}

/* One step of the optimiser and of the average, as far as out.train.FORM.NAME asks for; `form` "adam" or "adamw". */
static zn_status check_update(golden *g, const char *form, const zn_node *p, const float *gradient)
{
    char name[300], ema[300];
    const int64_t count = zn_shape_count(p->shape);
    snprintf(name, sizeof name, "train.%s.%s", form, p->name);
    snprintf(ema, sizeof ema, "train.ema.%s", p->name);
    if (!golden_has(g, "out.", name))
        return ZN_OK;
    const bool decays = strcmp(form, "adamw") == 0;
    const zn_optim_options o = { .kind = decays ? ZN_ADAMW : ZN_ADAM, .lr = 1e-4f, .weight_decay = decays ? 0.01f : 0 };
    const zn_update u = { p->shape, p->layout, p->data, gradient };
    float *w;
    ZN_TRY(zn_alloc_for("a step", sizeof(float) * (size_t)count, (void **)&w));
    zn_status status = compare_update(g, name, &o, &u, w);
    for (int64_t i = 0; i < count; i++)
        w[i] = 0.9999f * p->data[i] + 0.0001f * w[i];
    if (status == ZN_OK)
        status = golden_compare(g, ema, w, p->shape, p->layout, GOLDEN_FORWARD);
    zn_free(w);
    return status;
}

static zn_status lesson_compare(lesson *l, const char *form)
{
    golden *g = l->g;
    double square = 0;
    ZN_TRY(zn_exec_run(l->exec));
    ZN_TRY(golden_compare(g, "train.loss", l->loss->data, l->loss->shape, ZN_LAYOUT_PLAIN, GOLDEN_FORWARD));
    for (int i = 0; i < l->count; i++) {
        const zn_node *p = l->wrt[i];
        char name[300];
        if (!l->gradients[i])
            continue;
        const float *d = l->gradients[i]->data;
        for (int64_t k = 0; k < zn_shape_count(p->shape); k++)
            square += (double)d[k] * (double)d[k];
        snprintf(name, sizeof name, "train.grad.%s", p->name);
        ZN_TRY(golden_compare(g, name, d, p->shape, p->layout, GOLDEN_GRADIENT));
        ZN_TRY(check_update(g, form, p, d));
    }
    const float norm = (float)sqrt(square);
    return golden_compare(g, "train.grad_norm", &norm, ZN_SHAPE(1), GOLDEN_MAP, GOLDEN_FORWARD);
}

static void lesson_free(lesson *l)
{
    zn_exec_free(l->exec);
    zn_free(l->wrt);
    zn_graph_free(l->graph);
}

zn_status lesson_run(lesson *l, const char *form)
{
    zn_status status = zn_graph_status(l->graph);
    if (status == ZN_OK)
        status = network_bind(l->g, l->graph, "w.");
    if (status == ZN_OK)
        status = lesson_start(l);
    if (status == ZN_OK)
        status = lesson_compare(l, form);
    lesson_free(l);
    return status;
}

/* x noised to each sample's own step, and the embeddings of these steps. */
zn_status noised(const golden *g, const char *betas, const float *x, zn_shape shape, const float *noise, int width,
                 float *x_t, float *times)
{
    zn_shape ts;
    float *t;
    zn_diffusion *all;
    ZN_TRY(golden_load(g, "in.", "train_t", &ts, &t));
    const zn_status status = zn_diffusion_new(betas, ZN_SPACING_ALL, 0, &all);
    const int64_t count = zn_shape_count(shape) / ts.dim[0];
    for (int64_t i = 0; i < ts.dim[0] && status == ZN_OK; i++) {
        const float signal = (float)sqrt(all->kept[(int)t[i]]), rest = (float)sqrt(1 - all->kept[(int)t[i]]);
        for (int64_t k = i * count; k < (i + 1) * count; k++)
            x_t[k] = signal * x[k] + rest * noise[k];
        zn_time_embedding((double)t[i], width, times + i * width);
    }
    zn_free(t);
    if (status == ZN_OK)
        zn_diffusion_free(all);
    return status;
}
