/* The small Gaussian autoencoder as an architecture: images in [0,1], latents the means of what the encoder says. Its
 * networks are in wan2d_net.c. */
#include "models/wan2d/wan2d.h"

#include "base/fail.h"
#include "models/arch.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_CHANNELS = 1 << 12, MAX_BLOCKS = 8 };

static const zn_config configs[] = {
    { .name = "wan2d",
      .aliases = "",
      .description = "small autoencoder with attention and a Gaussian latent, 4 channels at 1/16; to be trained",
      .latent = 4,
      .downscale = 16,
      .width = 64,
      .preset_form = &zn_wan2d },
    { .name = NULL },
};

_Static_assert(sizeof(zn_wan2d_form) <= ZN_FORM_BYTES, "a form must fit a configuration");

/* Norms have `groups` groups, or one for each channel where there are fewer. */
static zn_status resize(zn_config *k, const zn_wishes *want)
{
    zn_wan2d_form *f = zn_form_own(k, sizeof *f);
    k->width = f->width = want->width ? want->width : f->width;
    k->latent = f->latent = want->latent ? want->latent : f->latent;
    for (int i = 0; i < f->levels; i++) {
        const int channels = f->width * f->mult[i];
        if (channels > f->groups && channels % f->groups)
            return ZN_FAIL(
                ZN_EINVALID,
                "a %s cannot have width %d: its level %d would have %d channels, which must be at most %d or a "
                "multiple of it; take 4, 8, 16 or a multiple of 32",
                k->name, f->width, i + 1, channels, f->groups);
    }
    return ZN_OK;
}

/* factor x + more */
static zn_node *affine(zn_node *x, float factor, float more)
{
    return zn_add(zn_scale(x, factor), zn_scale(zn_ones_like(x), more));
}

static zn_node *moments(zn_scope s, zn_node *image, const zn_config *k, zn_stream *m)
{
    (void)m; /* images are independent in any case */
    return zn_wan2d_encoder(s, affine(image, 2, -1), zn_form_of(k));
}

static zn_node *encode(zn_scope s, zn_node *image, const zn_config *k)
{
    return zn_slice_channels(moments(s, image, k, NULL), 0, ((const zn_wan2d_form *)zn_form_of(k))->latent);
}

static zn_node *decode(zn_scope s, zn_node *latent, const zn_config *k)
{
    return affine(zn_wan2d_decoder(s, latent, zn_form_of(k)), 0.5f, 0.5f);
}

/* ---- files: the names are ours ---- */

static const zn_weight *conv3x3(const zn_weights *w, const char *format, int level)
{
    char name[64];
    snprintf(name, sizeof name, format, level);
    const zn_weight *t = zn_weights_find(w, name);
    const bool fits = t && t->rank == 4 && t->shape[2] == 3 && t->shape[3] == 3;
    return fits && t->shape[0] <= MAX_CHANNELS && t->shape[1] <= MAX_CHANNELS ? t : NULL;
}

static int count_blocks(const zn_weights *w, const char *format)
{
    int count = 0;
    while (count <= MAX_BLOCKS && conv3x3(w, format, count))
        count++;
    return count;
}

/* The form of a part. Heads leave no trace in a file: they are those of the published network. */
static bool read_part(const zn_weights *w, zn_part part, zn_wan2d_form *f)
{
    const bool encoder = part == ZN_ENCODER;
    const zn_weight *last = conv3x3(w, encoder ? "encoder.conv_out.weight" : "decoder.conv_out.weight", 0), *t;
    const zn_weight *first =
        encoder ? conv3x3(w, "encoder.conv_in.weight", 0) : zn_weights_find(w, "decoder.z_to_h.weight");
    int channels[ZN_WAN2D_LEVELS];
    *f = zn_wan2d;
    f->levels = 0;
    f->blocks = count_blocks(w, encoder ? "encoder.middle_res_blocks.%d.conv1.weight"
                                        : "decoder.middle_res_blocks.%d.conv1.weight");
    while (f->levels < ZN_WAN2D_LEVELS &&
           (t = conv3x3(w, encoder ? "encoder.down_blocks.%d.conv_in.weight" : "decoder.up_blocks.%d.conv_in.weight",
                        f->levels)))
        channels[f->levels++] = (int)t->shape[0];
    if (!first || !last || first->rank != 4 || f->levels != zn_wan2d.levels || !f->blocks || f->blocks > MAX_BLOCKS)
        return false;
    f->latent = (int)(encoder ? last->shape[0] / 2 : first->shape[1]);
    f->width = encoder ? (int)first->shape[0] : channels[f->levels - 1];
    for (int i = 0; i < f->levels; i++) {
        const int own = channels[encoder ? i : f->levels - 1 - i];
        if (f->width < 1 || own != f->width * zn_wan2d.mult[i])
            return false;
    }
    return f->latent > 0;
}

static zn_status recognise(const zn_weights *w, zn_config *k, zn_naming naming[ZN_PARTS], bool *is_it)
{
    zn_wan2d_form part[2];
    memset(naming, 0, sizeof *naming * ZN_PARTS);
    for (int p = 0; p < 2; p++)
        naming[p].present = read_part(w, (zn_part)p, &part[p]);
    *is_it = naming[0].present || naming[1].present;
    if (!*is_it)
        return ZN_OK;
    if (naming[0].present && naming[1].present && memcmp(&part[0], &part[1], sizeof part[0]))
        return ZN_FAIL(ZN_EFORMAT, "encoder (width %d, %d latent channels) and decoder (%d, %d) do not belong together",
                       part[0].width, part[0].latent, part[1].width, part[1].latent);
    const zn_wan2d_form form = part[naming[0].present ? 0 : 1];
    *k = configs[0];
    *(zn_wan2d_form *)zn_form_own(k, sizeof form) = form;
    k->width = form.width;
    k->latent = form.latent;
    return ZN_OK;
}

/* The losses of the network's own recipe are a mean square error of images in [-1,1], which is 4 times that of images
 * in [0,1], and 0.001 times a divergence summed over 4 channels, which is 4 times its mean over elements. The
 * perceptual distance is added to them: without it, 1/192 of the numbers leave a blur. */
static const zn_preset presets[] = {
    { "wan2d", "small autoencoder with attention and a Gaussian latent, 4 channels at 1/16",
      "model: wan2d\nbatch: 8\naccumulate: 2\nlr: 2e-4\nbeta2: 0.999\n"
      "loss: {mse: 4, l1: 0, bands: 0, lpips: 0.1, kl: 0.004, kl_rise: 0.1}\n" },
    { NULL, NULL, NULL },
};

/* As PyTorch does. */
static const zn_start start[ZN_ROLES] = {
    [ZN_ROLE_WEIGHT] = { zn_start_linear, 0 }, [ZN_ROLE_BIAS] = { zn_start_linear, 0 }
};

const zn_arch zn_arch_wan2d = { .name = "wan2d",
                                .configs = configs,
                                .presets = presets,
                                .can = ZN_ENCODES | ZN_DECODES,
                                .scope = { "encoder", "decoder" },
                                .encode = encode,
                                .decode = decode,
                                .moments = moments,
                                .recognise = recognise,
                                .resize = resize,
                                .start = start };
