/* Runs a network whole where it fits the memory, or segment by segment in tiles. */
#include "pipeline/runner.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "ops/ops.h"
#include "pipeline/stage.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct zn_runner {
    zn_runner_options options;
    zn_graph *whole; /* the network at full size, for analysis (and execution when nothing is cut) */
    zn_shape input_shape, output_shape;
    size_t budget;
    zn_stage stages[ZN_MAX_SEGMENTS];
    int count;
    float *input;                      /* whole input map when the first stage is tiled */
    double flops, total, done, window; /* window: of the one that is running */
    double coarse;                     /* of total: below fp32 */
    char plan[1024];
    zn_runner_row *rows;
    int row_count, row_capacity;
};

static size_t free_memory(void)
{
    const long pages = sysconf(_SC_AVPHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    return pages > 0 && size > 0 ? (size_t)pages * (size_t)size : (size_t)1 << 30;
}

/* ---- planning ---- */

/* Image pixels per position of a node's map. */
static double pixels_per(const zn_runner *r, const zn_node *n)
{
    const int64_t image =
        r->input_shape.dim[1] > r->output_shape.dim[1] ? r->input_shape.dim[1] : r->output_shape.dim[1];
    return (double)image / (double)n->shape.dim[1];
}

/* One of several stages, for tiles of `side` image pixels (0: whole). */
static zn_status stage_try(zn_runner *r, const zn_segment *s, int64_t side, zn_stage *st)
{
    int64_t tile = (int64_t)((double)side / pixels_per(r, s->to));
    if (side && tile < 1)
        tile = 1;
    zn_status status = zn_stage_build(r->whole, s, tile, r->options.math, st);
    if (status == ZN_OK)
        status = zn_stage_measure(st, zn_pool_threads(r->options.pool), false);
    if (status != ZN_OK)
        zn_stage_clear(st);
    return status;
}

/* Chooses a tile for one segment: the given one, or the largest that fits the budget, or the one that needs least:
 * below some size windows shrink no more, and there are only more of them. */
static zn_status stage_choose(zn_runner *r, const zn_segment *s, zn_stage *st)
{
    static const int64_t sides[] = { 4096, 2048, 1024, 768, 512, 384, 256, 192, 128, 64 };
    const int choices = sizeof sides / sizeof *sides;
    const bool fixed = r->options.tile > 0;
    ZN_TRY(stage_try(r, s, fixed && !s->global ? r->options.tile : 0, st));
    for (int i = 0; i < choices && !s->global && !fixed && st->bytes > r->budget; i++) {
        zn_stage smaller;
        ZN_TRY(stage_try(r, s, sides[i], &smaller));
        zn_stage *worse = smaller.bytes < st->bytes ? st : &smaller;
        zn_stage_clear(worse);
        if (worse == st)
            *st = smaller;
    }
    return ZN_OK;
}

static zn_status plan_whole(zn_runner *r, zn_node *input, zn_node *output, bool *fits)
{
    const zn_segment s = { input, output, true };
    ZN_TRY(zn_stage_build(r->whole, &s, 0, r->options.math, &r->stages[0]));
    ZN_TRY(zn_stage_measure(&r->stages[0], zn_pool_threads(r->options.pool), true));
    r->flops = zn_graph_flops(r->stages[0].graph, r->stages[0].output);
    if (r->flops < 0)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a count of operations");
    *fits = r->options.tile == ZN_TILE_OFF || (r->options.tile == ZN_TILE_AUTO && r->stages[0].bytes <= r->budget);
    if (*fits)
        r->count = 1;
    else
        zn_stage_clear(&r->stages[0]);
    return ZN_OK;
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

/* Progress within a window as progress of the whole: untiled work has only one. */
static int window_progress(void *user, double fraction)
{
    const zn_runner *r = user;
    return r->options.progress(r->options.user, (r->done + fraction * r->window) / r->total);
}

static zn_status stage_start(zn_runner *r, zn_stage *st)
{
    const zn_exec_options options = { .pool = r->options.pool,
                                      .math = r->options.math,
                                      .profile = r->options.profile,
                                      .progress = r->options.progress ? window_progress : NULL,
                                      .user = r };
    return st->exec ? ZN_OK : zn_exec_new(st->graph, &st->output, 1, &options, &st->exec);
}

/* A whole network is made ready once; of several stages only one at a time has memory, so those wait until they run. */
static zn_status prepare(zn_runner *r)
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
    if (r->count == 1 && !zn_stage_tiled(&r->stages[0]))
        return stage_start(r, &r->stages[0]);
    ZN_TRY(zn_alloc_for("the input map", zn_map_bytes(r->input_shape), (void **)&r->input));
    memset(r->input, 0, zn_map_bytes(r->input_shape));
    return ZN_OK;
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

zn_status zn_runner_new(const zn_model *model, zn_part part, zn_shape input, const zn_runner_options *options,
                        zn_runner **out)
{
    *out = NULL;
    zn_runner *r = zn_calloc(1, sizeof *r);
    if (!r)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a runner");
    r->options = *options;
    zn_node *first, *last;
    zn_status status;
    ZN_TRY_DONE(zn_model_graph(model, part, input, &r->whole, &first, &last));
    r->input_shape = first->shape;
    r->output_shape = last->shape;
    r->budget = options->memory ? options->memory : free_memory() / 2;
    bool fits = false;
    ZN_TRY_DONE(plan_whole(r, first, last, &fits));
    if (!fits)
        ZN_TRY_DONE(plan_tiles(r, first, last));
    ZN_TRY_DONE(prepare(r));
    describe(r);
    *out = r;
    return ZN_OK;
done:
    zn_runner_free(r);
    return status;
}

void zn_runner_free(zn_runner *r)
{
    if (!r)
        return;
    for (int i = 0; i < ZN_MAX_SEGMENTS; i++)
        zn_stage_clear(&r->stages[i]);
    zn_graph_free(r->whole);
    zn_free(r->input);
    zn_free(r->rows);
    zn_free(r);
}

float *zn_runner_input(zn_runner *r) { return r->input ? r->input : r->stages[0].input->data; }
static const float *stage_result(const zn_stage *st) { return st->result ? st->result : st->output->data; }
const float *zn_runner_output(const zn_runner *r) { return stage_result(&r->stages[r->count - 1]); }
zn_shape zn_runner_input_shape(const zn_runner *r) { return r->input_shape; }
zn_shape zn_runner_output_shape(const zn_runner *r) { return r->output_shape; }
const char *zn_runner_plan(const zn_runner *r) { return r->plan; }
double zn_runner_flops(const zn_runner *r) { return r->flops; }
double zn_runner_coarse(const zn_runner *r) { return r->total > 0 ? r->coarse / r->total : 0; }

void zn_runner_clear_rows(zn_runner *r) { r->row_count = 0; }

int zn_runner_rows(const zn_runner *r, const zn_runner_row **rows)
{
    *rows = r->rows;
    return r->row_count;
}

/* ---- running ---- */

static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }

/* Copies a rectangle of `h` x `w` positions of c floats between two maps of given row lengths. */
static void copy_map(float *to, int64_t to_width, const float *from, int64_t from_width, int64_t h, int64_t w,
                     int64_t c)
{
    for (int64_t y = 0; y < h; y++)
        memcpy(to + y * to_width * c, from + y * from_width * c, sizeof(float) * (size_t)(w * c));
}

static zn_status add_rows(zn_runner *r, const zn_stage *st)
{
    for (int i = 0; i < zn_exec_rows(st->exec); i++) {
        const zn_exec_row row = zn_exec_row_at(st->exec, i);
        int k = 0;
        while (k < r->row_count && (strcmp(r->rows[k].name, row.node->name) || strcmp(r->rows[k].kernel, row.kernel)))
            k++;
        if (k == r->row_count) {
            if (k == r->row_capacity) {
                const int capacity = k ? 2 * k : 64;
                zn_runner_row *more = zn_realloc(r->rows, sizeof *more * (size_t)capacity);
                if (!more)
                    return ZN_FAIL(ZN_ENOMEM, "out of memory for the profile");
                r->rows = more;
                r->row_capacity = capacity;
            }
            r->rows[r->row_count++] = (zn_runner_row){ .name = row.node->name, .kernel = row.kernel };
        }
        r->rows[k].ms += row.ms;
        r->rows[k].flops += row.flops;
        r->rows[k].flops_done += row.flops_done;
        r->rows[k].slots += row.slots;
        r->rows[k].bytes += row.bytes;
    }
    return ZN_OK;
}

static zn_status run_window(zn_runner *r, zn_stage *st)
{
    r->window = st->flops;
    ZN_TRY(zn_exec_run(st->exec));
    ZN_TRY(zn_exec_check_finite(st->exec));
    r->done += st->flops;
    if (r->options.profile)
        ZN_TRY(add_rows(r, st));
    if (r->options.progress && r->options.progress(r->options.user, r->done / r->total))
        return ZN_FAIL(ZN_ECANCELLED, "cancelled");
    return ZN_OK;
}

/* The stage's map stays, its executor goes: the next one's takes its place in memory. */
static zn_status stage_stop(zn_stage *st)
{
    if (!zn_stage_tiled(st)) {
        ZN_TRY(zn_alloc_for("a feature map", zn_map_bytes(st->segment.to->shape), (void **)&st->result));
        memcpy(st->result, st->output->data, zn_map_bytes(st->segment.to->shape));
    }
    zn_exec_free(st->exec);
    st->exec = NULL;
    st->input->data = NULL; /* it was the executor's; the next one must give it memory again */
    return ZN_OK;
}

static void drop_result(zn_stage *st)
{
    zn_free(st->result);
    st->result = NULL;
}

static zn_status run_tiles(zn_runner *r, zn_stage *st, const float *map)
{
    const int64_t cin = st->input->shape.dim[3], cout = st->output->shape.dim[3];
    const int64_t out_width = st->output->shape.dim[2];
    for (int64_t ty = 0; ty < st->y.tiles; ty++)
        for (int64_t tx = 0; tx < st->x.tiles; tx++) {
            int64_t iy, ix, oy, ox;
            ZN_TRY(zn_stage_window(st, &st->y, ty, &iy, &oy));
            ZN_TRY(zn_stage_window(st, &st->x, tx, &ix, &ox));
            copy_map(st->input->data, st->x.window, map + (iy * st->x.in + ix) * cin, st->x.in, st->y.window,
                     st->x.window, cin);
            ZN_TRY(run_window(r, st));
            const int64_t y = ty * st->y.tile, x = tx * st->x.tile;
            copy_map(st->result + (y * st->x.out + x) * cout, st->x.out,
                     st->output->data + ((y - oy) * out_width + (x - ox)) * cout, out_width,
                     min64(st->y.tile, st->y.out - y), min64(st->x.tile, st->x.out - x), cout);
        }
    return ZN_OK;
}

zn_status zn_runner_run(zn_runner *r)
{
    const float *map = zn_runner_input(r);
    r->done = 0;
    for (int i = 0; i < r->count; i++) /* those of a run that was cut off */
        drop_result(&r->stages[i]);
    for (int i = 0; i < r->count; i++) {
        zn_stage *st = &r->stages[i];
        ZN_TRY(stage_start(r, st));
        if (zn_stage_tiled(st)) {
            ZN_TRY(zn_alloc_for("a feature map", zn_map_bytes(st->segment.to->shape), (void **)&st->result));
            ZN_TRY(run_tiles(r, st, map));
        } else {
            if (st->input->data != map)
                memcpy(st->input->data, map, zn_map_bytes(st->input->shape));
            ZN_TRY(run_window(r, st));
        }
        if (i + 1 < r->count)
            ZN_TRY(stage_stop(st));
        if (i > 0)
            drop_result(&r->stages[i - 1]); /* it has been read */
        map = stage_result(st);
    }
    return ZN_OK;
}
