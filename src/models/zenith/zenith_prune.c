/* The Prune family (specification B4, B5): autoencoders whose "latent" [N,H/32,W/32,256b] is larger than the image; for
 * restoration and speed tests.
 *
 *   hier      conv2x2/2 3->b, unshuffle 4, block 16b @H/8, unshuffle 4, gate, block 256b @H/32, gate, block 256b;
 *             shuffle 4, shuffle 4, shuffle 2, conv3x3 b/4->3 @H
 *   srig      the same with SRIG gates in the two last blocks
 *   hier-r    the same without gates, every block in its residual form: the one that trains
 *   baseline  conv 2x2/2, 4x4/4, 4x4/4 to 256b and back by 1x1 convolutions with shuffles, ReLU between */
#include "models/zenith/zenith.h"

#include "base/fail.h"

#include <stdio.h>
#include <string.h>

/* The family's form. The first presets are in this order. */
typedef enum kind { HIER, SRIG, HIER_R, BASELINE, KINDS } kind;
static const kind kinds[KINDS] = { HIER, SRIG, HIER_R, BASELINE };
enum { MAX_BASE = 256, PER_WIDTH = 256 };

#define PRESET(text, what, form, base)                                                                                 \
    {                                                                                                                  \
        .name = text, .aliases = "", .description = what, .latent = PER_WIDTH * (base), .downscale = 32,               \
        .width = (base), .gates = (form) < HIER_R ? ZN_PRUNE_GATES : 0, .preset_form = &kinds[form]                    \
    }

static const zn_config configs[] = {
    PRESET("zenith-hier", "hierarchical autoencoder with block gates, base 16; for experiments", HIER, 16),
    PRESET("zenith-srig", "the same with spectral neighbourhood gates, base 16; for experiments", SRIG, 16),
    PRESET("zenith-hier-r", "its residual form without gates, base 16: restoration", HIER_R, 16),
    PRESET("zenith-baseline", "the convolutional baseline of that family, base 16; for comparison", BASELINE, 16),
    PRESET("zenith-hier-32", "hierarchical autoencoder with block gates, base 32; for speed tests", HIER, 32),
    PRESET("zenith-srig-32", "the same with spectral neighbourhood gates, base 32; for speed tests", SRIG, 32),
    PRESET("zenith-baseline-32", "the convolutional baseline, base 32: 135 M parameters", BASELINE, 32),
    { .name = NULL },
};

static kind kind_of(const zn_config *k) { return *(const kind *)zn_form_of(k); }

/* ---- hierarchical ---- */

static const struct {
    zn_gate_mode mode;
    bool through; /* the mask is differentiated where it multiplies the depthwise sums */
} modes[] = {
    [ZN_PRUNE_HARD] = { ZN_GATE_HARD, true }, /* has no gradient to begin with */
    [ZN_PRUNE_SOFT] = { ZN_GATE_SOFT, false },
    [ZN_PRUNE_SOFT_MASK] = { ZN_GATE_SOFT, true },
    [ZN_PRUNE_STE] = { ZN_GATE_STE, true },
};

/* The gated map; *mask is what the next block skips by. */
static zn_node *gate(zn_scope s, zn_node *x, zn_prune_run *run, int index, zn_node **mask)
{
    zn_graph_name_layer(s.graph, s.prefix);
    const int blocks = zn_channels(x) / ZN_GATE_BLOCK;
    zn_node *w = zn_vector(s, "w", blocks, ZN_ROLE_BLOCK_GATE), *v = zn_vector(s, "v", blocks, ZN_ROLE_BLOCK_GATE);
    zn_starts(w, ZN_START(zn_start_value, 1));
    zn_node *m = zn_gate_mask(x, w, v, run->noise[index], modes[run->mode].mode, run->temperature);
    run->mask[index] = m;
    *mask = modes[run->mode].through ? m : zn_positive(m);
    return zn_gate_apply(x, m);
}

static zn_node *block(zn_scope s, zn_node *x, const zn_config *k, const zn_prune_run *run, int index, zn_node *mask)
{
    if (kind_of(k) == HIER_R)
        return zn_prune_r_block(s, x);
    const zn_prune_spec spec = {
        .srig = kind_of(k) == SRIG && index > 0, .mask = mask, .keep = run->keep[index], .drop = run->drop
    };
    return zn_prune_block(s, x, &spec);
}

zn_node *zn_prune_encode(zn_scope s, zn_node *x, const zn_config *k, zn_prune_run *run)
{
    run->mask[0] = run->mask[1] = NULL;
    x = zn_pixel_unshuffle(zn_patch_conv(zn_at(s, "stem"), x, k->width, 2), 4);
    x = zn_pixel_unshuffle(block(zn_at(s, "block0"), x, k, run, 0, NULL), 4);
    for (int i = 1; i <= 2; i++) {
        zn_node *mask = NULL;
        if (k->gates)
            x = gate(zn_at(s, "gate%d", i), x, run, i - 1, &mask);
        x = block(zn_at(s, "block%d", i), x, k, run, i, mask);
    }
    return x;
}

static zn_node *hier_decode(zn_scope s, zn_node *x)
{
    x = zn_pixel_shuffle(zn_pixel_shuffle(zn_pixel_shuffle(x, 4), 4), 2);
    /* started at full size, hundreds of steps go by before an image can be seen */
    return zn_layer_starts(zn_plain_conv(zn_at(s, "out"), x, 3, 3, 1), ZN_START(zn_start_he, 0.1f), ZN_START_USUAL);
}

