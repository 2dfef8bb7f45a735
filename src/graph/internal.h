/* Shared by the files of graph/ only. */
#ifndef ZN_GRAPH_INTERNAL_H
#define ZN_GRAPH_INTERNAL_H

#include "graph/graph.h"

#include <stdio.h>

struct zn_graph {
    zn_arena arena;
    zn_node **nodes;
    int count;
    size_t capacity;
    const char *layer;
    int64_t largest; /* lower bound for the result of zn_graph_largest_map */
    zn_status status;
    char text[1100];
    zn_node poison;
};

#endif
