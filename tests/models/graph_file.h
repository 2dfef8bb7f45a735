/* Writes the parameters of a graph to the bytes of a .safetensors file, with any names. For tests of networks that read
 * weights in place. */
#ifndef ZN_TESTS_GRAPH_FILE_H
#define ZN_TESTS_GRAPH_FILE_H

#include "models/stored.h"

typedef struct file {
    uint8_t *bytes; /* zn_free */
    size_t size;
} file;

/* Stores the parameters of a filled graph under the names that `place` gives. Fused parts are consecutive in the graph,
 * so they form one tensor. */
file file_of(zn_graph *g, void (*place)(const void *naming, zn_place *out), const void *naming);

#endif
