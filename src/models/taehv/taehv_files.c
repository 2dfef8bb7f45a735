/* TAEHV as an architecture: images and clips in [0,1], latents as generators know them, and the files of the
 * original, whose names are ours after any prefix. */
#include "base/fail.h"
#include "io/weights/reader.h"
#include "models/arch.h"
#include "models/stored.h"
#include "models/taehv/taehv.h"
#include "models/wan/wan.h"

#include <stdio.h>
#include <string.h>

enum { MOST_CHANNELS = 1 << 13 };

static const zn_config configs[] = {
    { .name = "taew2_1",
      .aliases = "taew21 taehv",
      .description = "tiny video autoencoder for Wan 2.1's latents, 16 channels at 1/8",
      .latent = 16,
      .downscale = 8,
      .frames = ZN_TAEHV_EACH,
      .first_frames = ZN_TAEHV_EACH,
      .preset_form = &zn_taew21 },
    { .name = "taew2_2",
      .aliases = "taew22",
      .description = "tiny video autoencoder for Wan 2.2's latents, 48 channels at 1/16",
      .latent = 48,
      .downscale = 16,
      .frames = ZN_TAEHV_EACH,
      .first_frames = ZN_TAEHV_EACH,
      .preset_form = &zn_taew22 },
    { .name = "taew2_2_super",
      .aliases = "taew22_super taew2_2-super",
      .description = "tiny video autoencoder for Wan 2.2's latents with a larger decoder, 48 channels at 1/16",
      .latent = 48,
      .downscale = 16,
      .frames = ZN_TAEHV_EACH,
      .first_frames = ZN_TAEHV_EACH,
      .preset_form = &zn_taew22_super },
    { .name = "lighttaew2_1",
      .aliases = "lighttae21",
      .description = "LightX2V's tiny video autoencoder for Wan 2.1's latents, 16 channels at 1/8",
      .latent = 16,
      .downscale = 8,
      .frames = ZN_TAEHV_EACH,
      .first_frames = ZN_TAEHV_EACH,
      .preset_form = &zn_lighttae21 },
    { .name = "lighttaew2_2",
      .aliases = "lighttae22",
      .description = "LightX2V's tiny video autoencoder for Wan 2.2's latents, 48 channels at 1/16",
      .latent = 48,
      .downscale = 16,
      .frames = ZN_TAEHV_EACH,
      .first_frames = ZN_TAEHV_EACH,
      .preset_form = &zn_lighttae22 },
    { .name = NULL },
};

static zn_node *clip(zn_scope s, zn_part part, zn_node *x, const zn_config *k, zn_stream *m)
{
    const zn_taehv_form *form = zn_form_of(k);
    return part == ZN_ENCODER ? zn_taehv_encoder(s, x, form, m) : zn_taehv_decoder(s, x, form, m);
}

static zn_node *encode(zn_scope s, zn_node *image, const zn_config *k)
{
    return clip(s, ZN_ENCODER, image, k, &(zn_stream){ .apart = (int)image->shape.dim[0] });
}

static zn_node *decode(zn_scope s, zn_node *latent, const zn_config *k)
{
    return clip(s, ZN_DECODER, latent, k, &(zn_stream){ .apart = (int)latent->shape.dim[0] });
}

/* The proportions of the published networks: the decoder's first groups have 4 and 2 times the width. */
static zn_status resize(zn_config *k, const zn_wishes *want)
{
    static const int times[ZN_TAEHV_GROUPS + 1] = { 4, 2, 1, 1 };
    zn_taehv_form *f = zn_form_own(k, sizeof *f);
    if (want->width)
        f->width = want->width;
    k->width = f->width;
    for (int i = 0; want->width && i <= ZN_TAEHV_GROUPS; i++)
        f->back_width[i] = times[i] * want->width;
    f->raw = NULL; /* what is trained here is known by its tensors alone */
    k->latent = f->latent = want->latent ? want->latent : f->latent;
    return ZN_OK;
}

static const zn_preset presets[] = {
    { "taew2_1", "tiny video autoencoder on clips, 16 channels at 1/8, with a Gaussian latent",
      "model: taew2_1\nframes: 17\nsize: 128\nbatch: 4\naccumulate: 4\nlr: 3e-4\nbeta2: 0.999\n"
      "loss: {l1: 1, bands: 0.25, lpips: 0.1, kl: 1e-5, kl_rise: 0.1}\n" },
    { NULL, NULL, NULL },
};

/* ---- files ---- */

/* A convolution from `in` channels to `out`; either may be 0: any. */
static bool maps(const zn_weight *t, int64_t side, int64_t in, int64_t out)
{
    return t && t->rank == 4 && t->shape[0] <= MOST_CHANNELS && t->shape[1] <= MOST_CHANNELS && t->shape[2] == side &&
           t->shape[3] == side && (!in || t->shape[1] == in) && (!out || t->shape[0] == out);
}

static int patch_of(int64_t channels) { return channels == 3 ? 1 : channels == 12 ? 2 : 0; }

