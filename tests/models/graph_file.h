/* The parameters of a graph as the bytes of a .safetensors file, under any naming: for tests of networks that read them
 * where they lie. */
#ifndef ZN_TESTS_GRAPH_FILE_H
#define ZN_TESTS_GRAPH_FILE_H

#include "models/stored.h"

typedef struct file {
    uint8_t *bytes; /* zn_free */
    size_t size;
} file;

/* Parameters of a filled graph under the names that `place` gives; fused parts follow each other in the graph, so that
 * they make one tensor. */
file file_of(zn_graph *g, void (*place)(const void *naming, zn_place *out), const void *naming);

#endif
