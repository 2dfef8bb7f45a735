/* Z-Image's transformer, under the names of the diffusers checkpoint.
 *
 *   latent: patches of 2x2, linear, filled up           caption: norm, linear, filled up
 *     noise refiner: modulated blocks                     context refiner: blocks
 *   [picture | caption]
 *     layers: modulated blocks
 *   picture: norm, modulated, linear, patches to pixels
 *
 * A block has a norm before and after attention and feed-forward part; modulation scales after the first of each pair
 * and gates after the second. What fills up is learned, and attended to like any token. */
#include "models/zimage/zimage.h"

#include "diffusion/schedule.h"

#include <stdio.h>

#define FINAL_EPS 1e-6f

const zn_zimage_form zn_zimage_turbo = { .dim = 3840,
                                         .heads = 30,
                                         .layers = 30,
                                         .refiners = 2,
                                         .caption = 2560,
                                         .channels = 16,
                                         .inner = 10240,
                                         .time = 1024,
                                         .modulation = 256,
                                         .axes = { 32, 48, 48 },
                                         .eps = 1e-5f,
                                         .theta = 256,
                                         .time_scale = 1000 };

void zn_zimage_time(const zn_zimage_form *k, float time, float *out)
{
    zn_time_embedding((double)((float)k->time_scale * time), ZN_ZIMAGE_TIME, out);
}

/* ---- blocks ---- */

static zn_node *attention(zn_scope s, zn_node *x, const zn_rope_tables *t, const zn_zimage_form *k)
{
    zn_node *q = zn_matrix_no_bias(zn_at(s, "to_q"), x, k->dim);
    zn_node *key = zn_matrix_no_bias(zn_at(s, "to_k"), x, k->dim);
    zn_node *value = zn_matrix_no_bias(zn_at(s, "to_v"), x, k->dim);
    q = zn_rope(zn_rms_norm_heads(zn_at(s, "norm_q"), q, k->heads, k->eps), t->cosines, t->sines, false);
    key = zn_rope(zn_rms_norm_heads(zn_at(s, "norm_k"), key, k->heads, k->eps), t->cosines, t->sines, false);
    x = zn_attend(q, key, value, (zn_attend_spec){ .heads = k->heads, .groups = k->heads });
    return zn_matrix_no_bias(zn_at(s, "to_out.0"), x, k->dim);
}

/* Norm, and the scale of a modulation (or NULL). */
static zn_node *scaled(zn_scope s, zn_node *x, zn_node *scale, const zn_zimage_form *k)
{
    x = zn_rms_norm_layer(s, x, k->eps);
    return scale ? zn_modulate(x, scale, NULL) : x;
}

static zn_node *gated(zn_scope s, zn_node *x, zn_node *gate, const zn_zimage_form *k)
{
    x = zn_rms_norm_layer(s, x, k->eps);
    return gate ? zn_scale_channels(x, zn_soft_clamp(gate, 1)) : x;
}

/* source: what modulations are made of, or NULL for none. */
static zn_node *block(zn_scope s, zn_node *x, const zn_rope_tables *t, zn_node *source, const zn_zimage_form *k)
{
    const zn_scope f = zn_at(s, "feed_forward");
    const zn_swiglu_scopes ffn = { zn_at(f, "w1"), zn_at(f, "w3"), zn_at(f, "w2") };
    zn_node *all = source ? zn_matrix_layer(zn_at(s, "adaLN_modulation.0"), source, 4 * k->dim) : NULL, *m[4] = { 0 };
    for (int i = 0; i < 4 && all; i++)
        m[i] = zn_slice_channels(all, i * k->dim, k->dim);
    zn_node *h = attention(zn_at(s, "attention"), scaled(zn_at(s, "attention_norm1"), x, m[0], k), t, k);
    x = zn_add(x, gated(zn_at(s, "attention_norm2"), h, m[1], k));
    h = zn_swiglu(&ffn, scaled(zn_at(s, "ffn_norm1"), x, m[2], k), k->inner);
    h = gated(zn_at(s, "ffn_norm2"), h, m[3], k);
    zn_graph_name_layer(s.graph, s.prefix);
    return zn_add(x, h);
}

/* ---- tokens ---- */

static zn_node *out_of_memory(zn_graph *g)
{
    return zn_graph_poison(g, ZN_ENOMEM, "out of memory while building a graph");
}

/* x [1,1,L,dim], filled up with a learned token. */
static zn_node *fill_up(zn_scope s, const char *name, zn_node *x)
{
    const int tokens = (int)x->shape.dim[2], filled = zn_zimage_filled(tokens), dim = zn_channels(x);
    zn_node *pad = zn_plain_parameter(s, name, ZN_SHAPE(1, dim), ZN_ROLE_EMBEDDING);
    int32_t *from = zn_arena_alloc(zn_graph_arena(s.graph), sizeof *from * (size_t)(filled + 1));
    if (!from)
        return out_of_memory(s.graph);
    for (int i = 0; i < filled; i++)
        from[i] = i < tokens ? i : tokens;
    return zn_take_tokens(x, zn_reshape(pad, ZN_SHAPE(1, 1, 1, dim)), from, filled);
}

void zn_zimage_caption_positions(int caption, int32_t *out)
{
    for (int i = 0; i < caption; i++, out += ZN_ZIMAGE_AXES) {
        out[0] = 1 + i;
        out[1] = out[2] = 0;
    }
}

