/* Token mixers with selective scans.
 *
 *   x [N,1,L,C]
 *     in_proj                             [N,1,L,2D]: x and the gate z
 *     each way: conv1d, SiLU              u [N,1,L,D]
 *               x_proj                    dt of rank R, b, c
 *               dt_proj, scan             [N,1,L,D]
 *     times SiLU(z), out_proj             [N,1,L,C] */
#include "nn/mamba.h"

#include "nn/mamba_start.h"

/* Parameters of one scan direction (way). D: inner channels, S: states, R: rank of dt. */
typedef struct way {
    zn_node *conv, *conv_bias;    /* [D,taps], [D] */
    zn_node *x_proj, *dt_proj;    /* [1,1,D,R+2S], [1,1,R,D] */
    zn_node *dt_bias, *a_log, *d; /* [D], [D,S], [D] */
    int states, rank;
} way;

/* How they start. */
typedef struct way_start {
    zn_start conv, x_proj, dt_proj, dt_bias, a_log, d; /* conv: the bias too */
} way_start;

static way_start start_of(int inner, int rank, const zn_mamba *k)
{
    return (way_start){ .conv = { zn_start_linear, (float)k->taps },
                        .x_proj = { zn_start_linear, (float)inner },
                        .dt_proj = { zn_start_linear, (float)rank },
                        .dt_bias = { zn_mamba_start_steps, 0 },
                        .a_log = { zn_mamba_start_rates, 0 },
                        .d = { zn_start_value, 1 } };
}

static zn_node *linear(zn_node *x, zn_node *w) { return zn_conv(x, w, NULL, (zn_conv_spec){ .stride = 1 }); }

static zn_node *walk(zn_node *x, const way *p)
{
    zn_node *u = zn_silu(zn_causal_conv(x, p->conv, p->conv_bias)), *all = linear(u, p->x_proj);
    return zn_scan(&(zn_scan_sources){ .u = u,
                                       .dt = linear(zn_slice_channels(all, 0, p->rank), p->dt_proj),
                                       .b = zn_slice_channels(all, p->rank, p->states),
                                       .c = zn_slice_channels(all, p->rank + p->states, p->states),
                                       .a_log = p->a_log,
                                       .d = p->d,
                                       .dt_bias = p->dt_bias });
}

/* The rank of dt for tokens of this width. */
static int rank_of(int width) { return (width + 15) / 16; }

/* in_proj: computes x, followed by the gate. */
static zn_node *expand(zn_scope s, zn_node *x, int inner, zn_node **gate)
{
    zn_node *both = zn_linear_no_bias(zn_at(s, "in_proj"), x, 2 * inner);
    zn_layer_starts(both, ZN_START(zn_start_linear, 0), ZN_START_USUAL);
    zn_graph_name_layer(s.graph, s.prefix);
    *gate = zn_silu(zn_slice_channels(both, inner, inner));
    return zn_slice_channels(both, 0, inner);
}

static zn_node *contract(zn_scope s, zn_node *y, zn_node *gate, int width, const zn_mamba *k)
{
    y = zn_linear_no_bias(zn_at(s, "out_proj"), zn_multiply(y, gate), width);
    return zn_layer_starts(y, ZN_START(zn_mamba_start_sum, k->layers ? (float)k->layers : 1), ZN_START_USUAL);
}

zn_node *zn_mamba_line(zn_scope s, zn_node *x, const zn_mamba *k)
{
    const int width = zn_channels(x), inner = k->expand * width, rank = rank_of(width), both = rank + 2 * k->states;
    const way_start start = start_of(inner, rank, k);
    zn_node *gate, *in = expand(s, x, inner, &gate);
    const way p = {
        .conv = zn_plain_parameter(s, "conv1d.weight", ZN_SHAPE(inner, 1, k->taps), ZN_ROLE_WEIGHT),
        .conv_bias = zn_vector(s, "conv1d.bias", inner, ZN_ROLE_BIAS),
        .x_proj = zn_parameter(s, "x_proj.weight", ZN_SHAPE(1, 1, inner, both), ZN_LAYOUT_LINEAR, ZN_ROLE_WEIGHT),
        .dt_proj = zn_parameter(s, "dt_proj.weight", ZN_SHAPE(1, 1, rank, inner), ZN_LAYOUT_LINEAR, ZN_ROLE_WEIGHT),
        .dt_bias = zn_vector(s, "dt_proj.bias", inner, ZN_ROLE_BIAS),
        .a_log = zn_plain_parameter(s, "A_log", ZN_SHAPE(inner, k->states), ZN_ROLE_GAIN),
        .d = zn_vector(s, "D", inner, ZN_ROLE_GAIN),
        .states = k->states,
        .rank = rank
    };
    zn_starts(p.conv, start.conv);
    zn_starts(p.conv_bias, start.conv);
    zn_starts(p.x_proj, start.x_proj);
    zn_starts(p.dt_proj, start.dt_proj);
    zn_starts(p.dt_bias, start.dt_bias);
    zn_starts(p.a_log, start.a_log);
    zn_starts(p.d, start.d);
    return contract(s, walk(in, &p), gate, width, k);
}

/* Row `which` of a parameter that has one row for each direction. */
static zn_node *row(zn_scope s, const char *name, zn_shape shape, zn_role role, zn_start start, int which)
{
    return zn_row(zn_starts(zn_plain_parameter(s, name, shape, role), start), which);
}

static zn_node *matrix_row(zn_scope s, const char *name, zn_shape shape, zn_start start, int which)
{
    return zn_row(zn_starts(zn_parameter(s, name, shape, ZN_LAYOUT_LINEARS, ZN_ROLE_WEIGHT), start), which);
}

zn_node *zn_mamba_plane(zn_scope s, zn_node *x, zn_node *orders, const zn_mamba *k)
{
    enum { WAYS = ZN_SCAN_WAYS };
    const int width = zn_channels(x), inner = k->expand * width, rank = rank_of(width), both = rank + 2 * k->states;
    const way_start start = start_of(inner, rank, k);
    const zn_shape each = ZN_SHAPE(WAYS, inner);
    zn_node *gate, *in = expand(s, x, inner, &gate), *y[WAYS];
    for (int i = 0; i < WAYS; i++) {
        const way p = { .conv = row(s, "conv1d.weight", ZN_SHAPE(WAYS, inner, k->taps), ZN_ROLE_WEIGHT, start.conv, i),
                        .conv_bias = row(s, "conv1d.bias", each, ZN_ROLE_BIAS, start.conv, i),
                        .x_proj = matrix_row(s, "x_proj.weight", ZN_SHAPE(WAYS, 1, 1, inner, both), start.x_proj, i),
                        .dt_proj = matrix_row(s, "dt_proj.weight", ZN_SHAPE(WAYS, 1, 1, rank, inner), start.dt_proj, i),
                        .dt_bias = row(s, "dt_proj.bias", each, ZN_ROLE_BIAS, start.dt_bias, i),
                        .a_log = row(s, "A_log", ZN_SHAPE(WAYS, inner, k->states), ZN_ROLE_GAIN, start.a_log, i),
                        .d = row(s, "D", each, ZN_ROLE_GAIN, start.d, i),
                        .states = k->states,
                        .rank = rank };
        y[i] = walk(zn_gather_tokens(in, orders, i), &p);
    }
    return contract(s, zn_merge_tokens(y, WAYS, orders, 1.0f / WAYS), gate, width, k);
}
