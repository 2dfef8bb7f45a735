/* Wan's video autoencoders as an architecture: pictures and clips in [0,1], latents as generators know them, the means
 * of what the encoder says at mean 0 and deviation 1 (models/wan/wan.h). */
#include "models/wan/wan.h"

#include "base/fail.h"
#include "models/arch.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const zn_config configs[] = {
    { .name = "wan21-vae",
      .aliases = "wan21 wan2.1 wan2.1-vae qwen-image-vae",
      .description = "video autoencoder of Wan 2.1, Wan 2.2 14B and Qwen-Image, 16 channels at 1/8",
      .latent = 16,
      .downscale = 8,
      .frames = 4,
      .first_frames = 1,
      .preset_form = &zn_wan21 },
    { .name = "wan22-vae",
      .aliases = "wan22 wan2.2 wan2.2-vae",
      .description = "video autoencoder of Wan 2.2 TI2V-5B, 48 channels at 1/16",
      .latent = 48,
      .downscale = 16,
      .frames = 4,
      .first_frames = 1,
      .preset_form = &zn_wan22 },
    { .name = NULL },
};

_Static_assert(sizeof(zn_wan_form) <= ZN_FORM_BYTES, "a form must fit a configuration");
static const zn_wan_form *form_of(const zn_config *k) { return zn_form_of(k); }

/* The scopes of a graph end with the parts' names, which the networks add themselves. */
static zn_node *encode_clip(zn_scope s, zn_node *x, const zn_wan_form *k, zn_stream *m)
{
    x = zn_fixed_affine(zn_at(s, "pixels"), x, (float[]){ 2, 2, 2 }, (float[]){ -1, -1, -1 });
    zn_node *means = zn_slice_channels(zn_wan_encoder(zn_above(s), x, k, m), 0, k->latent);
    return zn_wan_normalised(zn_at(s, "latents"), means, k);
}

/* Means as above with their log variances, of the same normalised latents: a deviation that divides values divides
 * those of samples too. */
static zn_node *moments(zn_scope s, zn_node *x, const zn_config *config, zn_stream *m)
{
    const zn_wan_form *k = form_of(config);
    float factor[2 * ZN_WAN_LATENT], more[2 * ZN_WAN_LATENT];
    for (int i = 0; i < k->latent; i++) {
        factor[i] = 1 / k->deviation[i];
        more[i] = -k->mean[i] / k->deviation[i];
        factor[k->latent + i] = 1;
        more[k->latent + i] = -2 * logf(k->deviation[i]);
    }
    x = zn_fixed_affine(zn_at(s, "pixels"), x, (float[]){ 2, 2, 2 }, (float[]){ -1, -1, -1 });
    return zn_fixed_affine(zn_at(s, "moments"), zn_wan_encoder(zn_above(s), x, k, m), factor, more);
}

static zn_node *decode_clip(zn_scope s, zn_node *x, const zn_wan_form *k, zn_stream *m)
{
    x = zn_wan_decoder(zn_above(s), zn_wan_restored(zn_at(s, "latents"), x, k), k, m);
    return zn_fixed_affine(zn_at(s, "pixels"), x, (float[]){ 0.5f, 0.5f, 0.5f }, (float[]){ 0.5f, 0.5f, 0.5f });
}

static zn_node *clip(zn_scope s, zn_part part, zn_node *x, const zn_config *k, zn_stream *m)
{
    if (zn_is_poison(x) || zn_channels(x) != (part == ZN_ENCODER ? 3 : k->latent))
        return zn_graph_poison(s.graph, ZN_ESHAPE, "frames have another number of channels than the network");
    return part == ZN_ENCODER ? encode_clip(s, x, form_of(k), m) : decode_clip(s, x, form_of(k), m);
}

static zn_node *encode(zn_scope s, zn_node *image, const zn_config *k)
{
    return clip(s, ZN_ENCODER, image, k, &(zn_stream){ .apart = (int)image->shape.dim[0] });
}

static zn_node *decode(zn_scope s, zn_node *latent, const zn_config *k)
{
    return clip(s, ZN_DECODER, latent, k, &(zn_stream){ .apart = (int)latent->shape.dim[0] });
}

