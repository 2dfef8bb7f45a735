/* Grouped 1x1 convolution as one product (gemm.h) per group. Groups narrower than a vector are merged, with zeros
 * where an input and an output belong to different groups, so that few lanes are idle. The input gradient is the
 * same product with transposed weights. */
#include "kernels/mix.h"
#include "kernels/simd/conv/group_product.h"
#include "kernels/simd/vec.h"
#include "kernels/simd/vec_math.h"

/* The product that sums over rows (pixels), for weight gradients:
 *
 *     c[i][j] += sum over p of a[p][i] * b[p][j]        i < high, j < wide, p < rows
 *
 * Blocks of 4 x RANK_NV vectors of c stay in registers while p runs; each element is summed in the order of p. */

#define RANK_NV (VEC_REGISTERS / 8)
enum { RANK_MR = 4 };

typedef struct rank_args {
    const float *a, *b;
    float *c;
    int64_t a_row, b_row, c_row; /* strides in floats */
    int rows;
} rank_args;

VEC_INLINE vec rank_load(const float *p, int n) { return n == VEC_LANES ? vec_load(p) : vec_load_part(p, n); }

/* mr and nv are compile-time constants at every call; the last vector has `last` lanes. */
VEC_INLINE void rank_block(const int mr, const int nv, const rank_args *in, const float *a, const float *b, float *c,
                           int last)
{
    vec acc[RANK_MR][RANK_NV];
#pragma GCC unroll 4
    for (int i = 0; i < mr; i++)
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++)
            acc[i][j] = rank_load(c + i * in->c_row + j * VEC_LANES, j == nv - 1 ? last : VEC_LANES);
    for (int p = 0; p < in->rows; p++, a += in->a_row, b += in->b_row) {
        vec bj[RANK_NV];
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++)
            bj[j] = rank_load(b + j * VEC_LANES, j == nv - 1 ? last : VEC_LANES);
#pragma GCC unroll 4
        for (int i = 0; i < mr; i++) {
            const vec m = vec_splat(a[i]);
#pragma GCC unroll 4
            for (int j = 0; j < nv; j++)
                acc[i][j] = vec_fma(m, bj[j], acc[i][j]);
        }
    }
#pragma GCC unroll 4
    for (int i = 0; i < mr; i++) {
#pragma GCC unroll 4
        for (int j = 0; j < nv - 1; j++)
            vec_store(c + i * in->c_row + j * VEC_LANES, acc[i][j]);
        float *end = c + i * in->c_row + (nv - 1) * VEC_LANES;
        if (last == VEC_LANES)
            vec_store(end, acc[i][nv - 1]);
        else
            vec_store_part(end, acc[i][nv - 1], last);
    }
}

#define RANK_ROWS(nv, last)                                                                                            \
    for (int i = 0; i < high;) {                                                                                       \
        const float *a = in->a + i;                                                                                    \
        float *c = in->c + i * in->c_row + j;                                                                          \
        if (high - i >= RANK_MR)                                                                                       \
            rank_block(RANK_MR, nv, in, a, in->b + j, c, last);                                                        \
        else                                                                                                           \
            rank_block(1, nv, in, a, in->b + j, c, last);                                                              \
        i += high - i >= RANK_MR ? RANK_MR : 1;                                                                        \
    }

static void rank_update(const rank_args *in, int high, int wide)
{
    int j = 0;
    for (; j + RANK_NV * VEC_LANES <= wide; j += RANK_NV * VEC_LANES)
        RANK_ROWS(RANK_NV, VEC_LANES)
#if RANK_NV > 2
    for (; j + 2 * VEC_LANES <= wide; j += 2 * VEC_LANES)
        RANK_ROWS(2, VEC_LANES)
#endif
    for (; j + VEC_LANES <= wide; j += VEC_LANES)
        RANK_ROWS(1, VEC_LANES)
    if (j < wide) {
        const int last = wide - j;
        RANK_ROWS(1, last)
    }
}
#undef RANK_ROWS

void ZN_KERNEL(grouped)(const void *args, zn_range r);
void ZN_KERNEL(grouped_grad)(const void *args, zn_range r);
void ZN_KERNEL(grouped_weight_grad)(const void *args, zn_range r);

