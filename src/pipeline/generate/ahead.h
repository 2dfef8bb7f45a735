/* Weights in mapped files, read ahead of their use and, where memory is short, released after it.
 *
 *     zn_ahead a = { 0 };
 *     zn_exec_options o = { .pool = pool };
 *     ZN_TRY(zn_ahead_start(&a, graph, &stored, release, &o));     // sets o.enter
 *     ...                                                          // zn_exec_run, any number of times
 *     zn_ahead_end(&a);
 *
 * A device gets all weights when the executor is created, so nothing is read ahead for it. */
#ifndef ZN_GENERATE_AHEAD_H
#define ZN_GENERATE_AHEAD_H

#include "base/file.h"
#include "graph/exec.h"
#include "models/stored.h"

/* Bytes of a matrix, and the first and the last node that read them. */
typedef struct zn_ahead_piece {
    const zn_map *map;
    const void *from;
    size_t bytes;
    int first, last;
} zn_ahead_piece;

typedef struct zn_ahead {
    zn_ahead_piece *piece; /* in the order of first use */
    size_t capacity;
    int64_t count;
    bool release;
    /* Numbers of pieces, counted on from run to run: that is used now, first that is not asked for, first that is not
     * released. */
    int64_t now, asked, released;
    int64_t run;
    int node;    /* that was entered last in this run */
    size_t lead; /* bytes of [now,asked) */
} zn_ahead;

/* The graph's parameters must be bound to the files of `weights`, which outlive it. */
ZN_MUST_USE zn_status zn_ahead_start(zn_ahead *a, const zn_graph *g, const zn_stored *weights, bool release,
                                     zn_exec_options *options);
void zn_ahead_end(zn_ahead *a); /* harmless on a zeroed one */

#endif
