/* Zenith-F2: TAEF2's own layers at 1/8 and 1/4 resolution, and a narrow rest at 1/2 instead of its others.
 *
 *   image [N,H,W,3] in [0,1]                        latent [N,H/8,W/8,C]
 *     look, conv 12->W, residuals     @H/2            3 tanh(z/3), conv C->64, ReLU      @H/8
 *     conv stride 2 W->64, 3 Blocks   @H/4            3 Blocks with pool, up 2, conv     @H/8
 *     conv stride 2, 3 Blocks, pool   @H/8            3 Blocks, up 2, conv 64->W         @H/4
 *     conv 64->C                      @H/8            residuals                          @H/2
 *                                                     conv W->12, depth to space         @H
 *
 * TAEF2 spends 88 % of its operations at 1/2 and full resolution. The layers of 64 channels are called as they are
 * there, so a student starts with those of its teacher (distill.start). */
#include "models/taesd/taesd.h"

#include "base/fail.h"

#include <stdio.h>
#include <string.h>

enum { MAX_BLOCKS = 16, MAX_CHANNELS = 4096, PATCH = 12 /* channels of 2x2 pixels */, DETAIL = 4 /* their scale */ };

typedef struct form {
    int trunk;  /* channels at 1/4 and 1/8 */
    int blocks; /* residuals at 1/2 */
} form;

static const form usual = { .trunk = 64, .blocks = 4 };

static const zn_config configs[] = {
    { .name = "zenith-f2",
      .aliases = "",
      .description = "fast autoencoder for FLUX.2's latents, cut from taef2, 32 channels at 1/8",
      .latent = 32,
      .downscale = 8,
      .width = 32,
      .preset_form = &usual },
    { .name = NULL },
};

static const form *form_of(const zn_config *k) { return zn_form_of(k); }

static zn_node *blocks(zn_scope s, zn_node *x, int first, int count, bool pooled)
{
    for (int i = 0; i < count; i++)
        x = zn_taesd_block(zn_at(s, "%d", first + i), x, zn_channels(x), pooled);
    return x;
}

/* x + conv(relu(conv(x))), of which the branch starts small. */
static zn_node *residuals(zn_scope s, zn_node *x, int count)
{
    for (int i = 0; i < count; i++) {
        const zn_scope at = zn_at(s, "half.%d", i);
        zn_node *y = zn_conv3x3(zn_at(at, "b"), zn_relu(zn_conv3x3(zn_at(at, "a"), x, zn_channels(x))), zn_channels(x));
        x = zn_add(x, zn_layer_starts(y, ZN_START(zn_start_he, 0.1f), ZN_START_USUAL));
    }
    return x;
}

/* Three pixels of each 2x2 less their mean, enlarged, and the mean around 0. Of plain colours the even part, which has
 * a hundred times the power of the detail, would drive every gradient. */
static zn_node *look(zn_node *x)
{
    static const int32_t pixels[] = { 0, 1, 2, 3, 4, 5, 6, 7, 8 }, each[] = { 0, 1, 2, 0, 1, 2, 0, 1, 2 };
    static const int32_t detail_at[PATCH] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, -1, -1, -1 };
    static const int32_t mean_at[PATCH] = { -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 1, 2 };
    zn_node *mean = zn_downsample2(x);
    zn_node *detail = zn_sub(zn_select_channels(zn_space_to_depth(x, 2), pixels, 9), zn_select_channels(mean, each, 9));
    mean = zn_sub(mean, zn_scale(zn_ones_like(mean), 0.5f));
    return zn_add(zn_select_channels(zn_scale(detail, DETAIL), detail_at, PATCH),
                  zn_select_channels(mean, mean_at, PATCH));
}

static zn_node *encode(zn_scope s, zn_node *x, const zn_config *k)
{
    const form *f = form_of(k);
    zn_graph_name_layer(s.graph, zn_at(s, "look").prefix);
    x = zn_conv3x3(zn_at(s, "stem"), look(x), k->width);
    x = residuals(s, x, f->blocks);
    x = blocks(s, zn_conv3x3_stride2_no_bias(zn_at(s, "6"), x, f->trunk), 7, 3, false);
    x = blocks(s, zn_conv3x3_stride2_no_bias(zn_at(s, "10"), x, f->trunk), 11, 3, true);
    return zn_conv3x3(zn_at(s, "14"), x, k->latent);
}

