/* The product in bf16 in the vector build: both factors are widened to fp32, a lane for each row of a panel. */
#include "kernels/simd/basic/matrix_bf16.h"

#include "base/convert.h"

void ZN_KERNEL(matrix_bf16)(const void *args, zn_range r);

enum { TALL = 2, WIDE = PANEL / VEC_LANES }; /* outputs and vectors computed at a time */
_Static_assert(SIDE % TALL == 0 && PANEL % VEC_LANES == 0, "the outputs are in one tile, rows in whole vectors");

/* Unpacks and rounds the weights of a piece; those that pad it are zero. */
static void unpack(const piece *p, scratch *t)
{
    zn_packed stored = p->a->w;
    stored.rotated = 0; /* x is rotated instead */
    for (int c = 0; c < STRIP; c++) {
        uint16_t rounded[DEPTH];
        float *line = t->w.lines[c];
        memset(line, 0, sizeof t->w.lines[c]);
        if (c >= p->columns)
            continue;
        zn_packed_row(&stored, p->column + c, p->first, p->depth, line);
        zn_from_f32(rounded, ZN_BF16, line, (size_t)p->depth);
        zn_to_f32(line, rounded, ZN_BF16, (size_t)p->depth);
    }
}

/* Widens `depth` inputs of a panel. */
static void widen(const uint16_t *x, int depth, scratch *t)
{
    for (int k = 0; k < depth; k++)
        for (int r = 0; r < PANEL; r++)
            t->x[k][r] = zn_bf16_to_f32(x[(k / RUN * PANEL + r) * RUN + k % RUN]);
}

static void multiply_panel(const float (*x)[PANEL], const float *w, int depth, bool more, float *sums)
{
    vec sum[TALL][WIDE];
    for (int j = 0; j < TALL; j++)
        for (int v = 0; v < WIDE; v++)
            sum[j][v] = more ? vec_load(sums + j * PANEL + v * VEC_LANES) : vec_splat(0);
    for (int k = 0; k < depth; k++)
        for (int v = 0; v < WIDE; v++)
            for (int j = 0; j < TALL; j++)
                sum[j][v] = vec_fma(vec_load(x[k] + v * VEC_LANES), vec_splat(w[j * DEPTH + k]), sum[j][v]);
    for (int j = 0; j < TALL; j++)
        for (int v = 0; v < WIDE; v++)
            vec_store(sums + j * PANEL + v * VEC_LANES, sum[j][v]);
}

static void multiply(const piece *p, scratch *t)
{
    unpack(p, t);
    for (int i = 0; i < p->panels; i++) {
        widen(p->x + i * p->panel, p->depth, t);
        for (int c = 0; c < p->columns; c += TALL)
            multiply_panel((const float(*)[PANEL])t->x, t->w.lines[c], p->depth, p->first > 0,
                           t->sums[i][c / SIDE][c % SIDE]);
    }
}

void ZN_KERNEL(matrix_bf16)(const void *args, zn_range r) { matrix_bf16(args, multiply, put_tiles, r); }
