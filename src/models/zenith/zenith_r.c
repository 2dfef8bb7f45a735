/* Zenith-R (specification D2, lessons section 6): an autoencoder of our own, made to be trained.
 *
 *   image [N,H,W,3] in [0,1]                          latent [N,H/8,W/8,16]
 *     conv3x3 3->b                 @H                   3 tanh(z/3), conv3x3 16->8b, blocks    @H/8
 *     unshuffle, 1x1 4b->2b, blocks    @H/2             1x1 8b->16b, shuffle, blocks           @H/4
 *     unshuffle, 1x1 8b->4b, blocks    @H/4             1x1 4b->8b, shuffle, blocks            @H/2
 *     unshuffle, 1x1 16b->8b, blocks   @H/8             1x1 2b->4b, shuffle, blocks            @H
 *     conv3x3 8b->16                   @H/8             conv3x3 b->3                           @H
 *
 * Blocks are Lite-R: residual, with spectral mixing in tiles of 32 whose borders alternate from block to block, so that
 * no seam stays where it is. Weights do not depend on the size of the image. Most of the depth is at 1/4 and 1/8. */
#include "models/zenith/zenith.h"

#include "base/fail.h"

#include <stdio.h>
#include <string.h>

enum { TILE = 32, LEVELS = 4, MAX_WIDTH = 1024, MAX_BLOCKS = 32 };

/* The family's form: blocks of encoder and decoder at 1/1, 1/2, 1/4, 1/8. */
typedef struct form {
    int8_t blocks[2][LEVELS];
} form;
static const form usual = { { { 0, 1, 3, 4 }, { 1, 1, 4, 4 } } };

static const zn_config configs[] = {
    { .name = "zenith-r",
      .aliases = "",
      .description = "Zenith's own trainable autoencoder, 16 channels at 1/8, any size",
      .latent = 16,
      .downscale = 8,
      .width = 32,
      .preset_form = &usual },
    { .name = NULL },
};

static const int8_t *blocks_of(const zn_config *k, zn_part part)
{
    const form *f = zn_form_of(k);
    return f->blocks[part];
}

/* How layers start: near a linear codec, of which branches and the image's convolution add little, sub-pixels of random
 * channels equal; where the network is wide enough, that codec is a Walsh transform. */
static zn_node *starting(zn_node *layer, const zn_config *k, zn_start walsh, zn_start narrow)
{
    return zn_layer_starts(layer, zn_walsh_fits(k) ? walsh : narrow, ZN_START_USUAL);
}

static zn_node *starting_bias(zn_node *layer, const zn_config *k, zn_start bias)
{
    if (zn_walsh_fits(k) && layer->source_count > 2)
        zn_starts(layer->source[2], bias);
    return layer;
}

/* The blocks of one level; *at counts the blocks of the part, which decides on the tiles' offset. */
static zn_node *blocks(zn_scope s, zn_node *x, const zn_config *k, int level, int count, int *at)
{
    zn_lite_r_spec spec = { .tile = TILE,
                            .back = { zn_walsh_fits(k) ? zn_walsh_start_branch : zn_start_he, 0.1f },
                            .gamma = { zn_start_value, 0.1f } };
    for (int i = 0; i < count; i++) {
        spec.offset = (*at)++ % 2 * TILE / 2;
        x = zn_lite_r_block(zn_at(s, "level%d.block%d", level, i), x, &spec);
    }
    return x;
}

static zn_node *encode(zn_scope s, zn_node *x, const zn_config *k)
{
    const int8_t *counts = blocks_of(k, ZN_ENCODER);
    int at = 0;
    x = zn_plain_conv(zn_at(s, "stem"), x, k->width, 3, 1);
    x = starting(x, k, ZN_START(zn_walsh_start_stem, 0), ZN_START_USUAL);
    x = starting_bias(x, k, ZN_START(zn_walsh_start_stem_bias, 0));
    x = blocks(s, x, k, 0, counts[0], &at);
    for (int level = 1; level < LEVELS; level++) {
        x = zn_plain_conv(zn_at(s, "down%d", level), zn_pixel_unshuffle(x, 2), k->width << level, 1, 1);
        x = starting(x, k, ZN_START(zn_walsh_start_down, (float)level), ZN_START_USUAL);
        x = blocks(s, x, k, level, counts[level], &at);
    }
    x = zn_plain_conv(zn_at(s, "out"), x, k->latent, 3, 1);
    return starting(x, k, ZN_START(zn_walsh_start_latent, 0), ZN_START_USUAL);
}