/* ---- baseline ---- */

static zn_node *baseline_encode(zn_scope s, zn_node *x, int base)
{
    x = zn_relu(zn_patch_conv(zn_at(s, "enc0"), x, base, 2));
    x = zn_relu(zn_patch_conv(zn_at(s, "enc1"), x, 16 * base, 4));
    return zn_relu(zn_patch_conv(zn_at(s, "enc2"), x, 256 * base, 4));
}

/* A transposed convolution with kernel = stride. */
static zn_node *grow(zn_scope s, zn_node *x, int out, int r)
{
    return zn_pixel_shuffle(zn_plain_conv(s, x, out * r * r, 1, 1), r);
}

static zn_node *baseline_decode(zn_scope s, zn_node *x, int base)
{
    x = zn_relu(grow(zn_at(s, "dec0"), x, 16 * base, 4));
    x = zn_relu(grow(zn_at(s, "dec1"), x, base, 4));
    return grow(zn_at(s, "dec2"), x, 3, 2);
}

static zn_node *encode(zn_scope s, zn_node *x, const zn_config *k)
{
    zn_prune_run inference = { .mode = ZN_PRUNE_HARD };
    return kind_of(k) == BASELINE ? baseline_encode(s, x, k->width) : zn_prune_encode(s, x, k, &inference);
}

static zn_node *decode(zn_scope s, zn_node *x, const zn_config *k)
{
    return kind_of(k) == BASELINE ? baseline_decode(s, x, k->width) : hier_decode(s, x);
}

/* ---- files: the names are ours ---- */

static const zn_weight *conv_of(const zn_weights *w, const char *name, int64_t kernel, int64_t in)
{
    const zn_weight *t = zn_weights_find(w, name);
    return t && t->rank == 4 && t->shape[0] == kernel && t->shape[1] == kernel && t->shape[2] == in ? t : NULL;
}

/* Base width of the encoder, 0 if the file has none. */
static int64_t read_encoder(const zn_weights *w, kind *found)
{
    const zn_weight *stem = conv_of(w, "stem.weight", 2, 3), *first = conv_of(w, "enc0.weight", 2, 3);
    if (stem && zn_weights_find(w, "block0.eyes")) {
        *found = zn_weights_find(w, "block0.alpha") ? HIER_R : zn_weights_find(w, "block1.srig_w") ? SRIG : HIER;
        return stem->shape[3];
    }
    *found = BASELINE;
    return first && conv_of(w, "enc1.weight", 4, first->shape[3]) ? first->shape[3] : 0;
}

static int64_t read_decoder(const zn_weights *w, kind found)
{
    const zn_weight *out = zn_weights_find(w, "out.weight"), *last = zn_weights_find(w, "dec2.weight");
    if (found != BASELINE)
        return out && out->rank == 4 && out->shape[0] == 3 && out->shape[3] == 3 ? 4 * out->shape[2] : 0;
    return last && last->rank == 4 && last->shape[0] == 1 && last->shape[3] == 12 ? last->shape[2] : 0;
}

static zn_status recognise(const zn_weights *w, zn_config *k, zn_naming naming[ZN_PARTS], bool *is_it)
{
    memset(naming, 0, sizeof(zn_naming) * ZN_PARTS);
    kind found;
    const int64_t base = read_encoder(w, &found), back = read_decoder(w, found);
    *is_it = base > 0;
    if (!*is_it)
        return ZN_OK;
    if (base > MAX_BASE || (back && back != base))
        return ZN_FAIL(ZN_EFORMAT, "a base width of %lld channels%s cannot be used", (long long)base,
                       back == base ? "" : " with another one in the decoder");
    naming[ZN_ENCODER].present = true;
    naming[ZN_DECODER].present = back > 0;
    *k = configs[found];
    for (const zn_config *known = configs; known->name; known++)
        if (kind_of(known) == found && known->width == base)
            *k = *known;
    k->width = (int)base;
    k->latent = PER_WIDTH * (int)base;
    return ZN_OK;
}

/* Latents have 256 channels for each of the width. */
static zn_status resize(zn_config *k, const zn_wishes *want)
{
    k->width = want->width ? want->width : k->width;
    k->latent = PER_WIDTH * k->width;
    if (want->latent && want->latent != k->latent)
        return ZN_FAIL(ZN_EINVALID, "a %s of width %d has latents of %d channels: leave latent out", k->name, k->width,
                       k->latent);
    return ZN_OK;
}

static const zn_start start[ZN_ROLES] = {
    [ZN_ROLE_WEIGHT] = { zn_start_he, 1 },  [ZN_ROLE_BIAS] = { zn_start_value, 0 },
    [ZN_ROLE_GAIN] = { zn_start_value, 1 }, [ZN_ROLE_UNIT_GAIN] = { zn_start_inverse, 1 },
    [ZN_ROLE_GATE] = { zn_start_value, 1 }, [ZN_ROLE_BLOCK_GATE] = { zn_start_value, 0 },
};

const zn_arch zn_arch_zenith_prune = { .name = "zenith-prune",
                                       .configs = configs,
                                       .can = ZN_ENCODES | ZN_DECODES,
                                       .scope = { "", "" },
                                       .encode = encode,
                                       .encode_gated = zn_prune_encode,
                                       .decode = decode,
                                       .recognise = recognise,
                                       .resize = resize,
                                       .start = start };
