/* Zenith-restore: photos with noise, impulses or blur to clean ones, blind or with a hint.
 *
 *   image and hint [N,H,W,6]: RGB in [0,1], then three planes of 0, or 1 in that of the task
 *     details, medians, means and hint [33], conv3x3 33->b, blocks      @H/2
 *     space to depth, 1x1 4b->2b, blocks                                @H/4
 *     1x1 2b->4b, depth to space, + the map of H/2, blocks              @H/2
 *     conv3x3 b->12, depth to space                                     @H
 *   restored [N,H,W,3]: the image plus that
 *
 * A block is two 3x3 convolutions around a ReLU, added to its input; dense ones, since at these widths our Winograd
 * kernels make them as cheap as anything else. What is looked at is split by scale first: with plain colours the even
 * part of an image, a hundred times the power of the noise, drives every gradient, and training takes many times as
 * long. The median is there because it is the first thing that a network has to find to take out wrong pixels. The last
 * convolution starts small, so the network starts as the identity. In the spectral form some blocks at 1/4 are Lite-R:
 * their tiles of 32 see 128 pixels at once. */
#include "models/zenith/zenith.h"

#include "base/fail.h"

#include <stdio.h>
#include <string.h>

enum { INPUTS = ZN_RESTORE_INPUTS, TILE = 32, MAX_WIDTH = 512, MAX_BLOCKS = 32 };
enum { SEEN = 33, DETAIL = 4 }; /* channels that the first convolution sees; scale of the small ones */

static const zn_restore_form plain = { .down = 2, .quarter = 4, .up = 2 };
static const zn_restore_form spectral = { .down = 2, .quarter = 3, .up = 2, .spectral = 2 };

#define PRESET(text, alias, what, form)                                                                                \
    {                                                                                                                  \
        .name = text, .aliases = alias, .description = what, .latent = 3, .downscale = 4, .inputs = INPUTS,            \
        .width = 32, .preset_form = form                                                                               \
    }

static const zn_config configs[] = {
    PRESET("zenith-restore", "restore", "restores photos: noise, impulses, JPEG artefacts, blur; any size", &plain),
    PRESET("zenith-restore-spectral", "", "the same with spectral blocks for one of its others; for comparison",
           &spectral),
    { .name = NULL },
};

void zn_restore_hint(float *map, int64_t pixel, int hint)
{
    for (int k = 3; k < INPUTS; k++)
        map[pixel * INPUTS + k] = k == 2 + hint;
}

void zn_restore_spread(float *map, int64_t pixels, int hint)
{
    const float *rgb = zn_restore_colours(map, pixels);
    for (int64_t i = 0; i < pixels; i++) {
        const float pixel[3] = { rgb[3 * i], rgb[3 * i + 1], rgb[3 * i + 2] };
        memcpy(map + i * INPUTS, pixel, sizeof pixel);
        zn_restore_hint(map, i, hint);
    }
}

/* Every branch starts small: at first the network is its input. */
static zn_node *small(zn_node *layer, float a)
{
    return zn_layer_starts(layer, ZN_START(zn_start_he, a), ZN_START_USUAL);
}

static zn_node *residual(zn_scope s, zn_node *x)
{
    zn_node *y = zn_relu(zn_plain_conv(zn_at(s, "a"), x, zn_channels(x), 3, 1));
    return zn_add(x, small(zn_plain_conv(zn_at(s, "b"), y, zn_channels(x), 3, 1), 0.1f));
}

static zn_node *residuals(zn_scope s, zn_node *x, const char *level, int count)
{
    for (int i = 0; i < count; i++)
        x = residual(zn_at(s, "%s.%d", level, i), x);
    return x;
}

/* Spectral blocks come between the others. */
static zn_node *quarter(zn_scope s, zn_node *x, int count, int between)
{
    zn_lite_r_spec spec = { .tile = TILE, .back = { zn_start_he, 0.1f }, .gamma = { zn_start_value, 1 } };
    for (int i = 0; i < count || i < between; i++) {
        if (i < count)
            x = residual(zn_at(s, "quarter.%d", i), x);
        spec.offset = i % 2 * TILE / 2;
        if (i < between)
            x = zn_lite_r_block(zn_at(s, "spectral.%d", i), x, &spec);
    }
    return x;
}

/* Channels of `x` as channels [at, at + c) of `total`, zero elsewhere. */
static zn_node *spread(zn_node *x, int at, int total)
{
    int32_t *from = zn_arena_alloc(zn_graph_arena(x->graph), sizeof *from * (size_t)total);
    if (!from)
        return zn_graph_poison(x->graph, ZN_ENOMEM, "out of memory while building a graph");
    for (int k = 0; k < total; k++)
        from[k] = k >= at && k < at + zn_channels(x) ? k - at : -1;
    return zn_select_channels(x, from, total);
}

/* What the network looks at, at half resolution: how far pixels are from the mean of their 2x2, those means from the
 * mean of 4x4, and pixels from the median of 3x3, all small and around 0; the mean of 4x4; the hint. */
