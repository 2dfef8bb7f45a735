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
#include "nn/start.h"

#include <stdio.h>
#include <string.h>

#define FINAL_EPS 1e-6f

/* Tokens of the feed-forward part at a time: enough to use weights well, few enough to stay small. */
enum { PIECE = 1024 };

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

/* A matrix of an adapter: its values are given, no file is asked for them. */
static zn_node *adapter_matrix(zn_scope s, const char *part, int number, int out, int in, const zn_packed *values)
{
    char name[32];
    snprintf(name, sizeof name, "lora_%s.%d", part, number);
    zn_node *n = zn_parameter(s, name, ZN_SHAPE(1, 1, out, in), ZN_LAYOUT_ROWS, ZN_ROLE_WEIGHT);
    if (!zn_is_poison(n))
        n->packed = values;
    return n;
}

/* What adapters add to the result of a linear layer. */
static zn_node *adapted(zn_scope s, zn_node *x, zn_node *y, const zn_zimage_form *k)
{
    const int out = zn_channels(y);
    for (int i = 0; i < k->adapter_count; i++) {
        const zn_adapter *a = &k->adapters[i];
        if (strcmp(a->layer, s.prefix))
            continue;
        zn_node *inner = zn_matrix(x, adapter_matrix(s, "A", i, a->rank, zn_channels(x), &a->a), NULL);
        zn_node *more = zn_matrix(zn_scale(inner, a->factor), adapter_matrix(s, "B", i, out, a->rank, &a->b), NULL);
        y = zn_add(y, more);
    }
    return y;
}

/* A linear layer, and one with bias. */
static zn_node *linear(zn_scope s, zn_node *x, int out, const zn_zimage_form *k)
{
    return adapted(s, x, zn_matrix_no_bias(s, x, out), k);
}

static zn_node *affine(zn_scope s, zn_node *x, int out, const zn_zimage_form *k)
{
    return adapted(s, x, zn_matrix_layer(s, x, out), k);
}

/* The same; a new one gives zeros, so that a new block gives what it gets and a new network nothing. */
static zn_node *silent(zn_scope s, zn_node *x, int out, const zn_zimage_form *k)
{
    return adapted(s, x, zn_layer_starts(zn_matrix_layer(s, x, out), ZN_START(zn_start_value, 0), ZN_START_USUAL), k);
}

/* Where the tokens of a block are, and which of them it must give. */
typedef struct places {
    const zn_rope_tables *all, *kept; /* turns of all tokens, and of those that are kept */
    int count;                        /* how many tokens are kept, from the first on; 0: all of them */
} places;

static zn_node *kept(zn_node *x, const places *t) { return t->count ? zn_slice_tokens(x, 0, t->count) : x; }

static zn_node *attention(zn_scope s, zn_node *x, const places *t, const zn_zimage_form *k)
{
    zn_node *q = linear(zn_at(s, "to_q"), kept(x, t), k->dim, k);
    zn_node *key = linear(zn_at(s, "to_k"), x, k->dim, k);
    zn_node *value = linear(zn_at(s, "to_v"), x, k->dim, k);
    q = zn_rms_norm_heads(zn_at(s, "norm_q"), q, k->heads, k->eps);
    q = zn_rope(q, t->kept->cosines, t->kept->sines, false);
    key = zn_rms_norm_heads(zn_at(s, "norm_k"), key, k->heads, k->eps);
    key = zn_rope(key, t->all->cosines, t->all->sines, false);
    x = zn_attend(q, key, value, (zn_attend_spec){ .heads = k->heads, .groups = k->heads });
    return linear(zn_at(s, "to_out.0"), x, k->dim, k);
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
    if (!gate)
        return x;
    gate = zn_soft_clamp(gate, 1);
    return gate->shape.dim[2] == 1 ? zn_scale_channels(x, gate)
                                   : zn_modulate(x, zn_sub(gate, zn_ones_like(gate)), NULL);
}

static zn_node *feed_forward_piece(zn_scope s, zn_node *x, const zn_zimage_form *k)
{
    zn_node *gate = zn_silu(linear(zn_at(s, "w1"), x, k->inner, k));
    return linear(zn_at(s, "w2"), zn_multiply(gate, linear(zn_at(s, "w3"), x, k->inner, k)), k->dim, k);
}

/* Piece by piece of the tokens: the inner results are nearly three times as wide as the tokens. */
static zn_node *feed_forward(zn_scope s, zn_node *x, const zn_zimage_form *k)
{
    const int tokens = (int)x->shape.dim[2], wish = k->piece ? k->piece : PIECE;
    const int least = (tokens + ZN_MAX_SOURCES - 1) / ZN_MAX_SOURCES, piece = wish > least ? wish : least;
    if (tokens <= piece)
        return feed_forward_piece(s, x, k);
    zn_node *done[ZN_MAX_SOURCES];
    int count = 0;
    for (int at = 0; at < tokens; at += piece) {
        const int size = tokens - at < piece ? tokens - at : piece;
        done[count++] = feed_forward_piece(s, zn_slice_tokens(x, at, size), k);
    }
    return zn_join_tokens(done, count);
}