void zn_zimage_picture_positions(int rows, int columns, int caption, int32_t *out)
{
    for (int i = 0; i < zn_zimage_filled(rows * columns); i++, out += ZN_ZIMAGE_AXES) {
        const bool real = i < rows * columns;
        out[0] = real ? caption + 1 : 0;
        out[1] = real ? i / columns : 0;
        out[2] = real ? i % columns : 0;
    }
}

static zn_rope_tables turns(zn_graph *g, const char *name, const int32_t *position, int64_t tokens,
                            const zn_zimage_form *k)
{
    const zn_rope_axes axes = { ZN_ZIMAGE_AXES, { k->axes[0], k->axes[1], k->axes[2] }, k->theta };
    return zn_rope_fixed(g, name, &axes, position, tokens);
}

/* Image tokens, then caption tokens. */
static zn_node *joined(zn_node *picture, zn_node *caption)
{
    const int count = (int)(picture->shape.dim[2] + caption->shape.dim[2]);
    int32_t *from = zn_arena_alloc(zn_graph_arena(picture->graph), sizeof *from * (size_t)(count + 1));
    if (!from)
        return out_of_memory(picture->graph);
    for (int i = 0; i < count; i++)
        from[i] = i;
    return zn_take_tokens(picture, caption, from, count);
}

/* ---- the network ---- */

zn_node *zn_zimage_caption(zn_scope s, zn_node *features, const zn_zimage_form *k)
{
    zn_node *x = zn_rms_norm_layer(zn_at(s, "cap_embedder.0"), features, k->eps);
    x = fill_up(s, "cap_pad_token", zn_matrix_layer(zn_at(s, "cap_embedder.1"), x, k->dim));
    const int tokens = (int)x->shape.dim[2];
    int32_t *position = zn_arena_alloc(zn_graph_arena(s.graph), sizeof *position * ZN_ZIMAGE_AXES * (size_t)tokens);
    if (!position)
        return out_of_memory(s.graph);
    zn_zimage_caption_positions(tokens, position);
    const zn_rope_tables t = turns(s.graph, "caption positions", position, tokens, k);
    for (int i = 0; i < k->refiners; i++)
        x = block(zn_at(s, "context_refiner.%d", i), x, &t, NULL, k);
    return x;
}

/* The scale of a layer norm without weights comes from the time alone. */
static zn_node * final(zn_scope s, zn_node *x, zn_node *source, const zn_zimage_form *k)
{
    zn_node *ones = zn_fixed(s.graph, "one", ZN_SHAPE(k->dim)), *zeros = zn_fixed(s.graph, "zero", ZN_SHAPE(k->dim));
    for (int i = 0; i < k->dim && !zn_is_poison(ones); i++)
        ones->data[i] = 1;
    zn_node *scale = zn_matrix_layer(zn_at(s, "adaLN_modulation.1"), zn_silu(source), k->dim);
    x = zn_modulate(zn_layer_norm(x, ones, zeros, FINAL_EPS), scale, NULL);
    return zn_matrix_layer(zn_at(s, "linear"), x, ZN_ZIMAGE_PATCH * ZN_ZIMAGE_PATCH * k->channels);
}

static zn_node *body(zn_scope s, zn_node *x, zn_node *source, zn_node *caption, const int32_t *position,
                     const zn_zimage_form *k)
{
    const int picture = (int)x->shape.dim[2], all = picture + (int)caption->shape.dim[2];
    const zn_rope_tables own = turns(s.graph, "picture positions", position, picture, k);
    const zn_rope_tables both = turns(s.graph, "positions", position, all, k);
    for (int i = 0; i < k->refiners; i++)
        x = block(zn_at(s, "noise_refiner.%d", i), x, &own, source, k);
    x = joined(x, caption);
    for (int i = 0; i < k->layers; i++)
        x = block(zn_at(s, "layers.%d", i), x, &both, source, k);
    return x;
}

zn_node *zn_zimage(zn_scope s, zn_node *latent, zn_node *time, zn_node *caption, const zn_zimage_form *k)
{
    zn_graph_name_layer(s.graph, "patches");
    zn_node *x = zn_space_to_depth(latent, ZN_ZIMAGE_PATCH);
    const zn_shape grid = x->shape;
    const int rows = (int)grid.dim[1], columns = (int)grid.dim[2], tokens = rows * columns,
              words = (int)caption->shape.dim[2];
    int32_t *position = zn_arena_alloc(zn_graph_arena(s.graph),
                                       sizeof *position * ZN_ZIMAGE_AXES * (size_t)(zn_zimage_filled(tokens) + words));
    if (!position)
        return out_of_memory(s.graph);
    zn_zimage_picture_positions(rows, columns, words, position);
    zn_zimage_caption_positions(words, position + ZN_ZIMAGE_AXES * zn_zimage_filled(tokens));
    zn_node *source = zn_silu(zn_matrix_layer(zn_at(s, "t_embedder.mlp.0"), time, k->time));
    source = zn_matrix_layer(zn_at(s, "t_embedder.mlp.2"), source, k->modulation);
    x = zn_matrix_layer(zn_at(s, "all_x_embedder.2-1"), zn_reshape(x, ZN_SHAPE(1, 1, tokens, grid.dim[3])), k->dim);
    x = body(s, fill_up(s, "x_pad_token", x), source, caption, position, k);
    x = final(zn_at(s, "all_final_layer.2-1"), zn_slice_tokens(x, 0, tokens), source, k);
    zn_graph_name_layer(s.graph, "latent");
    return zn_depth_to_space(zn_reshape(x, grid), ZN_ZIMAGE_PATCH);
}
