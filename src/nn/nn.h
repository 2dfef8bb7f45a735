/* Layers: named parameters plus ops. A scope is a graph and a name prefix. It is passed by value, so nothing has to be
 * popped.
 *
 *     zn_scope s = { g, "decoder" };
 *     x = zn_conv3x3(zn_at(s, "%d", 1), x, 64);       // parameters decoder.1.weight, decoder.1.bias
 *
 * Parameter names are those of the checkpoint. */
#ifndef ZN_NN_H
#define ZN_NN_H

#include "nn/start.h"
#include "ops/ops.h"

typedef struct zn_scope {
    zn_graph *graph;
    const char *prefix;
} zn_scope;

/* A scope one level below: prefix.format(...). */
__attribute__((format(printf, 2, 3))) zn_scope zn_at(zn_scope s, const char *format, ...);

/* The scope one level above: the prefix without its last part. */
zn_scope zn_above(zn_scope s);

/* A parameter of the scope. Plain: the file has the same layout as memory. */
zn_node *zn_parameter(zn_scope s, const char *name, zn_shape shape, zn_layout layout, zn_role role);
zn_node *zn_plain_parameter(zn_scope s, const char *name, zn_shape shape, zn_role role);
/* A vector with one value for each channel. */
zn_node *zn_vector(zn_scope s, const char *name, int length, zn_role role);

/* Convolutions to `out` channels; 3x3 ones have padding 1. They have a bias unless the name says no_bias. */
zn_node *zn_conv3x3(zn_scope s, zn_node *x, int out);
zn_node *zn_conv3x3_stride2(zn_scope s, zn_node *x, int out);
zn_node *zn_conv3x3_no_bias(zn_scope s, zn_node *x, int out);
zn_node *zn_conv3x3_stride2_no_bias(zn_scope s, zn_node *x, int out);
zn_node *zn_conv1x1_no_bias(zn_scope s, zn_node *x, int out);
zn_node *zn_conv1x1(zn_scope s, zn_node *x, int out);
/* y = x w' + b at every pixel. In files the weights are [out,in], or [out,in,1] for zn_conv1d. */
zn_node *zn_linear(zn_scope s, zn_node *x, int out);
zn_node *zn_linear_no_bias(zn_scope s, zn_node *x, int out);
zn_node *zn_conv1d(zn_scope s, zn_node *x, int out);
zn_node *zn_layer_norm_layer(zn_scope s, zn_node *x, float eps);
zn_node *zn_group_norm_layer(zn_scope s, zn_node *x, int groups, float eps);
/* factor[c] x + more[c] for each channel, numbers that are not parameters of a file. */
zn_node *zn_fixed_affine(zn_scope s, zn_node *x, const float *factor, const float *more);

#endif
