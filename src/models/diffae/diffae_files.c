/* DiffAE in files: which of its parts a checkpoint holds, of what form they are, and under which names.
 *
 * A checkpoint of the original holds every parameter twice, trained (model.) and averaged (ema_model.); the average is
 * what is used. A latent checkpoint has the autoencoder too, a classifier's has nothing else. */
#include "models/diffae/diffae_files.h"

#include "base/fail.h"
#include "models/diffae/diffae.h"
#include "models/mamba/mamba_files.h"
#include "models/stored.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CHANNELS = 1 << 16, MAX_LAYERS = 64, MAX_BLOCKS = 8, ATTENTION_SIDE = 16, MAX_SIDE = 4096, FIELD_SIDE = 64 };

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
    if (!zn_find_after(w, prefix, "input_blocks.0.0.weight"))
        return 0;
    while (count < MAX_LAYERS && zn_find_after(w, prefix, "input_blocks.%d.0.in_layers.2.weight", count + 1))
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
        !side(zn_find_after(w, prefix, "input_blocks.0.0.weight"), 4, 0, &k->width))
        return false;
    for (int level = 0; level < k->levels; level++) {
        int width;
        const int at = level * period + 1;
        if (!side(zn_find_after(w, prefix, "input_blocks.%d.0.in_layers.2.weight", at), 4, 0, &width) ||
            width % k->width)
            return false;
        k->mult[level] = width / k->width;
        k->attention[level] = zn_find_after(w, prefix, "input_blocks.%d.1.qkv.weight", at) != NULL;
    }
    return true;
}

/* The first group of output blocks ends with the block that doubles the sides. */
static int blocks_of(const zn_weights *w, const char *prefix)
{
    for (int i = 0; i < MAX_LAYERS; i++)
        for (int part = 1; part <= 2; part++)
            if (zn_find_after(w, prefix, "output_blocks.%d.%d.in_layers.2.weight", i, part))
                return i;
    return 0;
}

/* Files of ours tell the side of the images they were trained on; of others, attention is where there are 16. */
static void read_size(const zn_weights *w, const zn_diffae_form *d, zn_config *k)
{
    const char *text = zn_weights_metadata(w, ZN_MODEL_SIZE_KEY);
    char *end = NULL;
    const long told = text ? strtol(text, &end, 10) : 0;
    if (d->mamba.kind)
        k->size = FIELD_SIDE;
    for (int level = 0; level < d->unet.levels; level++)
        if (d->unet.attention[level])
            k->size = ATTENTION_SIDE << level;
    if (told > 0 && told <= MAX_SIDE && !*end)
        k->size = (int)told;
}

/* An encoder and a decoder over points. */
static bool read_field(const zn_weights *w, const char *prefix, zn_config *k, zn_naming *naming)
{
    zn_diffae_form *d = zn_form_own(k, sizeof *d);
    char encoder[128], decoder[128];
    snprintf(encoder, sizeof encoder, "%sencoder.", prefix);
    snprintf(decoder, sizeof decoder, "%sdecoder.", prefix);
    *d = (zn_diffae_form){ 0 };
    if (!zn_mamba_read_encoder(w, encoder, &d->mamba) || !zn_mamba_read_decoder(w, decoder, &d->mamba)) {
        *d = (zn_diffae_form){ 0 };
        return false;
    }
    d->embed = d->encoder.out = d->mamba.net.latent;
    read_size(w, d, k);
    naming[ZN_ENCODER].present = naming[ZN_DECODER].present = true;
    return true;
}

static bool read_autoencoder(const zn_weights *w, const char *prefix, zn_config *k, zn_naming *naming)
{
    zn_diffae_form *d = zn_form_own(k, sizeof *d);
    const int blocks = blocks_of(w, prefix);
    char encoder[128];
    snprintf(encoder, sizeof encoder, "%sencoder.", prefix);
    const bool tokens = zn_mamba_read_encoder(w, encoder, &d->mamba);
    const bool conditional = tokens || count_blocks(w, encoder) > 0;
    if (!tokens)
        d->mamba = (zn_mamba_form){ 0 };
    const char *time = conditional ? "time_embed.time_embed.0.weight" : "time_embed.0.weight";
    if (!blocks || !read_walk(w, prefix, blocks, &d->unet) ||
        !side(zn_find_after(w, prefix, "out.2.weight"), 4, 0, &d->unet.out) || d->unet.out != 3 ||
        !side(zn_find_after(w, prefix, "%s", time), 2, 0, &d->embed))
        return false;
    if (tokens)
        d->encoder.out = d->mamba.net.latent;
    else if (conditional && (!read_walk(w, encoder, blocks, &d->encoder) ||
                             !side(zn_find_after(w, encoder, "out.3.weight"), 4, 0, &d->encoder.out)))
        return false;
    int channels = 0;
    d->masked = conditional && !tokens && side(zn_find_after(w, encoder, "input_blocks.0.0.weight"), 4, 1, &channels) &&
                channels == d->unet.out + 1;
    const char *prediction = zn_weights_metadata(w, ZN_MODEL_PREDICTION_KEY);
    d->velocity = prediction && strcmp(prediction, ZN_MODEL_VELOCITY) == 0;
    read_size(w, d, k);
    naming[ZN_ENCODER].present = conditional;
    naming[ZN_DECODER].present = true;
    return true;
}