/* all: the block's modulation [1,1,samples,4 dim], or NULL for none. */
static zn_node *block(zn_scope s, zn_node *x, const places *t, zn_node *all, const zn_zimage_form *k)
{
    zn_node *m[4] = { 0 };
    for (int i = 0; i < 4 && all; i++)
        m[i] = zn_slice_channels(all, i * k->dim, k->dim);
    zn_node *h = attention(zn_at(s, "attention"), scaled(zn_at(s, "attention_norm1"), x, m[0], k), t, k);
    x = zn_add(kept(x, t), gated(zn_at(s, "attention_norm2"), h, m[1], k));
    h = feed_forward(zn_at(s, "feed_forward"), scaled(zn_at(s, "ffn_norm1"), x, m[2], k), k);
    h = gated(zn_at(s, "ffn_norm2"), h, m[3], k);
    zn_graph_name_layer(s.graph, s.prefix);
    return zn_add(x, h);
}

/* ---- modulation: four vectors for each block of the noise refiner and each layer, then the final scale ---- */

int zn_zimage_modulation_width(const zn_zimage_form *k) { return (4 * (k->refiners + k->layers) + 1) * k->dim; }

/* Of modulated block i, counted through noise refiner and layers. */
static zn_scope modulated(zn_scope s, int i, const zn_zimage_form *k)
{
    return i < k->refiners ? zn_at(s, "noise_refiner.%d", i) : zn_at(s, "layers.%d", i - k->refiners);
}

static zn_node *modulation_of(zn_node *modulation, int i, const zn_zimage_form *k)
{
    return zn_slice_channels(modulation, 4 * k->dim * i, 4 * k->dim);
}

zn_node *zn_zimage_modulation(zn_scope s, zn_node *times, const zn_zimage_form *k)
{
    const int blocks = k->refiners + k->layers;
    zn_node *source = zn_silu(affine(zn_at(s, "t_embedder.mlp.0"), times, k->time, k));
    source = affine(zn_at(s, "t_embedder.mlp.2"), source, k->modulation, k);
    zn_node *part[ZN_MAX_SOURCES];
    int parts = 0;
    for (int i = 0; i <= blocks; i++) {
        const bool last = i == blocks;
        zn_graph_name_layer(s.graph, "modulation");
        zn_node *from = last ? zn_silu(source) : source;
        const zn_scope own =
            last ? zn_at(s, "all_final_layer.2-1.adaLN_modulation.1") : zn_at(modulated(s, i, k), "adaLN_modulation.0");
        part[parts++] = silent(own, from, (last ? 1 : 4) * k->dim, k);
        zn_graph_name_layer(s.graph, "modulation");
        if (parts == ZN_MAX_SOURCES || last) {
            part[0] = zn_apply(&zn_op_concat, NULL, 0, part, parts);
            parts = 1;
        }
    }
    return part[0];
}

/* ---- tokens ---- */

static zn_node *out_of_memory(zn_graph *g)
{
    return zn_graph_poison(g, ZN_ENOMEM, "out of memory while building a graph");
}

