/* Blocks of the Wan autoencoders, under the names of the original's checkpoints. */
#include "models/wan/wan.h"

#include <stdio.h>

#define FLOOR 1e-12f

/* gamma is [C,1,1,1] in files, [C,1,1] where there are no frames. */
static zn_node *norm(zn_scope s, zn_node *x, bool frames)
{
    const int c = zn_channels(x);
    zn_graph_name_layer(s.graph, s.prefix);
    const zn_shape shape = frames ? ZN_SHAPE(c, 1, 1, 1) : ZN_SHAPE(c, 1, 1);
    return zn_unit_norm(x, zn_plain_parameter(s, "gamma", shape, ZN_ROLE_GAIN), FLOOR);
}

zn_node *zn_wan_norm(zn_scope s, zn_node *x) { return norm(s, x, true); }

zn_node *zn_wan_residual(zn_scope s, zn_node *x, int out, zn_stream *m)
{
    zn_node *h = zn_silu(zn_wan_norm(zn_at(s, "residual.0"), x));
    h = zn_conv3d(zn_at(s, "residual.2"), h, out, m);
    h = zn_silu(zn_wan_norm(zn_at(s, "residual.3"), h));
    if (zn_channels(x) != out)
        x = zn_conv3d_1x1(zn_at(s, "shortcut"), x, out);
    return zn_add(x, zn_conv3d(zn_at(s, "residual.6"), h, out, m));
}

zn_node *zn_wan_attention(zn_scope s, zn_node *x)
{
    const int c = zn_channels(x);
    zn_node *qkv = zn_conv1x1(zn_at(s, "to_qkv"), norm(zn_at(s, "norm"), x, false), 3 * c);
    return zn_add(x, zn_conv1x1(zn_at(s, "proj"), zn_attention(qkv, 1), c));
}

zn_node *zn_wan_down(zn_scope s, zn_node *x, bool time, bool cut, zn_stream *m)
{
    const int c = zn_channels(x);
    const zn_scope own = zn_at(s, "resample.1");
    zn_graph_name_layer(s.graph, own.prefix);
    zn_node *w = zn_parameter(own, "weight", ZN_SHAPE(3, 3, c, c), ZN_LAYOUT_CONV, ZN_ROLE_WEIGHT);
    zn_node *b = zn_vector(own, "bias", c, ZN_ROLE_BIAS);
    x = zn_conv(x, w, b, (zn_conv_spec){ .stride = 2, .beyond = 1 });
    return time ? zn_halve_frames(zn_at(s, "time_conv"), cut ? zn_cut(m, x) : x, m) : x;
}

zn_node *zn_wan_up(zn_scope s, zn_node *x, int out, bool time, bool cut, zn_stream *m)
{
    if (time)
        x = zn_double_frames(zn_at(s, "time_conv"), x, m);
    if (time && cut)
        x = zn_cut(m, x);
    return zn_conv3x3(zn_at(s, "resample.1"), zn_upsample2(x), out);
}

/* ---- shortcuts ---- */

/* y[k] = x[rule(k)]. */
static zn_node *pick(zn_node *x, int count, int (*rule)(int k, const int *by), const int *by)
{
    int32_t *from = zn_arena_alloc(zn_graph_arena(x->graph), sizeof *from * (size_t)(count + 1));
    if (!from)
        return zn_graph_poison(x->graph, ZN_ENOMEM, "out of memory while building a graph");
    for (int k = 0; k < count; k++)
        from[k] = rule(k, by);
    return zn_select_channels(x, from, count);
}

static zn_node *misfit(zn_node *x, int out)
{
    char text[96];
    snprintf(text, sizeof text, "a shortcut cannot lead from %d channels to %d", zn_channels(x), out);
    return zn_graph_poison(x->graph, ZN_ESHAPE, text);
}

/* Of parts that are stored consecutively, each of `by[1]` neighbouring channels at a time. by: parts, run, channels. */
static int turn_about(int k, const int *by)
{
    const int run = k / by[1];
    return run % by[0] * by[2] + run / by[0] * by[1] + k % by[1];
}

