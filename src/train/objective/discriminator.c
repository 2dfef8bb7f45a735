/* Four convolutions, three of them by two: each output judges a patch of about 30 pixels. */
#include "train/objective/discriminator.h"

#include "base/alloc.h"
#include "base/fail.h"

#include <string.h>

enum { WIDTH = 32 };

zn_node *zn_discriminator_view(zn_node *x)
{
    const zn_scope s = { x->graph, "discriminator" };
    x = zn_gelu(zn_conv3x3_stride2(zn_at(s, "0"), x, WIDTH));
    x = zn_gelu(zn_conv3x3_stride2(zn_at(s, "1"), x, 2 * WIDTH));
    x = zn_gelu(zn_conv3x3_stride2(zn_at(s, "2"), x, 2 * WIDTH));
    return zn_conv3x3(zn_at(s, "3"), x, 1);
}

/* mean(max(0, 1 - real)) + mean(max(0, 1 + fake)) */
static zn_node *hinge(zn_node *real, zn_node *fake)
{
    zn_node *one = zn_ones_like(real);
    return zn_add(zn_mean(zn_relu(zn_sub(one, real))), zn_mean(zn_relu(zn_add(one, fake))));
}

static zn_status build(zn_discriminator *d, zn_shape shape, zn_learner_options learning)
{
    enum { MAX = 16 };
    const zn_model_parameter *list[MAX];
    zn_node *wrt[MAX], *outputs[MAX + 1];
    d->graph = zn_graph_new();
    if (!d->graph)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a discriminator");
    d->real = zn_graph_input(d->graph, "real", shape);
    d->fake = zn_graph_input(d->graph, "fake", shape);
    zn_node *real = zn_discriminator_view(d->real), *fake = zn_discriminator_view(d->fake);
    zn_graph_name_layer(d->graph, "discriminator.loss");
    outputs[0] = d->loss = hinge(real, fake);
    ZN_TRY(zn_graph_status(d->graph));
    ZN_TRY(zn_parameters_adopt(&d->parameters, d->graph, (uint64_t)d->recipe->seed, 1));
    const int count = d->parameters.count;
    for (int i = 0; i < count; i++) {
        const zn_model_parameter *p = list[i] = &d->parameters.list[i];
        wrt[i] = zn_graph_parameter(d->graph, p->name, p->shape, p->layout);
    }
    learning.average = false;
    learning.optim = (zn_optim_options){ .kind = ZN_ADAM, .lr = (float)d->recipe->lr, .beta1 = 0.5f, .beta2 = 0.99f };
    ZN_TRY(zn_learner_new(&d->learner, list, count, &learning));
    ZN_TRY(zn_graph_differentiate(d->graph, d->loss, NULL, wrt, count, d->learner.gradients));
    memcpy(outputs + 1, d->learner.gradients, sizeof *outputs * (size_t)count);
    zn_graph_fuse(d->graph, outputs, count + 1);
    const zn_exec_options options = {
        .pool = learning.pool, .device = learning.device, .training = true, .resident = true
    };
    return zn_exec_new(d->graph, outputs, count + 1, &options, &d->exec);
}

zn_status zn_discriminator_new(zn_shape shape, const zn_recipe *recipe, const zn_learner_options *options,
                               zn_discriminator **out)
{
    zn_discriminator *d = *out = zn_calloc(1, sizeof *d);
    if (!d)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a discriminator");
    d->recipe = recipe;
    const zn_status status = build(d, shape, *options);
    if (status != ZN_OK) {
        zn_discriminator_free(d);
        *out = NULL;
    }
    return status;
}

void zn_discriminator_free(zn_discriminator *d)
{
    if (!d)
        return;
    zn_exec_free(d->exec);
    zn_graph_free(d->graph);
    zn_learner_free(&d->learner);
    zn_parameters_free(&d->parameters);
    zn_free(d);
}

zn_status zn_discriminator_look(zn_discriminator *d, const float *real, const float *fake, int part, int of)
{
    const size_t bytes = sizeof(float) * (size_t)zn_shape_count(d->real->shape);
    memcpy(d->real->data, real, bytes);
    memcpy(d->fake->data, fake, bytes);
    zn_exec_send(d->exec);
    ZN_TRY(zn_exec_run(d->exec));
    ZN_TRY(zn_exec_fetch(d->exec, &d->loss, 1));
    ZN_TRY(zn_exec_check_finite(d->exec));
    zn_learner_gather(&d->learner, part, of);
    d->value = (part ? d->value : 0) + (double)d->loss->data[0] / of;
    return ZN_OK;
}

zn_status zn_discriminator_learn(zn_discriminator *d)
{
    return zn_learner_update(&d->learner, &(zn_learner_step){ .lr = d->recipe->lr });
}
