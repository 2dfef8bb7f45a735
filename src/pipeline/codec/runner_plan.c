/* How a runner does its work: whole where the network fits the memory; else in bands of rows and strips of columns, the
 * cheapest that fit; on a device, where bands cannot be run, and when a tile is given: in segments with the largest
 * tiles that fit. */
#include "base/fail.h"
#include "base/memory.h"
#include "pipeline/codec/runner_data.h"

#include <stdint.h>
#include <stdio.h>

enum { MIB = 1 << 20 };

static size_t free_memory(zn_device *device)
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

/* Positions of a node's map for a number of image pixels, at least one; 0: all. */
static int64_t positions(const zn_runner *r, const zn_node *n, int64_t pixels)
{
    const int64_t count = (int64_t)((double)pixels / pixels_per(r, n));
    return pixels && count < 1 ? 1 : count;
}

static zn_prepare prepare_of(const zn_runner *r)
{
    return (zn_prepare){ .math = zn_precision_or_f32(r->options.math),
                         .cpu = zn_device_flags(r->options.device),
                         .constant_parameters = true,
                         .threads = zn_pool_threads(r->options.pool) };
}

/* Bytes of the whole maps that are there while a segment runs. */
static size_t maps_of(const zn_runner *r, const zn_segment *s)
{
    const bool reads = !r->options.streams || s->from != r->input_node,
               leaves = !r->options.streams || s->to != r->output_node;
    return (reads ? zn_map_bytes(s->from->shape) : 0) + (leaves ? zn_map_bytes(s->to->shape) : 0);
}

/* Packed weights of all stages stay in the cache; without one every stage frees its own. */
static size_t packed_of(const zn_runner *r) { return r->options.packs ? r->packed : 0; }

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

/* Maps where some plan cuts the network are F32 in every plan. */
static zn_status mark_cuts(zn_runner *r)
{
    zn_segment segments[ZN_MAX_SEGMENTS];
    int count;
    ZN_TRY(zn_segments_find(r->whole, r->input_node, r->output_node, segments, &count));
    for (int i = 0; i < count; i++)
        zn_graph_at(r->whole, segments[i].to->index)->wide = true;
    return ZN_OK;
}

/* ---- whole ---- */

static zn_status plan_whole(zn_runner *r)
{
    const zn_segment s = { r->input_node, r->output_node, true };
    const zn_prepare p = prepare_of(r);
    r->count = 1;
    ZN_TRY(zn_stage_build(r->whole, &s, 0, 0, &p, &r->stages[0]));
    ZN_TRY(zn_stage_measure(&r->stages[0], 0, 0));
    r->needed = r->stages[0].bytes;
    r->packed = r->stages[0].packed;
    r->flops = zn_stage_work(&r->stages[0]);
    return r->flops < 0 ? ZN_FAIL(ZN_ENOMEM, "out of memory for a count of operations") : ZN_OK;
}

/* ---- tiles ---- */

/* One of several stages, for tiles of `side` image pixels (0: whole). */
static zn_status stage_try(zn_runner *r, const zn_segment *s, int64_t side, zn_stage *st)
{
    const int64_t tile = positions(r, s->to, side);
    const zn_prepare p = prepare_of(r);
    zn_status status = zn_stage_build(r->whole, s, tile, tile, &p, st);
    if (status == ZN_OK)
        status = zn_stage_measure(st, maps_of(r, s), packed_of(r));
    if (status != ZN_OK)
        zn_stage_clear(st);
    return status;
}

/* Chooses a tile for one segment: the given one, or the largest that fits. Where none does, the largest that needs at
 * most a third more than the least: below some size windows hardly shrink, and there are only more of them, so the last
 * few percent would cost many times the work. */
static zn_status choose_tile(zn_runner *r, const zn_segment *s, zn_stage *st)
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

/* ---- bands ---- */

/* Strips and rows that were tried, and what became of them. */
typedef struct choice {
    int64_t strips, rows; /* rows of image pixels; 0: none yet */
    size_t bytes;
    double work;
} choice;

/* Multiples of the squares of Winograd kernels at a quarter of the resolution, of which no rows are wasted. */
static const int64_t band_rows[] = { 768, 384, 192, 96, 48, 24 }; /* of image pixels */
static const int64_t strip_counts[] = { 1, 2, 3, 4, 6, 8, 12, 16, 24, 32 };
enum { STRIPS = sizeof strip_counts / sizeof *strip_counts, BANDS = sizeof band_rows / sizeof *band_rows };

