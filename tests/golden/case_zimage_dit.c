/* Z-Image's transformer (specification 4), from any of its layouts: runs rK of in.rK.latent, .cap, .t to
 * out.rK.model_out, with intermediate results for some. Rows that only fill up are not compared where the original goes
 * on to discard them, nor is what its last layer makes of the caption. */
#include "zimage_net.h"

#include "base/alloc.h"
#include "base/convert.h"
#include "base/fail.h"
#include "network.h"

#include <stdio.h>
#include <string.h>

enum { MOST_RUNS = 64, NAME = 96 };

static bool dit_matches(const golden *g)
{
    for (int i = 0; i < MOST_RUNS; i++) {
        char name[NAME];
        snprintf(name, sizeof name, "r%d.model_out", i);
        if (golden_has(g, "out.", name))
            return true;
    }
    return false;
}

/* out.rK.NAME [rows][c] of the first `count` tokens of a node; rows behind them are taken as they are. */
static zn_status compare_tokens(golden *g, int run, const char *what, const zn_node *n, int64_t count)
{
    char name[NAME];
    snprintf(name, sizeof name, "r%d.%s", run, what);
    const zn_weight *w = golden_find(g, "out.", name);
    if (!w)
        return ZN_OK;
    const int64_t c = n->shape.dim[n->shape.rank - 1], rows = w->rank == 2 ? w->shape[0] : 0;
    float *values;
    if (rows < count || w->shape[1] != c || zn_shape_count(n->shape) < count * c)
        return ZN_FAIL(ZN_EFORMAT, "out.%s is not %lld rows of %lld", name, (long long)count, (long long)c);
    ZN_TRY(zn_alloc_for(name, sizeof *values * (size_t)(rows * c), (void **)&values));
    zn_to_f32(values, w->data, w->dtype, (size_t)(rows * c));
    memcpy(values, n->data, sizeof *values * (size_t)(count * c));
    const zn_status status = golden_compare(g, name, values, ZN_SHAPE(rows, c), ZN_LAYOUT_PLAIN, GOLDEN_FORWARD);
    zn_free(values);
    return status;
}

/* Layers by their own names, and those that the file calls something else. count: tokens to compare, 0: all. */
static zn_status compare_layer(golden *g, int run, const zn_graph *graph, const char *layer, const char *what,
                               int64_t count)
{
    const zn_node *n = graph_layer(graph, layer);
    if (!n)
        return ZN_FAIL(ZN_EFORMAT, "the network has no layer '%s'", layer);
    return compare_tokens(g, run, what, n, count ? count : zn_shape_count(n->shape) / n->shape.dim[n->shape.rank - 1]);
}

static zn_status compare_blocks(golden *g, int run, const zn_graph *graph, const char *group, int count)
{
    for (int i = 0; i < count; i++) {
        char name[NAME];
        snprintf(name, sizeof name, "%s.%d", group, i);
        ZN_TRY(compare_layer(g, run, graph, name, name, 0));
    }
    return ZN_OK;
}

static zn_status compare_trace(golden *g, int run, const zn_graph *graph, const zn_zimage_form *k, int64_t picture,
                               int64_t caption)
{
    ZN_TRY(compare_layer(g, run, graph, "patches", "patches", picture));
    ZN_TRY(compare_layer(g, run, graph, "all_x_embedder.2-1", "x_embed", picture));
    ZN_TRY(compare_layer(g, run, graph, "cap_embedder.1", "cap_embed", caption));
    ZN_TRY(compare_layer(g, run, graph, "t_embedder.mlp.2", "t_emb", 1));
    ZN_TRY(compare_blocks(g, run, graph, "noise_refiner", k->refiners));
    ZN_TRY(compare_blocks(g, run, graph, "context_refiner", k->refiners));
    ZN_TRY(compare_blocks(g, run, graph, "layers", k->layers));
    return compare_layer(g, run, graph, "all_final_layer.2-1.linear", "final", picture);
}

static zn_status compare_positions(golden *g, int run, int rows, int columns, int caption)
{
    const int tokens = zn_zimage_filled(rows * columns), most = tokens > caption ? tokens : caption;
    char name[NAME];
    int32_t *whole;
    float *floats = NULL;
    ZN_TRY(zn_alloc_for("positions", sizeof *whole * ZN_ZIMAGE_AXES * (size_t)most, (void **)&whole));
    zn_status status = zn_alloc_for("positions", sizeof *floats * ZN_ZIMAGE_AXES * (size_t)most, (void **)&floats);
    for (int which = 0; which < 2 && status == ZN_OK; which++) {
        const int count = ZN_ZIMAGE_AXES * (which ? caption : tokens);
        if (which)
            zn_zimage_caption_positions(caption, whole);
        else
            zn_zimage_picture_positions(rows, columns, caption, whole);
        for (int i = 0; i < count; i++)
            floats[i] = (float)whole[i];
        snprintf(name, sizeof name, "r%d.%s_pos_ids", run, which ? "cap" : "img");
        status = golden_compare_exact(g, name, floats, count);
    }
    zn_free(whole);
    zn_free(floats);
    return status;
}

