/* Diffusion in a training graph. */
#include "train/objective/noising.h"

#include <math.h>

static zn_node *part(const zn_model *m, zn_part which, zn_node *const *inputs)
{
    return m->arch->network((zn_scope){ inputs[0]->graph, m->arch->scope[which] }, which, inputs, &m->config);
}

/* All but what is predicted, for `samples` in x and this part, whose second input is the step's embedding. */
static zn_noising noised(const zn_model *m, zn_part which, zn_node *x, int64_t samples)
{
    zn_graph *g = x->graph;
    const zn_shape table = ZN_SHAPE(1, 1, samples, x->shape.dim[3]);
    zn_shape inputs[ZN_NETWORK_INPUTS];
    m->arch->inputs(&m->config, which, samples, x->shape.dim[1], x->shape.dim[2], inputs);
    zn_noising n = { .noise = zn_graph_input(g, "noise", x->shape),
                     .time = zn_graph_input(g, "time", inputs[1]),
                     .signal = zn_graph_input(g, "signal", table),
                     .rest = zn_graph_input(g, "rest", table) };
    n.noisy = zn_add(zn_modulate(x, n.signal, NULL), zn_modulate(n.noise, n.rest, NULL));
    return n;
}

zn_noising zn_noising_of_conditions(const zn_model *m, zn_node *z)
{
    zn_noising n = noised(m, ZN_LATENT_NET, z, z->shape.dim[2]);
    n.predicted = part(m, ZN_LATENT_NET, (zn_node *[]){ n.noisy, n.time });
    return n;
}

zn_noising zn_noising_of(const zn_model *m, zn_node *picture, bool learning)
{
    zn_node *x = zn_sub(zn_scale(picture, 2), zn_ones_like(picture));
    zn_noising n = noised(m, ZN_DECODER, x, picture->shape.dim[0]);
    zn_node *cond = m->config.latent ? part(m, ZN_ENCODER, &x) : NULL;
    if (learning && m->config.dropout > 0)
        n.seeds = zn_graph_input(x->graph, "seeds", ZN_SHAPE(1, 1, picture->shape.dim[0], 1));
    n.predicted = part(m, ZN_DECODER, (zn_node *[]){ n.noisy, n.time, cond, n.seeds });
    return n;
}

void zn_noising_set(const zn_noising *n, const zn_diffusion *all, int picture, int step)
{
    const int width = zn_channels(n->time), channels = zn_channels(n->signal);
    zn_time_embedding(step, width, n->time->data + (int64_t)picture * width);
    for (int c = 0; c < channels; c++) {
        n->signal->data[picture * channels + c] = (float)(sqrt(all->kept[step]) - 1);
        n->rest->data[picture * channels + c] = (float)(sqrt(1 - all->kept[step]) - 1);
    }
}

zn_node *zn_noising_estimate(const zn_noising *n, const zn_diffusion *all, int step)
{
    const double signal = sqrt(all->kept[step]), rest = sqrt(1 - all->kept[step]);
    zn_node *x =
        zn_sub(zn_scale(n->noisy, (float)(0.5 / signal)), zn_scale(n->predicted, (float)(0.5 * rest / signal)));
    return zn_add(x, zn_scale(zn_ones_like(x), 0.5f));
}
