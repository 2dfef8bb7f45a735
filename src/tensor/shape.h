/* Shapes. Tensors are dense fp32 in row-major order: [N,H,W,C] for images, [kh,kw,in,out] for weights. */
#ifndef ZN_SHAPE_H
#define ZN_SHAPE_H

#include <stdbool.h>
#include <stdint.h>
#include <zenith/weights.h>

typedef struct zn_shape {
    int rank;
    int64_t dim[ZN_MAX_RANK];
} zn_shape;

#define ZN_SHAPE(...)                                                                                                  \
    ((zn_shape){ .rank = (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), .dim = { __VA_ARGS__ } })

static inline int64_t zn_shape_count(zn_shape s)
{
    int64_t n = 1;
    for (int i = 0; i < s.rank; i++)
        n *= s.dim[i];
    return n;
}

static inline bool zn_shape_equal(zn_shape a, zn_shape b)
{
    if (a.rank != b.rank)
        return false;
    for (int i = 0; i < a.rank; i++)
        if (a.dim[i] != b.dim[i])
            return false;
    return true;
}

/* Writes "1x64x64x4" to text[size] and returns text. */
char *zn_shape_text(zn_shape s, char *text, int size);

#endif
