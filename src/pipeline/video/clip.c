/* Clips piece by piece. The first piece and the later ones are different graphs, of which one exists at a time; their
 * packed weights are the same and stay. */
#include "pipeline/video/clip.h"

#include "base/alloc.h"
#include "base/convert.h"
#include "base/fail.h"
#include "graph/exec.h"
#include "graph/types.h"
#include "ops/ops.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct zn_clip {
    const zn_model *model;
    zn_part part;
    zn_shape frame;
    zn_clip_options options;
    bool later;       /* what is to come is not the first piece */
    bool built_later; /* nor is what the graph is for */
    zn_graph *graph;
    zn_exec *exec;
    zn_node *x, *y;
    zn_stream stream;
    void *kept[ZN_KEPT]; /* what layers keep: outputs of a piece, and inputs of the next */
    zn_type kept_type[ZN_KEPT];
    int kept_count;
};

static void drop_graph(zn_clip *c)
{
    zn_exec_free(c->exec);
    zn_graph_free(c->graph);
    c->exec = NULL;
    c->graph = NULL;
}

static void drop_kept(zn_clip *c)
{
    for (int i = 0; i < c->kept_count; i++)
        zn_free(c->kept[i]);
    memset(c->kept, 0, sizeof c->kept);
    c->kept_count = 0;
}

void zn_clip_free(zn_clip *c)
{
    if (!c)
        return;
    drop_graph(c);
    drop_kept(c);
    zn_free(c);
}

zn_status zn_clip_new(const zn_model *model, zn_part part, zn_shape frame, const zn_clip_options *options,
                      zn_clip **out)
{
    *out = zn_calloc(1, sizeof **out);
    if (!*out)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a clip");
    **out = (zn_clip){ .model = model, .part = part, .frame = frame, .options = *options };
    return ZN_OK;
}

zn_shape zn_clip_frame(const zn_clip *c) { return c->frame; }

static size_t machine_memory(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    return pages > 0 && size > 0 ? (size_t)pages * (size_t)size : SIZE_MAX;
}

/* Refuses what would not fit, before it is tried. */
static zn_status check_memory(const zn_clip *c, zn_node *const *outputs, int count)
{
    size_t activations, prepared;
    const zn_prepare p = { zn_precision_or_f32(c->options.math), zn_device_flags(NULL), true, false,
                           zn_pool_threads(c->options.pool) };
    ZN_TRY(zn_exec_estimate(c->graph, outputs, count, &p, &activations, &prepared));
    for (int i = 1; i < count; i++)
        activations += zn_node_bytes(outputs[i]);
    const size_t capacity = c->options.memory ? c->options.memory : machine_memory();
    const size_t need = activations + (c->options.memory ? 0 : prepared);
    const int scale = c->part == ZN_ENCODER ? 1 : c->model->config.downscale;
    if (need > capacity)
        return ZN_FAIL(ZN_ELIMIT, "a piece of a clip of %lldx%lld takes %.1f MiB of memory, more than %.1f MiB%s",
                       (long long)c->frame.dim[2] * scale, (long long)c->frame.dim[1] * scale,
                       (double)need / (double)(1 << 20), (double)capacity / (double)(1 << 20),
                       c->options.memory ? "" : ", which is all there is");
    return ZN_OK;
}

/* What a layer keeps lies in one place: a piece reads what the one before has left before it leaves its own there,
 * since nodes run in the order in which they were made (nn/video.c). */
static void place_kept(zn_clip *c)
{
    assert(!c->later || c->stream.count == c->kept_count);
    for (int i = 0; i < c->stream.count; i++) {
        zn_node *after = c->stream.after[i], *before = c->later ? c->stream.before[i] : after;
        after->placed = true;
        after->partner = before;
        before->partner = after;
        if (c->later)
            before->data = c->kept[i]; /* until its type is known */
    }
}

/* Memory for what a layer keeps, of the type that the graph has chosen. A piece after the first may have chosen another
 * one: what the first has left is converted. */
