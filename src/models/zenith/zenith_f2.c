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
 * there, so a student starts with those of its teacher (distill.start). The residuals are two 3x3 convolutions; two
 * other forms have as many operations with other blocks there (docs/results/f2.md). */
#include "models/taesd/taesd.h"
#include "models/zenith/zenith.h"

#include "base/fail.h"

#include <stdio.h>
#include <string.h>

enum { MAX_BLOCKS = 64, MAX_CHANNELS = 4096, PATCH = 12 /* channels of 2x2 pixels */, DETAIL = 4 /* their scale */ };
enum { WIDER = 4 /* inside a depthwise block */, TILE = 32 };

typedef enum block_kind { PLAIN, DEPTHWISE, SPECTRAL, KINDS } block_kind;

typedef struct form {
    int trunk;       /* channels at 1/4 and 1/8 */
    int blocks;      /* residuals at 1/2 */
    block_kind kind; /* of these */
} form;

static const form forms[KINDS] = { [PLAIN] = { .trunk = 64, .blocks = 4, .kind = PLAIN },
                                   [DEPTHWISE] = { .trunk = 64, .blocks = 9, .kind = DEPTHWISE },
                                   [SPECTRAL] = { .trunk = 64, .blocks = 16, .kind = SPECTRAL } };

#define PRESET(text, what, channels, kind)                                                                             \
    {                                                                                                                  \
        .name = text, .aliases = "", .description = what, .latent = 32, .downscale = 8, .width = channels,             \
        .preset_form = &forms[kind]                                                                                    \
    }

static const zn_config configs[] = {
    [PLAIN] =
        PRESET("zenith-f2", "fast autoencoder for FLUX.2's latents, cut from taef2, 32 channels at 1/8", 32, PLAIN),
    [DEPTHWISE] = PRESET("zenith-f2-depthwise", "the same with depthwise blocks at 1/2; for comparison", 32, DEPTHWISE),
    [SPECTRAL] = PRESET("zenith-f2-spectral", "the same with spectral blocks at 1/2; for comparison", 64, SPECTRAL),
    { .name = NULL },
};

static const form *form_of(const zn_config *k) { return zn_form_of(k); }

static zn_node *blocks(zn_scope s, zn_node *x, int first, int count, bool pooled)
{
    for (int i = 0; i < count; i++)
        x = zn_taesd_block(zn_at(s, "%d", first + i), x, zn_channels(x), pooled);
    return x;
}

/* Branches start small. */
static zn_node *small(zn_node *layer) { return zn_layer_starts(layer, ZN_START(zn_start_he, 0.1f), ZN_START_USUAL); }

/* x + conv(relu(conv(x))) */
static zn_node *plain(zn_scope s, zn_node *x, int at)
{
    (void)at;
    zn_node *y = zn_relu(zn_conv3x3(zn_at(s, "a"), x, zn_channels(x)));
    return zn_add(x, small(zn_conv3x3(zn_at(s, "b"), y, zn_channels(x))));
}

/* x + 1x1(relu(1x1(y + depthwise(y)))) of the normed map y, four times as wide inside. */
static zn_node *depthwise(zn_scope s, zn_node *x, int at)
{
    (void)at;
    const int c = zn_channels(x);
    zn_node *norm = zn_starts(zn_vector(s, "norm", c, ZN_ROLE_GAIN), ZN_START(zn_start_value, 1));
    zn_node *local = zn_plain_parameter(s, "dw", ZN_SHAPE(c, 3, 3), ZN_ROLE_WEIGHT);
    zn_node *y = zn_depthwise_residual(zn_rms_norm(x, norm, 1e-6f), zn_starts(local, ZN_START(zn_start_normal, 0.02f)));
    y = zn_relu(zn_conv1x1(zn_at(s, "a"), y, WIDER * c));
    return zn_add(x, small(zn_conv1x1(zn_at(s, "b"), y, c)));
}

static zn_node *spectral(zn_scope s, zn_node *x, int at)
{
    const zn_lite_r_spec spec = {
        .tile = TILE, .offset = at % 2 * TILE / 2, .back = { zn_start_he, 0.1f }, .gamma = { zn_start_value, 1 }
    };
    return zn_lite_r_block(s, x, &spec);
}

/* Blocks at 1/2, and a tensor that those of no kind before it have. */
static const struct {
    zn_node *(*block)(zn_scope s, zn_node *x, int at);
    const char *sign;
} kinds[KINDS] = {
    [PLAIN] = { plain, "a.weight" }, [DEPTHWISE] = { depthwise, "dw" }, [SPECTRAL] = { spectral, "gate_h" }
};

static zn_node *residuals(zn_scope s, zn_node *x, const form *f)
{
    for (int i = 0; i < f->blocks; i++)
        x = kinds[f->kind].block(zn_at(s, "half.%d", i), x, i);
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
    x = residuals(s, x, f);
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
    x = zn_conv3x3(zn_at(s, "image"), residuals(s, x, f), PATCH);
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

static int count_blocks(const zn_weights *w, const char *part, block_kind kind)
{
    char name[64];
    for (int i = 0; i < MAX_BLOCKS; i++) {
        snprintf(name, sizeof name, "%s.half.%d.%s", part, i, kinds[kind].sign);
        if (!zn_weights_find(w, name))
            return i;
    }
    return MAX_BLOCKS;
}

static block_kind kind_of(const zn_weights *w, const char *part)
{
    block_kind kind = KINDS - 1;
    while (kind != PLAIN && !count_blocks(w, part, kind))
        kind--;
    return kind;
}

/* The sizes of a part are those of the convolutions at its ends. */
static bool read_part(const zn_weights *w, zn_part part, zn_config *k)
{
    const bool encodes = part == ZN_ENCODER;
    const char *at = encodes ? "encoder" : "decoder";
    const zn_weight *image = conv(w, at, encodes ? "stem" : "image"), *latent = conv(w, at, encodes ? "14" : "1");
    if (!image || !latent || image->shape[encodes ? 1 : 0] != PATCH)
        return false;
    const block_kind kind = kind_of(w, at);
    *k = configs[kind];
    form *f = zn_form_own(k, sizeof *f);
    *f = (form){ .trunk = (int)latent->shape[encodes ? 1 : 0], .blocks = count_blocks(w, at, kind), .kind = kind };
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
