/* DiffAE's convolutional networks (Preechakul et al., 2022), under the names of the original's checkpoints.
 *
 *   U-Net: x [N,H,W,3]                                                 encoder: image [N,H,W,3]
 *     conv 3->c0                                                         conv 3->c0
 *     each level: blocks, each kept for the way back; halve              each level: blocks; halve
 *     block, attention, block                                            block, attention, block
 *     each level, backwards: one block more than before, each with       norm, SiLU, mean over the map, conv 1x1
 *       a kept map beside its input; double
 *     norm, SiLU, conv c0->3
 *
 * A U-Net's block is modulated by time and condition; an encoder's has one convolution and knows of neither. */
#include "models/diffae/diffae.h"

#include "base/fail.h"

#include <stdio.h>

#define EPS 1e-5f

typedef enum resample { SAME, UP, DOWN } resample;

/* What every block of a U-Net is modulated by: SiLU of the time's embedding and of the condition (or NULL). */
typedef struct knowledge {
    zn_node *time, *cond;
    zn_node *seeds; /* of dropout, or NULL */
    float dropout;
} knowledge;

/* A place for each layer: they have more nodes than one. */
static zn_node *dropped(zn_node *x, const knowledge *know)
{
    return know->seeds ? zn_dropout(x, know->seeds, know->dropout, zn_graph_count(x->graph)) : x;
}

static zn_node *norm(zn_scope s, zn_node *x)
{
    const int c = zn_channels(x);
    return zn_group_norm_layer(s, x, c < 32 ? c : 32, EPS);
}

/* A layer that ends a branch starts at zero, so a new U-Net predicts nothing. */
static zn_node *ends_branch(zn_node *layer)
{
    return zn_layer_starts(layer, ZN_START(zn_start_value, 0), ZN_START(zn_start_value, 0));
}

static zn_node *resampled(zn_node *x, resample how)
{
    return how == UP ? zn_upsample2(x) : how == DOWN ? zn_downsample2(x) : x;
}

/* know NULL: a block of the encoder. */
static zn_node *block(zn_scope s, zn_node *x, int out, resample how, const knowledge *know)
{
    zn_node *h = resampled(zn_silu(norm(zn_at(s, "in_layers.0"), x)), how);
    x = resampled(x, how);
    h = zn_conv3x3(zn_at(s, "in_layers.2"), h, out);
    if (know) {
        zn_node *time = zn_linear(zn_at(s, "emb_layers.1"), know->time, 2 * out);
        zn_node *cond = know->cond ? zn_linear(zn_at(s, "cond_emb_layers.1"), know->cond, out) : NULL;
        h = norm(zn_at(s, "out_layers.0"), h);
        h = zn_modulate(h, zn_slice_channels(time, 0, out), zn_slice_channels(time, out, out));
        if (cond)
            h = zn_modulate(h, cond, NULL);
        h = ends_branch(zn_conv3x3(zn_at(s, "out_layers.3"), dropped(zn_silu(h), know), out));
    }
    if (zn_channels(x) != out)
        x = zn_conv1x1(zn_at(s, "skip_connection"), x, out);
    return zn_add(x, h);
}

static zn_node *attention(zn_scope s, zn_node *x, int heads)
{
    const int c = zn_channels(x);
    zn_node *qkv = zn_conv1d(zn_at(s, "qkv"), norm(zn_at(s, "norm"), x), 3 * c);
    return zn_add(x, ends_branch(zn_conv1d(zn_at(s, "proj_out"), zn_attention(qkv, heads), c)));
}

/* Maps kept on the way down, by level, to be taken in reverse. */
enum { KEPT = 16 };
typedef struct laterals {
    zn_node *map[ZN_UNET_LEVELS][KEPT];
    int count[ZN_UNET_LEVELS];
} laterals;

static void keep(laterals *l, int level, zn_node *x)
{
    if (l && l->count[level] < KEPT)
        l->map[level][l->count[level]++] = x;
}

static zn_node *down(zn_scope s, zn_node *x, const zn_unet *k, const knowledge *know, laterals *l)
{
    int at = 1;
    x = zn_conv3x3(zn_at(s, "input_blocks.0.0"), x, k->width * k->mult[0]);
    keep(l, 0, x);
    for (int level = 0; level < k->levels; level++) {
        const int width = k->width * k->mult[level];
        for (int i = 0; i < k->blocks; i++, at++) {
            x = block(zn_at(s, "input_blocks.%d.0", at), x, width, SAME, know);
            if (k->attention[level])
                x = attention(zn_at(s, "input_blocks.%d.1", at), x, k->heads);
            keep(l, level, x);
        }
        if (level + 1 < k->levels) {
            x = block(zn_at(s, "input_blocks.%d.0", at++), x, width, DOWN, know);
            keep(l, level + 1, x);
        }
    }
    return x;
}

