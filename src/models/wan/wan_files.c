/* Wan's autoencoders in files: whose names they have, the original's or diffusers', which parts are there and of what
 * form. Everything is asked for under the original's names (wan_names.c). */
#include "base/fail.h"
#include "models/factored.h"
#include "models/wan/wan.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MOST_BLOCKS = 8, MOST_CHANNELS = 1 << 13 };

void zn_wan_file_name(const zn_wan_naming *n, const zn_wan_form *k, const char *name, char *out, size_t size)
{
    char theirs[160];
    if (n->diffusers)
        zn_wan_diffusers_name(k, name, theirs, sizeof theirs);
    snprintf(out, size, "%s%s", n->prefix, n->diffusers ? theirs : name);
}

/* One file, and what is known of it so far. */
typedef struct reading {
    const zn_weights *file;
    const zn_wan_naming *naming;
    zn_wan_form k;
    zn_factored chain; /* the last one that was asked for */
    zn_status wrong;   /* of a chain that does not fit together */
} reading;

/* The tensor, or what the tensors below the name of its layer make (models/factored.h), until the next call. */
__attribute__((format(printf, 2, 3))) static const zn_weight *find(reading *r, const char *format, ...)
{
    char name[128], full[320];
    const char *end = ".weight";
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    zn_wan_file_name(r->naming, &r->k, name, full, sizeof full);
    const zn_weight *found = zn_weights_find(r->file, full);
    const size_t length = strlen(full);
    if (found || length < strlen(end) || strcmp(full + length - strlen(end), end) != 0)
        return found;
    full[length - strlen(end)] = 0;
    const zn_status status = zn_factored_find(r->file, full, 0, 0, &r->chain);
    r->wrong = status == ZN_OK ? r->wrong : status;
    return status == ZN_OK && r->chain.count ? &r->chain.whole : NULL;
}

/* The tensor `rest` of a layer of a level, or NULL. */
static const zn_weight *find_in(reading *r, bool up, int level, int layer, const char *rest)
{
    const char *part = up ? "decoder" : "encoder", *group = up ? "upsamples" : "downsamples";
    if (r->k.staged)
        return find(r, "%s.%s.%d.%s.%d.%s", part, group, level, group, layer, rest);
    return find(r, "%s.%s.%d.%s", part, group, level * (r->k.blocks + 1 + up) + layer, rest);
}

/* Side `axis` of a tensor; 0 if it has none, or one beyond any network. */
static int side(const zn_weight *t, int axis)
{
    return t && axis < t->rank && t->shape[axis] > 0 && t->shape[axis] <= MOST_CHANNELS ? (int)t->shape[axis] : 0;
}

/* True if the first level is as a network with these blocks has it: all of them, then a resampler. */
static bool begins(reading *r, bool up)
{
    const int blocks = r->k.blocks + up;
    for (int i = 0; i < blocks; i++)
        if (!find_in(r, up, 0, i, "residual.2.weight"))
            return false;
    return find_in(r, up, 0, blocks, "resample.1.weight") != NULL;
}

/* How the levels are named and how many blocks they have, most first: of names that tell no end a part fits too. */
static bool read_begin(reading *r, bool up)
{
    for (int staged = 1; staged >= 0; staged--)
        for (int blocks = MOST_BLOCKS; blocks > 0; blocks--) {
            r->k.staged = staged;
            r->k.blocks = blocks;
            if (begins(r, up))
                return true;
        }
    return false;
}

/* Channels of each level and where frames are halved, in the encoder's order. */
static bool read_levels(reading *r, bool up)
{
    zn_wan_form *k = &r->k;
    int out[ZN_WAN_LEVELS + 1] = { 0 }, levels = 0;
    while (levels <= ZN_WAN_LEVELS && (out[levels] = side(find_in(r, up, levels, 0, "residual.2.weight"), 0)) > 0)
        levels++;
    const int width = up ? out[levels ? levels - 1 : 0] : side(find(r, "encoder.conv1.weight"), 0);
    if (levels < 2 || levels > ZN_WAN_LEVELS || width < 1)
        return false;
    k->levels = levels;
    k->width = k->back_width = width;
    for (int level = 0; level < levels; level++) {
        const int own = up ? levels - 1 - level : level;
        if (out[level] % width)
            return false;
        k->mult[own] = out[level] / width;
        if (level + 1 < levels)
            k->time[up ? own - 1 : own] = find_in(r, up, level, k->blocks + up, "time_conv.weight") != NULL;
    }
    return true;
}