static bool read_latent(const zn_weights *w, const char *prefix, zn_config *k)
{
    zn_latent_net *n = &((zn_diffae_form *)zn_form_own(k, sizeof(zn_diffae_form)))->latent;
    *n = (zn_latent_net){ 0 };
    while (n->layers < MAX_LAYERS && zn_find_after(w, prefix, "latent_net.layers.%d.linear.weight", n->layers))
        n->layers++;
    return n->layers > 1 && side(zn_find_after(w, prefix, "latent_net.layers.0.linear.weight"), 2, 0, &n->hidden) &&
           side(zn_find_after(w, prefix, "latent_net.layers.0.linear.weight"), 2, 1, &n->channels) &&
           side(zn_find_after(w, prefix, "latent_net.time_embed.0.weight"), 2, 1, &n->time);
}

/* What the sides of images must be multiples of. */
static int downscale_of(const zn_diffae_form *d)
{
    const int levels = d->mamba.net.width || !d->encoder.out ? d->unet.levels : d->encoder.levels;
    const int halved = levels ? 1 << (levels - 1) : 1;
    return d->mamba.patch > halved ? d->mamba.patch : halved;
}

/* Presets keep their names; anything else of the family is described by what it is. */
static void name_config(zn_config *k)
{
    const zn_diffae_form *d = zn_form_of(k);
    k->name = d->mamba.kind ? "mamba-custom" : d->encoder.out ? "diffae-custom" : "ddim-custom";
    k->aliases = "";
    k->description = d->mamba.kind    ? "autoencoder over points of an image"
                     : d->encoder.out ? "diffusion autoencoder"
                                      : "diffusion model without conditions";
    k->latent = d->encoder.out;
    k->downscale = downscale_of(d);
    for (const zn_config *known = zn_diffae_configs; known->name; known++) {
        const zn_diffae_form *other = zn_form_of(known);
        if (memcmp(&other->unet, &d->unet, sizeof d->unet) == 0 &&
            memcmp(&other->encoder, &d->encoder, sizeof d->encoder) == 0 &&
            memcmp(&other->mamba, &d->mamba, sizeof d->mamba) == 0 && other->masked == d->masked &&
            (!d->latent.layers || d->latent.layers == other->latent.layers)) {
            k->name = known->name;
            k->aliases = known->aliases;
            k->description = known->description;
            return;
        }
    }
}

/* A classifier by itself, with the statistics of the conditions it was trained on. */
static bool read_classifier(const zn_weights *w, const char *wrapper, zn_config *k, zn_naming *naming)
{
    zn_diffae_form *d = zn_form_own(k, sizeof *d);
    if (!side(zn_find_after(w, wrapper, "classifier.weight"), 2, 0, &k->classes) ||
        !side(zn_find_after(w, wrapper, "classifier.weight"), 2, 1, &d->encoder.out) ||
        !zn_find_after(w, wrapper, "conds_mean"))
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
static const char *const copies[] = { "ema_model.", "", "model." }; /* the averaged one first */

static bool has_averages(const zn_weights *w, const char *wrapper)
{
    char prefix[64];
    const size_t size = (size_t)snprintf(prefix, sizeof prefix, "%s%s", wrapper, copies[0]);
    for (int64_t i = 0; i < zn_weights_count(w); i++)
        if (strncmp(zn_weights_at(w, i)->name, prefix, size) == 0)
            return true;
    return false;
}

zn_status zn_diffae_recognise(const zn_weights *w, zn_config *k, zn_naming naming[ZN_PARTS], bool *is_it)
{
    memset(naming, 0, sizeof(zn_naming) * ZN_PARTS);
    memset(k, 0, sizeof *k);
    *is_it = false;
    for (size_t i = 0; i < sizeof wrappers / sizeof *wrappers && !*is_it; i++)
        for (size_t j = 0; j < sizeof copies / sizeof *copies && !*is_it; j++) {
            char prefix[64];
            snprintf(prefix, sizeof prefix, "%s%s", wrappers[i], copies[j]);
            *is_it = read_field(w, prefix, k, naming) || read_autoencoder(w, prefix, k, naming);
            if (!*is_it)
                continue;
            if (j > 0 && has_averages(w, wrappers[i]))
                return ZN_FAIL(ZN_EFORMAT, "its averaged weights (%s%s*) are damaged or incomplete", wrappers[i],
                               copies[0]);
            naming[ZN_LATENT_NET].present = naming[ZN_ENCODER].present && read_latent(w, prefix, k);
            if (naming[ZN_LATENT_NET].present && !zn_find_after(w, wrappers[i], "conds_mean"))
                return ZN_FAIL(ZN_EFORMAT,
                               "the latent net comes without the statistics of its conditions (conds_mean)");
            naming[ZN_CLASSIFIER].present = side(zn_find_after(w, wrappers[i], "classifier.weight"), 2, 0, &k->classes);
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
void zn_diffae_file_name(const char *name, const zn_naming *naming, char *out, size_t size)
{
    const bool outside = strncmp(name, "conds_", 6) == 0 || strncmp(name, "classifier.", 11) == 0;
    snprintf(out, size, "%.*s%s", outside ? naming->shift : (int)sizeof naming->prefix, naming->prefix, name);
}
