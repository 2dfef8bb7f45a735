/* DiffAE as a model: presets, how checkpoints name its parts, start values. The networks are in diffae_unet.c.
 *
 * A checkpoint of the original holds every parameter twice, trained (model.) and averaged (ema_model.); the average is
 * what is used. A latent checkpoint has the autoencoder too, a classifier's has nothing else. */
#include "models/arch.h"

#include "base/fail.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MAX_CHANNELS = 1 << 16, MAX_LAYERS = 64, MAX_BLOCKS = 8, ATTENTION_SIDE = 16 };

#define UNET(w, n, ...)                                                                                                \
    {                                                                                                                  \
        .width = w, .levels = n, .blocks = 2, .mult = { __VA_ARGS__ }, .attention = { [ATTENTION_LEVEL] = true },      \
        .heads = 1, .out = 3                                                                                           \
    }
#define ENCODER(w, n, ...)                                                                                             \
    {                                                                                                                  \
        .width = w, .levels = n, .blocks = 2, .mult = { __VA_ARGS__ }, .attention = { [ATTENTION_LEVEL] = true },      \
        .heads = 1, .out = 512                                                                                         \
    }
#define PRESET(text, alias, what, side, down, n, ...)                                                                  \
    {                                                                                                                  \
        .name = text, .aliases = alias, .description = what, .latent = 512, .downscale = down, .diffae = {             \
            .size = side,                                                                                              \
            .embed = 512,                                                                                              \
            .latent = { .channels = 512, .hidden = 2048, .layers = n, .time = 64 },                                    \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }

static const zn_config configs[] = {
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
#undef ATTENTION_LEVEL
    { .name = NULL },
};

void zn_diffae_resize(zn_diffae_form *d, int width, int cond)
{
    if (width)
        d->unet.width = d->encoder.width = width;
    if (cond)
        d->embed = d->encoder.out = d->latent.channels = cond;
}

/* ---- networks ---- */

/* Statistics of conditions are constants that come with whatever was made with them. */
static void statistics(zn_graph *g, int width)
{
    zn_graph_parameter(g, "conds_mean", ZN_SHAPE(1, width), ZN_LAYOUT_PLAIN);
    zn_graph_parameter(g, "conds_std", ZN_SHAPE(1, width), ZN_LAYOUT_PLAIN);
}

static zn_node *network(zn_scope s, zn_part part, zn_node *const *in, const zn_config *k)
{
    const zn_diffae_form *d = &k->diffae;
    switch (part) {
    case ZN_ENCODER:
        return zn_diffae_encoder(s, in[0], &d->encoder);
    case ZN_DECODER:
        return zn_diffae_unet(s, in[0], in[1], d->encoder.out ? in[2] : NULL, d->embed, &d->unet);
    case ZN_LATENT_NET:
        statistics(s.graph, d->encoder.out);
        return zn_diffae_latent(s, in[0], in[1], &d->latent);
    default:
        statistics(s.graph, d->encoder.out);
        return zn_linear(s, in[0], d->classes);
    }
}

static int inputs(const zn_config *k, zn_part part, int64_t n, int64_t h, int64_t w, zn_shape *shapes)
{
    const zn_diffae_form *d = &k->diffae;
    const zn_shape image = ZN_SHAPE(n, h, w, 3), cond = ZN_SHAPE(1, 1, n, d->encoder.out);
    shapes[0] = part <= ZN_DECODER ? image : cond;
    if (part == ZN_DECODER || part == ZN_LATENT_NET)
        shapes[1] = ZN_SHAPE(1, 1, n, part == ZN_DECODER ? d->unet.width : d->latent.time);
    if (part == ZN_DECODER && d->encoder.out) {
        shapes[2] = cond;
        return 3;
    }
    return part == ZN_DECODER || part == ZN_LATENT_NET ? 2 : 1;
}

/* ---- recognition ---- */

__attribute__((format(printf, 3, 4))) static const zn_weight *find(const zn_weights *w, const char *prefix,
                                                                   const char *format, ...)
{
    char name[256];
    const int used = snprintf(name, sizeof name, "%s", prefix);
    va_list args;
    va_start(args, format);
    vsnprintf(name + used, sizeof name - (size_t)used, format, args);
    va_end(args);
    return zn_weights_find(w, name);
}

static bool side(const zn_weight *t, int rank, int axis, int *out)
{
    if (!t || t->rank != rank || t->shape[axis] < 1 || t->shape[axis] > MAX_CHANNELS)
        return false;
    *out = (int)t->shape[axis];
    return true;
}

/* How many input blocks there are, 0 when these are no such network. */
static int count_blocks(const zn_weights *w, const char *prefix)
{
    int count = 0;
    if (!find(w, prefix, "input_blocks.0.0.weight"))
        return 0;
    while (count < MAX_LAYERS && find(w, prefix, "input_blocks.%d.0.in_layers.2.weight", count + 1))
        count++;
    return count + 1;
}

/* Levels, widths and attention of the way down, with so many blocks a level. */
static bool read_walk(const zn_weights *w, const char *prefix, int blocks, zn_unet *k)
{
    const int count = count_blocks(w, prefix), period = blocks + 1;
    k->blocks = blocks;
    k->heads = 1;
    k->levels = count / period;
    if (!count || count % period || blocks > MAX_BLOCKS || k->levels > ZN_UNET_LEVELS ||
        !side(find(w, prefix, "input_blocks.0.0.weight"), 4, 0, &k->width))
        return false;
    for (int level = 0; level < k->levels; level++) {
        int width;
        const int at = level * period + 1;
        if (!side(find(w, prefix, "input_blocks.%d.0.in_layers.2.weight", at), 4, 0, &width) || width % k->width)
            return false;
        k->mult[level] = width / k->width;
        k->attention[level] = find(w, prefix, "input_blocks.%d.1.qkv.weight", at) != NULL;
    }
    return true;
}

/* The first group of output blocks ends with the block that doubles the sides. */
static int blocks_of(const zn_weights *w, const char *prefix)
{
    for (int i = 0; i < MAX_LAYERS; i++)
        for (int part = 1; part <= 2; part++)
            if (find(w, prefix, "output_blocks.%d.%d.in_layers.2.weight", i, part))
                return i;
    return 0;
}

static bool read_autoencoder(const zn_weights *w, const char *prefix, zn_config *k, zn_naming *naming)
{
    zn_diffae_form *d = &k->diffae;
    const int blocks = blocks_of(w, prefix);
    char encoder[128];
    snprintf(encoder, sizeof encoder, "%sencoder.", prefix);
    const bool conditional = count_blocks(w, encoder) > 0;
    const char *time = conditional ? "time_embed.time_embed.0.weight" : "time_embed.0.weight";
    if (!blocks || !read_walk(w, prefix, blocks, &d->unet) ||
        !side(find(w, prefix, "out.2.weight"), 4, 0, &d->unet.out) || d->unet.out != 3 ||
        !side(find(w, prefix, "%s", time), 2, 0, &d->embed))
        return false;
    if (conditional &&
        (!read_walk(w, encoder, blocks, &d->encoder) || !side(find(w, encoder, "out.3.weight"), 4, 0, &d->encoder.out)))
        return false;
    for (int level = 0; level < d->unet.levels; level++)
        if (d->unet.attention[level])
            d->size = ATTENTION_SIDE << level;
    naming[ZN_ENCODER].present = conditional;
    naming[ZN_DECODER].present = true;
    return true;
}

static bool read_latent(const zn_weights *w, const char *prefix, zn_config *k)
{
    zn_latent_net *n = &k->diffae.latent;
    *n = (zn_latent_net){ 0 };
    while (n->layers < MAX_LAYERS && find(w, prefix, "latent_net.layers.%d.linear.weight", n->layers))
        n->layers++;
    return n->layers > 1 && side(find(w, prefix, "latent_net.layers.0.linear.weight"), 2, 0, &n->hidden) &&
           side(find(w, prefix, "latent_net.layers.0.linear.weight"), 2, 1, &n->channels) &&
           side(find(w, prefix, "latent_net.time_embed.0.weight"), 2, 1, &n->time);
}

/* Presets keep their names; anything else of the family is described by what it is. */
static void name_config(zn_config *k)
{
    const zn_diffae_form *d = &k->diffae;
    k->name = d->encoder.out ? "diffae-custom" : "ddim-custom";
    k->aliases = "";
    k->description = d->encoder.out ? "diffusion autoencoder" : "diffusion model without conditions";
    k->latent = d->encoder.out;
    k->downscale = 1 << ((d->encoder.out ? d->encoder.levels : d->unet.levels) - 1);
    for (const zn_config *known = configs; known->name; known++)
        if (memcmp(&known->diffae.unet, &d->unet, sizeof d->unet) == 0 &&
            memcmp(&known->diffae.encoder, &d->encoder, sizeof d->encoder) == 0 &&
            (!d->latent.layers || d->latent.layers == known->diffae.latent.layers)) {
            k->name = known->name;
            k->aliases = known->aliases;
            k->description = known->description;
            return;
        }
}

/* A classifier by itself, with the statistics of the conditions it was trained on. */
static bool read_classifier(const zn_weights *w, const char *wrapper, zn_config *k, zn_naming *naming)
{
    zn_diffae_form *d = &k->diffae;
    if (!side(find(w, wrapper, "classifier.weight"), 2, 0, &d->classes) ||
        !side(find(w, wrapper, "classifier.weight"), 2, 1, &d->encoder.out) || !find(w, wrapper, "conds_mean"))
        return false;
    k->name = "diffae-classifier";
    k->aliases = "";
    k->description = "classifier of a diffusion autoencoder's conditions";
    k->latent = d->encoder.out;
    k->downscale = 1;
    naming->present = true;
    naming->shift = (int)strlen(wrapper);
    snprintf(naming->prefix, sizeof naming->prefix, "%s", wrapper);
    return true;
}

static const char *const wrappers[] = { "", "state_dict." };
static const char *const copies[] = { "ema_model.", "", "model." };

static zn_status recognise(const zn_weights *w, zn_config *k, zn_naming naming[ZN_PARTS], bool *is_it)
{
    memset(naming, 0, sizeof(zn_naming) * ZN_PARTS);
    memset(k, 0, sizeof *k);
    *is_it = false;
    for (size_t i = 0; i < sizeof wrappers / sizeof *wrappers && !*is_it; i++)
        for (size_t j = 0; j < sizeof copies / sizeof *copies && !*is_it; j++) {
            char prefix[64];
            snprintf(prefix, sizeof prefix, "%s%s", wrappers[i], copies[j]);
            *is_it = read_autoencoder(w, prefix, k, naming);
            if (!*is_it)
                continue;
            naming[ZN_LATENT_NET].present = naming[ZN_ENCODER].present && read_latent(w, prefix, k);
            if (naming[ZN_LATENT_NET].present && !find(w, wrappers[i], "conds_mean"))
                return ZN_FAIL(ZN_EFORMAT,
                               "the latent net comes without the statistics of its conditions (conds_mean)");
            naming[ZN_CLASSIFIER].present = side(find(w, wrappers[i], "classifier.weight"), 2, 0, &k->diffae.classes);
            for (int part = 0; part < ZN_PARTS; part++) {
                snprintf(naming[part].prefix, sizeof naming[part].prefix, "%s", prefix);
                naming[part].shift = (int)strlen(wrappers[i]); /* of the prefix, what statistics have too */
            }
            name_config(k);
        }
    for (size_t i = 0; i < sizeof wrappers / sizeof *wrappers && !*is_it; i++) {
        memset(k, 0, sizeof *k);
        *is_it = read_classifier(w, wrappers[i], k, &naming[ZN_CLASSIFIER]);
    }
    return ZN_OK;
}

/* Statistics and the classifier stand outside of the two copies. */
static void file_name(const char *name, const zn_naming *naming, char *out, size_t size)
{
    const bool outside = strncmp(name, "conds_", 6) == 0 || strncmp(name, "classifier.", 11) == 0;
    snprintf(out, size, "%.*s%s", outside ? naming->shift : (int)sizeof naming->prefix, naming->prefix, name);
}

/* ---- start ---- */

static bool ends(const char *name, const char *with)
{
    const size_t n = strlen(name), m = strlen(with);
    return n >= m && strcmp(name + n - m, with) == 0;
}

static bool holds_any(const char *name, const char *const *words)
{
    for (; *words; words++)
        if (strstr(name, *words))
            return true;
    return false;
}

/* PyTorch's: uniform, the wider the fewer inputs. What ends a branch is zero, so a fresh U-Net predicts nothing; layers
 * of the latent net are He normal, except the last. */
static bool initial(const zn_config *k, const char *name, zn_shape shape, int64_t fan_in, zn_rng *rng, float *out)
{
    static const char *const zero[] = { ".out_layers.3.", ".proj_out.", NULL };
    static const char *const norm[] = { ".in_layers.0.", ".out_layers.0.", ".norm.", "out.0.", NULL };
    const int64_t count = zn_shape_count(shape);
    const bool is_bias = ends(name, ".bias"), is_norm = holds_any(name, norm);
    const bool is_zero = holds_any(name, zero) || strncmp(name, "out.2.", 6) == 0 || strcmp(name, "conds_mean") == 0;
    char last[64];
    snprintf(last, sizeof last, "latent_net.layers.%d.", k->diffae.latent.layers - 1);
    const bool he = strncmp(name, "latent_net.layers.", 18) == 0 && strncmp(name, last, strlen(last)) != 0 && !is_bias;
    const float bound = 1 / sqrtf((float)fan_in), deviation = sqrtf(2 / (float)fan_in);
    for (int64_t i = 0; i < count; i++)
        if (is_zero)
            out[i] = 0;
        else if (is_norm || strcmp(name, "conds_std") == 0)
            out[i] = is_bias ? 0 : 1;
        else
            out[i] = he ? deviation * zn_rng_normal(rng) : bound * (2 * zn_rng_uniform(rng) - 1);
    return true;
}

const zn_arch zn_arch_diffae = { .name = "diffae",
                                 .configs = configs,
                                 .scope = { "encoder", "", "latent_net", "classifier" },
                                 .network = network,
                                 .inputs = inputs,
                                 .recognise = recognise,
                                 .file_name = file_name,
                                 .initial = initial };
