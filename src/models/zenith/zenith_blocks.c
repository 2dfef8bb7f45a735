/* Blocks of the Zenith networks (specification A1, B1, D1, D2), written once for inference and training. */
#include "models/zenith/zenith.h"

#include <math.h>
#include <stdio.h>

enum { GROUPS = 4 };

/* interleaved: neighbours come from different groups. */
typedef struct grouping {
    bool interleaved;
    zn_start start;
} grouping;

/* A 1x1 convolution; where the weights outweigh the map they are used as they lie. */
static zn_node *pointwise(zn_node *x, zn_node *w, zn_node *bias)
{
    const int64_t out = w->shape.dim[3], weights = zn_shape_count(w->shape);
    if (out % 32 == 0 && weights >= 1 << 18)
        return zn_dense(x, w, bias);
    return zn_conv(x, w, bias, (zn_conv_spec){ .stride = 1 });
}

zn_node *zn_plain_conv(zn_scope s, zn_node *x, int out, int kernel, int stride)
{
    zn_graph_name_layer(s.graph, s.prefix);
    zn_node *w = zn_plain_parameter(s, "weight", ZN_SHAPE(kernel, kernel, zn_channels(x), out), ZN_ROLE_WEIGHT);
    zn_node *bias = zn_vector(s, "bias", out, ZN_ROLE_BIAS);
    if (kernel == 1 && stride == 1)
        return pointwise(x, w, bias);
    return zn_conv(x, w, bias, (zn_conv_spec){ .stride = stride, .pad = kernel / 2 });
}

/* A kernel that steps by its own side is a 1x1 convolution of patches. */
zn_node *zn_patch_conv(zn_scope s, zn_node *x, int out, int stride)
{
    zn_graph_name_layer(s.graph, s.prefix);
    const int in = zn_channels(x) * stride * stride;
    const zn_layout layout = stride == 2 ? ZN_LAYOUT_PATCH2 : ZN_LAYOUT_PATCH4;
    zn_node *w = zn_parameter(s, "weight", ZN_SHAPE(1, 1, in, out), layout, ZN_ROLE_WEIGHT);
    return pointwise(zn_space_to_depth(x, stride), w, zn_vector(s, "bias", out, ZN_ROLE_BIAS));
}

/* Grouped 1x1 with parameters W and b. */
static zn_node *grouped(zn_scope s, zn_node *x, int out, const char *weight, const char *bias, const grouping *k)
{
    const int in = zn_channels(x);
    if (in % GROUPS || out % GROUPS || !out)
        return zn_graph_poison(s.graph, ZN_ESHAPE, "channels of a Lite block must be multiples of 4, inside it too");
    zn_node *w = zn_plain_parameter(s, weight, ZN_SHAPE(GROUPS, out / GROUPS, in / GROUPS), ZN_ROLE_WEIGHT);
    zn_node *b = zn_vector(s, bias, out, ZN_ROLE_BIAS);
    zn_starts(w, k->start);
    return k->interleaved ? zn_grouped_interleaved(x, w, b) : zn_grouped_conv(x, w, b);
}

zn_node *zn_lite_block(zn_scope s, zn_node *x)
{
    zn_graph_name_layer(s.graph, s.prefix);
    const int c = zn_channels(x), height = (int)x->shape.dim[1], width = (int)x->shape.dim[2];
    const grouping groups = { .start = { zn_start_normal, 0.05f } };
    zn_node *y = grouped(s, x, c / 4, "Wc", "bc", &groups);
    y = zn_spectral(y, zn_vector(s, "gate_h", width, ZN_ROLE_GATE), 2);
    y = zn_spectral(y, zn_vector(s, "gate_v", height, ZN_ROLE_GATE), 1);
    return zn_add(grouped(s, y, c, "We", "be", &groups), x);
}

static zn_node *tiles(zn_scope s, zn_node *x, int axis, const char *gate, const char *threshold,
                      const zn_lite_r_spec *k)
{
    const zn_shape shape = ZN_SHAPE(k->tile, zn_channels(x));
    zn_node *limits = zn_plain_parameter(s, threshold, shape, ZN_ROLE_GATE);
    zn_node *factors = zn_starts(zn_plain_parameter(s, gate, shape, ZN_ROLE_GATE), ZN_START(zn_start_value, 1));
    return zn_tile_mix(x, factors, zn_starts(limits, ZN_START(zn_start_value, 0.01f)), axis, k->offset);
}

