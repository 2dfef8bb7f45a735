/* FLUX.1's autoencoder as an architecture: images in [0,1], latents as generators know them, which are the means of
 * what the encoder says (models/flux/flux_vae.h). */
#include "models/arch.h"
#include "models/flux/flux_vae.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const zn_config configs[] = {
    { .name = "flux-vae",
      .aliases = "z-image-vae",
      .description = "autoencoder of FLUX.1 and Z-Image, 16 channels at 1/8",
      .latent = 16,
      .downscale = 8,
      .preset_form = &zn_flux_vae },
    { .name = NULL },
};

/* factor x + more */
static zn_node *affine(zn_node *x, double factor, double more)
{
    zn_node *all = zn_scale(zn_ones_like(x), (float)more);
    return zn_add(zn_scale(x, (float)factor), all);
}

/* The scopes of a graph end with the parts' names, which the networks add themselves. */
static zn_node *encode(zn_scope s, zn_node *image, const zn_config *k)
{
    const zn_flux_form *f = zn_form_of(k);
    zn_node *moments = zn_flux_encoder(zn_above(s), affine(image, 2, -1), f);
    return affine(zn_slice_channels(moments, 0, f->latent), f->scale, -f->scale * f->shift);
}

static zn_node *decode(zn_scope s, zn_node *latent, const zn_config *k)
{
    const zn_flux_form *f = zn_form_of(k);
    return affine(zn_flux_decoder(zn_above(s), affine(latent, 1 / f->scale, f->shift), f), 0.5, 0.5);
}

/* ---- files; a naming's shift is 0 for names of diffusers, or else how many levels the original counts ---- */

static void file_name(const char *name, const zn_naming *naming, char *out, size_t size)
{
    zn_flux_naming n = { .original = naming->shift > 0, .levels = naming->shift };
    zn_place at = { .parts = 1 };
    snprintf(n.prefix, sizeof n.prefix, "%.63s", naming->prefix);
    snprintf(at.name, sizeof at.name, "%s", name);
    zn_flux_place(&n, &at);
    snprintf(out, size, "%s", at.name);
}

static bool same_form(const zn_flux_form *a, const zn_flux_form *b)
{
    return a->levels == b->levels && a->blocks == b->blocks && a->latent == b->latent &&
           memcmp(a->width, b->width, sizeof *a->width * (size_t)a->levels) == 0;
}

static zn_status recognise(const zn_weights *w, zn_config *k, zn_naming naming[ZN_PARTS], bool *is_it)
{
    static const char *const first[] = { "encoder.conv_in.weight", "decoder.conv_in.weight" };
    const zn_weights *files[] = { w };
    zn_flux_naming n;
    zn_flux_form form;
    memset(naming, 0, sizeof *naming * ZN_PARTS);
    const zn_status status = zn_flux_recognise(files, 1, NULL, &form, &n);
    *is_it = status == ZN_OK;
    if (status != ZN_OK)
        return status == ZN_ENOTFOUND ? ZN_OK : status;
    for (int part = 0; part < 2; part++) {
        zn_naming *own = &naming[part];
        char name[128];
        own->shift = n.original ? n.levels : 0;
        snprintf(own->prefix, sizeof own->prefix, "%s", n.prefix);
        snprintf(name, sizeof name, "%s%s", n.prefix, first[part]);
        own->present = zn_weights_find(w, name) != NULL;
    }
    *k = configs[0];
    if (!same_form(&form, zn_form_of(k))) {
        k->name = "flux-vae-custom";
        k->aliases = "";
        k->description = "autoencoder built like that of FLUX.1";
    }
    *(zn_flux_form *)zn_form_own(k, sizeof form) = form;
    k->latent = form.latent;
    k->downscale = 1 << (form.levels - 1);
    return ZN_OK;
}

/* As PyTorch does. */
static const zn_start start[ZN_ROLES] = {
    [ZN_ROLE_WEIGHT] = { zn_start_linear, 0 }, [ZN_ROLE_BIAS] = { zn_start_linear, 0 }
};

const zn_arch zn_arch_flux = { .name = "flux",
                               .configs = configs,
                               .can = ZN_ENCODES | ZN_DECODES,
                               .named_only = true,
                               .scope = { "encoder", "decoder" },
                               .encode = encode,
                               .decode = decode,
                               .recognise = recognise,
                               .file_name = file_name,
                               .start = start };
