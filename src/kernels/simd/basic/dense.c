/* The dense product with few rows, fp32. A unit owns a strip of the weights and processes it piece by piece. Each
 * piece is loaded from memory once, copied into panels for gemm.h, and multiplied with all rows. (The rows of large
 * weights are a multiple of the cache size apart, so they would evict each other if they were used in place.) */
#include "kernels/dense.h"
#include "base/least.h"
#include "kernels/simd/conv/gemm.h"
#include "kernels/simd/vec_math.h"

void ZN_KERNEL(dense)(const void *args, zn_range r);
void ZN_KERNEL(dense_grad)(const void *args, zn_range r);
void ZN_KERNEL(dense_weight_grad)(const void *args, zn_range r);

enum {
    GROUP = ZN_DENSE_GROUP,
    STRIP = ZN_DENSE_STRIP,
    INPUTS = ZN_DENSE_INPUTS,
    DEPTH = 64,                   /* inputs in a piece of the weights, or rows in a piece of dy */
    PANELS = (DEPTH + 1) * STRIP, /* floats; one extra row avoids cache conflicts between panels, and */
    SUMS = STRIP + 16,            /* one extra line avoids them between rows of sums */
    AHEAD = 4,                    /* rows to prefetch */
    GRAD_DEPTH = 256,             /* outputs in a piece for dx */
    DOT_ROWS = VEC_REGISTERS == 32 ? 4 : 3,
    DOT_INPUTS = VEC_REGISTERS == 32 ? 4 : 3,
};
_Static_assert(sizeof(float) * (PANELS + GROUP * (DEPTH + SUMS)) <= ZN_DENSE_SCRATCH, "pieces of w and x, and sums");
_Static_assert(sizeof(float) * (PANELS + DEPTH * INPUTS) <= ZN_DENSE_SCRATCH, "pieces of dy and x");
_Static_assert(sizeof(float) * GROUP * (INPUTS * VEC_LANES + GRAD_DEPTH) <= ZN_DENSE_SCRATCH, "sums and a piece of dy");

static void fetch(const float *from, int floats)
{
    for (int j = 0; j < floats; j += 16)
        __builtin_prefetch(from + j, 0, 2);
}

/* panels[columns / GEMM_NR][rows][GEMM_NR] from a piece whose rows are `stride` floats apart. */
static void pack(const float *from, int64_t stride, int rows, int columns, float *panels)
{
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j += GEMM_NR) {
            const int across = zn_least(GEMM_NR, columns - j);
            __builtin_prefetch(from + (i + AHEAD) * stride + j, 0, 3);
            float *to = panels + (int64_t)j * (DEPTH + 1) + i * across;
            for (int k = 0; k < across; k += VEC_LANES)
                vec_store(to + k, vec_load(from + i * stride + j + k));
        }
}

static void forward(const zn_dense_args *a, int64_t first, int rows, int column, int columns, float *panels)
{
    float *x = panels + PANELS, *sums = x + GROUP * DEPTH;
    const int padded = (rows + GEMM_MR - 1) / GEMM_MR * GEMM_MR; /* whole blocks are faster */
    memset(x, 0, sizeof(float) * GROUP * DEPTH);
    for (int t = 0; t < padded; t++)
        for (int j = 0; j < columns; j += VEC_LANES)
            vec_store(sums + t * SUMS + j, a->bias ? vec_load(a->bias + column + j) : vec_splat(0));
    for (int i = 0; i < a->k; i += DEPTH) {
        const int depth = zn_least(DEPTH, a->k - i);
        const float *w = a->w + (int64_t)i * a->n + column;
        pack(w, a->n, depth, columns, panels);
        for (int t = 0; t < rows; t++)
            memcpy(x + t * DEPTH, a->x + (first + t) * a->k + i, sizeof(float) * (size_t)depth);
        const gemm_args g = { .a = x,
                              .b = panels,
                              .c = sums,
                              .row = DEPTH,
                              .c_row = SUMS,
                              .segments = 1,
                              .k = depth,
                              .depth = DEPTH + 1,
                              .more = true };
        ZN_KERNEL(gemm)(&g, padded, columns);
    }
    for (int t = 0; t < rows; t++)
        memcpy(a->y + (first + t) * a->n + column, sums + t * SUMS, sizeof(float) * (size_t)columns);
}

void ZN_KERNEL(dense)(const void *args, zn_range r)
{
    const zn_dense_args *a = args;
    const int64_t strips = zn_dense_parts(a->n, STRIP);
    for (int64_t u = r.begin; u < r.end; u++) {
        const int64_t first = u / strips * GROUP;
        const int column = (int)(u % strips) * STRIP;
        forward(a, first, zn_least(GROUP, a->rows - first), column, zn_least(STRIP, a->n - column), r.scratch);
    }
}

