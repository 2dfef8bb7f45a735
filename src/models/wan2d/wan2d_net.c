/* The small autoencoder for images.
 *
 *   encoder: conv 3x3                                    decoder: conv 1x1
 *     each level: conv 3x3 with stride 2, residuals,       residuals, attention
 *       attention                                          each level, backwards: twice the sides, conv 3x3,
 *     residuals, attention                                   residuals, attention
 *     norm, SiLU, conv 3x3                                 norm, SiLU, conv 3x3, tanh */
#include "models/wan2d/wan2d.h"

#define EPS 1e-5f

const zn_wan2d_form zn_wan2d = { .width = 64,
                                 .levels = 4,
                                 .mult = { 1, 2, 4, 8 },
                                 .heads = { 0, 2, 4, 4 },
                                 .middle_heads = 4,
                                 .blocks = 2,
                                 .groups = 32,
                                 .latent = 4 };

static zn_node *norm(zn_scope s, zn_node *x, const zn_wan2d_form *k)
{
    const int c = zn_channels(x);
    return zn_group_norm_layer(s, x, c < k->groups ? c : k->groups, EPS);
}

static zn_node *residual(zn_scope s, zn_node *x, const zn_wan2d_form *k)
{
    const int c = zn_channels(x);
    zn_node *h = zn_silu(norm(zn_at(s, "norm1"), zn_conv3x3(zn_at(s, "conv1"), x, c), k));
    return zn_silu(zn_add(norm(zn_at(s, "norm2"), zn_conv3x3(zn_at(s, "conv2"), h, c), k), x));
}

static zn_node *attention(zn_scope s, zn_node *x, int heads, const zn_wan2d_form *k)
{
    const int c = zn_channels(x);
    zn_node *qkv = zn_linear(zn_at(s, "qkv"), norm(zn_at(s, "norm"), x, k), 3 * c);
    return zn_add(x, zn_linear(zn_at(s, "proj"), zn_attention_apart(qkv, heads), c));
}

/* Residuals, and the attention of a level that has one. */
static zn_node *level(zn_scope s, zn_node *x, int heads, const zn_wan2d_form *k)
{
    for (int i = 0; i < k->blocks; i++)
        x = residual(zn_at(s, "res_blocks.%d", i), x, k);
    return heads ? attention(zn_at(s, "attention"), x, heads, k) : x;
}

static zn_node *middle(zn_scope s, zn_node *x, const zn_wan2d_form *k)
{
    for (int i = 0; i < k->blocks; i++)
        x = residual(zn_at(s, "middle_res_blocks.%d", i), x, k);
    return attention(zn_at(s, "middle_attention"), x, k->middle_heads, k);
}

static zn_node *end(zn_scope s, zn_node *x, int out, const zn_wan2d_form *k)
{
    return zn_conv3x3(zn_at(s, "conv_out"), zn_silu(norm(zn_at(s, "norm_out"), x, k)), out);
}

zn_node *zn_wan2d_encoder(zn_scope s, zn_node *image, const zn_wan2d_form *k)
{
    zn_node *x = zn_conv3x3(zn_at(s, "conv_in"), image, k->width);
    for (int i = 0; i < k->levels; i++) {
        const zn_scope own = zn_at(s, "down_blocks.%d", i);
        x = zn_conv3x3_stride2(zn_at(own, "conv_in"), x, k->width * k->mult[i]);
        x = level(own, x, k->heads[i], k);
    }
    return end(s, middle(s, x, k), 2 * k->latent, k);
}

zn_node *zn_wan2d_decoder(zn_scope s, zn_node *latent, const zn_wan2d_form *k)
{
    zn_node *x = zn_conv1x1(zn_at(s, "z_to_h"), latent, k->width * k->mult[k->levels - 1]);
    x = middle(s, x, k);
    for (int i = k->levels - 1; i >= 0; i--) {
        const zn_scope own = zn_at(s, "up_blocks.%d", k->levels - 1 - i);
        x = zn_conv3x3(zn_at(own, "conv_in"), zn_upsample2(x), k->width * k->mult[i]);
        x = level(own, x, k->heads[i], k);
    }
    return zn_soft_clamp(end(s, x, 3, k), 1);
}
