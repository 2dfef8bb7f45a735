/* Stages of clips; see clip_stage.h. */
#include "pipeline/video/clip_stage.h"

#include "base/alloc.h"
#include "base/convert.h"
#include "base/fail.h"
#include "graph/needs.h"
#include "graph/types.h"
#include "ops/ops.h"

#include <assert.h>
#include <string.h>

static int lean_of(const zn_clip_work *w, int stage) { return (int)(w->lean >> 2 * (stage ? stage - 1 : 0) & 3); }

static zn_prepare prepare_of(const zn_clip_work *w, int stage)
{
    return (zn_prepare){ .math = zn_precision_or_f32(w->options->math),
                         .cpu = zn_device_flags(w->options->device),
                         .constant_parameters = true,
                         .whole = w->options->device != NULL,
                         .threads = zn_pool_threads(w->options->pool),
                         .lean = lean_of(w, stage) };
}

/* The graph of a stage for a piece of so many frames, fused; outputs[0] is its result. */
static zn_status make_graph(zn_clip_stage *s, const zn_clip_work *w, int frames, bool later,
                            zn_node *outputs[ZN_KEPT + 1], int *count)
{
    zn_shape shape = w->frame;
    s->later = later;
    s->stream = (zn_stream){ .first = !later, .stage = s->number, .parts = later ? s->parts : 1 };
    shape.dim[0] = s->number == 1 ? frames / s->stream.parts : frames;
    ZN_TRY(zn_model_clip(w->model, w->part, shape, &s->stream, &s->graph, &s->x, &s->y));
    outputs[0] = s->y;
    memcpy(outputs + 1, s->stream.after, sizeof *outputs * (size_t)s->stream.count);
    *count = s->stream.count + 1;
    zn_graph_fuse(s->graph, outputs, *count);
    if (w->options->device)
        zn_graph_fuse_frames(s->graph, outputs, *count);
    if (w->options->fp8)
        s->fp8 = zn_graph_use_fp8_frames(s->graph, outputs, *count, zn_device_flags(w->options->device));
    return ZN_OK;
}

/* What a layer keeps lies in one place: a piece reads what the one before has left before it leaves its own there,
 * since nodes run in the order in which they were made (nn/video.c). nowhere: an address until the type is known. */
static void place_kept(zn_clip_stage *s, const zn_clip_work *w, void *nowhere)
{
    for (int i = 0; i < s->stream.count; i++) {
        zn_node *after = s->stream.after[i], *before = s->later ? s->stream.before[i] : after;
        after->placed = true;
        after->partner = before;
        before->partner = after;
        after->wide |= w->wide[i];
        before->wide |= w->wide[i];
        if (s->later)
            before->data = nowhere;
    }
}

/* Frames and results of a stage are no memory of its executor. */
static void place_ends(zn_clip_stage *s, float *given, float *made)
{
    s->x->data = given;
    s->y->placed = true;
    s->y->data = made;
}

zn_status zn_clip_count_frames(const zn_clip_work *w, int frames, bool later, int counts[ZN_CUTS + 2], int *cuts)
{
    zn_clip_stage s = { 0 };
    zn_node *outputs[ZN_KEPT + 1];
    int count;
    ZN_TRY(make_graph(&s, w, frames, later, outputs, &count));
    *cuts = s.stream.cuts;
    counts[0] = frames;
    for (int i = 0; i < *cuts; i++)
        counts[i + 1] = (int)s.stream.cut[i]->shape.dim[0];
    counts[*cuts + 1] = (int)s.y->shape.dim[0];
    zn_graph_free(s.graph);
    return ZN_OK;
}

zn_status zn_clip_check_fp8(const zn_clip_work *w, int first_frames, int later_frames)
{
    int fp8 = 0;
    if (!w->options->fp8)
        return ZN_OK;
    for (int later = 0; later < 2; later++) {
        zn_clip_stage s = { .parts = 1 };
        zn_node *outputs[ZN_KEPT + 1];
        int count;
        ZN_TRY(make_graph(&s, w, later ? later_frames : first_frames, later, outputs, &count));
        fp8 += s.fp8;
        zn_graph_free(s.graph);
    }
    return fp8 ? ZN_OK
               : ZN_FAIL(ZN_EUNSUPPORTED, "%s has no layer that computes in fp8 for frames of %lldx%lld: use bf16",
                         w->model->info.architecture, (long long)w->frame.dim[2] * w->model->info.downscale,
                         (long long)w->frame.dim[1] * w->model->info.downscale);
}

/* The graph of the whole network with its types. */
static zn_status make_typed(zn_clip_stage *s, const zn_clip_work *w, int frames, bool later)
{
    zn_node *outputs[ZN_KEPT + 1];
    int count;
    const zn_prepare p = prepare_of(w, s->number);
    ZN_TRY(make_graph(s, w, frames, later, outputs, &count));
    place_kept(s, w, s);
    return zn_types_choose(s->graph, outputs, count, &p);
}

