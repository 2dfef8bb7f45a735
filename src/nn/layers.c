/* Scopes and layers. */
#include "nn/nn.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

zn_scope zn_at(zn_scope s, const char *format, ...)
{
    char name[256];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    zn_arena *arena = zn_graph_arena(s.graph);
    const bool top = !s.prefix || !s.prefix[0];
    const char *prefix = top ? zn_arena_copy(arena, name) : zn_arena_format(arena, "%s.%s", s.prefix, name);
    return (zn_scope){ s.graph, prefix ? prefix : "" };
}

zn_scope zn_above(zn_scope s)
{
    const char *dot = s.prefix ? strrchr(s.prefix, '.') : NULL;
    return dot ? zn_at((zn_scope){ s.graph, "" }, "%.*s", (int)(dot - s.prefix), s.prefix) : (zn_scope){ s.graph, "" };
}

zn_node *zn_parameter(zn_scope s, const char *name, zn_shape shape, zn_layout layout, zn_role role)
{
    zn_node *n = zn_graph_parameter(s.graph, zn_at(s, "%s", name).prefix, shape, layout);
    n->role = role;
    return n;
}

zn_node *zn_plain_parameter(zn_scope s, const char *name, zn_shape shape, zn_role role)
{
    return zn_parameter(s, name, shape, ZN_LAYOUT_PLAIN, role);
}

zn_node *zn_vector(zn_scope s, const char *name, int length, zn_role role)
{
    return zn_plain_parameter(s, name, ZN_SHAPE(length), role);
}

static zn_node *conv(zn_scope s, zn_node *x, int out, int kernel, int stride, bool biased)
{
    zn_graph_name_layer(s.graph, s.prefix);
    zn_node *w =
        zn_parameter(s, "weight", ZN_SHAPE(kernel, kernel, zn_channels(x), out), ZN_LAYOUT_CONV, ZN_ROLE_WEIGHT);
    zn_node *b = biased ? zn_vector(s, "bias", out, ZN_ROLE_BIAS) : NULL;
    return zn_conv(x, w, b, (zn_conv_spec){ .stride = stride, .pad = kernel / 2 });
}

zn_node *zn_conv3x3(zn_scope s, zn_node *x, int out) { return conv(s, x, out, 3, 1, true); }
zn_node *zn_conv3x3_stride2(zn_scope s, zn_node *x, int out) { return conv(s, x, out, 3, 2, true); }
zn_node *zn_conv3x3_no_bias(zn_scope s, zn_node *x, int out) { return conv(s, x, out, 3, 1, false); }
zn_node *zn_conv3x3_stride2_no_bias(zn_scope s, zn_node *x, int out) { return conv(s, x, out, 3, 2, false); }
zn_node *zn_conv1x1_no_bias(zn_scope s, zn_node *x, int out) { return conv(s, x, out, 1, 1, false); }

zn_node *zn_conv1x1(zn_scope s, zn_node *x, int out) { return conv(s, x, out, 1, 1, true); }

/* With few rows, packing many weights costs more than it saves. Such layers read their weights in place. */
static zn_node *linear(zn_scope s, zn_node *x, int out, zn_layout layout, bool biased)
{
    enum { LARGE = 1 << 15, COLUMNS = 32, ROWS = 64 };
    zn_graph_name_layer(s.graph, s.prefix);
    const int in = zn_channels(x);
    zn_node *w = zn_parameter(s, "weight", ZN_SHAPE(1, 1, in, out), layout, ZN_ROLE_WEIGHT);
    zn_node *b = biased ? zn_vector(s, "bias", out, ZN_ROLE_BIAS) : NULL;
    const bool few = zn_shape_count(x->shape) / in < ROWS;
    if (few && (int64_t)in * out >= LARGE && out % COLUMNS == 0)
        return zn_dense(x, w, b);
    return zn_conv(x, w, b, (zn_conv_spec){ .stride = 1 });
}

zn_node *zn_linear(zn_scope s, zn_node *x, int out) { return linear(s, x, out, ZN_LAYOUT_LINEAR, true); }
zn_node *zn_linear_no_bias(zn_scope s, zn_node *x, int out) { return linear(s, x, out, ZN_LAYOUT_LINEAR, false); }
zn_node *zn_conv1d(zn_scope s, zn_node *x, int out) { return linear(s, x, out, ZN_LAYOUT_CONV1D, true); }

/* A norm starts without changing its input further. */
static zn_node *norm_parameters(zn_scope s, int channels, zn_node **beta)
{
    zn_node *gamma = zn_starts(zn_vector(s, "weight", channels, ZN_ROLE_GAIN), ZN_START(zn_start_value, 1));
    *beta = zn_starts(zn_vector(s, "bias", channels, ZN_ROLE_BIAS), ZN_START(zn_start_value, 0));
    return gamma;
}

zn_node *zn_layer_norm_layer(zn_scope s, zn_node *x, float eps)
{
    zn_graph_name_layer(s.graph, s.prefix);
    zn_node *beta, *gamma = norm_parameters(s, zn_channels(x), &beta);
    return zn_layer_norm(x, gamma, beta, eps);
}

zn_node *zn_group_norm_layer(zn_scope s, zn_node *x, int groups, float eps)
{
    zn_graph_name_layer(s.graph, s.prefix);
    zn_node *beta, *gamma = norm_parameters(s, zn_channels(x), &beta);
    return zn_group_norm(x, gamma, beta, groups, eps);
}

zn_node *zn_fixed_affine(zn_scope s, zn_node *x, const float *factor, const float *more)
{
    if (zn_is_poison(x))
        return x;
    const int c = zn_channels(x);
    zn_graph *g = s.graph;
    zn_node *nodes[2];
    for (int i = 0; i < 2; i++) {
        const float *values = i ? more : factor;
        float *copy = zn_arena_alloc(zn_graph_arena(g), sizeof *copy * (size_t)c);
        nodes[i] = zn_vector(s, i ? "more" : "factor", c, ZN_ROLE_CONSTANT);
        if (!copy || zn_is_poison(nodes[i]))
            return zn_graph_poison(g, ZN_ENOMEM, "out of memory while building a graph");
        memcpy(copy, values, sizeof *copy * (size_t)c);
        nodes[i]->data = copy;
    }
    return zn_add_channels(zn_scale_channels(x, nodes[0]), nodes[1]);
}
