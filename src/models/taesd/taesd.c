/* TAESD, the tiny autoencoders (madebyollin/taesd): 64 channels, 3x3 convolutions, three halvings (Sana: five).
 *
 *   image [N,H,W,3] in [0,1]                        latent [N,H/8,W/8,C]
 *     conv 3->64, Block               @H              3 tanh(z/3), conv C->64, ReLU      @H/8
 *     3 x { conv stride 2, 3 Blocks } @H/2..H/8       3 x { 3 Blocks, up 2, conv }       @H/8..H
 *     conv 64->C                      @H/8            Block, conv 64->3                  @H
 *
 * Names are the positions in the original's nn.Sequential; the clamp, ReLU and up-sampling take a position too.
 * Block(x) = relu(conv(relu(conv(relu(conv(x))))) + skip(x)). */
#include "models/taesd/taesd.h"

#include "base/fail.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const zn_taesd_form plain, pooled = { .pooled = true }, deep = { .deep = true };

static const zn_config configs[] = {
    { .name = "taesd",
      .aliases = "taesdxl sdxl sd",
      .description = "tiny autoencoder for Stable Diffusion 1/2 and SDXL, 4 channels at 1/8",
      .latent = 4,
      .downscale = 8,
      .width = 64,
      .preset_form = &plain },
    { .name = "taesd3",
      .aliases = "taef1 sd3 flux flux1",
      .description = "tiny autoencoder for SD3 and FLUX.1, 16 channels at 1/8",
      .latent = 16,
      .downscale = 8,
      .width = 64,
      .preset_form = &plain },
    { .name = "taef2",
      .aliases = "flux2",
      .description = "tiny autoencoder for FLUX.2, 32 channels at 1/8, pooled group norm",
      .latent = 32,
      .downscale = 8,
      .width = 64,
      .preset_form = &pooled },
    { .name = "taesana",
      .aliases = "sana",
      .description = "tiny autoencoder for Sana, 32 channels at 1/32",
      .latent = 32,
      .downscale = 32,
      .width = 64,
      .preset_form = &deep },
    { .name = NULL },
};

static const zn_taesd_form *form_of(const zn_config *k) { return zn_form_of(k); }

/* x + conv1x1(relu(group_norm(conv1x1(x)))), the context path of FLUX.2's blocks; 4 groups of the widened channels. */
static zn_node *pool(zn_scope s, zn_node *x)
{
    const int c = zn_channels(x);
    zn_node *y = zn_conv1x1_no_bias(zn_at(s, "0"), x, 4 * c);
    y = zn_relu(zn_group_norm_layer(zn_at(s, "1"), y, 4, 1e-5f));
    return zn_add(x, zn_conv1x1_no_bias(zn_at(s, "3"), y, c));
}

/* What a block adds to its input starts at a tenth of the usual: a dozen full blocks one after the other make images of
 * hundreds, which training first has to bring down. */
zn_node *zn_taesd_block(zn_scope s, zn_node *x, int out, bool with_pool)
{
    if (with_pool)
        x = pool(zn_at(s, "pool"), x);
    zn_node *y = zn_relu(zn_conv3x3(zn_at(s, "conv.0"), x, out));
    y = zn_relu(zn_conv3x3(zn_at(s, "conv.2"), y, out));
    y = zn_layer_starts(zn_conv3x3(zn_at(s, "conv.4"), y, out), ZN_START(zn_start_he, 0.1f), ZN_START_USUAL);
    zn_node *skip = out == zn_channels(x) ? x : zn_conv1x1_no_bias(zn_at(s, "skip"), x, out);
    return zn_relu(zn_add(y, skip));
}

static zn_node *blocks(zn_scope s, zn_node *x, int *at, int count, bool with_pool)
{
    for (int i = 0; i < count; i++)
        x = zn_taesd_block(zn_at(s, "%d", (*at)++), x, zn_channels(x), with_pool);
    return x;
}