/* A block with memory takes twice its channels: TAESD's, which are named alike, do not. */
static bool read_encoder(const zn_weights *w, const char *prefix, zn_taehv_form *k)
{
    const zn_weight *first = zn_find_after(w, prefix, "encoder.0.weight"),
                    *last = zn_find_after(w, prefix, "encoder.17.weight");
    if (!maps(first, 3, 0, 0) || !maps(last, 3, first->shape[0], 0))
        return false;
    const int64_t width = first->shape[0];
    *k = (zn_taehv_form){ .patch = patch_of(first->shape[1]), .latent = (int)last->shape[0], .width = (int)width };
    return k->patch && maps(zn_find_after(w, prefix, "encoder.2.conv.weight"), 1, 2 * width, width) &&
           maps(zn_find_after(w, prefix, "encoder.4.conv.0.weight"), 3, 2 * width, width);
}

/* Of both decoders: convolutions lead from group to group, of the larger one to the four pixels of a shuffle. */
static bool read_groups(const zn_weights *w, const char *prefix, const zn_weight *first, zn_taehv_form *k)
{
    k->back_width[0] = (int)first->shape[0];
    for (int i = 1; i <= ZN_TAEHV_GROUPS; i++) {
        const int index = k->large ? 4 + 7 * (i - 1) : 2 + 6 * i, share = k->large ? 4 : 1;
        const zn_weight *t = zn_find_after(w, prefix, "decoder.%d.weight", index);
        if (!maps(t, 3, k->back_width[i - 1], 0) || t->shape[0] % share)
            return false;
        k->back_width[i] = (int)t->shape[0] / share;
    }
    return true;
}

static bool read_decoder(const zn_weights *w, const char *prefix, zn_taehv_form *k)
{
    const zn_weight *point = zn_find_after(w, prefix, "decoder.0.weight"),
                    *first = point ? point : zn_find_after(w, prefix, "decoder.1.weight"),
                    *last = zn_find_after(w, prefix, "decoder.22.weight");
    if (!maps(first, point ? 1 : 3, 0, 0) || !maps(last, 3, 0, 0))
        return false;
    *k = (zn_taehv_form){ .patch = patch_of(last->shape[0]), .latent = (int)first->shape[1], .large = point != NULL };
    const int64_t wide = first->shape[0];
    return k->patch && read_groups(w, prefix, first, k) &&
           (k->large ? maps(zn_find_after(w, prefix, "decoder.1.conv.0.weight"), 7, 1, 2 * wide)
                     : maps(zn_find_after(w, prefix, "decoder.3.conv.0.weight"), 3, 2 * wide, wide));
}

static void name_config(zn_config *k, const zn_taehv_form *form, const bool *present)
{
    *k = (zn_config){ .name = "taehv-custom",
                      .aliases = "",
                      .description = "tiny video autoencoder of the TAEHV family" };
    *(zn_taehv_form *)zn_form_own(k, sizeof *form) = *form;
    for (const zn_config *known = configs; known->name; known++) {
        const zn_taehv_form *other = zn_form_of(known);
        if (other->patch == form->patch && other->latent == form->latent && other->large == form->large &&
            other->raw == form->raw && (!present[0] || other->width == form->width) &&
            (!present[1] || memcmp(other->back_width, form->back_width, sizeof form->back_width) == 0))
            *k = *known;
    }
    k->latent = form->latent;
    k->width = present[0] ? form->width : form->back_width[ZN_TAEHV_GROUPS];
    k->downscale = form->patch << ZN_TAEHV_GROUPS;
    k->frames = k->first_frames = ZN_TAEHV_EACH;
}

/* LightX2V's networks have the same tensors. Its own program knows them by this part of their name. */
static const zn_wan_form *statistics_of(const zn_weights *w, const zn_taehv_form *k)
{
    const char *slash = strrchr(w->name, '/');
    if (!strstr(slash ? slash : w->name, "lighttae"))
        return NULL;
    return k->latent == zn_wan21.latent ? &zn_wan21 : k->latent == zn_wan22.latent ? &zn_wan22 : NULL;
}

static zn_status recognise(const zn_weights *w, zn_config *k, zn_naming naming[ZN_PARTS], bool *is_it)
{
    static const char *const ends[] = { "encoder.17.weight", "decoder.22.weight" };
    zn_taehv_form part[2] = { { 0 } };
    bool present[2] = { false };
    char prefix[96] = "";
    memset(naming, 0, sizeof *naming * ZN_PARTS);
    for (int i = 0; i < 2; i++) {
        if (!zn_find_prefix(&w, 1, ends[i], prefix, sizeof prefix))
            continue;
        present[i] = naming[i].present = (i ? read_decoder : read_encoder)(w, prefix, &part[i]);
        snprintf(naming[i].prefix, sizeof naming[i].prefix, "%s", prefix);
    }
    *is_it = present[0] || present[1];
    if (!*is_it)
        return ZN_OK;
    if (present[0] && present[1] && (part[0].latent != part[1].latent || part[0].patch != part[1].patch))
        return ZN_FAIL(ZN_EFORMAT, "encoder (%d latent channels) and decoder (%d) do not belong together",
                       part[0].latent, part[1].latent);
    zn_taehv_form form = part[present[1] ? 1 : 0];
    if (present[0])
        form.width = part[0].width;
    form.raw = statistics_of(w, &form);
    name_config(k, &form, present);
    return ZN_OK;
}

const zn_arch zn_arch_taehv = { .name = "taehv",
                                .configs = configs,
                                .presets = presets,
                                .can = ZN_ENCODES | ZN_DECODES | ZN_CLIPS,
                                .scope = { "encoder", "decoder" },
                                .encode = encode,
                                .decode = decode,
                                .clip = clip,
                                .recognise = recognise,
                                .resize = resize };