static zn_node *up(zn_scope s, zn_node *x, int at, int out)
{
    zn_graph_name_layer(s.graph, zn_at(s, "%d", at).prefix);
    return zn_conv3x3_no_bias(zn_at(s, "%d", at + 1), zn_upsample2(x), out);
}

static zn_node *decode(zn_scope s, zn_node *x, const zn_config *k)
{
    const form *f = form_of(k);
    zn_graph_name_layer(s.graph, zn_at(s, "0").prefix);
    x = zn_relu(zn_conv3x3(zn_at(s, "1"), zn_soft_clamp(x, 3), f->trunk));
    x = up(s, blocks(s, x, 3, 3, true), 6, f->trunk);
    x = up(s, blocks(s, x, 8, 3, false), 11, k->width);
    x = zn_conv3x3(zn_at(s, "image"), residuals(s, x, f->blocks), PATCH);
    return zn_depth_to_space(zn_layer_starts(x, ZN_START(zn_start_he, 0.1f), ZN_START(zn_start_value, 0.5f)), 2);
}

/* ---- files ---- */

/* The 3x3 convolution `layer`, or NULL. */
static const zn_weight *conv(const zn_weights *w, const char *part, const char *layer)
{
    char name[64];
    snprintf(name, sizeof name, "%s.%s.weight", part, layer);
    const zn_weight *t = zn_weights_find(w, name);
    const bool fits = t && t->rank == 4 && t->shape[2] == 3 && t->shape[3] == 3 && t->shape[0] <= MAX_CHANNELS &&
                      t->shape[1] <= MAX_CHANNELS;
    return fits ? t : NULL;
}

static int count_blocks(const zn_weights *w, const char *part)
{
    char layer[32];
    for (int i = 0; i < MAX_BLOCKS; i++) {
        snprintf(layer, sizeof layer, "half.%d.a", i);
        if (!conv(w, part, layer))
            return i;
    }
    return MAX_BLOCKS;
}

/* The sizes of a part are those of the convolutions at its ends. */
static bool read_part(const zn_weights *w, zn_part part, zn_config *k)
{
    const bool encodes = part == ZN_ENCODER;
    const char *at = encodes ? "encoder" : "decoder";
    const zn_weight *image = conv(w, at, encodes ? "stem" : "image"), *latent = conv(w, at, encodes ? "14" : "1");
    if (!image || !latent || image->shape[encodes ? 1 : 0] != PATCH)
        return false;
    form *f = zn_form_own(k, sizeof *f);
    *f = (form){ .trunk = (int)latent->shape[encodes ? 1 : 0], .blocks = count_blocks(w, at) };
    k->width = (int)image->shape[encodes ? 0 : 1];
    k->latent = (int)latent->shape[encodes ? 0 : 1];
    return true;
}

static zn_status recognise(const zn_weights *w, zn_config *k, zn_naming naming[ZN_PARTS], bool *is_it)
{
    zn_config part[2] = { configs[0], configs[0] };
    *is_it = zn_find_parts(w, read_part, part, naming);
    if (!*is_it)
        return ZN_OK;
    if (naming[0].present && naming[1].present &&
        (part[0].latent != part[1].latent || part[0].width != part[1].width ||
         memcmp(form_of(&part[0]), form_of(&part[1]), sizeof(form))))
        return ZN_FAIL(ZN_EFORMAT, "encoder and decoder are of different networks of the zenith-f2 family");
    *k = part[naming[0].present ? 0 : 1];
    return ZN_OK;
}

static int layers(const zn_config *k) { return form_of(k)->blocks; }

static zn_status resize(zn_config *k, const zn_wishes *want)
{
    if (want->layers > MAX_BLOCKS)
        return ZN_FAIL(ZN_EINVALID, "%s has up to %d blocks at half resolution, not %d (layers)", k->name, MAX_BLOCKS,
                       want->layers);
    k->width = want->width ? want->width : k->width;
    k->latent = want->latent ? want->latent : k->latent;
    if (want->layers)
        ((form *)zn_form_own(k, sizeof(form)))->blocks = want->layers;
    return ZN_OK;
}

const zn_arch zn_arch_zenith_f2 = { .name = "zenith-f2",
                                    .configs = configs,
                                    .can = ZN_ENCODES | ZN_DECODES,
                                    .scope = { "encoder", "decoder" },
                                    .encode = encode,
                                    .decode = decode,
                                    .recognise = recognise,
                                    .resize = resize,
                                    .layers = layers };