static zn_node *encode(zn_scope s, zn_node *x, const zn_config *k)
{
    const zn_taesd_form *f = form_of(k);
    int at = 0;
    if (f->deep) { /* two more halvings in front */
        x = zn_relu(zn_conv3x3_stride2(zn_at(s, "0"), x, k->width / 2));
        x = zn_relu(zn_conv3x3_stride2(zn_at(s, "2"), x, k->width));
        at = 4;
    } else {
        x = zn_conv3x3(zn_at(s, "%d", at++), x, k->width);
    }
    x = blocks(s, x, &at, 1, false);
    for (int level = 0; level < 3; level++) {
        x = zn_conv3x3_stride2_no_bias(zn_at(s, "%d", at++), x, k->width);
        x = blocks(s, x, &at, 3, f->pooled && level == 2);
    }
    return zn_conv3x3(zn_at(s, "%d", at), x, k->latent);
}

static zn_node *decode(zn_scope s, zn_node *x, const zn_config *k)
{
    const zn_taesd_form *f = form_of(k);
    const int wide = f->deep ? 4 * k->width : k->width, levels = f->deep ? 5 : 3;
    int at = 3, width = wide;
    zn_graph_name_layer(s.graph, zn_at(s, "0").prefix);
    x = zn_soft_clamp(x, 3);
    x = zn_relu(zn_conv3x3(zn_at(s, "1"), x, wide));
    for (int level = 0; level < levels; level++) {
        x = blocks(s, x, &at, 3, f->pooled && level == 0);
        zn_graph_name_layer(s.graph, zn_at(s, "%d", at).prefix);
        x = zn_upsample2(x);
        width = width / 2 > k->width ? width / 2 : k->width;
        x = zn_conv3x3_no_bias(zn_at(s, "%d", at + 1), x, width);
        at += 2;
    }
    x = blocks(s, x, &at, 1, false);
    return zn_conv3x3(zn_at(s, "%d", at), x, 3);
}

/* The 4-D weight prefix + number + ".weight", or NULL. */
static const zn_weight *conv_at(const zn_weights *w, const zn_naming *n, int index, const char *rest)
{
    char name[192];
    snprintf(name, sizeof name, "%s%d%s", n->prefix, index + n->shift, rest);
    const zn_weight *t = zn_weights_find(w, name);
    return t && t->rank == 4 ? t : NULL;
}

/* Prefixes under which the two parts are found in files: the original's separate files have none. */
static const struct {
    zn_part part;
    const char *prefix;
    int shift; /* diffusers' decoder does not count the clamp */
} namings[] = {
    { ZN_ENCODER, "encoder.layers.", 0 },
    { ZN_DECODER, "decoder.layers.", -1 },
    { ZN_ENCODER, "encoder.", 0 },
    { ZN_DECODER, "decoder.", 0 },
    { ZN_ENCODER, "taesd_encoder.", 0 },
    { ZN_DECODER, "taesd_decoder.", 0 },
    { ZN_ENCODER, "layers.", 0 },
    { ZN_DECODER, "layers.", -1 },
    { ZN_ENCODER, "", 0 },
    { ZN_DECODER, "", 0 },
};

/* Wrappers that checkpoints put around a model. */
static const char *const wrappers[] = { "", "state_dict.", "model.", "state_dict.model.", "vae.", "module." };

static bool is_conv3x3(const zn_weight *t, int64_t in)
{
    return t && t->shape[2] == 3 && t->shape[3] == 3 && t->shape[1] == in;
}

/* The first and last convolutions of a part tell the configuration. */
static bool read_encoder(const zn_weights *w, const zn_naming *n, zn_config *k)
{
    const zn_weight *first = conv_at(w, n, 0, ".weight");
    if (!is_conv3x3(first, 3) || first->shape[0] > 4096)
        return false;
    zn_taesd_form *f = zn_form_own(k, sizeof *f);
    const zn_weight *second = conv_at(w, n, 2, ".weight"), *block = conv_at(w, n, 1, ".conv.0.weight");
    f->deep = !block && is_conv3x3(second, first->shape[0]);
    k->width = (int)(f->deep ? second->shape[0] : first->shape[0]);
    const zn_weight *last = conv_at(w, n, f->deep ? 17 : 14, ".weight");
    if ((!f->deep && !block) || !is_conv3x3(last, k->width) || last->shape[0] > 4096)
        return false;
    k->latent = (int)last->shape[0];
    f->pooled = conv_at(w, n, 11, ".pool.0.weight") != NULL;
    return true;
}