static zn_status build_strips(zn_runner *r, const zn_segment *s, int64_t strips, zn_stage *st)
{
    const zn_prepare p = prepare_of(r);
    const int64_t width = s->to->shape.dim[2];
    return zn_stage_build(r->whole, s, 0, strips > 1 ? (width + strips - 1) / strips : 0, &p, st);
}

static zn_status use_bands(zn_runner *r, int64_t rows, zn_stage *st, bool *possible)
{
    ZN_TRY(zn_stage_use_bands(st, positions(r, st->segment.to, rows), possible));
    return *possible ? zn_stage_measure(st, maps_of(r, &st->segment), packed_of(r)) : ZN_OK;
}

/* The largest bands of these strips that fit, if any do; and the least memory that any take. */
static zn_status try_strips(zn_runner *r, int64_t strips, zn_stage *st, choice *fits, choice *least, bool *possible)
{
    ZN_TRY(build_strips(r, &st->segment, strips, st));
    for (int i = 0; i < BANDS && !fits->rows; i++) {
        ZN_TRY(use_bands(r, band_rows[i], st, possible));
        if (!*possible)
            return ZN_OK;
        const choice c = { strips, band_rows[i], st->bytes, zn_stage_work(st) };
        *least = c.bytes < least->bytes ? c : *least;
        *fits = c.bytes <= r->budget ? c : *fits;
    }
    return ZN_OK;
}

/* Of narrow strips much is computed twice, of low bands little: strips are made only while that allows for bands of so
 * much less work. Where nothing fits, the least memory. */
static zn_status search_bands(zn_runner *r, zn_stage *st, choice *best, choice *least, bool *possible)
{
    const zn_segment s = st->segment;
    for (int i = 0; i < STRIPS; i++) {
        choice fits = { 0 };
        const zn_status status = try_strips(r, strip_counts[i], st, &fits, least, possible);
        zn_stage_clear(st);
        st->segment = s;
        if (status != ZN_OK || !*possible)
            return status;
        if (best->rows && fits.work > best->work)
            return ZN_OK;
        *best = fits.rows ? fits : *best;
    }
    return ZN_OK;
}

/* One segment: whole if that fits, else in bands, or in tiles where bands cannot be. */
static zn_status choose_bands(zn_runner *r, const zn_segment *s, zn_stage *st)
{
    choice best = { 0 }, least = { .bytes = SIZE_MAX };
    bool possible = true;
    ZN_TRY(stage_try(r, s, 0, st));
    if (s->global || st->bytes <= r->budget)
        return ZN_OK;
    zn_stage_clear(st);
    st->segment = *s;
    ZN_TRY(search_bands(r, st, &best, &least, &possible));
    if (!possible)
        return choose_tile(r, s, st);
    best = best.rows ? best : least;
    zn_status status = build_strips(r, s, best.strips, st);
    if (status == ZN_OK)
        status = use_bands(r, best.rows, st, &possible);
    if (status != ZN_OK)
        zn_stage_clear(st);
    return status;
}

/* ---- all stages ---- */

static void clear_plan(zn_runner *r)
{
    for (int i = 0; i < r->count; i++)
        zn_stage_clear(&r->stages[i]);
    r->count = 0;
}

static zn_status plan_pieces(zn_runner *r)
{
    const bool bands = r->options.tile == ZN_TILE_AUTO && !r->options.device;
    zn_segment segments[ZN_MAX_SEGMENTS];
    int count;
    ZN_TRY(zn_segments_find(r->whole, r->input_node, r->output_node, segments, &count));
    if (bands)
        zn_segments_join(segments, &count);
    r->needed = 0;
    for (int i = 0; i < count; i++) {
        r->count = i + 1;
        ZN_TRY(bands ? choose_bands(r, &segments[i], &r->stages[i]) : choose_tile(r, &segments[i], &r->stages[i]));
        r->needed = larger(r->needed, r->stages[i].bytes);
    }
    return ZN_OK;
}

