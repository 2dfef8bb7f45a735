/* TAEHV (madebyollin, 2025), under the names of the original's checkpoints.
 *
 *   encoder: clip                                         decoder: latent
 *     conv 3x3, ReLU                                        soft clamp, conv 3x3, ReLU
 *     three groups: frames joined by 2, 2, 1;               three groups: three blocks with memory;
 *       conv 3x3 with stride 2; three blocks with memory      frames split by 1, 2, 2; twice the sides, conv 3x3
 *     conv 3x3                                              ReLU, conv 3x3
 *
 * All convolutions are of single frames; a block with memory also sees its input of the frame before. The larger
 * decoder
 * ("super") has blocks in the manner of ConvNeXt, and doubles the sides by pixel shuffles. */
#include "models/taehv/taehv.h"

#include "models/wan/wan.h"

#include <stdio.h>

#define CLAMP 3.0f
enum { BLOCKS = 3, WIDE = 7 /* side of the larger decoder's kernels */ };

const zn_taehv_form zn_taew21 = { .patch = 1, .latent = 16, .width = 64, .back_width = { 256, 128, 64, 64 } };
const zn_taehv_form zn_taew22 = { .patch = 2, .latent = 48, .width = 64, .back_width = { 256, 128, 64, 64 } };
const zn_taehv_form zn_taew22_super = {
    .patch = 2, .latent = 48, .width = 64, .back_width = { 512, 256, 128, 64 }, .large = true
};
/* LightX2V's, trained between pixels and what the VAE itself computes. */
const zn_taehv_form zn_lighttae21 = {
    .patch = 1, .latent = 16, .width = 64, .back_width = { 256, 128, 64, 64 }, .raw = &zn_wan21
};
const zn_taehv_form zn_lighttae22 = {
    .patch = 2, .latent = 48, .width = 64, .back_width = { 256, 128, 64, 64 }, .raw = &zn_wan22
};

static int frames_of(const zn_node *x) { return (int)x->shape.dim[0]; }

/* What a block adds to its input starts small, or a dozen of them make hundreds of an image. */
static zn_node *block(zn_scope s, zn_node *x, zn_stream *m)
{
    const int c = zn_channels(x);
    zn_node *h = zn_concat(x, zn_frames_before(m, x));
    h = zn_relu(zn_conv3x3(zn_at(s, "conv.0"), h, c));
    h = zn_relu(zn_conv3x3(zn_at(s, "conv.2"), h, c));
    h = zn_layer_starts(zn_conv3x3(zn_at(s, "conv.4"), h, c), ZN_START(zn_start_he, 0.1f), ZN_START_USUAL);
    return zn_relu(zn_add(h, x));
}

static zn_node *blocks(zn_scope s, int first, zn_node *x, zn_stream *m)
{
    for (int i = 0; i < BLOCKS; i++)
        x = block(zn_at(s, "%d", first + i), x, m);
    return x;
}

/* `by` frames become one. */
static zn_node *join(zn_scope s, zn_node *x, int by)
{
    const int c = zn_channels(x), frames = frames_of(x) / by;
    zn_node *all = by > 1 ? zn_take_frames(x, 0, by, frames) : x;
    for (int i = 1; i < by; i++)
        all = zn_concat(all, zn_take_frames(x, i, by, frames));
    return zn_conv1x1_no_bias(zn_at(s, "conv"), all, c);
}

/* One frame becomes `by`. */
static zn_node *split(zn_scope s, zn_node *x, int by)
{
    const int c = zn_channels(x);
    zn_node *parts[ZN_TAEHV_EACH], *y = zn_conv1x1_no_bias(zn_at(s, "conv"), x, by * c);
    for (int i = 0; i < by && by > 1; i++)
        parts[i] = zn_slice_channels(y, i * c, c);
    return by > 1 ? zn_interleave_frames(NULL, parts, by, 0) : y;
}

/* Frames that fill latent ones; poisons the graph where sides or a piece cannot be divided. */
static zn_node *complete(zn_node *x, const zn_taehv_form *k, zn_stream *m)
{
    const int64_t step = (int64_t)k->patch << ZN_TAEHV_GROUPS, *d = x->shape.dim;
    char text[96];
    if (x->shape.rank != 4 || d[1] % step || d[2] % step)
        snprintf(text, sizeof text, "frames of %lldx%lld do not divide by %lld", (long long)d[2], (long long)d[1],
                 (long long)step);
    else if (m && m->apart)
        return zn_repeat_each(x, ZN_TAEHV_EACH);
    else if (m && d[0] % ZN_TAEHV_EACH)
        snprintf(text, sizeof text, "a piece of a clip needs frames by %d, not %lld", ZN_TAEHV_EACH, (long long)d[0]);
    else
        return zn_repeat_last(x, (int)(-d[0] & (ZN_TAEHV_EACH - 1)));
    return zn_graph_poison(x->graph, ZN_ESHAPE, text);
}

