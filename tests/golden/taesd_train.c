/* One training step of a TAESD: loss, gradients and updates. */
#include "network.h"
#include "taesd.h"

#include "base/alloc.h"
#include "base/fail.h"

#include <stdio.h>
#include <string.h>

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
    return golden_exec_new(g, t->graph, outputs, count, &(zn_exec_options){ .training = true }, &t->exec);
}

zn_status taesd_check_training(golden *g, const zn_model *m)
{
    zn_shape shape;
    float *image = NULL;
    training t = { 0 };
    zn_status status;
    if (!golden_has(g, "out.", "train.loss"))
        return ZN_OK;
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
