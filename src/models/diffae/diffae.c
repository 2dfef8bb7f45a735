/* DiffAE as a model: presets, its parts, initial values. The networks are in diffae_unet.c, what files hold of them in
 * diffae_files.c. */
#include "models/diffae/diffae_files.h"

#include "base/fail.h"
#include "models/diffae/diffae.h"
#include "models/model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define WALK(w, n, each, result, ...)                                                                                  \
    {                                                                                                                  \
        .width = w, .levels = n, .blocks = each, .mult = { __VA_ARGS__ }, .attention = { [ATTENTION_LEVEL] = true },   \
        .heads = 1, .out = result                                                                                      \
    }
#define UNET(w, n, ...)    WALK(w, n, 2, 3, __VA_ARGS__)
#define ENCODER(w, n, ...) WALK(w, n, 2, 512, __VA_ARGS__)
/* The usual proportions of mamba_field.c. */
#define MAMBA(n, side, what)                                                                                           \
    {                                                                                                                  \
        .net = { .width = 512,                                                                                         \
                 .blocks = n,                                                                                          \
                 .features = 256,                                                                                      \
                 .spread = 10,                                                                                         \
                 .values = 3,                                                                                          \
                 .latent = 512,                                                                                        \
                 .embed = 512,                                                                                         \
                 .colours = 3,                                                                                         \
                 .hidden = 512,                                                                                        \
                 .grid = 64,                                                                                           \
                 .mixer = { .states = 16, .taps = 4, .expand = 2 } },                                                  \
        .patch = side, .kind = what                                                                                    \
    }
#define PRESET(text, alias, what, side, down, n, ...)                                                                  \
    {                                                                                                                  \
        .name = text, .aliases = alias, .description = what, .latent = 512, .downscale = down, .size = side,           \
        .preset_form = &(const zn_diffae_form)                                                                         \
        {                                                                                                              \
            .embed = 512, .latent = { .channels = 512, .hidden = 2048, .layers = n, .time = 64 }, __VA_ARGS__          \
        }                                                                                                              \
    }

