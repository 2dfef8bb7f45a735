/* The Wan video autoencoders (Wan team, 2025), under the names of the original's checkpoints.
 *
 *   encoder: clip [T,H,W,3]                                  decoder: latent [t,h,w,C]
 *     (2.2: patches of 2x2)                                     conv 1x1x1, conv 3x3x3
 *     conv 3x3x3                                                residual, attention, residual
 *     each level: residuals; half the sides (and frames)        each level: residuals; twice the sides (and frames)
 *     residual, attention, residual                             norm, SiLU, conv 3x3x3
 *     norm, SiLU, conv 3x3x3, conv 1x1x1 to [t,h,w,2C]          (2.2: pixels of patches)
 *
 * 2.2 adds to each level what a shortcut around it makes of its input. */
#include "models/wan/wan.h"

#include <stdio.h>

const zn_wan_form zn_wan21 = {
    .width = 96,
    .back_width = 96,
    .levels = 4,
    .mult = { 1, 2, 4, 4 },
    .blocks = 2,
    .time = { false, true, true },
    .latent = 16,
    .mean = { -0.7571f, -0.7089f, -0.9113f, 0.1075f, -0.1745f, 0.9653f, -0.1517f, 1.5508f, 0.4134f, -0.0715f, 0.5517f,
              -0.3632f, -0.1922f, -0.9497f, 0.2503f, -0.2921f },
    .deviation = { 2.8184f, 1.4541f, 2.3275f, 2.6558f, 1.2196f, 1.7708f, 2.6052f, 2.0743f, 3.2687f, 2.1526f, 2.8652f,
                   1.5579f, 1.6382f, 1.1253f, 2.8251f, 1.9160f },
};

const zn_wan_form zn_wan22 = {
    .staged = true,
    .width = 160,
    .back_width = 256,
    .levels = 4,
    .mult = { 1, 2, 4, 4 },
    .blocks = 2,
    .time = { false, true, true },
    .latent = 48,
    .mean = { -0.2289f, -0.0052f, -0.1323f, -0.2339f, -0.2799f, 0.0174f,  0.1838f,  0.1557f,  -0.1382f, 0.0542f,
              0.2813f,  0.0891f,  0.1570f,  -0.0098f, 0.0375f,  -0.1825f, -0.2246f, -0.1207f, -0.0698f, 0.5109f,
              0.2665f,  -0.2108f, -0.2158f, 0.2502f,  -0.2055f, -0.0322f, 0.1109f,  0.1567f,  -0.0729f, 0.0899f,
              -0.2799f, -0.1230f, -0.0313f, -0.1649f, 0.0117f,  0.0723f,  -0.2839f, -0.2083f, -0.0520f, 0.3748f,
              0.0152f,  0.1957f,  0.1433f,  -0.2944f, 0.3573f,  -0.0548f, -0.1681f, -0.0667f },
    .deviation = { 0.4765f, 1.0364f, 0.4514f, 1.1677f, 0.5313f, 0.4990f, 0.4818f, 0.5013f, 0.8158f, 1.0344f,
                   0.5894f, 1.0901f, 0.6885f, 0.6165f, 0.8454f, 0.4978f, 0.5759f, 0.3523f, 0.7135f, 0.6804f,
                   0.5833f, 1.4146f, 0.8986f, 0.5659f, 0.7069f, 0.5338f, 0.4889f, 0.4917f, 0.4069f, 0.4999f,
                   0.6866f, 0.4093f, 0.5709f, 0.6065f, 0.6415f, 0.4944f, 0.5726f, 1.2042f, 0.5458f, 1.6887f,
                   0.3971f, 1.0600f, 0.3943f, 0.5537f, 0.5444f, 0.4089f, 0.7468f, 0.7744f },
};

void zn_wan_normalise(const zn_wan_form *k, float *latent, int64_t rows)
{
    for (int64_t i = 0; i < rows * k->latent; i++)
        latent[i] = (latent[i] - k->mean[i % k->latent]) / k->deviation[i % k->latent];
}

void zn_wan_restore(const zn_wan_form *k, float *latent, int64_t rows)
{
    for (int64_t i = 0; i < rows * k->latent; i++)
        latent[i] = latent[i] * k->deviation[i % k->latent] + k->mean[i % k->latent];
}

zn_node *zn_wan_normalised(zn_scope s, zn_node *latent, const zn_wan_form *k)
{
    float factor[ZN_WAN_LATENT], more[ZN_WAN_LATENT];
    for (int i = 0; i < k->latent; i++) {
        factor[i] = 1 / k->deviation[i];
        more[i] = -k->mean[i] / k->deviation[i];
    }
    return zn_fixed_affine(s, latent, factor, more);
}

zn_node *zn_wan_restored(zn_scope s, zn_node *latent, const zn_wan_form *k)
{
    return zn_fixed_affine(s, latent, k->deviation, k->mean);
}

static zn_node *middle(zn_scope s, zn_node *x, zn_stream *m)
{
    const int width = zn_channels(x);
    x = zn_wan_residual(zn_at(s, "middle.0"), x, width, m);
    x = zn_wan_attention(zn_at(s, "middle.1"), x);
    return zn_wan_residual(zn_at(s, "middle.2"), x, width, m);
}