static bool read_decoder(const zn_weights *w, const zn_naming *n, zn_config *k)
{
    const zn_weight *first = conv_at(w, n, 1, ".weight"), *block = conv_at(w, n, 3, ".conv.0.weight");
    if (!first || !block || first->shape[0] > 4096 || first->shape[1] > 4096 || !is_conv3x3(first, first->shape[1]) ||
        !is_conv3x3(block, first->shape[0]))
        return false;
    zn_taesd_form *f = zn_form_own(k, sizeof *f);
    const zn_weight *wide = conv_at(w, n, 29, ".weight"), *last = conv_at(w, n, 19, ".weight");
    f->deep = wide != NULL && wide->shape[0] == 3;
    if (!f->deep && !(last && last->shape[0] == 3))
        return false;
    k->width = (int)(f->deep ? wide->shape[1] : first->shape[0]);
    k->latent = (int)first->shape[1];
    f->pooled = conv_at(w, n, 3, ".pool.0.weight") != NULL;
    return true;
}

static void name_config(zn_config *k)
{
    k->name = "taesd-custom";
    k->aliases = "";
    k->description = "tiny autoencoder of the TAESD family";
    const zn_taesd_form f = *form_of(k);
    k->downscale = f.deep ? 32 : 8;
    for (const zn_config *known = configs; known->name; known++)
        if (known->latent == k->latent && form_of(known)->pooled == f.pooled && form_of(known)->deep == f.deep &&
            known->width == k->width)
            *k = *known;
}

static zn_status recognise(const zn_weights *w, zn_config *k, zn_naming naming[ZN_PARTS], bool *is_it)
{
    zn_config part[2] = { { 0 } };
    memset(naming, 0, sizeof(zn_naming) * ZN_PARTS);
    for (size_t i = 0; i < sizeof wrappers / sizeof *wrappers; i++)
        for (size_t j = 0; j < sizeof namings / sizeof *namings; j++) {
            const zn_part p = namings[j].part;
            zn_naming n = { .present = true, .shift = namings[j].shift };
            snprintf(n.prefix, sizeof n.prefix, "%s%s", wrappers[i], namings[j].prefix);
            if (!naming[p].present && (p == ZN_ENCODER ? read_encoder : read_decoder)(w, &n, &part[p]))
                naming[p] = n;
        }
    *is_it = naming[0].present || naming[1].present;
    if (!*is_it)
        return ZN_OK;
    if (naming[0].present && naming[1].present &&
        (part[0].latent != part[1].latent || part[0].width != part[1].width ||
         form_of(&part[0])->deep != form_of(&part[1])->deep))
        return ZN_FAIL(ZN_EFORMAT, "encoder (%d latent channels) and decoder (%d) do not belong together",
                       part[0].latent, part[1].latent);
    *k = part[naming[0].present ? 0 : 1];
    name_config(k);
    return ZN_OK;
}

/* "decoder.3.conv.0.weight" with naming { "decoder.layers.", -1 } is "decoder.layers.2.conv.0.weight". */
static void file_name(const char *name, const zn_naming *naming, char *out, size_t size)
{
    char *rest;
    const long index = strtol(strchr(name, '.') + 1, &rest, 10);
    snprintf(out, size, "%s%ld%s", naming->prefix, index + naming->shift, rest);
}

const zn_arch zn_arch_taesd = { .name = "taesd",
                                .configs = configs,
                                .can = ZN_ENCODES | ZN_DECODES,
                                .scope = { "encoder", "decoder" },
                                .file_name = file_name,
                                .encode = encode,
                                .decode = decode,
                                .recognise = recognise };