const zn_config zn_diffae_configs[] = {
#define ATTENTION_LEVEL 4
    PRESET("diffae-ffhq256", "ffhq256 ffhq256_autoenc", "diffusion autoencoder, 256x256", 256, 64, 10,
           .unet = UNET(128, 6, 1, 1, 2, 2, 4, 4), .encoder = ENCODER(128, 7, 1, 1, 2, 2, 4, 4, 4)),
#undef ATTENTION_LEVEL
#define ATTENTION_LEVEL 3
    PRESET("diffae-ffhq128", "ffhq128 ffhq128_autoenc", "diffusion autoencoder, 128x128", 128, 32, 10,
           .unet = UNET(128, 5, 1, 1, 2, 3, 4), .encoder = ENCODER(128, 6, 1, 1, 2, 3, 4, 4)),
    PRESET("diffae-horse128", "horse128 horse128_autoenc bedroom128 bedroom128_autoenc",
           "diffusion autoencoder, 128x128, latent net of 20 layers", 128, 32, 20, .unet = UNET(128, 5, 1, 1, 2, 3, 4),
           .encoder = ENCODER(128, 6, 1, 1, 2, 3, 4, 4)),
#undef ATTENTION_LEVEL
#define ATTENTION_LEVEL 2
    PRESET("diffae-celeba64", "celeba64 celeba64_autoenc", "diffusion autoencoder, 64x64", 64, 16, 10,
           .unet = UNET(64, 4, 1, 2, 4, 8), .encoder = ENCODER(64, 5, 1, 2, 4, 8, 8)),
    /* Ours: small enough to come with the program. Blocks that halve and double have two convolutions as well, so a
     * block a level is deeper than it looks; the latent net is narrow, since a few thousand conditions are all it
     * sees. */
    { .name = "diffae-compact",
      .aliases = "compact64",
      .description = "diffusion autoencoder, 64x64, of 11.7 million parameters",
      .latent = 192,
      .downscale = 16,
      .size = 64,
      .preset_form = &(const zn_diffae_form){ .embed = 256,
                                              .unet = WALK(64, 4, 1, 3, 1, 2, 2, 2),
                                              .encoder = WALK(32, 5, 1, 192, 1, 2, 4, 6, 6),
                                              .latent = { .channels = 192, .hidden = 384, .layers = 6, .time = 64 } } },
    { .name = "ddim-compact",
      .aliases = "",
      .description = "diffusion model without conditions, 64x64: the U-Net of diffae-compact alone",
      .downscale = 8,
      .size = 64,
      .preset_form = &(const zn_diffae_form){ .embed = 256, .unet = WALK(64, 4, 1, 3, 1, 2, 2, 2) } },
    PRESET("diffae-mamba64", "", "diffusion autoencoder with a Mamba encoder, 64x64", 64, 8, 10,
           .unet = UNET(64, 4, 1, 2, 4, 8), .encoder = { .out = 512 }, .mamba = MAMBA(9, 4, ZN_FIELD_NONE)),
    PRESET("diffae-masked64", "", "diffusion autoencoder of some of the pixels, 64x64", 64, 16, 10,
           .unet = UNET(64, 4, 1, 2, 4, 8), .encoder = ENCODER(64, 5, 1, 2, 4, 8, 8), .masked = true),
#undef ATTENTION_LEVEL
    PRESET("mamba-field", "", "diffusion autoencoder over points of an image, any of them", 64, 1, 10,
           .encoder = { .out = 512 }, .mamba = MAMBA(6, 1, ZN_FIELD_NOISE)),
    PRESET("mamba-field-direct", "", "autoencoder over points of an image, any of them, without noise", 64, 1, 10,
           .encoder = { .out = 512 }, .mamba = MAMBA(6, 1, ZN_FIELD_VALUES)),
    PRESET("mamba-coordinates", "", "diffusion of the Fourier features of points, coloured by a condition", 64, 1, 10,
           .encoder = { .out = 512 }, .mamba = MAMBA(6, 1, ZN_FIELD_FEATURES)),
    { .name = NULL },
};

/* Widths of a Mamba encoder's tokens to one of the U-Net beside it. */
enum { TOKEN_WIDTHS = 8 };

static void resize_tokens(zn_diffae_form *d, int width, int cond)
{
    zn_field *n = &d->mamba.net;
    const int tokens = d->mamba.kind ? width : TOKEN_WIDTHS * width;
    if (width) {
        n->width = n->embed = n->hidden = tokens;
        n->features = (tokens + 1) / 2;
    }
    if (cond)
        n->latent = cond;
}

void zn_diffae_resize(zn_diffae_form *d, int width, int cond)
{
    if (width && !d->mamba.kind)
        d->unet.width = width;
    if (width && d->encoder.out && !d->mamba.net.width)
        d->encoder.width = width;
    if (d->mamba.net.width)
        resize_tokens(d, width, cond);
    if (cond && d->encoder.out) {
        d->latent.hidden = d->latent.hidden * cond / d->latent.channels;
        d->embed = d->encoder.out = d->latent.channels = cond;
    }
}

/* ---- configurations ---- */

_Static_assert(sizeof(zn_diffae_form) <= ZN_FORM_BYTES, "a form must fit a configuration");
static const zn_diffae_form *form_of(const zn_config *k) { return zn_form_of(k); }

static zn_status adopt(zn_config *k, const zn_config *more, zn_part part)
{
    if (k->latent != more->latent)
        return ZN_FAIL(ZN_EFORMAT, "its conditions have %d numbers, those of %s %d", more->latent, k->name, k->latent);
    if (part == ZN_LATENT_NET)
        ((zn_diffae_form *)zn_form_own(k, sizeof(zn_diffae_form)))->latent = form_of(more)->latent;
    if (part == ZN_CLASSIFIER)
        k->classes = more->classes;
    return ZN_OK;
}

