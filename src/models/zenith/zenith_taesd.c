/* Zenith-TAESD (specification A2 to A5): four autoencoders of one plan, image [N,H,W,3] to latent [N,H/8,W/8,4].
 *
 *            std, vanilla                                  lite, spectral
 *   encoder  conv3x3 3->b          block @H                mix 3->b           block @H
 *            conv3x3/2 b->2b       block @H/2              unshuffle, mix 4b->2b   block @H/2
 *            conv3x3/2 2b->4b      block @H/4              unshuffle, mix 8b->4b   block @H/4
 *            conv3x3/2 4b->4                               unshuffle, mix 16b->4
 *   decoder  conv1x1 4->4b         block @H/8              mix 4->16b, shuffle     block @H/4
 *            up, conv3x3 4b->2b    block @H/4              mix 4b->8b, shuffle     block @H/2
 *            up, conv3x3 2b->b     block @H/2              mix 2b->4b, shuffle     block @H
 *            up, conv3x3 b->3                              mix b->3
 *
 * mix is a 1x1 convolution (lite) or a spectral linear layer (spectral); block is a Lite block, or in vanilla
 * x + conv3x3(conv3x3(x)). There is no activation anywhere: each network is one affine map. A Lite block has a gate for
 * each row and column, so all but vanilla are bound to the image size they were made for. */
#include "models/zenith/zenith.h"

#include "base/fail.h"

#include <stdio.h>
#include <string.h>

/* The family's form. Its presets are in this order. */
typedef enum kind { STD, LITE, SPECTRAL, VANILLA, KINDS } kind;
static const kind kinds[KINDS] = { STD, LITE, SPECTRAL, VANILLA };
enum { DEPTH = 4, MAX_WIDTH = 1024, MAX_SIDE = 1 << 16 };

static const zn_config configs[] = {
    { .name = "zenith-std",
      .aliases = "",
      .description = "Zenith-TAESD with 3x3 convolutions, for 512x512; affine, for comparison",
      .latent = 4,
      .downscale = 8,
      .width = 64,
      .preset_form = &kinds[STD],
      .made_width = 512,
      .made_height = 512 },
    { .name = "zenith-lite",
      .aliases = "",
      .description = "Zenith-TAESD with 1x1 convolutions and shuffles, for 512x512; affine, for comparison",
      .latent = 4,
      .downscale = 8,
      .width = 64,
      .preset_form = &kinds[LITE],
      .made_width = 512,
      .made_height = 512 },
    { .name = "zenith-spectral",
      .aliases = "",
      .description = "Zenith-TAESD with spectral linear layers, for 512x512; affine, for comparison",
      .latent = 4,
      .downscale = 8,
      .width = 64,
      .preset_form = &kinds[SPECTRAL],
      .made_width = 512,
      .made_height = 512 },
    { .name = "zenith-vanilla",
      .aliases = "",
      .description = "the convolutional baseline of Zenith-TAESD, any size; affine, for comparison",
      .latent = 4,
      .downscale = 8,
      .width = 64,
      .preset_form = &kinds[VANILLA] },
    { .name = NULL },
};

static kind kind_of(const zn_config *k) { return *(const kind *)zn_form_of(k); }
static bool shuffles(const zn_config *k) { return kind_of(k) == LITE || kind_of(k) == SPECTRAL; }

/* Marks the graph unless the image side is what the gates were made for. scale: image pixels for each position of x. */
static zn_node *of_right_size(zn_node *x, const zn_config *k, int scale)
{
    char text[128];
    const long long width = x->shape.dim[2] * scale, height = x->shape.dim[1] * scale;
    if (!k->made_width || (width == k->made_width && height == k->made_height))
        return x;
    snprintf(text, sizeof text, "this network was made for %dx%d images, not %lldx%lld", k->made_width, k->made_height,
             width, height);
    return zn_graph_poison(x->graph, ZN_ESHAPE, text);
}

