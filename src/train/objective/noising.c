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
    zn_noising n = { .clean = x,
                     .noise = zn_graph_input(g, "noise", x->shape),
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

/* Of a decoder over points: the features that are noised, else the values. */
static zn_node *clean_of(const zn_model *m, zn_node *values, const zn_tokens_at *at)
{
    const zn_mamba_form *k = m->arch->mamba(&m->config);
    const zn_scope s = zn_at((zn_scope){ values->graph, m->arch->scope[ZN_DECODER] }, "decoder");
    return k->kind == ZN_FIELD_FEATURES ? zn_mamba_features(s, values->shape, at, k) : values;
}

/* The velocity that the U-Net tells, and the noise that it amounts to. */
static void tell_velocity(zn_noising *n)
{
    n->velocity = n->predicted;
    n->true_velocity = zn_sub(zn_modulate(n->noise, n->signal, NULL), zn_modulate(n->clean, n->rest, NULL));
    n->predicted = zn_add(zn_modulate(n->noisy, n->rest, NULL), zn_modulate(n->velocity, n->signal, NULL));
}

zn_noising zn_noising_of(const zn_model *m, zn_node *picture, bool learning)
{
    zn_node *x = zn_sub(zn_scale(picture, 2), zn_ones_like(picture));
    const zn_field_kind kind = m->arch->mamba(&m->config)->kind;
    zn_noising n = noised(m, ZN_DECODER, clean_of(m, x, NULL), picture->shape.dim[0]);
    n.kind = kind;
    if (learning && m->arch->is_masked(&m->config))
        n.mask = zn_graph_input(x->graph, "mask", ZN_SHAPE(x->shape.dim[0], x->shape.dim[1], x->shape.dim[2], 1));
    zn_node *cond = m->config.latent ? part(m, ZN_ENCODER, (zn_node *[ZN_NETWORK_INPUTS]){ x, n.mask }) : NULL;
    if (learning && m->config.dropout > 0 && !kind)
        n.seeds = zn_graph_input(x->graph, "seeds", ZN_SHAPE(1, 1, picture->shape.dim[0], 1));
    n.predicted = part(m, ZN_DECODER, (zn_node *[ZN_NETWORK_INPUTS]){ n.noisy, n.time, cond, n.seeds });
    if (m->arch->tells_velocity(&m->config))
        tell_velocity(&n);
    return n;
}

static zn_points points_of(zn_graph *g, int64_t n, int64_t length)
{
    return (zn_points){ { zn_graph_input(g, "points", ZN_SHAPE(n, 1, length, 2)),
                          zn_graph_input(g, "orders", ZN_SHAPE(2, n, ZN_SCAN_WAYS, length)) },
                        zn_graph_input(g, "values", ZN_SHAPE(n, 1, length, ZN_FIELD_COLOURS)) };
}

zn_noising zn_noising_of_points(const zn_model *m, zn_graph *g, int64_t samples, int64_t known, int64_t asked)
{
    const zn_points from = points_of(g, samples, known), to = points_of(g, samples, asked);
    zn_noising n = noised(m, ZN_DECODER, clean_of(m, to.values, &to.at), samples);
    n.kind = m->arch->mamba(&m->config)->kind;
    n.known = from;
    n.asked = to;
    zn_node *cond = part(m, ZN_ENCODER, (zn_node *[ZN_NETWORK_INPUTS]){ from.values, from.at.points, from.at.orders });
    n.predicted =
        part(m, ZN_DECODER, (zn_node *[ZN_NETWORK_INPUTS]){ n.noisy, n.time, cond, to.at.points, to.at.orders });
    return n;
}

zn_node *zn_noising_values(const zn_noising *n)
{
    const int channels = zn_channels(n->predicted);
    if (n->kind == ZN_FIELD_VALUES)
        return n->predicted;
    if (n->kind == ZN_FIELD_FEATURES)
        return zn_slice_channels(n->predicted, channels - ZN_FIELD_COLOURS, ZN_FIELD_COLOURS);
    return NULL;
}

void zn_noising_weigh(zn_noising *n, double min_snr)
{
    n->min_snr = min_snr;
    n->emphasis = min_snr > 0 ? zn_graph_input(n->noisy->graph, "emphasis", n->signal->shape) : NULL;
}

zn_node *zn_noising_error(const zn_noising *n)
{
    zn_node *told = n->velocity ? n->velocity : n->predicted, *wanted = n->velocity ? n->true_velocity : n->noise;
    if (n->emphasis) {
        told = zn_modulate(told, n->emphasis, NULL);
        wanted = zn_modulate(wanted, n->emphasis, NULL);
    }
    return zn_mean_square_error(told, wanted);
}

/* Of the square error at a step that keeps so much. */
static double weight_of(const zn_noising *n, double kept)
{
    const double more = n->velocity ? 1 : 0, snr = kept / (1 - kept);
    return fmin(1, (n->min_snr + more) / (snr + more));
}

void zn_noising_set(const zn_noising *n, const zn_diffusion *all, int picture, int step)
{
    const int width = zn_channels(n->time), channels = zn_channels(n->signal);
    const bool regression = n->kind == ZN_FIELD_VALUES;
    zn_time_embedding(regression ? ZN_REGRESSION_STEP : step, width, n->time->data + (int64_t)picture * width);
    for (int c = 0; c < channels && !regression; c++) {
        n->signal->data[picture * channels + c] = (float)(sqrt(all->kept[step]) - 1);
        n->rest->data[picture * channels + c] = (float)(sqrt(1 - all->kept[step]) - 1);
        if (n->emphasis)
            n->emphasis->data[picture * channels + c] = (float)(sqrt(weight_of(n, all->kept[step])) - 1);
    }
}

zn_node *zn_noising_estimate(const zn_noising *n, const zn_diffusion *all, int step)
{
    const double signal = sqrt(all->kept[step]), rest = sqrt(1 - all->kept[step]);
    zn_node *x = zn_noising_values(n);
    x = x ? zn_scale(x, 0.5f)
          : zn_sub(zn_scale(n->noisy, (float)(0.5 / signal)), zn_scale(n->predicted, (float)(0.5 * rest / signal)));
    return zn_add(x, zn_scale(zn_ones_like(x), 0.5f));
}