/* A latent net for the conditions that there are. */
static void plan_part(zn_config *k, zn_part part, const zn_config *preset, int width)
{
    zn_diffae_form form = *form_of(preset), *own = zn_form_own(k, sizeof form);
    if (part != ZN_LATENT_NET)
        return;
    zn_diffae_resize(&form, 0, own->encoder.out);
    form.latent.hidden = width ? width : form.latent.hidden;
    own->latent = form.latent;
}

bool zn_diffae_is_masked(const zn_config *k) { return form_of(k)->masked; }
static bool tells_velocity(const zn_config *k) { return form_of(k)->velocity; }
const zn_mamba_form *zn_diffae_mamba(const zn_config *k) { return &form_of(k)->mamba; }

/* ---- networks ---- */

/* Statistics of conditions are constants that come with whatever was made with them. */
static void statistics(zn_graph *g, int width)
{
    const zn_scope top = { g, "" };
    zn_starts(zn_plain_parameter(top, "conds_mean", ZN_SHAPE(1, width), ZN_ROLE_CONSTANT), ZN_START(zn_start_value, 0));
    zn_starts(zn_plain_parameter(top, "conds_std", ZN_SHAPE(1, width), ZN_ROLE_CONSTANT), ZN_START(zn_start_value, 1));
}

/* The pixels that the mask [N,H,W,1] has 1 for, then the mask; NULL: all of them. */
static zn_node *masked(zn_node *x, zn_node *mask)
{
    if (!mask)
        return zn_concat(x, zn_ones_like(zn_slice_channels(x, 0, 1)));
    return zn_concat(zn_multiply(x, zn_concat(mask, zn_concat(mask, mask))), mask);
}

static zn_node *network(zn_scope s, zn_part part, zn_node *const *in, const zn_config *k)
{
    const zn_diffae_form *d = form_of(k);
    switch (part) {
    case ZN_ENCODER:
        return d->mamba.net.width ? zn_mamba_encoder(s, in[0], &(zn_tokens_at){ in[1], in[2] }, &d->mamba)
                                  : zn_diffae_encoder(s, d->masked ? masked(in[0], in[1]) : in[0], &d->encoder);
    case ZN_DECODER:
        if (d->mamba.kind)
            return zn_mamba_decoder(zn_at(s, "decoder"), in[0], in[1], in[2], &(zn_tokens_at){ in[3], in[4] },
                                    &d->mamba);
        return zn_diffae_unet(
            s, in[0], &(zn_unet_facts){ in[1], d->encoder.out ? in[2] : NULL, d->embed, in[3], k->dropout }, &d->unet);
    case ZN_LATENT_NET:
        statistics(s.graph, d->encoder.out);
        return zn_diffae_latent(s, in[0], in[1], &d->latent);
    default:
        statistics(s.graph, d->encoder.out);
        return zn_linear(s, in[0], k->classes);
    }
}

static int inputs(const zn_config *k, zn_part part, int64_t n, int64_t h, int64_t w, zn_shape *shapes)
{
    const zn_diffae_form *d = form_of(k);
    const zn_shape image = ZN_SHAPE(n, h, w, 3), cond = ZN_SHAPE(1, 1, n, d->encoder.out);
    const int time = d->mamba.kind ? d->mamba.net.width : d->unet.width;
    shapes[0] = part <= ZN_DECODER ? image : cond;
    if (part == ZN_DECODER && d->mamba.kind)
        shapes[0].dim[3] = zn_field_channels(&d->mamba);
    if (part == ZN_DECODER || part == ZN_LATENT_NET)
        shapes[1] = ZN_SHAPE(1, 1, n, part == ZN_DECODER ? time : d->latent.time);
    if (part == ZN_DECODER && d->encoder.out) {
        shapes[2] = cond;
        return 3;
    }
    return part == ZN_DECODER || part == ZN_LATENT_NET ? 2 : 1;
}

/* ---- proportions ---- */