static int every(int k, const int *by) { return k * by[0] + by[1]; }

/* The means of neighbouring channels, `of` at a time. */
static zn_node *mean_channels(zn_node *x, int of)
{
    const int out = zn_channels(x) / of;
    zn_node *sum = NULL;
    for (int i = 0; i < of && of > 1; i++) {
        zn_node *part = pick(x, out, every, (int[]){ of, i });
        sum = sum ? zn_add(sum, part) : part;
    }
    return of > 1 ? zn_scale(sum, 1 / (float)of) : x;
}

/* Sub-positions count as ((channel * frames + frame) * side + row) * side + column. Where a mean is over whole squares
 * these are averaged first. */
zn_node *zn_wan_average(zn_node *x, int out, int frames, int side, const zn_stream *m)
{
    const int all = zn_channels(x) * frames * side * side, each = all / out;
    if (all % out)
        return misfit(x, out);
    const bool squares = side == 2 && each % 4 == 0;
    const int lacking = (frames - (int)x->shape.dim[0] % frames) % frames;
    if (frames > 1 && m && m->apart) /* zeros in front, which take part in the mean */
        x = zn_fill_each(x, frames - 1);
    else if (lacking)
        x = zn_fill_front(x, lacking);
    zn_node *parts = NULL;
    for (int f = 0; f < frames; f++) {
        zn_node *part = frames > 1 ? zn_take_frames(x, f, frames, (int)x->shape.dim[0] / frames) : x;
        if (side > 1)
            part = squares ? zn_downsample2(part) : zn_pixel_unshuffle(part, side);
        parts = parts ? zn_concat(parts, part) : part;
    }
    const int c = zn_channels(parts) / frames, run = squares ? 1 : side * side;
    if (frames > 1)
        parts = pick(parts, c * frames, turn_about, (int[]){ frames, run, c });
    return mean_channels(parts, squares ? each / 4 : each);
}

/* The channel that sub-position k of frame by[1] of by[0] comes from; by: frames, frame, sub-positions, times. */
static int source_of(int k, const int *by) { return ((k / by[2] * by[0] + by[1]) * by[2] + k % by[2]) / by[3]; }

zn_node *zn_wan_repeat(zn_node *x, int out, int frames, int side, const zn_stream *m)
{
    const int all = out * frames * side * side, times = all / zn_channels(x);
    zn_node *parts[ZN_MAX_SOURCES] = { 0 };
    if (all % zn_channels(x) || frames > ZN_MAX_SOURCES)
        return misfit(x, out);
    const bool squares = side == 2 && times % 4 == 0;
    for (int f = 0; f < frames; f++) {
        const bool same = f && times % (frames * side * side) == 0;
        const int subs = squares ? 1 : side * side;
        const int by[] = { frames, f, subs, squares ? times / 4 : times };
        if (same) {
            parts[f] = parts[0];
            continue;
        }
        parts[f] = pick(x, out * subs, source_of, by);
        if (side > 1)
            parts[f] = squares ? zn_upsample2(parts[f]) : zn_pixel_shuffle(parts[f], side);
    }
    if (frames == 1 || (m && m->apart)) /* of an image's frames only the last is left */
        return parts[frames - 1];
    return zn_interleave_frames(NULL, parts, frames, !m || m->first ? frames - 1 : 0);
}

/* ---- patches ---- */

static int columns_first(int k, const int *by)
{
    (void)by;
    return k / 4 * 4 + k % 2 * 2 + k / 2 % 2;
}

zn_node *zn_wan_patches(zn_node *x)
{
    x = zn_pixel_unshuffle(x, 2);
    return pick(x, zn_channels(x), columns_first, NULL);
}

zn_node *zn_wan_pixels(zn_node *x) { return zn_pixel_shuffle(pick(x, zn_channels(x), columns_first, NULL), 2); }
