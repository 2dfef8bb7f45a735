/* FLUX.1's autoencoder in files: which of two namings they have, and what sizes. */
#include "base/fail.h"
#include "models/flux/flux_vae.h"

#include <stdio.h>
#include <string.h>

/* The rest of a name after a prefix, or NULL. */
static const char *after_prefix(const char *name, const char *begin)
{
    const size_t n = strlen(begin);
    return strncmp(name, begin, n) == 0 ? name + n : NULL;
}

/* Of a residual: only its shortcut is called otherwise. */
static const char *residual_name(const char *name)
{
    return strcmp(name, "conv_shortcut.weight") == 0 ? "nin_shortcut.weight"
           : strcmp(name, "conv_shortcut.bias") == 0 ? "nin_shortcut.bias"
                                                     : name;
}

static void attention_name(const char *name, char *out, size_t size)
{
    static const char *const names[][2] = { { "group_norm.", "norm." },
                                            { "to_q.", "q." },
                                            { "to_k.", "k." },
                                            { "to_v.", "v." },
                                            { "to_out.0.", "proj_out." } };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *rest = after_prefix(name, names[i][0]);
        if (rest)
            snprintf(out, size, "mid.attn_1.%s%s", names[i][1], rest);
    }
}

/* The original's name of what follows "encoder." or "decoder."; levels of the decoder count backwards. */
static void original_name(const zn_flux_naming *n, const char *name, char *out, size_t size)
{
    int level = 0, block = 0, length = 0;
    const char *rest;
    snprintf(out, size, "%s", name);
    if ((rest = after_prefix(name, "conv_norm_out.")))
        snprintf(out, size, "norm_out.%s", rest);
    else if ((rest = after_prefix(name, "mid_block.attentions.0.")))
        attention_name(rest, out, size);
    else if (sscanf(name, "mid_block.resnets.%d.%n", &block, &length) == 1 && length)
        snprintf(out, size, "mid.block_%d.%s", block + 1, residual_name(name + length));
    else if (sscanf(name, "down_blocks.%d.resnets.%d.%n", &level, &block, &length) == 2 && length)
        snprintf(out, size, "down.%d.block.%d.%s", level, block, residual_name(name + length));
    else if (sscanf(name, "up_blocks.%d.resnets.%d.%n", &level, &block, &length) == 2 && length)
        snprintf(out, size, "up.%d.block.%d.%s", n->levels - 1 - level, block, residual_name(name + length));
    else if (sscanf(name, "down_blocks.%d.downsamplers.0.%n", &level, &length) == 1 && length)
        snprintf(out, size, "down.%d.downsample.%s", level, name + length);
    else if (sscanf(name, "up_blocks.%d.upsamplers.0.%n", &level, &length) == 1 && length)
        snprintf(out, size, "up.%d.upsample.%s", n->levels - 1 - level, name + length);
}

void zn_flux_place(const void *self, zn_place *out)
{
    const zn_flux_naming *n = self;
    char name[96], part[128];
    const char *rest = strchr(out->name, '.');
    const int before = rest ? (int)(rest - out->name) + 1 : 0;
    snprintf(name, sizeof name, "%.95s", out->name);
    snprintf(part, sizeof part, "%s", name + before);
    if (n->original)
        original_name(n, name + before, part, sizeof part);
    snprintf(out->name, sizeof out->name, "%s%.*s%s", n->prefix, before, name, part);
}

/* ---- recognition ---- */

static bool find_naming(const zn_weights *const *files, int count, zn_flux_naming *n)
{
    static const char *const ends[] = { "decoder.mid_block.attentions.0.to_q.weight", "decoder.mid.attn_1.q.weight" };
    for (int style = 0; style < 2; style++) {
        *n = (zn_flux_naming){ .original = style == 1 };
        if (zn_find_prefix(files, count, ends[style], n->prefix, sizeof n->prefix))
            return true;
    }
    return false;
}

/* How many names "before0after", "before1after", ... there are without a gap. */
static int count_of(const zn_stored *s, const char *before, const char *after)
{
    int count = 0;
    for (char name[96]; count <= ZN_FLUX_LEVELS; count++) {
        snprintf(name, sizeof name, "%s%d%s", before, count, after);
        if (!zn_stored_find(s, name, NULL, NULL))
            break;
    }
    return count;
}

static int count_levels(const zn_stored *s, zn_flux_naming *n)
{
    for (n->levels = ZN_FLUX_LEVELS; n->levels > 0; n->levels--) /* counted backwards, the first is the last */
        if (zn_stored_find(s, "decoder.up_blocks.0.resnets.0.conv1.bias", NULL, NULL))
            break;
    return count_of(s, "decoder.up_blocks.", ".resnets.0.conv1.bias");
}

zn_status zn_flux_recognise(const zn_weights *const *files, int count, const zn_json_node *config, zn_flux_form *k,
                            zn_flux_naming *naming)
{
    if (!find_naming(files, count, naming))
        return ZN_FAIL(ZN_ENOTFOUND, "there is no decoder with attention: this is not an autoencoder of FLUX");
    const zn_stored s = { files, count, zn_flux_place, naming };
    *k = zn_flux_vae;
    k->levels = count_levels(&s, naming);
    k->blocks = count_of(&s, "decoder.up_blocks.0.resnets.", ".conv1.bias") - 1;
    k->latent = (int)zn_stored_side(&s, "decoder.conv_in.weight", 1);
    if (k->levels < 1 || k->levels > ZN_FLUX_LEVELS || k->blocks < 1 || k->blocks > ZN_FLUX_LEVELS || k->latent < 1)
        return ZN_FAIL(ZN_EFORMAT,
                       "%d levels of %d blocks for latents of %d channels are not those of an autoencoder of FLUX",
                       k->levels, k->blocks, k->latent);
    for (int i = 0; i < k->levels; i++) {
        char name[64];
        snprintf(name, sizeof name, "decoder.up_blocks.%d.resnets.0.conv1.bias", k->levels - 1 - i);
        k->width[i] = (int)zn_stored_side(&s, name, 0);
    }
    zn_json_update_int(config, "norm_num_groups", &k->groups);
    zn_json_update_double(config, "scaling_factor", &k->scale);
    zn_json_update_double(config, "shift_factor", &k->shift);
    char path[96];
    snprintf(path, sizeof path, "%spost_quant_conv.weight", naming->prefix);
    for (int i = 0; i < count; i++)
        if (zn_weights_find(files[i], path))
            return ZN_FAIL(ZN_EUNSUPPORTED, "'%s' is not a part of FLUX's autoencoder", path);
    return ZN_OK;
}