zn_node *zn_taehv_encoder(zn_scope s, zn_node *clip, const zn_taehv_form *k, zn_stream *m)
{
    static const int by[ZN_TAEHV_GROUPS] = { 2, 2, 1 };
    zn_node *x = complete(clip, k, m);
    if (k->patch > 1)
        x = zn_pixel_unshuffle(x, k->patch);
    x = zn_relu(zn_conv3x3(zn_at(s, "0"), x, k->width));
    for (int i = 0; i < ZN_TAEHV_GROUPS; i++) {
        const int first = 2 + i * (BLOCKS + 2);
        x = join(zn_at(s, "%d", first), x, by[i]);
        x = zn_conv3x3_stride2_no_bias(zn_at(s, "%d", first + 1), x, k->width);
        x = blocks(s, first + 2, x, m);
    }
    x = zn_conv3x3(zn_at(s, "17"), x, k->latent);
    return k->raw ? zn_wan_normalised(zn_at(s, "latents"), x, k->raw) : x;
}

/* Without the frames before the first that the latent stands for: of the first latent frame only the last is left. */
static zn_node *trim(zn_node *x, const zn_stream *m)
{
    if (m && m->apart)
        return zn_take_frames(x, ZN_TAEHV_EACH - 1, ZN_TAEHV_EACH, m->apart);
    return !m || m->first ? zn_take_frames(x, ZN_TAEHV_EACH - 1, 1, frames_of(x) - ZN_TAEHV_EACH + 1) : x;
}

static const int growth[ZN_TAEHV_GROUPS] = { 1, 2, 2 }; /* frames that one becomes, by group */

/* The original doubles the sides before it splits frames; a 1x1 gives the same in either order, and is a quarter of the
 * work this way. */
static zn_node *base_decoder(zn_scope s, zn_node *latent, const zn_taehv_form *k, zn_stream *m)
{
    zn_node *x = zn_relu(zn_conv3x3(zn_at(s, "1"), zn_soft_clamp(latent, CLAMP), k->back_width[0]));
    for (int i = 0; i < ZN_TAEHV_GROUPS; i++) {
        const int first = 3 + i * (BLOCKS + 3);
        x = blocks(s, first, x, m);
        x = zn_upsample2(split(zn_at(s, "%d", first + BLOCKS + 1), x, growth[i]));
        x = zn_conv3x3_no_bias(zn_at(s, "%d", first + BLOCKS + 2), x, k->back_width[i + 1]);
    }
    return zn_relu(trim(x, m));
}

/* x + 1x1(relu(1x1(7x7 of each channel of x and of the x before it))). */
static zn_node *wide_block(zn_scope s, zn_node *x, zn_stream *m)
{
    const int c = zn_channels(x);
    const zn_scope own = zn_at(s, "conv.0");
    zn_node *h = zn_concat(x, zn_frames_before(m, x));
    zn_graph_name_layer(s.graph, own.prefix);
    h = zn_channel_conv(h, zn_parameter(own, "weight", ZN_SHAPE(WIDE, WIDE, 1, 2 * c), ZN_LAYOUT_CONV, ZN_ROLE_WEIGHT),
                        1, WIDE / 2);
    h = zn_relu(zn_conv1x1(zn_at(s, "conv.1"), h, 4 * c));
    h = zn_layer_starts(zn_conv1x1_no_bias(zn_at(s, "conv.3"), h, c), ZN_START(zn_start_he, 0.1f), ZN_START_USUAL);
    return zn_add(h, x);
}

static zn_node *super_decoder(zn_scope s, zn_node *latent, const zn_taehv_form *k, zn_stream *m)
{
    zn_node *x = zn_conv1x1_no_bias(zn_at(s, "0"), latent, k->back_width[0]);
    for (int i = 0; i < ZN_TAEHV_GROUPS; i++) {
        const int first = 1 + i * (BLOCKS + 4);
        for (int j = 0; j < BLOCKS; j++)
            x = wide_block(zn_at(s, "%d", first + j), x, m);
        x = zn_relu(zn_conv3x3(zn_at(s, "%d", first + BLOCKS), x, 4 * k->back_width[i + 1]));
        x = split(zn_at(s, "%d", first + BLOCKS + 3), zn_pixel_shuffle(x, 2), growth[i]);
    }
    return trim(x, m);
}

zn_node *zn_taehv_decoder(zn_scope s, zn_node *latent, const zn_taehv_form *k, zn_stream *m)
{
    if (k->raw)
        latent = zn_wan_restored(zn_at(s, "latents"), latent, k->raw);
    zn_node *x = k->large ? super_decoder(s, latent, k, m) : base_decoder(s, latent, k, m);
    x = zn_conv3x3(zn_at(s, "22"), x, 3 * k->patch * k->patch);
    return k->patch > 1 ? zn_pixel_shuffle(x, k->patch) : x;
}