zn_status zn_clip_agree_types(zn_clip_work *w, int first_frames, int later_frames)
{
    zn_status status = ZN_OK;
    for (bool differ = w->options->device; differ && status == ZN_OK;) {
        zn_clip_stage first = { .parts = 1 }, later = { .parts = 1 };
        differ = false;
        status = make_typed(&first, w, first_frames, false);
        if (status == ZN_OK)
            status = make_typed(&later, w, later_frames, true);
        for (int i = 0; status == ZN_OK && i < later.stream.count; i++)
            if (first.stream.after[i]->type != later.stream.after[i]->type)
                w->wide[i] = differ = true;
        zn_graph_free(first.graph);
        zn_graph_free(later.graph);
    }
    return status;
}

/* The most that a step of a graph with types reads of a file in order to pack it (zn_pack_into). */
static size_t fetched_bytes(const zn_graph *g, const zn_prepare *p)
{
    size_t most = 0;
    for (int i = 0; i < zn_graph_count(g); i++) {
        const zn_node *n = zn_graph_at(g, i);
        if (!zn_needs_of(n, p).packed)
            continue;
        const zn_packing how = n->op->packing(n, p);
        for (int k = 0; k < n->source_count; k++) {
            const zn_node *parameter = how.sources & 1u << k ? zn_deferred_source(n->source[k]) : NULL;
            const size_t bytes = !parameter ? 0
                                            : sizeof(float) * (size_t)zn_shape_count(parameter->shape) + how.coded +
                                                  parameter->deferred->stored;
            most = bytes > most ? bytes : most;
        }
    }
    return most;
}

static zn_status measure(zn_clip_stage *s, const zn_clip_work *w, zn_node *const *outputs, int count,
                         zn_clip_bytes *out)
{
    const zn_prepare p = prepare_of(w, s->number);
    place_kept(s, w, s);
    if (s->number)
        place_ends(s, (float *)s, (float *)s);
    ZN_TRY(zn_exec_estimate(s->graph, outputs, count, &p, &out->run, &out->prepared));
    if (!w->options->device)
        out->fetched = fetched_bytes(s->graph, &p);
    for (int i = 1; i < count; i++)
        out->kept += zn_alloc_whole(zn_node_bytes(outputs[i]));
    out->run = zn_alloc_whole(out->run);
    out->given = zn_alloc_whole(zn_node_bytes(s->x));
    out->made = zn_alloc_whole(zn_node_bytes(s->y));
    out->flops = zn_graph_flops(s->graph, s->y);
    return ZN_OK;
}

zn_status zn_clip_stage_measure(const zn_clip_work *w, int number, int parts, int frames, bool later,
                                zn_clip_bytes *out)
{
    zn_clip_stage s = { .number = number, .parts = parts };
    zn_node *outputs[ZN_KEPT + 1];
    int count;
    *out = (zn_clip_bytes){ 0 };
    zn_status status = make_graph(&s, w, frames, later, outputs, &count);
    if (status == ZN_OK)
        status = measure(&s, w, outputs, count, out);
    zn_graph_free(s.graph);
    return status;
}

/* ---- what layers keep ---- */

static void drop_parked(zn_clip_stage *s)
{
    zn_exec_free(s->parked.exec);
    zn_graph_free(s->parked.graph);
    s->parked = (zn_clip_parked){ 0 };
}

static void free_kept(const zn_clip_stage *s, void *kept)
{
    if (s->device) {
        zn_device_lock(s->device);
        zn_device_drop(s->device, kept);
        zn_device_unlock(s->device);
    }
    zn_free(kept);
}

/* On a device its twin lasts as long as the memory: executors come and go. */
static zn_status alloc_kept(const zn_clip_stage *s, size_t bytes, void **out)
{
    ZN_TRY(zn_alloc_for("frames that a layer keeps", bytes, out));
    if (!s->device)
        return ZN_OK;
    zn_device_lock(s->device);
    const zn_status status = zn_device_twin(s->device, *out, bytes);
    zn_device_unlock(s->device);
    if (status != ZN_OK)
        zn_free(*out);
    return status;
}

/* Moves what a layer keeps between device and host; without a device it is there. */
static zn_status move_kept(const zn_clip_stage *s, void *kept, size_t bytes, bool to_device)
{
    if (!s->device)
        return ZN_OK;
    zn_device_lock(s->device);
    if (to_device)
        zn_device_send(s->device, kept, bytes);
    else
        zn_device_fetch(s->device, kept, bytes);
    const zn_status status = zn_device_wait(s->device);
    zn_device_unlock(s->device);
    return status;
}

static zn_dtype dtype_of(zn_type type) { return type == ZN_TYPE_F16 ? ZN_F16 : ZN_BF16; }

/* What the first piece has left, in the type of the next one. */
static zn_status convert_kept(const zn_clip_stage *s, int i, zn_type type, size_t count, void *to)
{
    ZN_TRY(move_kept(s, s->kept[i], zn_type_size(s->kept_type[i]) * count, false));
    if (type == ZN_TYPE_F32)
        zn_to_f32(to, s->kept[i], dtype_of(s->kept_type[i]), count);
    else
        zn_from_f32(to, dtype_of(type), s->kept[i], count);
    return move_kept(s, to, zn_type_size(type) * count, true);
}

