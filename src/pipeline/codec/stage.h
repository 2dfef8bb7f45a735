/* Stages: a segment of a network, run whole, in bands of rows (bands.h), or in windows of one size. A window holds a
 * tile and everything the tile depends on; at the borders windows are pushed inside the map, so the zero padding of the
 * network falls where it would without tiles. Bands may be those of strips, which are windows as high as the map.
 *
 *     zn_stage st;
 *     ZN_TRY(zn_stage_build(whole, &segment, tile, tile, &prepare, &st)); // st.graph: one window, fused
 *     ZN_TRY(zn_stage_window(&st, &st.y, t, &in, &out));              // where tile t's window begins
 *     zn_stage_clear(&st); */
#ifndef ZN_STAGE_H
#define ZN_STAGE_H

#include "graph/exec.h"
#include "pipeline/codec/bands.h"
#include "pipeline/codec/segment.h"

/* One axis of a tiled segment. */
typedef struct zn_axis {
    int64_t in, out;     /* lengths of the whole map */
    int64_t tile, tiles; /* output positions for each tile, number of tiles */
    int64_t window;      /* input positions for each window */
    int64_t alignment;   /* windows start at multiples of it */
} zn_axis;

typedef struct zn_stage {
    zn_segment segment;
    zn_prepare prepare; /* the kernels whose blocks and reach windows follow */
    zn_graph *graph;
    zn_node *input, *output;
    zn_exec *exec;
    zn_axis y, x;
    zn_bands *bands; /* NULL: a window is run at once */
    double flops;    /* of one window */
    size_t bytes;    /* estimate */
    size_t packed;   /* its packed weights, which are part of it */
    float *result;   /* whole output map, while the next stage reads it */
} zn_stage;

/* Plans a segment of `whole` for tiles of height x width output positions (0: whole) and builds the graph of a window.
 */
ZN_MUST_USE zn_status zn_stage_build(zn_graph *whole, const zn_segment *s, int64_t height, int64_t width,
                                     const zn_prepare *p, zn_stage *st);
/* Has the windows of a stage that was built run in bands of `rows` output rows, if that is possible. */
ZN_MUST_USE zn_status zn_stage_use_bands(zn_stage *st, int64_t rows, bool *possible);
/* Sets st->bytes: everything that a run of the stage needs and `maps` bytes beside it. packed: bytes of the packed
 * weights that are there meanwhile, those of this stage among them; 0: only these. */
ZN_MUST_USE zn_status zn_stage_measure(zn_stage *st, size_t maps, size_t packed);
double zn_stage_work(const zn_stage *st); /* operations of all windows; negative: out of memory */
/* First input position of tile t's window on an axis, and the output position that corresponds to it. */
ZN_MUST_USE zn_status zn_stage_window(const zn_stage *st, const zn_axis *a, int64_t t, int64_t *in, int64_t *out);
void zn_stage_clear(zn_stage *st);

bool zn_stage_tiled(const zn_stage *st); /* more than one window */
size_t zn_map_bytes(zn_shape s);

#endif