static zn_node *head(zn_scope s, zn_node *x, int out, zn_stream *m)
{
    x = zn_silu(zn_wan_norm(zn_at(s, "head.0"), x));
    return zn_conv3d(zn_at(s, "head.2"), x, out, m);
}

/* Layer `layer` of a level; 2.1 counts on over all levels. */
static zn_scope layer_at(zn_scope s, const char *group, const zn_wan_form *k, int level, int layer, int layers)
{
    return k->staged ? zn_at(s, "%s.%d.%s.%d", group, level, group, layer)
                     : zn_at(s, "%s.%d", group, level * layers + layer);
}

static zn_node *down(zn_scope s, zn_node *x, const zn_wan_form *k, zn_stream *m)
{
    const int layers = k->blocks + 1;
    for (int level = 0; level < k->levels; level++) {
        const int out = k->width * k->mult[level];
        const bool halve = level + 1 < k->levels, time = halve && k->time[level];
        if (time && k->staged) /* further down, the shortcut goes round a cut */
            x = zn_cut(m, x);
        zn_node *in = x;
        for (int i = 0; i < k->blocks; i++)
            x = zn_wan_residual(layer_at(s, "downsamples", k, level, i, layers), x, out, m);
        if (halve)
            x = zn_wan_down(layer_at(s, "downsamples", k, level, k->blocks, layers), x, time && !k->flat, !k->staged,
                            m);
        if (k->staged)
            x = zn_add(x, zn_wan_average(in, out, time ? 2 : 1, halve ? 2 : 1, m));
    }
    return x;
}

/* 2.1 halves the channels with every doubling of the sides. */
static zn_node *up(zn_scope s, zn_node *x, const zn_wan_form *k, zn_stream *m)
{
    const int layers = k->blocks + 2;
    for (int level = 0; level < k->levels; level++) {
        const int own = k->levels - 1 - level, out = k->back_width * k->mult[own];
        const bool twice = own > 0, time = twice && k->time[own - 1];
        zn_node *in = x;
        for (int i = 0; i <= k->blocks; i++)
            x = zn_wan_residual(layer_at(s, "upsamples", k, level, i, layers), x, out, m);
        if (twice)
            x = zn_wan_up(layer_at(s, "upsamples", k, level, k->blocks + 1, layers), x, k->staged ? out : out / 2,
                          time && !k->flat, !k->staged, m);
        if (twice && k->staged)
            x = zn_add(x, zn_wan_repeat(in, out, time ? 2 : 1, 2, m));
        if (time && k->staged)
            x = zn_cut(m, x);
    }
    return x;
}

int zn_wan_frames(const zn_wan_form *k)
{
    int each = 1;
    for (int level = 0; level + 1 < k->levels; level++)
        each *= k->time[level] ? 2 : 1;
    return each;
}

/* Without the frames that do not fill a latent one; poisons the graph where sides or frames cannot be divided. */
static zn_node *divisible(zn_node *x, const zn_wan_form *k, zn_stream *m)
{
    const int64_t step = (int64_t)1 << (k->levels - 1 + k->staged), *d = x->shape.dim;
    const int each = zn_wan_frames(k), more = x->shape.rank == 4 ? (int)(d[0] - 1) % each : 0;
    const int parts = m && m->stage == 1 ? m->parts : 1;
    char text[96];
    if (x->shape.rank != 4 || d[1] % step || d[2] % step)
        snprintf(text, sizeof text, "frames of %lldx%lld do not divide by %lld", (long long)d[2], (long long)d[1],
                 (long long)step);
    else if (m && m->apart)
        return x;
    else if (m && !m->first && d[0] * parts % each)
        snprintf(text, sizeof text, "a later piece of a clip needs frames by %d, not %lld", each, (long long)d[0]);
    else
        return more && (!m || m->first) ? zn_take_frames(x, 0, 1, (int)d[0] - more) : x;
    return zn_graph_poison(x->graph, ZN_ESHAPE, text);
}

zn_node *zn_wan_encoder(zn_scope s, zn_node *clip, const zn_wan_form *k, zn_stream *m)
{
    const zn_scope own = zn_at(s, "encoder");
    zn_node *x = divisible(clip, k, m);
    x = zn_conv3d(zn_at(own, "conv1"), k->staged ? zn_wan_patches(x) : x, k->width, m);
    x = head(own, middle(own, down(own, x, k, m), m), 2 * k->latent, m);
    return zn_conv3d_1x1(zn_at(s, "conv1"), x, 2 * k->latent);
}

zn_node *zn_wan_decoder(zn_scope s, zn_node *latent, const zn_wan_form *k, zn_stream *m)
{
    const zn_scope own = zn_at(s, "decoder");
    zn_node *x = zn_conv3d_1x1(zn_at(s, "conv2"), latent, k->latent);
    x = zn_conv3d(zn_at(own, "conv1"), x, k->back_width * k->mult[k->levels - 1], m);
    x = head(own, up(own, middle(own, x, m), k, m), k->staged ? 12 : 3, m);
    return k->staged ? zn_wan_pixels(x) : x;
}