static zn_node *middle(zn_scope s, zn_node *x, const zn_unet *k, const knowledge *know)
{
    const int width = zn_channels(x);
    x = block(zn_at(s, "middle_block.0"), x, width, SAME, know);
    x = attention(zn_at(s, "middle_block.1"), x, k->heads);
    return block(zn_at(s, "middle_block.2"), x, width, SAME, know);
}

static zn_node *up(zn_scope s, zn_node *x, const zn_unet *k, const knowledge *know, laterals *l)
{
    int at = 0;
    for (int level = k->levels - 1; level >= 0; level--) {
        const int width = k->width * k->mult[level];
        for (int i = 0; i <= k->blocks; i++, at++) {
            int part = 1;
            if (l->count[level] > 0)
                x = zn_concat(x, l->map[level][--l->count[level]]);
            x = block(zn_at(s, "output_blocks.%d.0", at), x, width, SAME, know);
            if (k->attention[level])
                x = attention(zn_at(s, "output_blocks.%d.%d", at, part++), x, k->heads);
            if (level > 0 && i == k->blocks)
                x = block(zn_at(s, "output_blocks.%d.%d", at, part), x, width, UP, know);
        }
    }
    return x;
}

/* Poisons the graph where the map cannot be halved as often as the network does. */
static zn_node *divisible(zn_node *x, const zn_unet *k)
{
    const int64_t step = (int64_t)1 << (k->levels - 1);
    const int64_t *d = x->shape.dim;
    if (x->shape.rank == 4 && d[1] % step == 0 && d[2] % step == 0)
        return x;
    char text[96];
    snprintf(text, sizeof text, "an image of %lldx%lld does not divide by %lld", (long long)d[2], (long long)d[1],
             (long long)step);
    return zn_graph_poison(x->graph, ZN_ESHAPE, text);
}

zn_node *zn_diffae_encoder(zn_scope s, zn_node *image, const zn_unet *k)
{
    zn_node *x = middle(s, down(s, divisible(image, k), k, NULL, NULL), k, NULL);
    x = zn_sample_mean(zn_silu(norm(zn_at(s, "out.0"), x)));
    return zn_conv1x1(zn_at(s, "out.3"), x, k->out);
}

zn_node *zn_diffae_unet(zn_scope s, zn_node *x, const zn_unet_facts *f, const zn_unet *k)
{
    const zn_scope t = f->cond ? zn_at(s, "time_embed.time_embed") : zn_at(s, "time_embed");
    zn_node *time = zn_linear(zn_at(t, "2"), zn_silu(zn_linear(zn_at(t, "0"), f->time, f->embed)), f->embed);
    const knowledge know = { zn_silu(time), f->cond ? zn_silu(f->cond) : NULL, f->seeds, f->dropout };
    laterals l = { 0 };
    x = down(s, divisible(x, k), k, &know, &l);
    x = up(s, middle(s, x, k, &know), k, &know, &l);
    return ends_branch(zn_conv3x3(zn_at(s, "out.2"), zn_silu(norm(zn_at(s, "out.0"), x)), k->out));
}

/* Weights start He normal in all layers but the last. */
static zn_node *inner(zn_node *layer) { return zn_layer_starts(layer, ZN_START(zn_start_he, 1), ZN_START_USUAL); }

zn_node *zn_diffae_latent(zn_scope s, zn_node *z, zn_node *time, const zn_latent_net *k)
{
    zn_node *e = zn_linear(zn_at(s, "time_embed.0"), time, k->channels);
    e = zn_silu(zn_linear(zn_at(s, "time_embed.2"), zn_silu(e), k->channels));
    zn_node *h = z;
    for (int i = 0; i < k->layers; i++) {
        const zn_scope layer = zn_at(s, "layers.%d", i);
        const bool last = i + 1 == k->layers;
        h = zn_linear(zn_at(layer, "linear"), i ? zn_concat(h, z) : h, last ? k->channels : k->hidden);
        if (last)
            break;
        h = zn_modulate(inner(h), inner(zn_linear(zn_at(layer, "linear_emb"), e, k->hidden)), NULL);
        h = zn_silu(zn_layer_norm_layer(zn_at(layer, "norm"), h, EPS));
    }
    return h;
}