/* x + conv3x3(conv3x3(x)) */
static zn_node *residual(zn_scope s, zn_node *x)
{
    const int c = zn_channels(x);
    return zn_add(zn_plain_conv(zn_at(s, "conv1"), zn_plain_conv(zn_at(s, "conv0"), x, c, 3, 1), c, 3, 1), x);
}

/* Channels first to `count`: cut off, or filled with zeros. */
static zn_node *first_channels(zn_node *x, int count)
{
    int32_t *from = zn_arena_alloc(zn_graph_arena(x->graph), sizeof *from * (size_t)count);
    if (!from)
        return zn_graph_poison(x->graph, ZN_ENOMEM, "out of memory while building a graph");
    for (int i = 0; i < count; i++)
        from[i] = i < zn_channels(x) ? i : -1;
    return zn_select_channels(x, from, count);
}

/* DeepSpectralLinear: four times x <- H (s_k .* P_k x) over d channels, the next power of two; P_0 is the identity. */
static zn_node *spectral_linear(zn_scope s, zn_node *x, int out)
{
    zn_graph_name_layer(s.graph, s.prefix);
    int d = 1;
    while (d < zn_channels(x) || d < out)
        d *= 2;
    zn_node *scale = zn_plain_parameter(s, "s", ZN_SHAPE(DEPTH, d), ZN_ROLE_GAIN);
    zn_node *order = zn_parameter(s, "perm", ZN_SHAPE(DEPTH, d), ZN_LAYOUT_INDEX, ZN_ROLE_CONSTANT);
    zn_starts(scale, ZN_START(zn_start_root, 1));
    zn_starts(order, ZN_START(zn_start_permutation, 0));
    x = first_channels(x, d);
    for (int i = 0; i < DEPTH; i++)
        x = zn_wht(zn_scale_channels(zn_permute_channels(x, order, i), zn_row(scale, i)), 3, 1);
    return zn_add_channels(first_channels(x, out), zn_vector(s, "bias", out, ZN_ROLE_BIAS));
}

static zn_node *mix(zn_scope s, zn_node *x, int out, const zn_config *k)
{
    return kind_of(k) == SPECTRAL ? spectral_linear(s, x, out) : zn_plain_conv(s, x, out, 1, 1);
}

static zn_node *block(zn_scope s, zn_node *x, int index, const zn_config *k)
{
    return kind_of(k) == VANILLA ? residual(zn_at(s, "res%d", index), x) : zn_lite_block(zn_at(s, "lite%d", index), x);
}

static zn_node *encode(zn_scope s, zn_node *x, const zn_config *k)
{
    x = of_right_size(x, k, 1);
    for (int level = 0; level < 4; level++) {
        const int out = level < 3 ? k->width << level : k->latent;
        if (shuffles(k))
            x = mix(zn_at(s, "conv%d", level), level ? zn_pixel_unshuffle(x, 2) : x, out, k);
        else
            x = zn_plain_conv(zn_at(s, "conv%d", level), x, out, 3, level ? 2 : 1);
        if (level < 3)
            x = block(s, x, level, k);
    }
    return x;
}

static zn_node *decode(zn_scope s, zn_node *x, const zn_config *k)
{
    x = of_right_size(x, k, k->downscale);
    for (int level = 0; level < 4; level++) {
        const int out = level < 3 ? 4 * k->width >> level : 3;
        const zn_scope at = zn_at(s, "conv%d", level);
        if (shuffles(k))
            x = level < 3 ? zn_pixel_shuffle(mix(at, x, 4 * out, k), 2) : mix(at, x, out, k);
        else
            x = level ? zn_plain_conv(at, zn_upsample2(x), out, 3, 1) : zn_plain_conv(at, x, out, 1, 1);
        if (level < 3)
            x = block(s, x, level, k);
    }
    return x;
}

/* ---- files: the names are ours, enc.* and dec.* ---- */

static const zn_weight *find(const zn_weights *w, const char *part, const char *name, int rank)
{
    char full[64];
    snprintf(full, sizeof full, "%s.%s", part, name);
    const zn_weight *t = zn_weights_find(w, full);
    return t && t->rank == rank ? t : NULL;
}

