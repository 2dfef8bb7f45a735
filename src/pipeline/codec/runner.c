/* Runs a network as runner_plan.c laid it out: whole, or segment by segment in bands or tiles. */
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
    if (st->bands)
        ZN_TRY(zn_bands_allocate(st->bands));
    const zn_exec_options options = { .pool = r->options.pool,
                                      .device = r->options.device,
                                      .packs = r->options.packs,
                                      .math = r->options.math,
                                      .profile = r->options.profile,
                                      .bands = st->bands ? zn_bands_hooks(st->bands) : NULL,
                                      .progress = r->options.progress ? window_progress : NULL,
                                      .user = r };
    return st->exec ? ZN_OK : zn_exec_new(st->graph, &st->output, 1, &options, &st->exec);
}

static bool runs_at_once(const zn_runner *r)
{
    return r->count == 1 && !zn_stage_tiled(&r->stages[0]) && !r->stages[0].bands;
}

static void describe_passes(zn_runner *r)
{
    const size_t used = strlen(r->plan);
    if (used + 1 >= sizeof r->plan)
        return;
    r->plan[used] = '\n';
    zn_exec_describe(r->stages[0].exec, r->plan + used + 1, sizeof r->plan - used - 1);
}

/* A network that runs at once is made ready once; pieces wait until they run, since one at a time has memory. */
static zn_status prepare(zn_runner *r)
{
    if (runs_at_once(r)) {
        ZN_TRY(stage_start(r, &r->stages[0]));
        describe_passes(r);
        return ZN_OK;
    }
    if (r->options.streams)
        return ZN_OK;
    ZN_TRY(zn_alloc_for("the input map", zn_map_bytes(r->input_shape), (void **)&r->input));
    ZN_TRY(zn_alloc_for("the output map", zn_map_bytes(r->output_shape), (void **)&r->output));
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

/* A runner with a plan and no memory; freed by the caller, also on failure. */
static zn_status make(const zn_model *model, zn_part part, zn_shape input, const zn_runner_options *options,
                      zn_runner **out)
{
    zn_runner *r = *out = zn_calloc(1, sizeof *r);
    if (!r)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a runner");
    r->options = *options;
    ZN_TRY(zn_model_graph(model, part, input, &r->whole, &r->input_node, &r->output_node));
    r->input_shape = r->input_node->shape;
    r->output_shape = r->output_node->shape;
    return zn_runner_plan_stages(r);
}

zn_status zn_runner_new(const zn_model *model, zn_part part, zn_shape input, const zn_runner_options *options,
                        zn_runner **out)
{
    zn_runner *r;
    zn_status status;
    *out = NULL;
    ZN_TRY_DONE(make(model, part, input, options, &r));
    if (options->memory && options->held + r->needed > options->memory)
        ZN_TRY_DONE(zn_runner_refuse(r->input_shape, r->output_shape, options, options->held + r->needed));
    ZN_TRY_DONE(prepare(r));
    *out = r;
    return ZN_OK;
done:
    zn_runner_free(r);
    return status;
}

zn_status zn_runner_least(const zn_model *model, zn_part part, zn_shape input, const zn_runner_options *options,
                          size_t *bytes, size_t *packed)
{
    zn_runner_options least = *options;
    least.memory = 1;
    zn_runner *r;
    const zn_status status = make(model, part, input, &least, &r);
    if (status == ZN_OK) {
        *bytes = r->needed;
        *packed = r->packed;
    }
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
    zn_free(r->output);
    zn_free(r->rows.row);
    zn_free(r);
}

float *zn_runner_input(zn_runner *r) { return r->input ? r->input : r->stages[0].input->data; }
const float *zn_runner_output(const zn_runner *r) { return r->output ? r->output : r->stages[0].output->data; }
zn_shape zn_runner_input_shape(const zn_runner *r) { return r->input_shape; }
zn_shape zn_runner_output_shape(const zn_runner *r) { return r->output_shape; }
const char *zn_runner_plan(const zn_runner *r) { return r->plan; }
double zn_runner_flops(const zn_runner *r) { return r->flops; }
size_t zn_runner_bytes(const zn_runner *r) { return r->needed; }
size_t zn_runner_packed(const zn_runner *r) { return r->packed; }
double zn_runner_overhead(const zn_runner *r) { return r->flops > 0 ? r->total / r->flops : 1; }
double zn_runner_coarse(const zn_runner *r) { return r->total > 0 ? r->coarse / r->total : 0; }

void zn_runner_clear_rows(zn_runner *r) { r->rows.count = 0; }
const zn_runner_rows *zn_runner_profile(const zn_runner *r) { return &r->rows; }

/* ---- maps as input and output ---- */

typedef struct map {
    float *data;
    int64_t width, channels;
} map;

/* Copies `h` rows of `floats` between two maps; strides are the distances of their rows. */
static void copy_map(float *to, size_t to_stride, const float *from, size_t from_stride, int64_t h, size_t floats)
{
    for (int64_t y = 0; y < h; y++)
        memcpy(to + (size_t)y * to_stride, from + (size_t)y * from_stride, sizeof(float) * floats);
}

static float *map_at(const map *m, zn_region a) { return m->data + (a.y * m->width + a.x) * m->channels; }

static void read_map(void *user, zn_region a, float *to)
{
    const map *m = user;
    const size_t floats = (size_t)(a.width * m->channels);
    copy_map(to, floats, map_at(m, a), (size_t)(m->width * m->channels), a.height, floats);
}

static void write_map(void *user, zn_region a, const float *from, size_t stride)
{
    const map *m = user;
    copy_map(map_at(m, a), (size_t)(m->width * m->channels), from, stride, a.height, (size_t)(a.width * m->channels));
}

/* ---- running ---- */

zn_status zn_runner_add_rows(zn_runner_rows *rows, const zn_exec *exec)
{
    for (int i = 0; i < zn_exec_rows(exec); i++) {
        const zn_exec_row row = zn_exec_row_at(exec, i);
        int k = 0;
        while (k < rows->count &&
               (strcmp(rows->row[k].name, row.node->name) || strcmp(rows->row[k].kernel, row.kernel)))
            k++;
        if (k == rows->count) {
            if (!ZN_GROW(rows->row, rows->capacity, k + 1))
                return ZN_FAIL(ZN_ENOMEM, "out of memory for the profile");
            rows->row[rows->count++] = (zn_runner_row){ .name = row.node->name, .kernel = row.kernel };
        }
        rows->row[k].ms += row.ms;
        rows->row[k].flops += row.flops;
        rows->row[k].flops_done += row.flops_done;
        rows->row[k].slots += row.slots;
        rows->row[k].bytes += row.bytes;
    }
    return ZN_OK;
}

static zn_status run_window(zn_runner *r, zn_stage *st, double flops)
{
    r->window = flops;
    ZN_TRY(zn_exec_run(st->exec));
    ZN_TRY(zn_exec_check_finite(st->exec));
    r->done += flops;
    if (r->options.profile)
        ZN_TRY(zn_runner_add_rows(&r->rows, st->exec));
    if (r->options.progress && r->options.progress(r->options.user, r->done / r->total))
        return ZN_FAIL(ZN_ECANCELLED, "cancelled");
    return ZN_OK;
}

/* A tile, or a strip: where its window begins in input and output, and where it begins itself. */
typedef struct window {
    int64_t in_y, in_x, out_y, out_x;
    int64_t y, x, height, width;
} window;

/* Rows of a rectangle, which threads read or write. */
typedef struct copying {
    const zn_runner_io *io;
    zn_region region;
    float *read; /* NULL: write */
    const float *write;
    size_t stride;
} copying;

static void copy_rows(const void *args, zn_range rows)
{
    const copying *c = args;
    zn_region part = c->region;
    part.y += (int)rows.begin;
    part.height = (int)(rows.end - rows.begin);
    if (c->read)
        c->io->read(c->io->from, part, c->read + (size_t)rows.begin * c->stride);
    else
        c->io->write(c->io->to, part, c->write + (size_t)rows.begin * c->stride, c->stride);
}

static void copy_all(const zn_runner *r, const copying *c)
{
    enum { FLOATS = 1 << 16 }; /* of a piece */
    zn_pool_run(r->options.pool, c->region.height, 1 + (int64_t)(FLOATS / c->stride), copy_rows, c, NULL, 0);
}

static void read_region(const zn_runner *r, const zn_stage *st, const zn_runner_io *io, zn_region region, float *to)
{
    copy_all(r, &(copying){ io, region, .read = to, .stride = (size_t)region.width * (size_t)zn_channels(st->input) });
}

static void write_region(const zn_runner *r, const zn_runner_io *io, zn_region region, const float *from, size_t stride)
{
    copy_all(r, &(copying){ io, region, .write = from, .stride = stride });
}

static zn_status run_tile(zn_runner *r, zn_stage *st, const window *w, const zn_runner_io *io)
{
    const size_t stride = (size_t)(st->output->shape.dim[2] * st->output->shape.dim[3]);
    read_region(r, st, io, (zn_region){ (int)w->in_x, (int)w->in_y, (int)st->x.window, (int)st->y.window },
                st->input->data);
    ZN_TRY(run_window(r, st, st->flops));
    const float *from =
        st->output->data + (size_t)(w->y - w->out_y) * stride + (size_t)((w->x - w->out_x) * st->output->shape.dim[3]);
    write_region(r, io, (zn_region){ (int)w->x, (int)w->y, (int)w->width, (int)w->height }, from, stride);
    return ZN_OK;
}

static zn_status run_bands(zn_runner *r, zn_stage *st, const window *w, const zn_runner_io *io)
{
    const int64_t channels = st->output->shape.dim[3];
    for (int i = 0; i < zn_bands_count(st->bands); i++) {
        int64_t first, rows;
        float *fresh = zn_bands_input(st->bands, i, &first, &rows);
        if (rows)
            read_region(r, st, io, (zn_region){ (int)w->in_x, (int)first, (int)st->x.window, (int)rows }, fresh);
        zn_bands_begin(st->bands, i);
        ZN_TRY(run_window(r, st, zn_bands_band_flops(st->bands, i)));
        const float *from = zn_bands_output(st->bands, i, &first, &rows);
        write_region(r, io, (zn_region){ (int)w->x, (int)first, (int)w->width, (int)rows },
                     from + (w->x - w->out_x) * channels, (size_t)(st->output->shape.dim[2] * channels));
    }
    return ZN_OK;
}

static zn_status run_stage(zn_runner *r, zn_stage *st, const zn_runner_io *io)
{
    for (int64_t ty = 0; ty < st->y.tiles; ty++)
        for (int64_t tx = 0; tx < st->x.tiles; tx++) {
            window w = { .y = ty * st->y.tile, .x = tx * st->x.tile };
            w.height = zn_least(st->y.tile, st->y.out - w.y);
            w.width = zn_least(st->x.tile, st->x.out - w.x);
            ZN_TRY(zn_stage_window(st, &st->y, ty, &w.in_y, &w.out_y));
            ZN_TRY(zn_stage_window(st, &st->x, tx, &w.in_x, &w.out_x));
            ZN_TRY(st->bands ? run_bands(r, st, &w, io) : run_tile(r, st, &w, io));
        }
    return ZN_OK;
}

/* The executor goes: the next stage's takes its place in memory. */
static void stage_stop(zn_stage *st)
{
    zn_exec_free(st->exec);
    st->exec = NULL;
    if (st->bands)
        zn_bands_release(st->bands);
    st->input->data = NULL; /* it was the executor's; the next one must give it memory again */
}

static void drop_result(zn_stage *st)
{
    zn_free(st->result);
    st->result = NULL;
}

/* Gives back what a run that failed or was cut off has left. */
static void give_up(zn_runner *r)
{
    for (int i = 0; i < r->count; i++) {
        if (r->count > 1 && r->stages[i].exec)
            stage_stop(&r->stages[i]);
        else if (r->stages[i].bands)
            zn_bands_release(r->stages[i].bands);
        drop_result(&r->stages[i]);
    }
}

/* A map stays until the stage after it has read it. */
static zn_status run_stages(zn_runner *r, const zn_runner_io *io)
{
    map maps[2] = { 0 }; /* what the stage reads and leaves, in turns */
    for (int i = 0; i < r->count; i++) {
        zn_stage *st = &r->stages[i];
        const bool last = i + 1 == r->count;
        const zn_shape shape = st->segment.to->shape;
        if (!last)
            ZN_TRY(zn_alloc_for("a feature map", zn_map_bytes(shape), (void **)&st->result));
        maps[i % 2] = (map){ st->result, shape.dim[2], shape.dim[3] };
        ZN_TRY(stage_start(r, st));
        ZN_TRY(run_stage(r, st,
                         &(zn_runner_io){ .read = i ? read_map : io->read,
                                          .from = i ? &maps[(i + 1) % 2] : io->from,
                                          .write = last ? io->write : write_map,
                                          .to = last ? io->to : &maps[i % 2] }));
        if (r->count > 1)
            stage_stop(st);
        else if (st->bands) /* whoever has little memory needs it to write the result */
            zn_bands_release(st->bands);
        if (i > 0)
            drop_result(&r->stages[i - 1]);
    }
    return ZN_OK;
}

zn_status zn_runner_stream(zn_runner *r, const zn_runner_io *io)
{
    r->done = 0;
    const zn_status status = run_stages(r, io);
    if (status != ZN_OK)
        give_up(r);
    return status;
}

zn_status zn_runner_run(zn_runner *r)
{
    r->done = 0;
    if (runs_at_once(r))
        return run_window(r, &r->stages[0], r->stages[0].flops);
    map in = { r->input, r->input_shape.dim[2], r->input_shape.dim[3] };
    map out = { r->output, r->output_shape.dim[2], r->output_shape.dim[3] };
    return zn_runner_stream(r, &(zn_runner_io){ .read = read_map, .from = &in, .write = write_map, .to = &out });
}