static zn_status give_memory_to(zn_clip *c, int i)
{
    zn_node *after = c->stream.after[i];
    const size_t count = (size_t)zn_shape_count(after->shape);
    if (i == c->kept_count || c->kept_type[i] != after->type) {
        void *room;
        ZN_TRY(zn_alloc_for("frames that a layer keeps", zn_node_bytes(after), &room));
        if (i == c->kept_count)
            c->kept_count++;
        else if (after->type == ZN_TYPE_F32)
            zn_to_f32(room, c->kept[i], ZN_BF16, count);
        else
            zn_from_f32(room, ZN_BF16, c->kept[i], count);
        zn_free(c->kept[i]);
        c->kept[i] = room;
        c->kept_type[i] = after->type;
    }
    after->data = c->kept[i];
    if (c->later)
        c->stream.before[i]->data = c->kept[i];
    return ZN_OK;
}

static zn_status give_memory(zn_clip *c)
{
    for (int i = 0; i < c->stream.count; i++)
        ZN_TRY(give_memory_to(c, i));
    return ZN_OK;
}

static zn_status build(zn_clip *c, int frames)
{
    zn_node *outputs[ZN_KEPT + 1];
    zn_shape shape = c->frame;
    shape.dim[0] = frames;
    drop_graph(c);
    c->stream = (zn_stream){ .first = !c->later };
    c->built_later = c->later;
    ZN_TRY(zn_model_clip(c->model, c->part, shape, &c->stream, &c->graph, &c->x, &c->y));
    outputs[0] = c->y;
    memcpy(outputs + 1, c->stream.after, sizeof *outputs * (size_t)c->stream.count);
    const int count = c->stream.count + 1;
    zn_graph_fuse(c->graph, outputs, count);
    place_kept(c);
    ZN_TRY(check_memory(c, outputs, count));
    const zn_prepare own = { c->options.math, zn_device_flags(c->options.device), true, false,
                             zn_pool_threads(c->options.pool) };
    ZN_TRY(zn_types_choose(c->graph, outputs, count, &own));
    ZN_TRY(give_memory(c));
    const zn_exec_options options = { .pool = c->options.pool,
                                      .device = c->options.device,
                                      .packs = c->options.packs,
                                      .math = c->options.math,
                                      .progress = c->options.progress,
                                      .user = c->options.user };
    return zn_exec_new(c->graph, outputs, count, &options, &c->exec);
}

zn_status zn_clip_begin(zn_clip *c, float **input, int *frames)
{
    const zn_config *k = &c->model->config;
    *frames = c->part == ZN_DECODER ? 1 : c->later ? k->frames : k->first_frames;
    if (!c->exec || c->built_later != c->later) {
        const zn_status status = build(c, *frames);
        if (status != ZN_OK) {
            drop_graph(c);
            return status;
        }
    }
    *input = c->x->data;
    return ZN_OK;
}

zn_status zn_clip_run(zn_clip *c, const float **output, zn_shape *shape)
{
    ZN_TRY(zn_exec_run(c->exec));
    ZN_TRY(zn_exec_check_finite(c->exec));
    c->later = true;
    *output = c->y->data;
    *shape = c->y->shape;
    return ZN_OK;
}

void zn_clip_describe(const zn_clip *c, char *text, size_t size)
{
    const double unit = 1 << 20;
    double kept = 0;
    *text = 0;
    if (!c->exec)
        return;
    for (int i = 0; i < c->stream.count; i++)
        kept += (double)zn_node_bytes(c->stream.after[i]) / unit;
    snprintf(text, size,
             "%s: pieces of %lldx%lldx%lldx%lld, %.1f MiB, %.1f MiB of weights, %.1f MiB kept between pieces",
             zn_part_name(c->part), (long long)c->x->shape.dim[0], (long long)c->frame.dim[2],
             (long long)c->frame.dim[1], (long long)c->frame.dim[3], (double)zn_exec_activation_bytes(c->exec) / unit,
             (double)zn_exec_prepared_bytes(c->exec) / unit, kept);
}

void zn_clip_end(zn_clip *c) { c->later = false; }