static zn_node *decode(zn_scope s, zn_node *x, const zn_config *k)
{
    const int8_t *counts = blocks_of(k, ZN_DECODER);
    int at = 0;
    zn_graph_name_layer(s.graph, zn_at(s, "clamp").prefix);
    x = zn_plain_conv(zn_at(s, "in"), zn_soft_clamp(x, 3), k->width << (LEVELS - 1), 3, 1);
    x = starting(x, k, ZN_START(zn_walsh_start_in, 0), ZN_START_USUAL);
    for (int level = LEVELS - 1; level > 0; level--) {
        x = blocks(s, x, k, level, counts[level], &at);
        x = zn_plain_conv(zn_at(s, "up%d", level), x, 4 * (k->width << (level - 1)), 1, 1);
        x = starting(x, k, ZN_START(zn_walsh_start_up, (float)level), ZN_START(zn_start_shared, 4));
        x = zn_pixel_shuffle(x, 2);
    }
    x = blocks(s, x, k, 0, counts[0], &at);
    x = zn_plain_conv(zn_at(s, "out"), x, 3, 3, 1);
    x = starting(x, k, ZN_START(zn_walsh_start_image, 0), ZN_START(zn_start_he, 0.1f));
    return starting_bias(x, k, ZN_START(zn_start_value, 0.5f));
}

/* ---- files: the names are ours, enc.* and dec.* ---- */

/* Blocks that the file has at each level. */
static bool count_blocks(const zn_weights *w, const char *part, int8_t counts[LEVELS])
{
    char name[64];
    for (int level = 0; level < LEVELS; level++)
        for (counts[level] = 0;; counts[level]++) {
            snprintf(name, sizeof name, "%s.level%d.block%d.norm", part, level, counts[level]);
            if (!zn_weights_find(w, name))
                break;
            if (counts[level] == MAX_BLOCKS)
                return false;
        }
    return true;
}

static const zn_weight *conv3x3(const zn_weights *w, const char *name)
{
    const zn_weight *t = zn_weights_find(w, name);
    return t && t->rank == 4 && t->shape[0] == 3 && t->shape[1] == 3 ? t : NULL;
}

static bool read_part(const zn_weights *w, zn_part part, zn_config *k)
{
    const bool encoder = part == ZN_ENCODER;
    const zn_weight *image = conv3x3(w, encoder ? "enc.stem.weight" : "dec.out.weight");
    const zn_weight *latent = conv3x3(w, encoder ? "enc.out.weight" : "dec.in.weight");
    if (!image || !latent || !zn_weights_find(w, encoder ? "enc.down1.weight" : "dec.up1.weight"))
        return false;
    const int64_t width = image->shape[encoder ? 3 : 2], channels = latent->shape[encoder ? 3 : 2];
    if (image->shape[encoder ? 2 : 3] != 3 || width < 1 || width > MAX_WIDTH || channels < 1 || channels > MAX_WIDTH)
        return false;
    k->width = (int)width;
    k->latent = (int)channels;
    form *f = zn_form_own(k, sizeof *f);
    return count_blocks(w, encoder ? "enc" : "dec", f->blocks[part]);
}

/* Only the file that has a part knows its blocks. */
static zn_status adopt(zn_config *k, const zn_config *more, zn_part part)
{
    form *f = zn_form_own(k, sizeof *f);
    memcpy(f->blocks[part], blocks_of(more, part), sizeof f->blocks[part]);
    return ZN_OK;
}

static zn_status recognise(const zn_weights *w, zn_config *k, zn_naming naming[ZN_PARTS], bool *is_it)
{
    zn_config part[2] = { configs[0], configs[0] };
    *is_it = zn_find_parts(w, read_part, part, naming);
    if (!*is_it)
        return ZN_OK;
    if (naming[0].present && naming[1].present && (part[0].latent != part[1].latent || part[0].width != part[1].width))
        return ZN_FAIL(ZN_EFORMAT, "encoder (%d latent channels) and decoder (%d) do not belong together",
                       part[0].latent, part[1].latent);
    *k = part[naming[0].present ? 0 : 1];
    return adopt(k, &part[ZN_DECODER], ZN_DECODER);
}

static const zn_start start[ZN_ROLES] = {
    [ZN_ROLE_WEIGHT] = { zn_start_he, 1 }, [ZN_ROLE_BIAS] = { zn_start_value, 0 }
};

const zn_arch zn_arch_zenith_r = { .name = "zenith-r",
                                   .configs = configs,
                                   .can = ZN_ENCODES | ZN_DECODES,
                                   .scope = { "enc", "dec" },
                                   .encode = encode,
                                   .decode = decode,
                                   .recognise = recognise,
                                   .adopt = adopt,
                                   .start = start };
