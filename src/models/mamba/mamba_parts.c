/* Mamba networks over images and points: what surrounds the networks of mamba_field.c. */
#include "models/mamba/mamba_parts.h"

#include "base/fail.h"

void zn_cell_centre(int64_t i, int64_t h, int64_t w, float point[2])
{
    point[0] = ((float)(i % w) + 0.5f) / (float)w * 2 - 1;
    point[1] = ((float)(i / w) + 0.5f) / (float)h * 2 - 1;
}

static float *constant(zn_node *n)
{
    if (!n->data)
        n->data = zn_arena_alloc(zn_graph_arena(n->graph), sizeof(float) * (size_t)zn_shape_count(n->shape));
    return n->data;
}

zn_tokens_at zn_tokens_on_grid(zn_graph *g, int64_t n, int64_t h, int64_t w, int grid)
{
    const int64_t length = h * w;
    zn_tokens_at at = { zn_graph_input(g, "points", ZN_SHAPE(n, 1, length, 2)),
                        zn_graph_input(g, "orders", ZN_SHAPE(2, n, ZN_SCAN_WAYS, length)) };
    if (zn_graph_status(g) != ZN_OK)
        return at;
    float *points = constant(at.points), *orders = constant(at.orders);
    if (!points || !orders) {
        zn_graph_poison(g, ZN_ENOMEM, "out of memory for the points of an image");
        return at;
    }
    for (int64_t i = 0; i < n * length; i++)
        zn_cell_centre(i % length, h, w, points + 2 * i);
    const zn_status status = zn_scan_orders(points, NULL, n, length, grid, orders);
    if (status != ZN_OK)
        zn_graph_poison(g, status, zn_error_text());
    return at;
}

/* [N,H,W,C] as a sequence for each sample. */
static zn_node *tokens(zn_node *x)
{
    const int64_t *d = x->shape.dim;
    return d[1] == 1 ? x : zn_reshape(x, ZN_SHAPE(d[0], 1, d[1] * d[2], d[3]));
}

zn_node *zn_mamba_encoder(zn_scope s, zn_node *x, const zn_tokens_at *at, const zn_mamba_form *k)
{
    if (at && at->points)
        return zn_field_encode(s, at->points, x, at->orders, &k->net);
    if (k->patch > 1)
        x = zn_space_to_depth(x, k->patch);
    const int64_t *d = x->shape.dim;
    const zn_tokens_at all = zn_tokens_on_grid(s.graph, d[0], d[1], d[2], k->net.grid);
    return zn_field_encode(s, all.points, tokens(x), all.orders, &k->net);
}

int zn_field_channels(const zn_mamba_form *k)
{
    return k->kind == ZN_FIELD_FEATURES ? 2 * k->net.features : ZN_FIELD_COLOURS;
}

static zn_tokens_at points_of(zn_graph *g, zn_shape shape, const zn_tokens_at *at, const zn_mamba_form *k)
{
    return at && at->points ? *at : zn_tokens_on_grid(g, shape.dim[0], shape.dim[1], shape.dim[2], k->net.grid);
}

zn_node *zn_mamba_features(zn_scope s, zn_shape shape, const zn_tokens_at *at, const zn_mamba_form *k)
{
    zn_node *f = zn_field_features(s, points_of(s.graph, shape, at, k).points, &k->net);
    return zn_reshape(f, ZN_SHAPE(shape.dim[0], shape.dim[1], shape.dim[2], zn_channels(f)));
}

zn_node *zn_mamba_decoder(zn_scope s, zn_node *x, zn_node *time, zn_node *cond, const zn_tokens_at *at,
                          const zn_mamba_form *k)
{
    const zn_shape shape = x->shape;
    const zn_tokens_at all = points_of(s.graph, shape, at, k);
    const zn_field_known known = { all.orders, time, cond };
    zn_node *y;
    if (k->kind == ZN_FIELD_FEATURES) {
        zn_field_features(s, all.points, &k->net); /* not computed here: its frequencies are among the parameters */
        zn_node *clean = zn_field_clean_features(s, tokens(x), &known, &k->net);
        y = zn_concat(clean, zn_field_colours(s, clean, cond, &k->net));
    } else if (k->kind == ZN_FIELD_VALUES) {
        y = zn_field_values(s, all.points, &known, &k->net);
    } else {
        y = zn_field_denoise(s, all.points, tokens(x), &known, &k->net);
    }
    return zn_reshape(y, ZN_SHAPE(shape.dim[0], shape.dim[1], shape.dim[2], zn_channels(y)));
}