static int64_t length_of(const zn_weights *w, const char *part, const char *name)
{
    const zn_weight *t = find(w, part, name, 1);
    return t ? t->shape[0] : 0;
}

/* Kind, width and size from the layer at full resolution: conv0 of the encoder, conv3 of the decoder. */
static bool read_part(const zn_weights *w, zn_part part, zn_config *k)
{
    const char *at = part == ZN_ENCODER ? "enc" : "dec";
    const zn_weight *conv = find(w, at, part == ZN_ENCODER ? "conv0.weight" : "conv3.weight", 4);
    const char *lite = part == ZN_ENCODER ? "lite0" : "lite2";
    char name[32];
    snprintf(name, sizeof name, "%s.be", lite);
    const bool is_lite = length_of(w, at, name) > 0;
    kind found;
    if (find(w, at, part == ZN_ENCODER ? "conv0.s" : "conv3.s", 2) && is_lite)
        found = SPECTRAL;
    else if (conv && (conv->shape[0] == 3 || conv->shape[0] == 1) && (is_lite || conv->shape[0] == 3))
        found = !is_lite ? VANILLA : conv->shape[0] == 3 ? STD : LITE;
    else
        return false;
    k->preset_form = &kinds[found];
    if (found == VANILLA && !find(w, at, "res0.conv0.weight", 4))
        return false;
    const int64_t width = found == VANILLA ? conv->shape[part == ZN_ENCODER ? 3 : 2] : length_of(w, at, name);
    const zn_weight *latent = find(w, at, "conv0.weight", 4);
    k->latent = part == ZN_ENCODER ? (int)length_of(w, at, "conv3.bias") : latent ? (int)latent->shape[2] : 4;
    const int grow = part == ZN_DECODER && found == STD ? 2 : 1; /* its last block is at half the size */
    snprintf(name, sizeof name, "%s.gate_h", lite);
    const int64_t wide = length_of(w, at, name) * grow;
    snprintf(name, sizeof name, "%s.gate_v", lite);
    const int64_t high = length_of(w, at, name) * grow;
    if (width < 1 || width > MAX_WIDTH || k->latent < 1 || k->latent > MAX_WIDTH || wide > MAX_SIDE || high > MAX_SIDE)
        return false;
    k->width = (int)width;
    k->made_width = (int)wide;
    k->made_height = (int)high;
    return found == VANILLA || (wide >= 8 && high >= 8);
}

static bool same_network(const zn_config *a, const zn_config *b)
{
    return kind_of(a) == kind_of(b) && a->width == b->width && a->made_width == b->made_width &&
           a->made_height == b->made_height && (a->latent == b->latent || kind_of(a) == SPECTRAL);
}

static zn_status recognise(const zn_weights *w, zn_config *k, zn_naming naming[ZN_PARTS], bool *is_it)
{
    zn_config part[2] = { { 0 } };
    *is_it = zn_find_parts(w, read_part, part, naming);
    if (!*is_it)
        return ZN_OK;
    if (naming[0].present && naming[1].present && !same_network(&part[0], &part[1]))
        return ZN_FAIL(ZN_EFORMAT, "encoder and decoder are of different Zenith networks");
    const zn_config found = part[naming[0].present ? 0 : 1], *preset = &configs[kind_of(&found)];
    *k = *preset;
    k->latent = found.latent;
    k->width = found.width;
    k->made_width = found.made_width;
    k->made_height = found.made_height;
    return ZN_OK;
}

static const zn_start start[ZN_ROLES] = { [ZN_ROLE_WEIGHT] = { zn_start_uniform, 1 },
                                          [ZN_ROLE_BIAS] = { zn_start_value, 0 },
                                          [ZN_ROLE_GATE] = { zn_start_value, 1 } };

const zn_arch zn_arch_zenith_taesd = { .name = "zenith-taesd",
                                       .configs = configs,
                                       .can = ZN_ENCODES | ZN_DECODES,
                                       .scope = { "enc", "dec" },
                                       .encode = encode,
                                       .decode = decode,
                                       .recognise = recognise,
                                       .start = start };
