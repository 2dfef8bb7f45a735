/* Blocks of the Zenith networks (specification A1, B1, D1, D2), written once for inference and training. */
#include "models/zenith.h"

#include <math.h>
#include <stdio.h>

enum { GROUPS = 4 };

static zn_node *vector(zn_scope s, const char *name, int length)
{
    return zn_parameter(s, name, ZN_SHAPE(length), ZN_LAYOUT_PLAIN);
}

zn_node *zn_plain_conv(zn_scope s, zn_node *x, int out, int kernel, int stride)
{
    zn_graph_name_layer(s.graph, s.prefix);
    zn_node *w = zn_parameter(s, "weight", ZN_SHAPE(kernel, kernel, zn_channels(x), out), ZN_LAYOUT_PLAIN);
    return zn_conv(x, w, vector(s, "bias", out), (zn_conv_spec){ .stride = stride, .pad = kernel / 2 });
}

/* A kernel that steps by its own side is a 1x1 convolution of patches. */
zn_node *zn_patch_conv(zn_scope s, zn_node *x, int out, int stride)
{
    zn_graph_name_layer(s.graph, s.prefix);
    const int in = zn_channels(x) * stride * stride;
    zn_node *w = zn_parameter(s, "weight", ZN_SHAPE(1, 1, in, out), stride == 2 ? ZN_LAYOUT_PATCH2 : ZN_LAYOUT_PATCH4);
    return zn_conv(zn_space_to_depth(x, stride), w, vector(s, "bias", out), (zn_conv_spec){ .stride = 1 });
}

/* Grouped 1x1 with parameters W and b; interleaved: neighbours come from different groups. */
static zn_node *grouped(zn_scope s, zn_node *x, int out, const char *weight, const char *bias, bool interleaved)
{
    const int in = zn_channels(x);
    if (in % GROUPS || out % GROUPS || !out)
        return zn_graph_poison(s.graph, ZN_ESHAPE, "channels of a Lite block must be multiples of 4, inside it too");
    zn_node *w = zn_parameter(s, weight, ZN_SHAPE(GROUPS, out / GROUPS, in / GROUPS), ZN_LAYOUT_PLAIN);
    zn_node *b = vector(s, bias, out);
    return interleaved ? zn_grouped_interleaved(x, w, b) : zn_grouped_conv(x, w, b);
}

zn_node *zn_lite_block(zn_scope s, zn_node *x)
{
    zn_graph_name_layer(s.graph, s.prefix);
    const int c = zn_channels(x), height = (int)x->shape.dim[1], width = (int)x->shape.dim[2];
    zn_node *y = grouped(s, x, c / 4, "Wc", "bc", false);
    y = zn_spectral(y, vector(s, "gate_h", width), 2);
    y = zn_spectral(y, vector(s, "gate_v", height), 1);
    return zn_add(grouped(s, y, c, "We", "be", false), x);
}

static zn_node *tiles(zn_scope s, zn_node *x, int axis, const char *gate, const char *threshold, int tile, int offset)
{
    const zn_shape shape = ZN_SHAPE(tile, zn_channels(x));
    return zn_tile_mix(x, zn_parameter(s, gate, shape, ZN_LAYOUT_PLAIN),
                       zn_parameter(s, threshold, shape, ZN_LAYOUT_PLAIN), axis, offset);
}

/* gamma (We f + be) is one convolution with scaled parameters. */
static zn_node *expand(zn_scope s, zn_node *f, int out)
{
    zn_node *w = zn_parameter(s, "We", ZN_SHAPE(1, 1, zn_channels(f), out), ZN_LAYOUT_LINEAR);
    zn_node *b = vector(s, "be", out), *gamma = vector(s, "gamma", out);
    return zn_conv(f, zn_scale_channels(w, gamma), zn_scale_channels(b, gamma), (zn_conv_spec){ .stride = 1 });
}

zn_node *zn_lite_r_block(zn_scope s, zn_node *x, int tile, int offset)
{
    zn_graph_name_layer(s.graph, s.prefix);
    const int c = zn_channels(x);
    zn_node *y = zn_rms_norm(x, vector(s, "norm", c), 1e-6f);
    y = zn_depthwise_residual(y, zn_parameter(s, "dw", ZN_SHAPE(c, 3, 3), ZN_LAYOUT_PLAIN));
    y = grouped(s, y, c / 2, "Wc", "bc", true);
    y = tiles(s, y, 2, "gate_h", "th_h", tile, offset);
    y = tiles(s, y, 1, "gate_v", "th_v", tile, offset);
    return zn_add(x, expand(s, zn_gelu(y), c));
}

static zn_node *eyes(zn_scope s, zn_node *x, zn_node *mask)
{
    zn_node *w = zn_parameter(s, "eyes", ZN_SHAPE(zn_channels(x), 3, 3), ZN_LAYOUT_PLAIN);
    return mask ? zn_sparse_depthwise(x, w, mask) : zn_depthwise(x, w);
}

static zn_node *mixer(zn_scope s, zn_node *x)
{
    return zn_taps(x, zn_parameter(s, "mixer", ZN_SHAPE(3, zn_channels(x)), ZN_LAYOUT_PLAIN));
}

zn_node *zn_prune_block(zn_scope s, zn_node *x, const zn_prune_spec *k)
{
    zn_graph_name_layer(s.graph, s.prefix);
    const int c = zn_channels(x);
    zn_node *u = zn_wht(eyes(s, x, k->mask), 3, 1);
    if (k->srig)
        u = zn_srig(u, zn_parameter(s, "srig_w", ZN_SHAPE(c, 5), ZN_LAYOUT_PLAIN), vector(s, "srig_b", c));
    if (k->keep)
        u = zn_scale_channels(u, zn_scale(k->keep, 1 / (1 - k->drop)));
    u = mixer(s, zn_scale_channels(u, vector(s, "scale", c)));
    return zn_group_norm(zn_relu(zn_wht(u, 3, 1)), vector(s, "gamma", c), vector(s, "beta", c), c % 32 ? 1 : 32, 1e-5f);
}

zn_node *zn_prune_r_block(zn_scope s, zn_node *x)
{
    zn_graph_name_layer(s.graph, s.prefix);
    const int c = zn_channels(x);
    const float unit = 1 / sqrtf((float)c);
    zn_node *t = zn_soft_threshold(zn_wht(eyes(s, x, NULL), 3, unit), vector(s, "th", c));
    zn_node *z = zn_wht(mixer(s, zn_scale_channels(t, vector(s, "g", c))), 3, unit);
    return zn_add(x, zn_scale_channels(z, vector(s, "alpha", c)));
}
