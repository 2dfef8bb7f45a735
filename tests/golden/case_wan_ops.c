/* Wan: layers and blocks by themselves, whole clips and pieces of them (specification 1 and 3). */
#include "clips.h"

#include "base/fail.h"
#include "models/wan/wan.h"

#include <stdio.h>
#include <string.h>

static bool matches(const golden *g)
{
    const char *own = zn_weights_metadata(g->file, "case");
    return own && strcmp(own, "wan_ops") == 0;
}

/* k: channels of the result. */
static int out_of(const void *k) { return *(const int *)k; }

static zn_node *causal(zn_scope s, zn_node *x, const void *k, zn_stream *m) { return zn_conv3d(s, x, out_of(k), m); }

static zn_node *norm(zn_scope s, zn_node *x, const void *k, zn_stream *m)
{
    (void)k;
    (void)m;
    return zn_wan_norm(s, x);
}

static zn_node *residual(zn_scope s, zn_node *x, const void *k, zn_stream *m)
{
    return zn_wan_residual(s, x, out_of(k), m);
}

static zn_node *attention(zn_scope s, zn_node *x, const void *k, zn_stream *m)
{
    (void)k;
    (void)m;
    return zn_wan_attention(s, x);
}

static zn_node *down(zn_scope s, zn_node *x, const void *k, zn_stream *m)
{
    (void)k;
    return zn_wan_down(s, x, strncmp(s.prefix, "down3d", 6) == 0, false, m);
}

static zn_node *up(zn_scope s, zn_node *x, const void *k, zn_stream *m)
{
    return zn_wan_up(s, x, out_of(k), strncmp(s.prefix, "up3d", 4) == 0, false, m);
}

static zn_node *average(zn_scope s, zn_node *x, const void *k, zn_stream *m)
{
    return zn_wan_average(x, out_of(k), strstr(s.prefix, "time") ? 2 : 1, strstr(s.prefix, "same") ? 1 : 2, m);
}

static zn_node *repeat(zn_scope s, zn_node *x, const void *k, zn_stream *m)
{
    return zn_wan_repeat(x, out_of(k), strstr(s.prefix, "time") ? 2 : 1, 2, m);
}

static zn_node *patches(zn_scope s, zn_node *x, const void *k, zn_stream *m)
{
    (void)s;
    (void)k;
    (void)m;
    return zn_wan_patches(x);
}

static zn_node *there_and_back(zn_scope s, zn_node *x, const void *k, zn_stream *m)
{
    return zn_wan_pixels(patches(s, x, k, m));
}

static const struct row {
    const char *name;
    zn_node *(*build)(zn_scope s, zn_node *x, const void *k, zn_stream *m);
    const char *whole;        /* results of the whole clip */
    const char *first, *next; /* of its first frame and of the rest, which is computed in pieces of `step` */
    const char *pieces;       /* of pieces, all of them */
    int step;
} rows[] = {
    { "causal_conv", causal, "whole", "chunk0", "chunk1", NULL, 4 },
    { "rms_norm", norm, "y", NULL, NULL, NULL, 0 },
    { "resblock", residual, "y", NULL, NULL, "y", 2 },
    { "attention", attention, "y", NULL, NULL, NULL, 0 },
    { "down2d_21", down, "y", NULL, NULL, NULL, 0 },
    { "down2d_22", down, "y", NULL, NULL, NULL, 0 },
    { "down3d_21", down, "y", NULL, NULL, "y", 4 },
    { "down3d_22", down, "y", NULL, NULL, "y", 4 },
    { "up2d_21", up, "y", NULL, NULL, NULL, 0 },
    { "up2d_22", up, "y", NULL, NULL, NULL, 0 },
    { "up3d_21", up, "y", NULL, NULL, "y2", 1 },
    { "up3d_22", up, "y", NULL, NULL, "y2", 2 },
    { "avgdown_pool", average, NULL, "first", "next", NULL, 4 },
    { "avgdown_time", average, NULL, "first", "next", NULL, 4 },
    { "avgdown_same", average, NULL, "first", "next", NULL, 4 },
    { "dupup_half", repeat, NULL, "first", "next", NULL, 1 },
    { "dupup_time", repeat, NULL, "first", "next", NULL, 1 },
    { "patchify", patches, "y", NULL, NULL, NULL, 0 },
    { "patchify", there_and_back, "back", NULL, NULL, NULL, 0 },
};

static const char *full(const struct row *r, const char *what, char *name)
{
    snprintf(name, 96, "%s.%s", r->name, what);
    return name;
}

static zn_status compare(golden *g, const struct row *r, const char *what, const clip *y, int64_t begin, int64_t end)
{
    char name[96];
    return what ? clip_compare(g, full(r, what, name), y, begin, end, CHANNELS_FIRST) : ZN_OK;
}

static zn_status check(golden *g, const struct row *r)
{
    const char *any = r->whole ? r->whole : r->first;
    char name[96];
    const zn_weight *want = golden_find(g, "out.", full(r, any, name));
    clip x = { 0 }, whole = { 0 }, pieces = { 0 };
    if (!want)
        return ZN_OK;
    const int out = (int)want->shape[1];
    const clip_network n = { .prefix = r->name, .build = r->build, .k = &out };
    zn_status status;
    ZN_TRY_DONE(clip_load(g, full(r, "x", name), CHANNELS_FIRST, &x));
    ZN_TRY_DONE(clip_whole(g, &n, &x, &whole));
    ZN_TRY_DONE(compare(g, r, r->whole, &whole, 0, whole.shape.dim[0]));
    if (r->step) {
        ZN_TRY_DONE(clip_pieces(g, &n, &x, (int[]){ 1, r->step }, 2, &pieces));
        ZN_TRY_DONE(compare(g, r, r->first, &pieces, 0, 1));
        ZN_TRY_DONE(compare(g, r, r->next, &pieces, 1, pieces.shape.dim[0]));
        ZN_TRY_DONE(compare(g, r, r->pieces, &pieces, 0, pieces.shape.dim[0]));
    }
    status = !r->step || zn_shape_equal(whole.shape, pieces.shape)
                 ? ZN_OK
                 : ZN_FAIL(ZN_ESHAPE, "%s: pieces of a clip give more or fewer frames than the clip", r->name);
done:
    clip_free(&x);
    clip_free(&whole);
    clip_free(&pieces);
    return status;
}

static zn_status run(golden *g)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        ZN_TRY(check(g, &rows[i]));
    return ZN_OK;
}

const golden_kind golden_wan_ops = { "wan blocks", matches, run };