/* Share of a stage's operations that are coarser than fp32. */
static double coarse_share(const zn_stage *st)
{
    double all = 0, coarse = 0;
    for (int k = 0; k < zn_graph_count(st->graph); k++) {
        const zn_node *n = zn_graph_at(st->graph, k);
        const double flops = n->op->flops ? n->op->flops(n) : 0;
        all += flops;
        coarse += n->op->math && n->op->math(n, &st->prepare) != ZN_PRECISION_F32 ? flops : 0;
    }
    return all > 0 ? coarse / all : 0;
}

static zn_status count_flops(zn_runner *r)
{
    for (int i = 0; i < r->count; i++) {
        zn_stage *st = &r->stages[i];
        const double work = zn_stage_work(st);
        if (work < 0)
            return ZN_FAIL(ZN_ENOMEM, "out of memory for a count of operations");
        st->flops = work / (double)(st->y.tiles * st->x.tiles);
        r->coarse += coarse_share(st) * work;
        r->total += work;
    }
    return ZN_OK;
}

static int describe_stage(const zn_stage *st, char *text, size_t size)
{
    const long long w = st->x.out, h = st->y.out, tile_w = st->x.tile, tile_h = st->y.tile;
    const long long rows = st->bands ? zn_bands_height(st->bands) : 0;
    const double mib = (double)st->bytes / MIB;
    const char *from = st->segment.from->name, *to = st->segment.to->name;
    if (st->bands && st->x.tiles > 1)
        return snprintf(text, size, "%s..%s: %lld strips of %lldx%lld, each in bands of %lld rows, %.1f MiB", from, to,
                        (long long)st->x.tiles, tile_w, h, rows, mib);
    if (st->bands)
        return snprintf(text, size, "%s..%s: %lldx%lld in bands of %lld rows, %.1f MiB", from, to, w, h, rows, mib);
    if (!zn_stage_tiled(st))
        return snprintf(text, size, "%s..%s: whole %lldx%lld, %.1f MiB", from, to, w, h, mib);
    return snprintf(text, size, "%s..%s: %lldx%lld tiles of %lldx%lld, windows of %lldx%lld, %.1f MiB", from, to,
                    (long long)st->x.tiles, (long long)st->y.tiles, tile_w, tile_h, (long long)st->x.window,
                    (long long)st->y.window, mib);
}

static void describe(zn_runner *r)
{
    size_t used = 0;
    for (int i = 0; i < r->count && used < sizeof r->plan; i++) {
        if (i)
            used += (size_t)snprintf(r->plan + used, sizeof r->plan - used, "\n");
        if (used < sizeof r->plan)
            used += (size_t)describe_stage(&r->stages[i], r->plan + used, sizeof r->plan - used);
    }
    if (used < sizeof r->plan)
        snprintf(r->plan + used, sizeof r->plan - used, "\nmemory: %.1f MiB with images and weights, budget %.1f MiB",
                 (double)(r->needed + r->options.held) / MIB, (double)(r->budget + r->options.held) / MIB);
}

zn_status zn_runner_refuse(zn_shape input, zn_shape output, const zn_runner_options *options, size_t need)
{
    const zn_shape image = zn_shape_count(input) > zn_shape_count(output) ? input : output;
    return ZN_FAIL(
        ZN_ENOMEM, "a memory budget of %.6g MiB is too small for an image of %lldx%lld: the least%s is %llu MiB",
        (double)options->memory / MIB, (long long)image.dim[2], (long long)image.dim[1],
        options->tile == ZN_TILE_AUTO ? "" : " with these tiles", (unsigned long long)(need + MIB - 1) / MIB);
}

static size_t budget_of(const zn_runner *r)
{
    if (!r->options.memory)
        return free_memory(r->options.device) / 2;
    return r->options.memory > r->options.held ? r->options.memory - r->options.held : 0;
}

zn_status zn_runner_plan_stages(zn_runner *r)
{
    r->budget = budget_of(r);
    ZN_TRY(mark_cuts(r));
    ZN_TRY(plan_whole(r));
    const bool automatic = r->options.tile == ZN_TILE_AUTO;
    const size_t whole = r->needed;
    if (r->options.tile != ZN_TILE_OFF && !(automatic && whole <= r->budget)) {
        clear_plan(r);
        ZN_TRY(plan_pieces(r));
        if (automatic && r->needed >= whole) { /* small images: pieces save nothing */
            clear_plan(r);
            ZN_TRY(plan_whole(r));
        }
    }
    ZN_TRY(count_flops(r));
    describe(r);
    return ZN_OK;
}
