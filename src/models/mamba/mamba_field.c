/* Sparse-field networks: Mamba over scattered points.
 *
 *   encoder                                         denoiser
 *     Fourier features of points, values              Fourier features of points, noisy values
 *     embed                        [N,1,L,width]      embed                             [N,1,Q,width]
 *     blocks: x + mixer(norm x)                       blocks: x + mixer(norm x, modulated by time and condition)
 *     norm, mean over points       [1,1,N,width]      norm, SiLU
 *     proj                         [1,1,N,latent]     head                              [N,1,Q,C]
 *
 * The coordinate network is a denoiser that gets noisy features for points and values, and gives clean ones. */
#include "models/mamba/mamba_field.h"

#include <math.h>

#define EPS 1e-5f

const zn_field zn_field_usual = { .width = 512,
                                  .blocks = 6,
                                  .features = 256,
                                  .spread = 10,
                                  .values = 3,
                                  .latent = 512,
                                  .embed = 512,
                                  .colours = 3,
                                  .hidden = 512,
                                  .grid = 64,
                                  .mixer = { .states = 16, .taps = 4, .expand = 2 } };

static zn_node *norm(zn_scope s, const char *name, zn_node *x)
{
    const zn_scope own = zn_at(s, "%s", name);
    zn_graph_name_layer(s.graph, own.prefix);
    zn_node *gain = zn_vector(own, "weight", zn_channels(x), ZN_ROLE_GAIN);
    return zn_rms_norm(x, zn_starts(gain, ZN_START(zn_start_value, 1)), EPS);
}

static zn_node *mixer(zn_scope s, zn_node *x, zn_node *orders, const zn_field *k)
{
    zn_mamba own = k->mixer;
    own.layers = k->blocks;
    return zn_mamba_plane(zn_at(s, "mixer"), x, orders, &own);
}

static zn_node *fourier(zn_scope s, zn_node *points, const zn_field *k)
{
    const zn_scope own = zn_at(s, "fourier");
    zn_graph_name_layer(s.graph, own.prefix);
    zn_node *directions = zn_plain_parameter(own, "B", ZN_SHAPE(k->features, 2), ZN_ROLE_CONSTANT);
    return zn_fourier(points, zn_starts(directions, ZN_START(zn_start_normal, k->spread)));
}

zn_node *zn_field_encode(zn_scope s, zn_node *points, zn_node *values, zn_node *orders, const zn_field *k)
{
    zn_node *x = zn_linear(zn_at(s, "embed"), zn_concat(fourier(s, points, k), values), k->width);
    for (int i = 0; i < k->blocks; i++) {
        const zn_scope block = zn_at(s, "blocks.%d", i);
        x = zn_add(x, mixer(block, norm(block, "norm", x), orders, k));
    }
    return zn_linear(zn_at(s, "proj"), zn_mean_tokens(norm(s, "norm_f", x), orders), k->latent);
}

/* A block of a denoiser; time and cond through SiLU. */
static zn_node *block(zn_scope s, zn_node *x, const zn_field_known *known, const zn_field *k)
{
    const int width = zn_channels(x);
    zn_node *h = norm(s, "norm", x), *time = zn_linear(zn_at(s, "emb"), known->time, 2 * width);
    h = zn_modulate(h, zn_slice_channels(time, 0, width), zn_slice_channels(time, width, width));
    h = zn_modulate(h, zn_linear(zn_at(s, "cond"), known->cond, width), NULL);
    return zn_add(x, mixer(s, h, known->orders, k));
}

/* From what a token is made of to `out` numbers for each. */
static zn_node *denoiser(zn_scope s, zn_node *x, const zn_field_known *known, int out, const zn_field *k)
{
    zn_node *time = zn_silu(zn_linear(zn_at(s, "time.0"), known->time, k->embed));
    time = zn_silu(zn_linear(zn_at(s, "time.2"), time, k->embed));
    const zn_field_known inner = { known->orders, time, zn_silu(known->cond) };
    x = zn_linear(zn_at(s, "embed"), x, k->width);
    for (int i = 0; i < k->blocks; i++)
        x = block(zn_at(s, "blocks.%d", i), x, &inner, k);
    x = zn_linear(zn_at(s, "head"), zn_silu(norm(s, "norm_f", x)), out);
    return zn_layer_starts(x, ZN_START(zn_start_value, 0), ZN_START(zn_start_value, 0));
}

zn_node *zn_field_denoise(zn_scope s, zn_node *points, zn_node *values, const zn_field_known *known, const zn_field *k)
{
    zn_node *where = fourier(s, points, k);
    if (!values)
        values = zn_scale(zn_slice_channels(where, 0, k->values), 0);
    return denoiser(s, zn_concat(where, values), known, k->values, k);
}

zn_node *zn_field_values(zn_scope s, zn_node *points, const zn_field_known *known, const zn_field *k)
{
    return denoiser(s, fourier(s, points, k), known, k->values, k);
}

zn_node *zn_field_features(zn_scope s, zn_node *points, const zn_field *k)
{
    return zn_scale(fourier(s, points, k), sqrtf(2));
}

zn_node *zn_field_clean_features(zn_scope s, zn_node *noisy, const zn_field_known *known, const zn_field *k)
{
    return denoiser(s, noisy, known, 2 * k->features, k);
}

zn_node *zn_field_colours(zn_scope s, zn_node *features, zn_node *cond, const zn_field *k)
{
    zn_node *h = zn_linear(zn_at(s, "rgb.0"), features, k->hidden);
    h = zn_modulate(h, zn_linear(zn_at(s, "rgb.cond"), zn_silu(cond), k->hidden), NULL);
    return zn_linear(zn_at(s, "rgb.2"), zn_silu(h), k->colours);
}

/* As PyTorch does, but for what layers say themselves. */
const zn_start zn_field_start[ZN_ROLES] = {
    [ZN_ROLE_WEIGHT] = { zn_start_linear, 0 }, [ZN_ROLE_BIAS] = { zn_start_linear, 0 }
};
