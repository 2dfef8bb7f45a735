/* Initial values of the parameters of a new network.
 *
 * An architecture says how parameters of each role start (zn_arch.start); a layer that starts otherwise says so where
 * it is built:
 *
 *     y = zn_layer_starts(zn_conv3x3(s, x, 64), ZN_START(zn_start_he, 0.1f), ZN_START_USUAL);
 *     zn_node *gamma = zn_starts(zn_vector(s, "gamma", c, ZN_ROLE_GAIN), ZN_START(zn_start_value, 1)); */
#ifndef ZN_NN_START_H
#define ZN_NN_START_H

#include "base/rng.h"
#include "graph/graph.h"

/* A parameter to fill. */
typedef struct zn_fresh {
    zn_shape shape;
    int64_t fan_in; /* inputs of one output of its layer, also for a bias */
    zn_rng *rng;
    float *out;
} zn_fresh;

#define ZN_START(fill, a) ((zn_start){ (fill), (a) })
#define ZN_START_USUAL    ((zn_start){ NULL, 0 }) /* what the architecture does with parameters of this role */

/* Sets how a parameter starts; returns it. */
zn_node *zn_starts(zn_node *parameter, zn_start how);
/* The same for weight and bias, if any, of a convolution or linear layer; returns the layer. */
zn_node *zn_layer_starts(zn_node *layer, zn_start weight, zn_start bias);

/* Fills p as its node says, or else as by_role (NULL: none) says; false if neither says anything. */
bool zn_start_fill(const zn_node *parameter, const zn_start *by_role, const zn_fresh *p);

void zn_start_value(const zn_fresh *p, float a);   /* a */
void zn_start_normal(const zn_fresh *p, float a);  /* N(0, a^2) */
void zn_start_he(const zn_fresh *p, float a);      /* N(0, a^2 2/fan-in) */
void zn_start_uniform(const zn_fresh *p, float a); /* U(-b, b), b = a sqrt(2/fan-in) */
void zn_start_linear(const zn_fresh *p, float a);  /* as PyTorch does: U(-b, b), b = 1/sqrt(a inputs; 0: the fan-in) */

#endif