void ZN_KERNEL(grouped)(const void *args, zn_range r)
{
    const zn_grouped_args *a = args;
    const int gi = a->cin / a->groups, go = a->cout / a->groups;
    const product q = product_of(a->w, a->groups, gi, go, 1, gi);
    float *packed = r.scratch, *c = pack(&q, packed);
    const bool direct = dense(&q) && !a->interleave;
    for (int64_t p = r.begin; p < r.end; p += ZN_GROUPED_PIXELS) {
        const int rows = least(ZN_GROUPED_PIXELS, r.end - p);
        float *y = a->y + p * a->cout, *to = direct ? y : c;
        const float *start = dense(&q) ? a->bias : NULL;
        multiply(&q, packed, a->x + p * a->cin, rows, to, q.total, start);
        for (int t = 0; t < rows && !direct; t++, y += a->cout) {
            float *row = c + (int64_t)t * q.total;
            close_gaps(&q, row);
            for (int o = 0; a->bias && !start && o < a->cout; o++)
                row[o] += a->bias[o];
            if (a->interleave)
                alternate(y, row, go, a->groups);
            else
                memcpy(y, row, sizeof(float) * (size_t)a->cout);
        }
    }
}

void ZN_KERNEL(grouped_grad)(const void *args, zn_range r)
{
    const zn_grouped_args *a = args;
    const int gi = a->cin / a->groups, go = a->cout / a->groups;
    const product q = product_of(a->w, a->groups, go, gi, gi, 1);
    float *packed = r.scratch, *c = pack(&q, packed);
    float *parted = c + (int64_t)ZN_GROUPED_PIXELS * q.total;
    for (int64_t p = r.begin; p < r.end; p += ZN_GROUPED_PIXELS) {
        const int rows = least(ZN_GROUPED_PIXELS, r.end - p);
        const float *dy = a->dy + p * a->cout;
        float *dx = a->y + p * a->cin, *to = dense(&q) ? dx : c;
        for (int t = 0; t < rows && a->interleave; t++)
            part(parted + (int64_t)t * a->cout, dy + (int64_t)t * a->cout, go, a->groups);
        multiply(&q, packed, a->interleave ? parted : dy, rows, to, q.total, NULL);
        for (int t = 0; t < rows && !dense(&q); t++) {
            close_gaps(&q, c + (int64_t)t * q.total);
            memcpy(dx + (int64_t)t * a->cin, c + (int64_t)t * q.total, sizeof(float) * (size_t)a->cin);
        }
    }
}

/* dw of one group over a block of pixels. */
void ZN_KERNEL(grouped_weight_grad)(const void *args, zn_range r)
{
    const zn_grouped_args *a = args;
    const int gi = a->cin / a->groups, go = a->cout / a->groups;
    const int64_t size = zn_sum_block(a->pixels);
    float *parted = r.scratch;
    for (int64_t unit = r.begin; unit < r.end; unit++) {
        const int64_t begin = unit / a->groups * size, end = begin + size < a->pixels ? begin + size : a->pixels;
        const int g = (int)(unit % a->groups);
        float *dw = a->partial + unit * go * gi;
        memset(dw, 0, sizeof(float) * (size_t)(go * gi));
        for (int64_t p = begin; p < end; p += ZN_GROUPED_PIXELS) {
            const int rows = least(ZN_GROUPED_PIXELS, end - p);
            rank_args o = { .a = a->dy + p * a->cout + g * go,
                            .b = a->x + p * a->cin + g * gi,
                            .c = dw,
                            .a_row = a->cout,
                            .b_row = a->cin,
                            .c_row = gi,
                            .rows = rows };
            if (a->interleave) {
                const float *dy = a->dy + p * a->cout + g;
                for (int t = 0; t < rows; t++, dy += a->cout)
                    for (int j = 0; j < go; j++)
                        parted[t * go + j] = dy[j * a->groups];
                o.a = parted;
                o.a_row = go;
            }
            rank_update(&o, go, gi);
        }
    }
}
