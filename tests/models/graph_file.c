/* A safetensors file, written by hand. */
#include "graph_file.h"

#include "base/alloc.h"
#include "models/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

/* One tensor of the header; returns how long it is. */
static size_t describe(char *header, size_t capacity, const char *name, zn_shape s, size_t begin, size_t end)
{
    size_t used = (size_t)snprintf(header, capacity, "%c\"%s\":{\"dtype\":\"F32\",\"shape\":", begin ? ',' : '{', name);
    for (int i = 0; i < s.rank; i++)
        used += (size_t)snprintf(header + used, capacity - used, "%c%lld", i ? ',' : '[', (long long)s.dim[i]);
    return used + (size_t)snprintf(header + used, capacity - used, "],\"data_offsets\":[%zu,%zu]}", begin, end);
}

file file_of(zn_graph *g, void (*place)(const void *naming, zn_place *out), const void *naming)
{
    enum { ROOM = 1 << 16, DATA = 1 << 22 };
    char *header = zn_calloc(1, ROOM);
    float *data = zn_alloc(DATA);
    size_t used = 0, at = 0, begin = 0;
    assert_true(header && data);
    for (int i = 0; i < zn_graph_count(g); i++) {
        const zn_node *n = zn_graph_at(g, i);
        zn_place p = { .parts = 1 };
        if (n->op != &zn_op_parameter)
            continue;
        zn_shape s = zn_weight_file_shape(n->shape, n->layout);
        snprintf(p.name, sizeof p.name, "%s", n->name);
        place(naming, &p);
        zn_weight_export(n->data, n->shape, n->layout, data + at);
        at += (size_t)zn_shape_count(s);
        s.dim[0] *= p.parts;
        const size_t end = begin + sizeof *data * (size_t)zn_shape_count(s);
        if (p.part == 0) {
            used += describe(header + used, ROOM - used, p.name, s, begin, end);
            begin = end;
        }
    }
    header[used++] = '}';
    file f = { zn_calloc(1, 8 + used + begin), 8 + used + begin };
    for (int i = 0; i < 8; i++)
        f.bytes[i] = (uint8_t)((uint64_t)used >> 8 * i);
    memcpy(f.bytes + 8, header, used);
    memcpy(f.bytes + 8 + used, data, begin);
    zn_free(header);
    zn_free(data);
    return f;
}
