/* Cutting a network into segments that can be tiled exactly.
 *
 * A cut is a node through which everything flows: whatever comes after it depends on nothing before it but the cut.
 * Segments end where the resolution changes and around ops that look at the whole map (group norm), so that each needs
 * only the overlap of its own few layers, and a global op always sees its whole input. */
#ifndef ZN_SEGMENT_H
#define ZN_SEGMENT_H

#include "graph/graph.h"

enum { ZN_MAX_SEGMENTS = 32 };

typedef struct zn_segment {
    const zn_node *from, *to; /* of the analysed graph */
    bool global;              /* must run whole */
} zn_segment;

/* Splits the chain from input to output; returns the number of segments, at least 1. Fails with ZN_ENOMEM only. */
ZN_MUST_USE zn_status zn_segments_find(const zn_graph *g, const zn_node *input, const zn_node *output,
                                       zn_segment segments[ZN_MAX_SEGMENTS], int *count);

/* Makes one of neighbours that need not run whole: for bands, of which longer segments need no more overlap. */
void zn_segments_join(zn_segment segments[ZN_MAX_SEGMENTS], int *count);

/* Positions [*lo,*hi) of input along an axis that output positions [*lo,*hi) depend on, down to the last bit; may reach
 * beyond the map. g is the segment's own graph, fused. Fails with ZN_ENOMEM only. */
ZN_MUST_USE zn_status zn_segment_reach(const zn_graph *g, const zn_node *input, const zn_node *output,
                                       const zn_prepare *p, int64_t *lo, int64_t *hi);

/* A window of the segment's input must start at a multiple of this for its arithmetic to be that of the whole map. */
int64_t zn_segment_alignment(const zn_graph *g, const zn_node *input, const zn_prepare *p);

#endif
