/* Rules for initial values; see start.h. */
#include "nn/start.h"

#include <math.h>

zn_node *zn_starts(zn_node *parameter, zn_start how)
{
    parameter->start = how;
    return parameter;
}

zn_node *zn_layer_starts(zn_node *layer, zn_start weight, zn_start bias)
{
    if (layer->source_count > 1)
        zn_starts(layer->source[1], weight);
    if (layer->source_count > 2)
        zn_starts(layer->source[2], bias);
    return layer;
}

bool zn_start_fill(const zn_node *parameter, const zn_start *by_role, const zn_fresh *p)
{
    zn_start how = parameter->start;
    if (!how.fill && by_role)
        how = by_role[parameter->role];
    if (how.fill)
        how.fill(p, how.a);
    return how.fill != NULL;
}

/* Inputs that one output sums: convolutions [k,k,in,out] or [k,k,k,in,out], groups [g,out,in]. */
static float inputs_of(zn_shape s)
{
    const float last = (float)s.dim[s.rank - 1];
    return s.rank >= 4 ? (float)zn_shape_count(s) / last : last;
}

void zn_start_value(const zn_fresh *p, float a)
{
    for (int64_t i = 0; i < zn_shape_count(p->shape); i++)
        p->out[i] = a;
}

void zn_start_normal(const zn_fresh *p, float a)
{
    for (int64_t i = 0; i < zn_shape_count(p->shape); i++)
        p->out[i] = a * zn_rng_normal(p->rng);
}

void zn_start_he(const zn_fresh *p, float a) { zn_start_normal(p, a * sqrtf(2 / inputs_of(p->shape))); }

static void uniform(const zn_fresh *p, float limit)
{
    for (int64_t i = 0; i < zn_shape_count(p->shape); i++)
        p->out[i] = limit * (2 * zn_rng_uniform(p->rng) - 1);
}

void zn_start_uniform(const zn_fresh *p, float a) { uniform(p, a * sqrtf(2 / inputs_of(p->shape))); }

void zn_start_linear(const zn_fresh *p, float a) { uniform(p, 1 / sqrtf(a > 0 ? a : (float)p->fan_in)); }