static zn_node *look(zn_node *x, zn_node *colours)
{
    static const int32_t hints[] = { 3, 4, 5 };
    zn_node *mean = zn_downsample2(colours), *coarse = zn_upsample2(zn_downsample2(mean));
    zn_node *fine = zn_space_to_depth(zn_sub(colours, zn_upsample2(mean)), 2);
    zn_node *median = zn_space_to_depth(zn_sub(zn_median3(colours), colours), 2);
    zn_node *level = zn_sub(coarse, zn_scale(zn_ones_like(coarse), 0.5f));
    zn_node *hint = zn_downsample2(zn_select_channels(x, hints, 3));
    zn_node *y = zn_add(spread(zn_scale(fine, DETAIL), 0, SEEN), spread(zn_scale(median, DETAIL), 12, SEEN));
    y = zn_add(y, spread(zn_scale(zn_sub(mean, coarse), DETAIL), 24, SEEN));
    return zn_add(zn_add(y, spread(level, 27, SEEN)), spread(hint, 30, SEEN));
}

static zn_node *restore(zn_scope s, zn_node *x, const zn_config *k)
{
    static const int32_t rgb[] = { 0, 1, 2 };
    const zn_restore_form *f = zn_form_of(k);
    zn_graph_name_layer(s.graph, zn_at(s, "look").prefix);
    zn_node *colours = zn_select_channels(x, rgb, 3);
    zn_node *half = zn_plain_conv(zn_at(s, "stem"), look(x, colours), k->width, 3, 1);
    half = residuals(s, half, "down", f->down);
    zn_node *y = zn_plain_conv(zn_at(s, "shrink"), zn_space_to_depth(half, 2), 2 * k->width, 1, 1);
    y = quarter(s, y, f->quarter, f->spectral);
    y = zn_depth_to_space(small(zn_plain_conv(zn_at(s, "grow"), y, 4 * k->width, 1, 1), 0.5f), 2);
    y = residuals(s, zn_add(half, y), "up", f->up);
    y = zn_depth_to_space(small(zn_plain_conv(zn_at(s, "out"), y, 12, 3, 1), 0.1f), 2);
    zn_graph_name_layer(s.graph, zn_at(s, "skip").prefix);
    return zn_add(colours, y);
}

/* ---- files: the names are ours, restore.* ---- */

static bool count_blocks(const zn_weights *w, const char *name, int8_t *count)
{
    char full[64];
    for (*count = 0; *count <= MAX_BLOCKS; ++*count) {
        snprintf(full, sizeof full, name, *count);
        if (!zn_weights_find(w, full))
            return true;
    }
    return false;
}

static zn_status recognise(const zn_weights *w, zn_config *k, zn_naming naming[ZN_PARTS], bool *is_it)
{
    const zn_weight *stem = zn_weights_find(w, "restore.stem.weight");
    memset(naming, 0, sizeof(zn_naming) * ZN_PARTS);
    *is_it = stem && stem->rank == 4;
    if (!*is_it)
        return ZN_OK;
    zn_restore_form found;
    if (stem->shape[2] != SEEN || stem->shape[3] < 1 || stem->shape[3] > MAX_WIDTH ||
        !count_blocks(w, "restore.down.%d.a.weight", &found.down) ||
        !count_blocks(w, "restore.quarter.%d.a.weight", &found.quarter) ||
        !count_blocks(w, "restore.up.%d.a.weight", &found.up) ||
        !count_blocks(w, "restore.spectral.%d.norm", &found.spectral))
        return ZN_FAIL(ZN_EFORMAT,
                       "tensor 'restore.stem.weight': %lld inputs and %lld outputs, or the number of "
                       "blocks, are not of a network this build knows",
                       (long long)stem->shape[2], (long long)stem->shape[3]);
    *k = configs[found.spectral > 0];
    *(zn_restore_form *)zn_form_own(k, sizeof found) = found;
    k->width = (int)stem->shape[3];
    naming[ZN_ENCODER].present = true;
    return ZN_OK;
}

static zn_status resize(zn_config *k, const zn_wishes *want)
{
    zn_restore_form *f = zn_form_own(k, sizeof *f);
    if (want->layers > MAX_BLOCKS)
        return ZN_FAIL(ZN_EINVALID, "%s has at most %d blocks at a quarter of the resolution, not %d", k->name,
                       MAX_BLOCKS, want->layers);
    k->width = want->width ? want->width : k->width;
    f->quarter = want->layers ? (int8_t)want->layers : f->quarter;
    return ZN_OK;
}

static int layers(const zn_config *k) { return ((const zn_restore_form *)zn_form_of(k))->quarter; }

static const zn_start start[ZN_ROLES] = {
    [ZN_ROLE_WEIGHT] = { zn_start_he, 1 }, [ZN_ROLE_BIAS] = { zn_start_value, 0 }
};

const zn_arch zn_arch_zenith_restore = { .name = "zenith-restore",
                                         .configs = configs,
                                         .can = ZN_RESTORES,
                                         .scope = { "restore", "" },
                                         .encode = restore,
                                         .recognise = recognise,
                                         .resize = resize,
                                         .layers = layers,
                                         .start = start };
