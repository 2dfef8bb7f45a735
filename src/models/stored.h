/* Networks whose parameters stay in their files: matrices are used where they lie, mapped and packed; the rest, which
 * is little, becomes floats of the graph.
 *
 *     zn_stored s = { files, 3, zn_zimage_place, &naming };
 *     ZN_TRY(zn_stored_bind(&s, graph));                    // the files must outlive the graph */
#ifndef ZN_STORED_H
#define ZN_STORED_H

#include "graph/graph.h"

#include <zenith/weights.h>

/* The tensor that holds a parameter, alone or as one of several equal parts, consecutively. */
typedef struct zn_place {
    char name[224];
    int part, parts;
} zn_place;

typedef struct zn_stored {
    const zn_weights *const *files;
    int count;
    /* Turns our name of a parameter, which `out` holds, into the files' own; NULL: they are the same. */
    void (*place)(const void *self, zn_place *out);
    const void *self;
} zn_stored;

/* The tensor of our parameter `name` and its place (may be NULL), or NULL if there is none; the file it is in. */
const zn_weight *zn_stored_find(const zn_stored *s, const char *name, zn_place *place, const zn_weights **file);
/* Side `side` of the stored tensor of a parameter; 0 if it has none, or one beyond any network (2^24). */
int64_t zn_stored_side(const zn_stored *s, const char *name, int side);

/* The text before `ending` in the first name of a tensor that ends with it, if there is one and prefix[size] holds
 * it. */
bool zn_find_prefix(const zn_weights *const *files, int count, const char *ending, char *prefix, size_t size);

/* The tensor called so after the prefix, or NULL if there is none. */
__attribute__((format(printf, 3, 4))) const zn_weight *zn_find_after(const zn_weights *w, const char *prefix,
                                                                     const char *format, ...);

/* Gives every parameter of the graph that has no values its own. Sides of 1 do not matter: [1,C] is as good as
 * [C], a convolution of 1x1 as good as a matrix. */
ZN_MUST_USE zn_status zn_stored_bind(const zn_stored *s, zn_graph *g);

#endif
