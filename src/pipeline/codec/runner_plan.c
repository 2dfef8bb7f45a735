/* How a runner does its work: whole where the network fits the memory, else in segments with the largest tiles that
 * fit.
 */
#include "base/fail.h"
#include "base/memory.h"
#include "pipeline/codec/runner_data.h"

#include <stdint.h>
#include <stdio.h>

static size_t free_memory(const zn_device *device)
{
    return device ? zn_device_free_memory(device) : zn_memory_available(ZN_MEMINFO);
}

/* Image pixels per position of a node's map. */
static double pixels_per(const zn_runner *r, const zn_node *n)
{
    const int64_t image =
        r->input_shape.dim[1] > r->output_shape.dim[1] ? r->input_shape.dim[1] : r->output_shape.dim[1];
    return (double)image / (double)n->shape.dim[1];
}

static zn_prepare prepare_of(const zn_runner *r)
{
    return (zn_prepare){ .math = r->options.math,
                         .cpu = zn_device_flags(r->options.device),
                         .constant_parameters = true,
                         .threads = zn_pool_threads(r->options.pool) };
}

/* One of several stages, for tiles of `side` image pixels (0: whole). */
static zn_status stage_try(zn_runner *r, const zn_segment *s, int64_t side, zn_stage *st)
{
    int64_t tile = (int64_t)((double)side / pixels_per(r, s->to));
    if (side && tile < 1)
        tile = 1;
    const zn_prepare p = prepare_of(r);
    zn_status status = zn_stage_build(r->whole, s, tile, &p, st);
    if (status == ZN_OK)
        status = zn_stage_measure(st, false);
    if (status != ZN_OK)
        zn_stage_clear(st);
    return status;
}

/* Chooses a tile for one segment: the given one, or the largest that fits the budget. Where none does, the largest
 * that needs at most a third more than the least: below some size windows hardly shrink, and there are only more of
 * them, so the last few percent would cost many times the work. */
static zn_status stage_choose(zn_runner *r, const zn_segment *s, zn_stage *st)
{
    static const int64_t sides[] = { 0, 4096, 2048, 1024, 768, 512, 384, 256, 192, 128, 64 };
    enum { CHOICES = sizeof sides / sizeof *sides };
    size_t bytes[CHOICES], least = SIZE_MAX;
    if (r->options.tile > 0 || s->global)
        return stage_try(r, s, s->global ? 0 : r->options.tile, st);
    for (int i = 0; i < CHOICES; i++) {
        ZN_TRY(stage_try(r, s, sides[i], st));
        if (st->bytes <= r->budget)
            return ZN_OK;
        bytes[i] = st->bytes;
        least = bytes[i] < least ? bytes[i] : least;
        zn_stage_clear(st);
    }
    int chosen = 0;
    while (bytes[chosen] > least + least / 3)
        chosen++;
    return stage_try(r, s, sides[chosen], st);
}

static zn_status plan_whole(zn_runner *r, zn_node *input, zn_node *output)
{
    const zn_segment s = { input, output, true };
    const zn_prepare p = prepare_of(r);
    r->count = 1;
    ZN_TRY(zn_stage_build(r->whole, &s, 0, &p, &r->stages[0]));
    ZN_TRY(zn_stage_measure(&r->stages[0], true));
    r->flops = zn_graph_flops(r->stages[0].graph, r->stages[0].output);
    return r->flops < 0 ? ZN_FAIL(ZN_ENOMEM, "out of memory for a count of operations") : ZN_OK;
}

/* The most that one of the stages takes. */
static size_t most_bytes(const zn_runner *r)
{
    size_t most = 0;
    for (int i = 0; i < r->count; i++)
        most = r->stages[i].bytes > most ? r->stages[i].bytes : most;
    return most;
}

static void clear_plan(zn_runner *r)
{
    for (int i = 0; i < r->count; i++)
        zn_stage_clear(&r->stages[i]);
    r->count = 0;
}

static zn_status plan_tiles(zn_runner *r, zn_node *input, zn_node *output)
{
    zn_segment segments[ZN_MAX_SEGMENTS];
    int count;
    ZN_TRY(zn_segments_find(r->whole, input, output, segments, &count));
    for (int i = 0; i < count; i++) {
        r->count = i + 1;
        ZN_TRY(stage_choose(r, &segments[i], &r->stages[i]));
    }
    return ZN_OK;
}

/* Operations of each stage and of all, and how many of them are coarser than fp32. */
static void count_flops(zn_runner *r)
{
    for (int i = 0; i < r->count; i++) {
        zn_stage *st = &r->stages[i];
        const double tiles = (double)(st->y.tiles * st->x.tiles);
        for (int k = 0; k < zn_graph_count(st->graph); k++) {
            const zn_node *n = zn_graph_at(st->graph, k);
            const double flops = n->op->flops ? n->op->flops(n) : 0;
            st->flops += flops;
            if (n->op->math && n->op->math(n, &st->prepare) != ZN_MATH_F32)
                r->coarse += flops * tiles;
        }
        r->total += st->flops * tiles;
    }
}

static void describe(zn_runner *r)
{
    int used = 0;
    const int size = (int)sizeof r->plan;
    for (int i = 0; i < r->count && used < size; i++) {
        const zn_stage *st = &r->stages[i];
        used += snprintf(r->plan + used, (size_t)(size - used), "%s%s..%s: ", i ? "\n" : "", st->segment.from->name,
                         st->segment.to->name);
        if (used < size && !zn_stage_tiled(st))
            used += snprintf(r->plan + used, (size_t)(size - used), "whole %lldx%lld", (long long)st->x.out,
                             (long long)st->y.out);
        else if (used < size)
            used +=
                snprintf(r->plan + used, (size_t)(size - used), "%lldx%lld tiles of %lldx%lld, windows of %lldx%lld",
                         (long long)st->x.tiles, (long long)st->y.tiles, (long long)st->x.tile, (long long)st->y.tile,
                         (long long)st->x.window, (long long)st->y.window);
        if (used < size)
            used += snprintf(r->plan + used, (size_t)(size - used), ", %.1f MiB%s", (double)st->bytes / 1048576.0,
                             r->options.tile == ZN_TILE_AUTO && st->bytes > r->budget ? ", over the budget" : "");
    }
}

zn_status zn_runner_plan_stages(zn_runner *r, zn_node *input, zn_node *output)
{
    r->budget = r->options.memory ? r->options.memory : free_memory(r->options.device) / 2;
    ZN_TRY(plan_whole(r, input, output));
    const bool automatic = r->options.tile == ZN_TILE_AUTO;
    const size_t whole = r->stages[0].bytes;
    if (r->options.tile != ZN_TILE_OFF && !(automatic && whole <= r->budget)) {
        clear_plan(r);
        ZN_TRY(plan_tiles(r, input, output));
        if (automatic && most_bytes(r) >= whole) { /* of a picture little larger than windows tiles save nothing */
            clear_plan(r);
            ZN_TRY(plan_whole(r, input, output));
        }
    }
    count_flops(r);
    describe(r);
    return ZN_OK;
}