/* Whether the networks can be built: the groups of every norm must divide its channels, also where two maps meet. */
static bool is_possible(const zn_config *k)
{
    zn_graph *g = zn_graph_new();
    for (int part = form_of(k)->encoder.out ? ZN_ENCODER : ZN_DECODER; part <= ZN_DECODER && g; part++) {
        zn_shape shapes[ZN_NETWORK_INPUTS];
        zn_node *in[ZN_NETWORK_INPUTS] = { NULL };
        const int count = inputs(k, (zn_part)part, 1, k->downscale, k->downscale, shapes);
        for (int i = 0; i < count; i++)
            in[i] = zn_graph_input(g, "input", shapes[i]);
        network((zn_scope){ g, part == ZN_ENCODER ? "encoder" : "" }, (zn_part)part, in, k);
    }
    const bool fits = zn_graph_status(g) == ZN_OK;
    zn_graph_free(g);
    return fits;
}

static bool resize_to(zn_config *k, int width, int cond)
{
    zn_diffae_resize(zn_form_own(k, sizeof(zn_diffae_form)), width, cond);
    return is_possible(k);
}

/* "1, 2, 32, 64, 96, 128": the widths that a preset can have. */
static void list_widths(const zn_config *preset, char *text, size_t size)
{
    enum { MOST = 128 };
    size_t used = 0;
    for (int width = 1; width <= MOST && used < size; width++) {
        zn_config k = *preset;
        if (resize_to(&k, width, 0))
            used += (size_t)snprintf(text + used, size - used, "%s%d", used ? ", " : "", width);
    }
}

static zn_status resize(zn_config *k, const zn_wishes *want)
{
    const zn_config preset = *k;
    if (want->latent && !k->latent)
        return ZN_FAIL(ZN_EINVALID, "a %s has no conditions, so latent must stay 0", k->name);
    if (want->velocity && form_of(k)->mamba.kind)
        return ZN_FAIL(ZN_EINVALID, "prediction: velocity is for U-Nets, and a %s has none", k->name);
    if (want->velocity)
        ((zn_diffae_form *)zn_form_own(k, sizeof(zn_diffae_form)))->velocity = true;
    if (want->layers && form_of(k)->mamba.net.width)
        ((zn_diffae_form *)zn_form_own(k, sizeof(zn_diffae_form)))->mamba.net.blocks = want->layers;
    k->width = want->width ? want->width : k->width;
    k->latent = want->latent ? want->latent : k->latent;
    k->size = want->size;
    k->dropout = want->dropout;
    if (resize_to(k, want->width, want->latent))
        return ZN_OK;
    char widths[128] = "";
    list_widths(&preset, widths, sizeof widths);
    return ZN_FAIL(ZN_EINVALID,
                   "a %s cannot have width %d, which the groups of its norms do not divide: take one of %s", k->name,
                   want->width, widths);
}

/* Of Mamba networks; U-Nets have levels. */
static int layers(const zn_config *k) { return form_of(k)->mamba.net.width ? form_of(k)->mamba.net.blocks : 0; }

/* As PyTorch does. */
static const zn_start start[ZN_ROLES] = {
    [ZN_ROLE_WEIGHT] = { zn_start_linear, 0 }, [ZN_ROLE_BIAS] = { zn_start_linear, 0 }
};

const zn_arch zn_arch_diffae = { .name = "diffae",
                                 .configs = zn_diffae_configs,
                                 .presets = zn_diffae_presets,
                                 .can = ZN_EDITS | ZN_SAMPLES,
                                 .scope = { "encoder", "", "latent_net", "classifier" },
                                 .resize = resize,
                                 .layers = layers,
                                 .adopt = adopt,
                                 .plan_part = plan_part,
                                 .network = network,
                                 .inputs = inputs,
                                 .recognise = zn_diffae_recognise,
                                 .file_name = zn_diffae_file_name,
                                 .mamba = zn_diffae_mamba,
                                 .is_masked = zn_diffae_is_masked,
                                 .tells_velocity = tells_velocity,
                                 .start = start };
