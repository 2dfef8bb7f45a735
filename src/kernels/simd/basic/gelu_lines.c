/* GELU of lines of sixteen floats, on vectors. */
#include "kernels/simd/basic/gelu.h"

/* Vector u of a block that starts at line i. */
VEC_INLINE int64_t line_of(int64_t i, int u) { return i + u * VEC_LANES / GELU_LINE; }

VEC_INLINE void gelu_row(const float *x, int64_t lines, float *y, int64_t step)
{
    for (int64_t i = 0; i < lines; i += GELU_BLOCK / GELU_LINE) {
        vec v[GELU_U];
        GELU_EACH v[u] = line_of(i, u) < lines ? vec_load(x + i * GELU_LINE + u * VEC_LANES) : vec_splat(0);
        gelu(v);
        GELU_EACH if (line_of(i, u) < lines) vec_store(y + line_of(i, u) * step + u * VEC_LANES % GELU_LINE, v[u]);
    }
}

void ZN_KERNEL(gelu_lines)(const gelu_walk *w)
{
    for (int64_t i = 0; i < w->rows; i++)
        gelu_row(w->x + i * w->x_row, w->lines, w->y + i * w->y_row, w->y_step);
}
