/* Runs a network as runner_plan.c laid it out: whole, or segment by segment in tiles. */
#include "base/alloc.h"
#include "base/fail.h"
#include "base/least.h"
#include "pipeline/codec/runner_data.h"

#include <string.h>

/* Progress within a window as progress of the whole: untiled work has only one. */
static int window_progress(void *user, double fraction)
{
    const zn_runner *r = user;
    return r->options.progress(r->options.user, (r->done + fraction * r->window) / r->total);
}

static zn_status stage_start(zn_runner *r, zn_stage *st)
{
    const zn_exec_options options = { .pool = r->options.pool,
                                      .device = r->options.device,
                                      .packs = r->options.packs,
                                      .math = r->options.math,
                                      .profile = r->options.profile,
                                      .progress = r->options.progress ? window_progress : NULL,
                                      .user = r };
    return st->exec ? ZN_OK : zn_exec_new(st->graph, &st->output, 1, &options, &st->exec);
}

/* A whole network is made ready once; of several stages only one at a time has memory, so those wait until they run. */
static zn_status prepare(zn_runner *r)
{
    if (r->count == 1 && !zn_stage_tiled(&r->stages[0]))
        return stage_start(r, &r->stages[0]);
    ZN_TRY(zn_alloc_for("the input map", zn_map_bytes(r->input_shape), (void **)&r->input));
    memset(r->input, 0, zn_map_bytes(r->input_shape));
    return ZN_OK;
}

zn_runner_options zn_runner_options_of(const zn_compute *c)
{
    return (zn_runner_options){ .pool = c->pool,
                                .device = c->device,
                                .packs = c->packs,
                                .math = c->math,
                                .tile = c->options.tile,
                                .memory = c->options.memory,
                                .profile = c->options.profile,
                                .progress = c->options.progress,
                                .user = c->options.user };
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
    ZN_TRY_DONE(zn_runner_plan_stages(r, first, last));
    ZN_TRY_DONE(prepare(r));
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
            if (!ZN_GROW(r->rows, r->row_room, k + 1))
                return ZN_FAIL(ZN_ENOMEM, "out of memory for the profile");
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
                     zn_least(st->y.tile, st->y.out - y), zn_least(st->x.tile, st->x.out - x), cout);
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
