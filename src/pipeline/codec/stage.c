/* Windows and tiles of a segment. */
#include "pipeline/codec/stage.h"

#include "base/alloc.h"
#include "base/cpu.h"
#include "base/fail.h"
#include "base/least.h"
#include "ops/ops.h"

bool zn_stage_tiled(const zn_stage *st) { return st->y.tiles * st->x.tiles > 1; }
size_t zn_map_bytes(zn_shape s) { return sizeof(float) * (size_t)zn_shape_count(s); }

/* What tile t of an axis needs: [*lo,*hi) of the input, aligned and inside the map. */
static zn_status tile_needs(const zn_stage *st, const zn_axis *a, int64_t t, int64_t *lo, int64_t *hi)
{
    *lo = t * a->tile;
    *hi = zn_least(*lo + a->tile, a->out);
    ZN_TRY(zn_segment_reach(st->graph, st->input, st->output, &st->prepare, lo, hi));
    *lo = *lo < 0 ? 0 : *lo / a->alignment * a->alignment;
    *hi = zn_least(*hi, a->in);
    return ZN_OK;
}

/* The graph for windows of this size, fused. */
static zn_status window_graph(zn_graph *whole, zn_stage *st, int64_t height, int64_t width)
{
    zn_shape shape = st->segment.from->shape;
    shape.dim[1] = height;
    shape.dim[2] = width;
    zn_graph_free(st->graph);
    st->graph = zn_graph_extract(whole, st->segment.from, st->segment.to, shape, &st->input, &st->output);
    ZN_TRY(zn_graph_status(st->graph));
    zn_graph_fuse(st->graph, &st->output, 1);
    return ZN_OK;
}

/* All windows of an axis have one size. The last one ends at the map's end and must start at a multiple of the
 * alignment too, so the size leaves the same remainder as the map. */
static zn_status axis_plan(const zn_stage *st, int dim, int64_t tile, zn_axis *a)
{
    *a = (zn_axis){ .in = st->segment.from->shape.dim[dim], .out = st->segment.to->shape.dim[dim] };
    a->alignment = zn_segment_alignment(st->graph, st->input, &st->prepare);
    a->tile = tile <= 0 || tile > a->out ? a->out : tile;
    a->tiles = (a->out + a->tile - 1) / a->tile;
    for (int64_t t = 0; t < a->tiles && a->tiles > 1; t++) {
        int64_t lo, hi;
        ZN_TRY(tile_needs(st, a, t, &lo, &hi));
        a->window = hi - lo > a->window ? hi - lo : a->window;
    }
    a->window += ((a->in - a->window) % a->alignment + a->alignment) % a->alignment;
    if (a->tiles == 1 || a->window >= a->in)
        *a = (zn_axis){
            .in = a->in, .out = a->out, .tile = a->out, .tiles = 1, .window = a->in, .alignment = a->alignment
        };
    return ZN_OK;
}

zn_status zn_stage_build(zn_graph *whole, const zn_segment *s, int64_t height, int64_t width, const zn_prepare *p,
                         zn_stage *st)
{
    *st = (zn_stage){ .segment = *s, .prepare = *p };
    ZN_TRY(window_graph(whole, st, s->from->shape.dim[1], s->from->shape.dim[2]));
    ZN_TRY(axis_plan(st, 1, height, &st->y));
    ZN_TRY(axis_plan(st, 2, width, &st->x));
    return zn_stage_tiled(st) ? window_graph(whole, st, st->y.window, st->x.window) : ZN_OK;
}

zn_status zn_stage_use_bands(zn_stage *st, int64_t rows, bool *possible)
{
    zn_bands_free(st->bands);
    return zn_bands_new(st->graph, st->input, st->output, &st->prepare, rows, &st->bands, possible);
}

zn_status zn_stage_measure(zn_stage *st, size_t maps, size_t packed)
{
    size_t activations;
    ZN_TRY(zn_exec_estimate(st->graph, &st->output, 1, &st->prepare, &activations, &st->packed));
    st->bytes = (st->bands ? zn_bands_bytes(st->bands) : activations) + maps;
    st->bytes += st->packed > packed ? st->packed : packed;
    if (st->prepare.cpu & ZN_CPU_CUDA) /* where the host writes and reads them they are there once more */
        st->bytes += zn_map_bytes(st->input->shape) + zn_map_bytes(st->output->shape);
    return ZN_OK;
}

double zn_stage_work(const zn_stage *st)
{
    const double window = st->bands ? zn_bands_flops(st->bands) : zn_graph_flops(st->graph, st->output);
    return window * (double)(st->y.tiles * st->x.tiles);
}

void zn_stage_clear(zn_stage *st)
{
    zn_exec_free(st->exec);
    zn_bands_free(st->bands);
    zn_graph_free(st->graph);
    zn_free(st->result);
    *st = (zn_stage){ 0 };
}

zn_status zn_stage_window(const zn_stage *st, const zn_axis *a, int64_t t, int64_t *in, int64_t *out)
{
    int64_t lo, hi;
    ZN_TRY(tile_needs(st, a, t, &lo, &hi));
    *in = lo + a->window > a->in ? a->in - a->window : lo;
    *out = *in * a->out / a->in;
    return ZN_OK;
}