/* [C][pixels] to [pixels][C] and back. */
static void turn(const float *from, int64_t rows, int64_t columns, float *to)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = 0; k < columns; k++)
            to[k * rows + i] = from[i * columns + k];
}

/* The same run with products in 8-bit integers, if the file's weights are quantised and this CPU has them. Their
 * rounding must not cost more than 2e-2 of the largest value (specification 12). */
static zn_status compare_i8(golden *g, const zimage_net *n, int run, zn_shape planes, const float *latent,
                            const float *features, int64_t caption, float time)
{
    const int64_t h = planes.dim[1], w = planes.dim[2], c = planes.dim[0];
    char name[NAME];
    float *out = NULL;
    zimage_run r;
    g->math = ZN_PRECISION_INT8;
    zn_status status = zimage_run_new(&r, g, n, h, w, caption, false);
    g->math = ZN_PRECISION_F32;
    if (status != ZN_OK)
        return status;
    if (zn_exec_coarse(r.exec) > 0) {
        ZN_TRY_DONE(zn_alloc_for("a latent", sizeof *out * (size_t)(c * h * w), (void **)&out));
        ZN_TRY_DONE(zimage_run_once(&r, n, latent, features, time));
        turn(r.out->data, h * w, c, out);
        snprintf(name, sizeof name, "r%d.model_out", run);
        status = golden_compare_within(g, name, out, ZN_SHAPE(c, 1, h, w), 2e-2);
    }
done:
    zn_free(out);
    zimage_run_free(&r);
    return status;
}

/* planes [C,h,w,1]: how [C,1,h,w] is loaded. */
static zn_status one_run(golden *g, const zimage_net *n, int run, zn_shape planes, const float *latent,
                         const float *features, int64_t caption, float time)
{
    const int64_t h = planes.dim[1], w = planes.dim[2], c = planes.dim[0], tokens = h / 2 * (w / 2);
    float *turned;
    char name[NAME];
    zimage_run r;
    snprintf(name, sizeof name, "r%d.t_emb", run);
    const bool traced = golden_has(g, "out.", name);
    ZN_TRY(zimage_run_new(&r, g, n, h, w, caption, traced));
    zn_status status = zn_alloc_for("a latent", sizeof *turned * (size_t)(c * h * w), (void **)&turned);
    if (status == ZN_OK) {
        turn(latent, c, h * w, turned);
        status = compare_i8(g, n, run, planes, turned, features, caption, time);
    }
    if (status == ZN_OK)
        status = zimage_run_once(&r, n, turned, features, time);
    if (status == ZN_OK && traced)
        status = compare_trace(g, run, r.graph, &n->form, tokens, caption);
    if (status == ZN_OK)
        status = compare_positions(g, run, (int)h / 2, (int)w / 2, zn_zimage_filled((int)caption));
    if (status == ZN_OK) {
        turn(r.out->data, h * w, c, turned);
        snprintf(name, sizeof name, "r%d.model_out", run);
        status = golden_compare(g, name, turned, planes, GOLDEN_MAP, GOLDEN_FORWARD);
    }
    zn_free(turned);
    zimage_run_free(&r);
    return status;
}

static zn_status load_and_run(golden *g, const zimage_net *n, int run)
{
    char name[NAME];
    zn_shape planes, cap, one;
    float *latent = NULL, *features = NULL, *time = NULL;
    zn_status status;
    snprintf(name, sizeof name, "r%d.latent", run);
    ZN_TRY_DONE(golden_load(g, "in.", name, &planes, &latent));
    snprintf(name, sizeof name, "r%d.cap", run);
    ZN_TRY_DONE(golden_load(g, "in.", name, &cap, &features));
    snprintf(name, sizeof name, "r%d.t", run);
    ZN_TRY_DONE(golden_load(g, "in.", name, &one, &time));
    if (planes.rank != 4 || planes.dim[3] != 1 || planes.dim[0] != n->form.channels || cap.rank != 2 ||
        cap.dim[1] != n->form.caption)
        status = ZN_FAIL(ZN_EFORMAT, "in.r%d.latent or .cap has another shape than the network takes", run);
    else
        status = one_run(g, n, run, planes, latent, features, cap.dim[0], time[0]);
done:
    zn_free(latent);
    zn_free(features);
    zn_free(time);
    return status;
}

static zn_status dit_run(golden *g)
{
    zimage_net n;
    ZN_TRY(zimage_net_open(&n, g));
    zn_status status = ZN_OK;
    for (int i = 0; i < MOST_RUNS && status == ZN_OK; i++) {
        char name[NAME];
        snprintf(name, sizeof name, "r%d.latent", i);
        if (golden_has(g, "in.", name))
            status = load_and_run(g, &n, i);
    }
    zimage_net_close(&n);
    return status;
}

const golden_kind golden_zimage_dit = { "z-image transformer", dit_matches, dit_run };
