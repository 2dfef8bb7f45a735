/* Stages: a segment of a network, run whole or in windows of one size. A window holds a tile and everything the tile
 * depends on; at the borders windows are pushed inside the map, so the zero padding of the network falls where it would
 * without tiles.
 *
 *     zn_stage st;
 *     ZN_TRY(zn_stage_build(whole, &segment, tile, &prepare, &st));   // st.graph: one window, fused
 *     ZN_TRY(zn_stage_window(&st, &st.y, t, &in, &out));              // where tile t's window begins
 *     zn_stage_clear(&st); */
#ifndef ZN_STAGE_H
#define ZN_STAGE_H

#include "graph/exec.h"
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
    double flops;  /* of one window */
    size_t bytes;  /* estimate */
    float *result; /* whole output map; NULL when the exec's own output is the whole map */
} zn_stage;

/* Plans a segment of `whole` for tiles of `tile` output positions (0: whole) and builds the graph of a window. */
ZN_MUST_USE zn_status zn_stage_build(zn_graph *whole, const zn_segment *s, int64_t tile, const zn_prepare *p,
                                     zn_stage *st);
/* Sets st->bytes; unless the stage is alone, the maps it reads and leaves behind are counted too. */
ZN_MUST_USE zn_status zn_stage_measure(zn_stage *st, bool alone);
/* First input position of tile t's window on an axis, and the output position that corresponds to it. */
ZN_MUST_USE zn_status zn_stage_window(const zn_stage *st, const zn_axis *a, int64_t t, int64_t *in, int64_t *out);
void zn_stage_clear(zn_stage *st);

bool zn_stage_tiled(const zn_stage *st);
size_t zn_map_bytes(zn_shape s);

#endif
