/* Convolutions over time that are chains of smaller ones, of low rank for example: which layers, by the names that the
 * owner of their parameters knows.
 *
 *     zn_graph_set_splits(g, "student.", &splits);
 *     zn_graph_split(g, "student.decoder.conv1");     // that of decoder.conv1, or NULL */
#ifndef ZN_GRAPH_SPLITS_H
#define ZN_GRAPH_SPLITS_H

#include "graph/graph.h"

enum { ZN_LINKS = 3 };
typedef struct zn_link {
    int taps, side, out;       /* taps x side x side, each 1 or 3, to `out` channels */
    const char *weight, *bias; /* what the owner calls the parameters, for itself; bias NULL: there is none */
} zn_link;
typedef struct zn_split {
    const char *layer; /* its links are layer.factors.0 and so on */
    int count;
    zn_link link[ZN_LINKS];
} zn_split;
typedef struct zn_splits {
    zn_split *all;
    int count;
    size_t capacity;
} zn_splits;

/* The owner of the layers whose names begin with `prefix` has these splits, which are borrowed. */
void zn_graph_set_splits(zn_graph *g, const char *prefix, const zn_splits *splits);
/* How a layer is divided; NULL: not at all. */
const zn_split *zn_graph_split(const zn_graph *g, const char *layer);

#endif
