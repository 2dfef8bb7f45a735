/* Transformer layers. */
#include "nn/transformer.h"

static zn_node *matrix(zn_scope s, zn_node *x, int out, bool biased)
{
    zn_graph_name_layer(s.graph, s.prefix);
    zn_node *w = zn_parameter(s, "weight", ZN_SHAPE(1, 1, out, zn_channels(x)), ZN_LAYOUT_ROWS, ZN_ROLE_WEIGHT);
    return zn_matrix(x, w, biased ? zn_vector(s, "bias", out, ZN_ROLE_BIAS) : NULL);
}

zn_node *zn_matrix_layer(zn_scope s, zn_node *x, int out) { return matrix(s, x, out, true); }
zn_node *zn_matrix_no_bias(zn_scope s, zn_node *x, int out) { return matrix(s, x, out, false); }

zn_node *zn_rms_norm_layer(zn_scope s, zn_node *x, float eps)
{
    zn_graph_name_layer(s.graph, s.prefix);
    return zn_rms_norm(x, zn_vector(s, "weight", zn_channels(x), ZN_ROLE_GAIN), eps);
}

zn_node *zn_rms_norm_heads(zn_scope s, zn_node *x, int heads, float eps)
{
    const zn_shape all = x->shape, apart = ZN_SHAPE(all.dim[0], all.dim[1] * all.dim[2], heads, all.dim[3] / heads);
    return zn_reshape(zn_rms_norm_layer(s, zn_reshape(x, apart), eps), all);
}

zn_node *zn_swiglu(const zn_swiglu_scopes *s, zn_node *x, int inner)
{
    zn_node *gate = zn_silu(zn_matrix_no_bias(s->gate, x, inner));
    return zn_matrix_no_bias(s->down, zn_multiply(gate, zn_matrix_no_bias(s->up, x, inner)), zn_channels(x));
}

zn_node *zn_fixed(zn_graph *g, const char *name, zn_shape shape)
{
    zn_node *n = zn_graph_input(g, name, shape);
    float *data = zn_arena_alloc(zn_graph_arena(g), sizeof *data * (size_t)zn_shape_count(shape));
    if (zn_is_poison(n) || !data)
        return zn_graph_poison(g, ZN_ENOMEM, "out of memory while building a graph");
    n->data = data;
    return n;
}

zn_rope_tables zn_rope_fixed(zn_graph *g, const char *name, const zn_rope_axes *axes, const int32_t *position,
                             int64_t tokens)
{
    int pairs = 0;
    for (int a = 0; a < axes->count; a++)
        pairs += axes->width[a] / 2;
    const zn_shape shape = ZN_SHAPE(1, 1, tokens, pairs);
    const zn_rope_tables t = { zn_fixed(g, name, shape), zn_fixed(g, name, shape) };
    if (position && !zn_is_poison(t.cosines) && !zn_is_poison(t.sines))
        zn_rope_table(axes, position, tokens, t.cosines->data, t.sines->data);
    return t;
}

/* The tokens of a sample as the channels of one pixel: joining and slicing then work on all samples at once. */
static zn_node *as_pixels(zn_node *x)
{
    return zn_reshape(x, ZN_SHAPE(1, 1, x->shape.dim[0], x->shape.dim[2] * x->shape.dim[3]));
}

static zn_node *as_tokens(zn_node *x, int c)
{
    return zn_reshape(x, ZN_SHAPE(x->shape.dim[2], 1, x->shape.dim[3] / c, c));
}

/* Treats each token as a frame of one pixel. */
static zn_node *as_frames(zn_node *x) { return zn_reshape(x, ZN_SHAPE(x->shape.dim[2], 1, 1, x->shape.dim[3])); }

zn_node *zn_take_tokens(zn_node *a, zn_node *b, const int32_t *from, int count)
{
    zn_node *sources[] = { as_frames(a), b ? as_frames(b) : NULL };
    zn_node *taken = zn_frames(sources, b ? 2 : 1, from, count);
    return zn_reshape(taken, ZN_SHAPE(1, 1, count, zn_channels(a)));
}

/* The numbers from `first` on, in the graph's memory; NULL: out of it, and the graph is marked. */
static int32_t *count_up(zn_graph *g, int first, int count)
{
    int32_t *from = zn_arena_alloc(zn_graph_arena(g), sizeof *from * (size_t)(count + 1));
    for (int i = 0; from && i < count; i++)
        from[i] = first + i;
    if (!from)
        zn_graph_poison(g, ZN_ENOMEM, "out of memory while building a graph");
    return from;
}

zn_node *zn_join_tokens(zn_node *const *x, int count)
{
    zn_node *sources[ZN_MAX_SOURCES];
    int tokens = 0;
    if (x[0]->shape.dim[0] > 1) {
        for (int i = 0; i < count; i++)
            sources[i] = as_pixels(x[i]);
        return as_tokens(zn_apply(&zn_op_concat, NULL, 0, sources, count), zn_channels(x[0]));
    }
    for (int i = 0; i < count; i++) {
        sources[i] = as_frames(x[i]);
        tokens += (int)x[i]->shape.dim[2];
    }
    const int32_t *from = count_up(x[0]->graph, 0, tokens);
    return from ? zn_reshape(zn_frames(sources, count, from, tokens), ZN_SHAPE(1, 1, tokens, zn_channels(x[0]))) : x[0];
}

zn_node *zn_slice_tokens(zn_node *x, int first, int count)
{
    const int c = zn_channels(x);
    if (x->shape.dim[0] > 1)
        return as_tokens(zn_slice_channels(as_pixels(x), first * c, count * c), c);
    const int32_t *from = count_up(x->graph, first, count);
    return from ? zn_take_tokens(x, NULL, from, count) : x;
}
