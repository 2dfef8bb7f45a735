/* Structural similarity of float maps, for tests: what zn_similarity_of says of maps in memory. */
#ifndef ZN_TESTS_SIMILARITY_H
#define ZN_TESTS_SIMILARITY_H

#include "io/image/pixels/similarity.h"
#include "tensor/shape.h"

typedef struct similar_maps {
    const float *a, *b;
    int h, w, c, edge;
    float range;
} similar_maps;

static inline void similar_row(void *self, int y, float *sum, float *difference)
{
    const similar_maps *m = self;
    for (int i = 0; i < (m->w + 2 * m->edge) * m->c; i++) {
        const int row = y - m->edge, at = i - m->edge * m->c;
        const int inside = row >= 0 && row < m->h && at >= 0 && at < m->w * m->c;
        const float a = inside ? m->a[row * m->w * m->c + at] : 0, b = inside ? m->b[row * m->w * m->c + at] : 0;
        sum[i] = a + b - m->range;
        difference[i] = a - b;
    }
}

/* Of [1,H,W,C] with `edge` zeros around, as PyTorch programs often have it. */
static inline zn_status similarity(const float *a, const float *b, zn_shape s, int edge, double range, double *out)
{
    similar_maps m = { a, b, (int)s.dim[1], (int)s.dim[2], (int)s.dim[3], edge, (float)range };
    const zn_similarity_rows rows = { m.h + 2 * edge, m.w + 2 * edge, m.c, range, similar_row, &m };
    return zn_similarity_of(&rows, out, NULL);
}

#endif
