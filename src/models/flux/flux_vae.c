/* FLUX.1's autoencoder (Black Forest Labs, 2024), under the names of the diffusers checkpoint.
 *
 *   encoder: image [N,H,W,3]                          decoder: z [N,h,w,C]
 *     conv 3x3                                            conv 3x3
 *     each level: residuals; half the sides               residual, attention, residual
 *     residual, attention, residual                       each level, backwards: residuals; twice the sides
 *     norm, SiLU, conv 3x3 to [N,h,w,2C]                  norm, SiLU, conv 3x3 */
#include "models/flux/flux_vae.h"

#define EPS 1e-6f

const zn_flux_form zn_flux_vae = { .levels = 4,
                                   .width = { 128, 256, 512, 512 },
                                   .blocks = 2,
                                   .latent = 16,
                                   .groups = 32,
                                   .scale = 0.3611,
                                   .shift = 0.1159 };

void zn_flux_normalise(const zn_flux_form *k, float *z, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        z[i] = (z[i] - (float)k->shift) * (float)k->scale;
}

void zn_flux_restore(const zn_flux_form *k, float *latent, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        latent[i] = latent[i] / (float)k->scale + (float)k->shift;
}

static zn_node *norm(zn_scope s, zn_node *x, const zn_flux_form *k)
{
    return zn_group_norm_layer(s, x, k->groups, EPS);
}

static zn_node *residual(zn_scope s, zn_node *x, int out, const zn_flux_form *k)
{
    zn_node *h = zn_conv3x3(zn_at(s, "conv1"), zn_silu(norm(zn_at(s, "norm1"), x, k)), out);
    h = zn_conv3x3(zn_at(s, "conv2"), zn_silu(norm(zn_at(s, "norm2"), h, k)), out);
    if (zn_channels(x) != out)
        x = zn_conv1x1(zn_at(s, "conv_shortcut"), x, out);
    zn_graph_name_layer(s.graph, s.prefix);
    return zn_add(x, h);
}

static zn_node *attention(zn_scope s, zn_node *x, const zn_flux_form *k)
{
    const int c = zn_channels(x);
    zn_node *h = norm(zn_at(s, "group_norm"), x, k);
    zn_node *q = zn_linear(zn_at(s, "to_q"), h, c), *key = zn_linear(zn_at(s, "to_k"), h, c);
    h = zn_attend(q, key, zn_linear(zn_at(s, "to_v"), h, c), (zn_attend_spec){ .heads = 1, .groups = 1 });
    h = zn_linear(zn_at(s, "to_out.0"), h, c);
    zn_graph_name_layer(s.graph, s.prefix);
    return zn_add(x, h);
}

static zn_node *middle(zn_scope s, zn_node *x, const zn_flux_form *k)
{
    const zn_scope own = zn_at(s, "mid_block");
    const int c = zn_channels(x);
    x = attention(zn_at(own, "attentions.0"), residual(zn_at(own, "resnets.0"), x, c, k), k);
    return residual(zn_at(own, "resnets.1"), x, c, k);
}

static zn_node *tail(zn_scope s, zn_node *x, int out, const zn_flux_form *k)
{
    return zn_conv3x3(zn_at(s, "conv_out"), zn_silu(norm(zn_at(s, "conv_norm_out"), x, k)), out);
}

/* One row of zeros below and one column on the right, none on the other sides: an odd side loses its last one. */
static zn_node *halved(zn_scope s, zn_node *x)
{
    const int c = zn_channels(x);
    zn_graph_name_layer(s.graph, s.prefix);
    zn_node *w = zn_parameter(s, "weight", ZN_SHAPE(3, 3, c, c), ZN_LAYOUT_CONV, ZN_ROLE_WEIGHT);
    zn_node *b = zn_vector(s, "bias", c, ZN_ROLE_BIAS);
    return zn_conv(x, w, b, (zn_conv_spec){ .stride = 2, .beyond = 1 });
}

zn_node *zn_flux_encoder(zn_scope s, zn_node *image, const zn_flux_form *k)
{
    const zn_scope own = zn_at(s, "encoder");
    zn_node *x = zn_conv3x3(zn_at(own, "conv_in"), image, k->width[0]);
    for (int level = 0; level < k->levels; level++) {
        const zn_scope at = zn_at(own, "down_blocks.%d", level);
        for (int i = 0; i < k->blocks; i++)
            x = residual(zn_at(at, "resnets.%d", i), x, k->width[level], k);
        if (level + 1 < k->levels)
            x = halved(zn_at(at, "downsamplers.0.conv"), x);
    }
    return tail(own, middle(own, x, k), 2 * k->latent, k);
}

zn_node *zn_flux_decoder(zn_scope s, zn_node *z, const zn_flux_form *k)
{
    const zn_scope own = zn_at(s, "decoder");
    zn_node *x = middle(own, zn_conv3x3(zn_at(own, "conv_in"), z, k->width[k->levels - 1]), k);
    for (int level = 0; level < k->levels; level++) {
        const zn_scope at = zn_at(own, "up_blocks.%d", level);
        const int out = k->width[k->levels - 1 - level];
        for (int i = 0; i <= k->blocks; i++)
            x = residual(zn_at(at, "resnets.%d", i), x, out, k);
        if (level + 1 < k->levels)
            x = zn_conv3x3(zn_at(at, "upsamplers.0.conv"), zn_upsample2(x), out);
    }
    return tail(own, x, 3, k);
}