/* Memory for what a layer keeps, of the type that the graph has chosen. A piece after the first may have chosen another
 * one; what waits for the old memory then goes. */
static zn_status give_memory_to(zn_clip_stage *s, int i)
{
    zn_node *after = s->stream.after[i];
    if (i == s->kept_count || s->kept_type[i] != after->type) {
        void *room;
        ZN_TRY(alloc_kept(s, zn_node_bytes(after), &room));
        if (i == s->kept_count) {
            s->kept_count++;
        } else {
            const zn_status status =
                s->later ? convert_kept(s, i, after->type, (size_t)zn_shape_count(after->shape), room) : ZN_OK;
            drop_parked(s);
            free_kept(s, status == ZN_OK ? s->kept[i] : room);
            ZN_TRY(status);
        }
        s->kept[i] = room;
        s->kept_type[i] = after->type;
    }
    after->data = s->kept[i];
    if (s->later)
        s->stream.before[i]->data = s->kept[i];
    return ZN_OK;
}

static zn_status give_memory(zn_clip_stage *s)
{
    assert(!s->later || s->stream.count == s->kept_count);
    for (int i = 0; i < s->stream.count; i++)
        ZN_TRY(give_memory_to(s, i));
    return ZN_OK;
}

static zn_status build(zn_clip_stage *s, const zn_clip_work *w, int frames, bool later, zn_progress_fn progress,
                       void *user)
{
    zn_node *outputs[ZN_KEPT + 1];
    int count;
    ZN_TRY(make_graph(s, w, frames, later, outputs, &count));
    place_kept(s, w, s);
    const zn_prepare own = prepare_of(w, s->number);
    ZN_TRY(zn_types_choose(s->graph, outputs, count, &own));
    ZN_TRY(give_memory(s));
    if (s->number) {
        if (!s->made)
            ZN_TRY(zn_alloc_for("frames of a clip", zn_node_bytes(s->y), (void **)&s->made));
        place_ends(s, (float *)s, s->made); /* an address until there are frames */
    }
    s->flops = zn_graph_flops(s->graph, s->y);
    const zn_clip_options *o = w->options;
    if (w->turns && o->packs)
        ZN_TRY(zn_packs_new(zn_packs_cache(o->packs), &s->packs));
    const zn_exec_options options = { .pool = o->pool,
                                      .device = o->device,
                                      .packs = s->packs ? s->packs : o->packs,
                                      .math = o->math,
                                      .whole = o->device != NULL,
                                      .lean = lean_of(w, s->number),
                                      .progress = progress,
                                      .user = user };
    ZN_TRY(zn_exec_new(s->graph, outputs, count, &options, &s->exec));
    s->coarse = s->flops * zn_exec_coarse(s->exec);
    return ZN_OK;
}

void zn_clip_stage_stop(zn_clip_stage *s)
{
    zn_exec_free(s->exec);
    zn_graph_free(s->graph);
    zn_packs_free(s->packs);
    s->exec = NULL;
    s->graph = NULL;
    s->packs = NULL;
}

static void change_places(zn_clip_stage *s)
{
    const zn_clip_parked p = s->parked;
    s->parked = (zn_clip_parked){ s->later, s->graph, s->exec, s->x, s->y, s->stream, s->flops };
    s->later = p.later;
    s->graph = p.graph;
    s->exec = p.exec;
    s->x = p.x;
    s->y = p.y;
    s->stream = p.stream;
    s->flops = p.flops;
}

/* Whether what layers keep is where the graph expects it. */
static bool is_ready(const zn_clip_stage *s, bool later)
{
    for (int i = 0; s->exec && i < s->stream.count; i++)
        if (s->stream.after[i]->data != s->kept[i])
            return false;
    return s->exec && s->later == later;
}

zn_status zn_clip_stage_start(zn_clip_stage *s, const zn_clip_work *w, int frames, bool later, zn_progress_fn progress,
                              void *user)
{
    if (is_ready(s, later))
        return ZN_OK;
    s->device = w->options->device;
    if (s->device && !w->options->memory)
        change_places(s);
    if (is_ready(s, later))
        return ZN_OK;
    zn_clip_stage_stop(s);
    if (s->later != later) { /* frames of another number */
        zn_free(s->made);
        zn_free(s->given);
        s->made = s->given = NULL;
    }
    const zn_status status = build(s, w, frames, later, progress, user);
    if (status != ZN_OK)
        zn_clip_stage_stop(s);
    return status;
}

zn_status zn_clip_stage_run(zn_clip_stage *s)
{
    ZN_TRY(zn_exec_run(s->exec));
    return zn_exec_check_finite(s->exec);
}

void zn_clip_stage_clear(zn_clip_stage *s)
{
    zn_clip_stage_stop(s);
    drop_parked(s);
    for (int i = 0; i < s->kept_count; i++)
        free_kept(s, s->kept[i]);
    zn_free(s->made);
    zn_free(s->given);
    *s = (zn_clip_stage){ 0 };
}