/* sums[p][i][lane] += dy[p][..] * w[i][..] over `depth` outputs: np rows of dy, ni rows of the weights. */
VEC_INLINE void dots(const int np, const int ni, const float *dy, const float *w, int64_t n, int depth, float *sums)
{
    vec acc[DOT_ROWS][DOT_INPUTS];
#pragma GCC unroll 4
    for (int p = 0; p < np; p++)
#pragma GCC unroll 4
        for (int i = 0; i < ni; i++)
            acc[p][i] = vec_load(sums + (p * INPUTS + i) * VEC_LANES);
    for (int j = 0; j < depth; j += VEC_LANES) {
        vec b[DOT_INPUTS];
#pragma GCC unroll 4
        for (int i = 0; i < ni; i++)
            b[i] = vec_load(w + i * n + j);
#pragma GCC unroll 4
        for (int p = 0; p < np; p++) {
            const vec d = vec_load(dy + p * GRAD_DEPTH + j);
#pragma GCC unroll 4
            for (int i = 0; i < ni; i++)
                acc[p][i] = vec_fma(d, b[i], acc[p][i]);
        }
    }
#pragma GCC unroll 4
    for (int p = 0; p < np; p++)
#pragma GCC unroll 4
        for (int i = 0; i < ni; i++)
            vec_store(sums + (p * INPUTS + i) * VEC_LANES, acc[p][i]);
}

static void dots_of(int np, int ni, const float *dy, const float *w, int64_t n, int depth, float *sums)
{
    if (np == DOT_ROWS && ni == DOT_INPUTS)
        dots(DOT_ROWS, DOT_INPUTS, dy, w, n, depth, sums);
    else
        for (int p = 0; p < np; p++)
            for (int i = 0; i < ni; i++)
                dots(1, 1, dy + p * GRAD_DEPTH, w + i * n, n, depth, sums + (p * INPUTS + i) * VEC_LANES);
}

static void grad(const zn_dense_args *a, int64_t first, int rows, int input, int inputs, float *sums)
{
    const float *w = a->w + (int64_t)input * a->n;
    float *dy = sums + GROUP * INPUTS * VEC_LANES;
    memset(sums, 0, sizeof(float) * GROUP * INPUTS * VEC_LANES);
    for (int j = 0; j < a->n; j += GRAD_DEPTH) {
        const int depth = zn_least(GRAD_DEPTH, a->n - j), next = zn_least(GRAD_DEPTH, a->n - j - depth);
        for (int p = 0; p < rows; p++)
            memcpy(dy + p * GRAD_DEPTH, a->dy + (first + p) * a->n + j, sizeof(float) * (size_t)depth);
        for (int i = 0; i < inputs; i += DOT_INPUTS) {
            const int ni = zn_least(DOT_INPUTS, inputs - i);
            for (int k = 0; k < ni; k++)
                fetch(w + (int64_t)(i + k) * a->n + j + depth, next);
            for (int p = 0; p < rows; p += DOT_ROWS)
                dots_of(zn_least(DOT_ROWS, rows - p), ni, dy + p * GRAD_DEPTH, w + (int64_t)i * a->n + j, a->n, depth,
                        sums + (p * INPUTS + i) * VEC_LANES);
        }
    }
    for (int p = 0; p < rows; p++)
        for (int i = 0; i < inputs; i++)
            a->y[(first + p) * a->k + input + i] = vec_sum(vec_load(sums + (p * INPUTS + i) * VEC_LANES));
}

void ZN_KERNEL(dense_grad)(const void *args, zn_range r)
{
    const zn_dense_args *a = args;
    const int64_t strips = zn_dense_parts(a->k, INPUTS);
    for (int64_t u = r.begin; u < r.end; u++) {
        const int64_t first = u / strips * GROUP;
        const int input = (int)(u % strips) * INPUTS;
        grad(a, first, zn_least(GROUP, a->rows - first), input, zn_least(INPUTS, a->k - input), r.scratch);
    }
}

/* dw for some inputs: their columns of x, transposed, are the multipliers of dy. Rows past the last are zero. */
static void weight_grad(const zn_dense_args *a, int input, int inputs, float *scratch)
{
    float *panels = scratch, *turned = scratch + PANELS;
    for (int64_t p = 0; p < a->rows; p += DEPTH) {
        const int depth = zn_least(DEPTH, a->rows - p), padded = (depth + 7) / 8 * 8;
        memset(turned, 0, sizeof(float) * DEPTH * INPUTS);
        for (int k = 0; k < depth; k++)
            for (int i = 0; i < inputs; i++)
                turned[i * padded + k] = a->x[(p + k) * a->k + input + i];
        for (int j = 0; j < a->n; j += STRIP) {
            const int columns = zn_least(STRIP, a->n - j);
            memset(panels, 0, padded > depth ? sizeof(float) * (size_t)(padded * columns) : 0);
            for (int column = 0; column < columns; column += GEMM_NR) /* a panel has the padded depth */
                pack(a->dy + p * a->n + j + column, a->n, depth, zn_least(GEMM_NR, columns - column),
                     panels + (int64_t)padded * column);
            const gemm_args g = { .a = turned,
                                  .b = panels,
                                  .c = a->y + (int64_t)input * a->n + j,
                                  .row = padded,
                                  .c_row = a->n,
                                  .segments = 1,
                                  .k = padded,
                                  .depth = padded,
                                  .more = p > 0 };
            ZN_KERNEL(gemm)(&g, inputs, columns);
        }
    }
}

void ZN_KERNEL(dense_weight_grad)(const void *args, zn_range r)
{
    const zn_dense_args *a = args;
    for (int64_t u = r.begin; u < r.end; u++) {
        const int input = (int)u * INPUTS;
        weight_grad(a, input, zn_least(INPUTS, a->k - input), r.scratch);
    }
}
