/* How diffusers names the parameters of Wan's autoencoders. */
#include "models/wan/wan.h"

#include <stdio.h>
#include <string.h>

typedef struct renamed {
    const char *ours, *theirs;
} renamed;

static const renamed outside[] = {
    { "conv1.", "quant_conv." },
    { "conv2.", "post_quant_conv." },
    { NULL, NULL },
};

/* After "encoder." or "decoder.". */
static const renamed ends[] = {
    { "conv1.", "conv_in." },
    { "head.0.", "norm_out." },
    { "head.2.", "conv_out." },
    { "middle.0.", "mid_block.resnets.0." },
    { "middle.1.", "mid_block.attentions.0." },
    { "middle.2.", "mid_block.resnets.1." },
    { NULL, NULL },
};

static const renamed inside[] = {
    { "residual.0.", "norm1." }, { "residual.2.", "conv1." },       { "residual.3.", "norm2." },
    { "residual.6.", "conv2." }, { "shortcut.", "conv_shortcut." }, { NULL, NULL },
};

/* Writes their form of a beginning of `name`, if it has one; returns what follows. */
static const char *rename_start(const renamed *table, const char *name, char *out, size_t size)
{
    for (; table->ours; table++)
        if (strncmp(name, table->ours, strlen(table->ours)) == 0) {
            snprintf(out, size, "%s", table->theirs);
            return name + strlen(table->ours);
        }
    out[0] = 0;
    return name;
}

/* "downsamples.3." and the like: level, layer and what follows; NULL: it is something else. */
static const char *parse(const char *name, const zn_wan_form *k, bool up, int *level, int *layer)
{
    const int layers = k->blocks + 1 + up;
    int used = 0, index = 0;
    if (k->staged) {
        sscanf(name, up ? "upsamples.%d.upsamples.%d.%n" : "downsamples.%d.downsamples.%d.%n", level, layer, &used);
        return used ? name + used : NULL;
    }
    sscanf(name, up ? "upsamples.%d.%n" : "downsamples.%d.%n", &index, &used);
    *level = index / layers;
    *layer = index % layers;
    return used ? name + used : NULL;
}

static void place(const zn_wan_form *k, bool up, int level, int layer, char *out, size_t size)
{
    const bool resampler = layer == k->blocks + up;
    if (!k->staged && !up)
        snprintf(out, size, "down_blocks.%d.", level * (k->blocks + 1) + layer);
    else if (resampler)
        snprintf(out, size, "%s_blocks.%d.%s.", up ? "up" : "down", level,
                 !k->staged ? "upsamplers.0"
                 : up       ? "upsampler"
                            : "downsampler");
    else
        snprintf(out, size, "%s_blocks.%d.resnets.%d.", up ? "up" : "down", level, layer);
}

void zn_wan_diffusers_name(const zn_wan_form *k, const char *name, char *out, size_t size)
{
    char first[64], second[64];
    const bool up = strncmp(name, "decoder.", 8) == 0;
    const char *rest;
    int level, layer;
    if (!up && strncmp(name, "encoder.", 8) != 0) {
        rest = rename_start(outside, name, first, sizeof first);
        snprintf(out, size, "%s%s", first, rest);
        return;
    }
    rest = parse(name + 8, k, up, &level, &layer);
    if (rest)
        place(k, up, level, layer, first, sizeof first);
    else
        rest = rename_start(ends, name + 8, first, sizeof first);
    rest = rename_start(inside, rest, second, sizeof second);
    snprintf(out, size, "%.8s%s%s%s", name, first, second, rest);
}