static bool read_part(reading *r, bool up)
{
    if (!read_begin(r, up) || !read_levels(r, up))
        return false;
    const int moments = side(find(r, "encoder.head.2.weight"), 0);
    const zn_weight *first = find(r, up ? "decoder.conv1.weight" : "encoder.conv1.weight");
    r->k.flat = first && first->rank == 4;
    r->k.latent = up ? side(first, 1) : moments % 2 ? 0 : moments / 2;
    if (r->k.flat && r->k.levels == zn_wan21.levels) /* its layers over time may have been left out */
        memcpy(r->k.time, zn_wan21.time, sizeof r->k.time);
    return r->k.latent > 0;
}

/* ---- the whole file ---- */

static bool find_naming(const zn_weights *w, zn_wan_naming *n)
{
    static const char *const ends[][2] = {
        { "encoder.middle.1.norm.gamma", "decoder.middle.1.norm.gamma" },
        { "encoder.mid_block.attentions.0.norm.gamma", "decoder.mid_block.attentions.0.norm.gamma" },
    };
    *n = (zn_wan_naming){ 0 };
    for (int64_t i = 0; i < zn_weights_count(w); i++)
        for (int style = 0; style < 2; style++)
            for (int part = 0; part < 2; part++) {
                const char *name = zn_weights_at(w, i)->name;
                const size_t length = strlen(name), end = strlen(ends[style][part]);
                if (length < end || length - end >= sizeof n->prefix || strcmp(name + length - end, ends[style][part]))
                    continue;
                if (!n->present[0] && !n->present[1]) {
                    n->diffusers = style == 1;
                    snprintf(n->prefix, sizeof n->prefix, "%.*s", (int)(length - end), name);
                }
                n->present[part] |= n->diffusers == (style == 1) && strncmp(name, n->prefix, length - end) == 0 &&
                                    strlen(n->prefix) == length - end;
            }
    return n->present[0] || n->present[1];
}

static bool same_form(const zn_wan_form *a, const zn_wan_form *b)
{
    return a->staged == b->staged && a->levels == b->levels && a->blocks == b->blocks && a->latent == b->latent &&
           memcmp(a->mult, b->mult, sizeof a->mult) == 0 && memcmp(a->time, b->time, sizeof a->time) == 0;
}

/* Means and deviations are not in files: they go with the latents of the published networks. */
static void know(zn_wan_form *k, zn_wan_naming *n)
{
    const zn_wan_form *known = k->staged ? &zn_wan22 : &zn_wan21;
    for (int i = 0; i < k->latent; i++) {
        k->mean[i] = k->latent == known->latent ? known->mean[i] : 0;
        k->deviation[i] = k->latent == known->latent ? known->deviation[i] : 1;
    }
    n->published = same_form(k, known) && (!n->present[0] || k->width == known->width) &&
                   (!n->present[1] || k->back_width == known->back_width);
    if (n->published) { /* the part that is not here may be in another file */
        k->width = known->width;
        k->back_width = known->back_width;
    }
}

zn_status zn_wan_recognise(const zn_weights *w, zn_wan_form *k, zn_wan_naming *n)
{
    reading parts[2];
    if (!find_naming(w, n))
        return ZN_FAIL(ZN_ENOTFOUND, "there is no attention under Wan's names: this is not an autoencoder of Wan");
    for (int part = 0; part < 2; part++) {
        parts[part] = (reading){ .file = w, .naming = n };
        if (n->present[part] && !read_part(&parts[part], part == 1))
            return parts[part].wrong != ZN_OK
                       ? parts[part].wrong
                       : ZN_FAIL(ZN_EFORMAT,
                                 "its %s is named like one of Wan's autoencoders, but its layers do not have that form",
                                 part ? "decoder" : "encoder");
    }
    if (n->present[0] && n->present[1] && !same_form(&parts[0].k, &parts[1].k))
        return ZN_FAIL(ZN_EFORMAT, "encoder (%d latent channels) and decoder (%d) are of different Wan autoencoders",
                       parts[0].k.latent, parts[1].k.latent);
    *k = parts[n->present[0] ? 0 : 1].k;
    if (n->present[1])
        k->back_width = parts[1].k.back_width;
    if (k->latent > ZN_WAN_LATENT)
        return ZN_FAIL(ZN_EUNSUPPORTED, "Wan's autoencoders have at most %d latent channels here, not %d",
                       ZN_WAN_LATENT, k->latent);
    know(k, n);
    return ZN_OK;
}