/* Latents of another number of channels are not those of the published networks, and have no statistics. */
static zn_status resize(zn_config *k, const zn_wishes *want)
{
    zn_wan_form *f = zn_form_own(k, sizeof *f);
    if (want->latent > ZN_WAN_LATENT)
        return ZN_FAIL(ZN_EINVALID, "a %s has at most %d latent channels, not %d", k->name, ZN_WAN_LATENT,
                       want->latent);
    if (want->width)
        f->width = f->back_width = want->width;
    k->width = f->width;
    for (int i = 0; want->latent && want->latent != f->latent && i < ZN_WAN_LATENT; i++) {
        f->mean[i] = 0;
        f->deviation[i] = 1;
    }
    k->latent = f->latent = want->latent ? want->latent : f->latent;
    return ZN_OK;
}

/* One clip at a time: 17 frames fill a step, and the batch is the clips whose gradients are summed. */
static const zn_preset presets[] = {
    { "wan21-vae", "the video autoencoder of Wan 2.1 on clips, 16 channels at 1/8, with a Gaussian latent",
      "model: wan21-vae\nframes: 17\nsize: 128\nbatch: 4\naccumulate: 4\nrecompute: true\nlr: 1e-4\nbeta2: 0.999\n"
      "loss: {l1: 1, bands: 0.25, lpips: 0.1, kl: 1e-5, kl_rise: 0.1}\n" },
    { NULL, NULL, NULL },
};

/* ---- files ---- */

static void file_name(const char *name, const zn_naming *naming, char *out, size_t size)
{
    zn_wan_naming n = { .diffusers = naming->shift > 0 };
    const zn_wan_form k = { .staged = naming->shift & 1, .blocks = naming->shift >> 1 };
    snprintf(n.prefix, sizeof n.prefix, "%.*s", (int)sizeof n.prefix - 1, naming->prefix);
    zn_wan_file_name(&n, &k, name, out, size);
}

static zn_status recognise(const zn_weights *w, zn_config *k, zn_naming naming[ZN_PARTS], bool *is_it)
{
    zn_wan_naming n;
    zn_wan_form form;
    memset(naming, 0, sizeof *naming * ZN_PARTS);
    const zn_status status = zn_wan_recognise(w, &form, &n);
    *is_it = status == ZN_OK;
    if (status != ZN_OK)
        return status == ZN_ENOTFOUND ? ZN_OK : status;
    for (int part = 0; part < 2; part++) {
        naming[part].present = n.present[part];
        naming[part].shift = n.diffusers ? form.blocks << 1 | form.staged : 0;
        snprintf(naming[part].prefix, sizeof naming[part].prefix, "%s", n.prefix);
    }
    *k = configs[form.staged];
    if (!n.published) {
        k->name = form.staged ? "wan22-vae-custom" : "wan21-vae-custom";
        k->aliases = "";
        k->description = form.staged ? "video autoencoder built like that of Wan 2.2 TI2V-5B"
                                     : "video autoencoder built like that of Wan 2.1";
    }
    if (form.flat)
        k->description = form.staged ? "autoencoder of Wan 2.2 TI2V-5B, for images alone"
                                     : "autoencoder of Wan 2.1, for images alone";
    *(zn_wan_form *)zn_form_own(k, sizeof form) = form;
    k->latent = form.latent;
    k->width = form.width;
    k->downscale = 1 << (form.levels - 1 + form.staged);
    k->frames = form.flat ? 0 : zn_wan_frames(&form);
    k->first_frames = form.flat ? 0 : 1;
    return ZN_OK;
}

static const zn_start start[ZN_ROLES] = { [ZN_ROLE_WEIGHT] = { zn_start_he, 0.5f },
                                          [ZN_ROLE_BIAS] = { zn_start_value, 0 },
                                          [ZN_ROLE_GAIN] = { zn_start_value, 1 } };

const zn_arch zn_arch_wan = { .name = "wan",
                              .configs = configs,
                              .presets = presets,
                              .can = ZN_ENCODES | ZN_DECODES | ZN_CLIPS,
                              .scope = { "encoder", "decoder" },
                              .encode = encode,
                              .decode = decode,
                              .clip = clip,
                              .moments = moments,
                              .recognise = recognise,
                              .resize = resize,
                              .file_name = file_name,
                              .start = start };