/* gamma (We f + be) is one convolution with scaled parameters; gamma is a layer scale. */
static zn_node *expand(zn_scope s, zn_node *f, int out, const zn_lite_r_spec *k)
{
    zn_node *w = zn_parameter(s, "We", ZN_SHAPE(1, 1, zn_channels(f), out), ZN_LAYOUT_LINEAR, ZN_ROLE_WEIGHT);
    zn_node *b = zn_vector(s, "be", out, ZN_ROLE_BIAS), *gamma = zn_vector(s, "gamma", out, ZN_ROLE_GATE);
    zn_starts(w, k->back);
    zn_starts(gamma, k->gamma);
    return zn_conv(f, zn_scale_channels(w, gamma), zn_scale_channels(b, gamma), (zn_conv_spec){ .stride = 1 });
}

zn_node *zn_lite_r_block(zn_scope s, zn_node *x, const zn_lite_r_spec *k)
{
    zn_graph_name_layer(s.graph, s.prefix);
    const int c = zn_channels(x);
    zn_node *norm = zn_starts(zn_vector(s, "norm", c, ZN_ROLE_GAIN), ZN_START(zn_start_value, 1));
    zn_node *y = zn_rms_norm(x, norm, 1e-6f);
    zn_node *local = zn_plain_parameter(s, "dw", ZN_SHAPE(c, 3, 3), ZN_ROLE_WEIGHT);
    y = zn_depthwise_residual(y, zn_starts(local, ZN_START(zn_start_normal, 0.02f)));
    y = grouped(s, y, c / 2, "Wc", "bc", &(grouping){ .interleaved = true, .start = { zn_start_he, 1 } });
    y = tiles(s, y, 2, "gate_h", "th_h", k);
    y = tiles(s, y, 1, "gate_v", "th_v", k);
    return zn_add(x, expand(s, zn_gelu(y), c, k));
}

static zn_node *eyes(zn_scope s, zn_node *x, zn_node *mask, zn_start start)
{
    zn_node *w = zn_plain_parameter(s, "eyes", ZN_SHAPE(zn_channels(x), 3, 3), ZN_ROLE_WEIGHT);
    zn_starts(w, start);
    return zn_channels(x) % 8 ? zn_depthwise(x, w) : zn_sparse_depthwise(x, w, mask);
}

static zn_node *mixer(zn_scope s, int c)
{
    return zn_starts(zn_plain_parameter(s, "mixer", ZN_SHAPE(3, c), ZN_ROLE_GAIN), ZN_START(zn_start_mixer, 1));
}

zn_node *zn_prune_block(zn_scope s, zn_node *x, const zn_prune_spec *k)
{
    zn_graph_name_layer(s.graph, s.prefix);
    const int c = zn_channels(x);
    zn_node *e = eyes(s, x, k->mask, ZN_START(zn_start_dense_eyes, 1));
    zn_line_sources line = { .mask = k->mask };
    if (k->srig) {
        line.w = zn_plain_parameter(s, "srig_w", ZN_SHAPE(c, 5), ZN_ROLE_GAIN);
        line.b = zn_vector(s, "srig_b", c, ZN_ROLE_BIAS);
        zn_starts(line.w, ZN_START(zn_start_normal, 0.632455532f)); /* variance 2/5 */
        zn_starts(line.b, ZN_START(zn_start_value, -1));
    }
    line.scale = zn_vector(s, "scale", c, ZN_ROLE_UNIT_GAIN);
    if (k->keep)
        line.scale = zn_scale_channels(line.scale, zn_scale(k->keep, 1 / (1 - k->drop)));
    line.mixer = mixer(s, c);
    line.gamma = zn_vector(s, "gamma", c, ZN_ROLE_GAIN);
    line.beta = zn_vector(s, "beta", c, ZN_ROLE_BIAS);
    return zn_line(e, &line, (zn_line_spec){ .unit = 1, .groups = c % 32 ? 1 : 32, .eps = 1e-5f });
}

zn_node *zn_prune_r_block(zn_scope s, zn_node *x)
{
    zn_graph_name_layer(s.graph, s.prefix);
    const int c = zn_channels(x);
    zn_node *e = eyes(s, x, NULL, ZN_START(zn_start_eyes, 0.02f));
    zn_line_sources line = { .w = zn_starts(zn_vector(s, "th", c, ZN_ROLE_GATE), ZN_START(zn_start_value, 0.02f)),
                             .scale = zn_vector(s, "g", c, ZN_ROLE_GATE),
                             .mixer = mixer(s, c) };
    zn_node *z = zn_line(e, &line, (zn_line_spec){ .unit = 1 / sqrtf((float)c) });
    return zn_add(x, zn_scale_channels(z, zn_vector(s, "alpha", c, ZN_ROLE_GATE)));
}