/* x [N,1,L,dim], each sample filled up with a learned token. */
static zn_node *fill_up(zn_scope s, const char *name, zn_node *x)
{
    const int samples = (int)x->shape.dim[0], tokens = (int)x->shape.dim[2], dim = zn_channels(x);
    const int filled = zn_zimage_filled(tokens), all = samples * filled;
    if (samples > 1 && tokens == filled)
        return x;
    zn_node *pad = zn_plain_parameter(s, name, ZN_SHAPE(1, dim), ZN_ROLE_EMBEDDING);
    int32_t *from = zn_arena_alloc(zn_graph_arena(s.graph), sizeof *from * (size_t)(all + 1));
    if (!from)
        return out_of_memory(s.graph);
    for (int i = 0; i < all; i++)
        from[i] = i % filled < tokens ? i / filled * tokens + i % filled : samples * tokens;
    x = zn_reshape(x, ZN_SHAPE(1, 1, samples * tokens, dim));
    x = zn_take_tokens(x, zn_reshape(pad, ZN_SHAPE(1, 1, 1, dim)), from, all);
    return zn_reshape(x, ZN_SHAPE(samples, 1, filled, dim));
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

/* ---- the network ---- */

static zn_node *embed_caption(zn_scope s, zn_node *features, const zn_zimage_form *k)
{
    zn_node *x = zn_rms_norm_layer(zn_at(s, "cap_embedder.0"), features, k->eps);
    return affine(zn_at(s, "cap_embedder.1"), x, k->dim, k);
}

/* x: filled up. */
static zn_node *refine_caption(zn_scope s, zn_node *x, const zn_zimage_form *k)
{
    const int tokens = (int)x->shape.dim[2];
    int32_t *position = zn_arena_alloc(zn_graph_arena(s.graph), sizeof *position * ZN_ZIMAGE_AXES * (size_t)tokens);
    if (!position)
        return out_of_memory(s.graph);
    zn_zimage_caption_positions(tokens, position);
    const zn_rope_tables t = turns(s.graph, "caption positions", position, tokens, k);
    const places at = { &t, &t, 0 };
    for (int i = 0; i < k->refiners; i++)
        x = block(zn_at(s, "context_refiner.%d", i), x, &at, NULL, k);
    return x;
}

zn_node *zn_zimage_caption(zn_scope s, zn_node *features, const zn_zimage_form *k)
{
    return refine_caption(s, fill_up(s, "cap_pad_token", embed_caption(s, features, k)), k);
}

zn_node *zn_zimage_captions(zn_scope s, zn_node *features, zn_node *ids, const zn_zimage_form *k)
{
    zn_node *x = embed_caption(s, features, k), *half = zn_scale(zn_ones_like(ids), 0.5f);
    zn_node *pad = zn_plain_parameter(s, "cap_pad_token", ZN_SHAPE(1, k->dim), ZN_ROLE_EMBEDDING);
    zn_node *ones = zn_fixed(s.graph, "one row", ZN_SHAPE(1, 1, 1, k->dim));
    for (int i = 0; i < k->dim && !zn_is_poison(ones); i++)
        ones->data[i] = 1;
    /* row 0 where there is a word, else none */
    zn_node *row = zn_sub(zn_positive(zn_add(ids, half)), zn_ones_like(ids));
    pad = zn_reshape(pad, ZN_SHAPE(k->dim));
    x = zn_multiply(zn_add_channels(x, zn_scale(pad, -1)), zn_lookup(ones, row));
    return refine_caption(s, zn_add_channels(x, pad), k);
}

/* The scale of a layer norm without weights comes from the time alone. */
static zn_node * final(zn_scope s, zn_node *x, zn_node *scale, const zn_zimage_form *k)
{
    zn_node *ones = zn_fixed(s.graph, "one", ZN_SHAPE(k->dim)), *zeros = zn_fixed(s.graph, "zero", ZN_SHAPE(k->dim));
    for (int i = 0; i < k->dim && !zn_is_poison(ones); i++)
        ones->data[i] = 1;
    x = zn_modulate(zn_layer_norm(x, ones, zeros, FINAL_EPS), scale, NULL);
    return silent(zn_at(s, "linear"), x, ZN_ZIMAGE_PATCH * ZN_ZIMAGE_PATCH * k->channels, k);
}

/* The image's tokens after all blocks: what becomes of the caption in the last one nobody reads. */
static zn_node *body(zn_scope s, zn_node *x, zn_node *modulation, zn_node *caption, const int32_t *position,
                     const zn_zimage_form *k)
{
    const int picture = (int)x->shape.dim[2], all = picture + (int)caption->shape.dim[2];
    const int blocks = k->refiners + k->layers;
    const zn_rope_tables own = turns(s.graph, "picture positions", position, picture, k);
    const zn_rope_tables both = turns(s.graph, "positions", position, all, k);
    for (int i = 0; i < blocks; i++) {
        const places at = i < k->refiners  ? (places){ &own, &own, 0 }
                          : i + 1 < blocks ? (places){ &both, &both, 0 }
                                           : (places){ &both, &own, picture };
        if (i == k->refiners)
            x = zn_join_tokens((zn_node *[]){ x, caption }, 2); /* image tokens, then caption tokens */
        x = block(modulated(s, i, k), x, &at, modulation_of(modulation, i, k), k);
    }
    return x;
}

zn_node *zn_zimage(zn_scope s, zn_node *latent, zn_node *modulation, zn_node *caption, const zn_zimage_form *k)
{
    zn_graph_name_layer(s.graph, "patches");
    zn_node *x = zn_space_to_depth(latent, ZN_ZIMAGE_PATCH);
    const zn_shape grid = x->shape;
    const int samples = (int)grid.dim[0], rows = (int)grid.dim[1], columns = (int)grid.dim[2], tokens = rows * columns,
              words = (int)caption->shape.dim[2];
    int32_t *position = zn_arena_alloc(zn_graph_arena(s.graph),
                                       sizeof *position * ZN_ZIMAGE_AXES * (size_t)(zn_zimage_filled(tokens) + words));
    if (!position)
        return out_of_memory(s.graph);
    zn_zimage_picture_positions(rows, columns, words, position);
    zn_zimage_caption_positions(words, position + ZN_ZIMAGE_AXES * zn_zimage_filled(tokens));
    x = affine(zn_at(s, "all_x_embedder.2-1"), zn_reshape(x, ZN_SHAPE(samples, 1, tokens, grid.dim[3])), k->dim, k);
    x = body(s, fill_up(s, "x_pad_token", x), modulation, caption, position, k);
    zn_node *scale = zn_slice_channels(modulation, zn_zimage_modulation_width(k) - k->dim, k->dim);
    x = final(zn_at(s, "all_final_layer.2-1"), zn_slice_tokens(x, 0, tokens), scale, k);
    zn_graph_name_layer(s.graph, "latent");
    return zn_depth_to_space(zn_reshape(x, grid), ZN_ZIMAGE_PATCH);
}
