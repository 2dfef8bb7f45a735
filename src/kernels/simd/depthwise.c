/* Depthwise 3x3: vectors run over channels, the nine weights of a vector stay in registers while a row of pixels goes
 * by. The gradient of the weights keeps nine sums the same way. Products are rounded before they are added (this file
 * is compiled without contraction), as in the reference and in the kernel that skips pruned blocks: all three give the
 * same bits. */
#include "kernels/mix.h"
#include "kernels/simd/vec_math.h"

void ZN_KERNEL(depthwise)(const void *args, zn_range r);
void ZN_KERNEL(depthwise_weight_grad)(const void *args, zn_range r);

VEC_INLINE vec load(const float *p, int n) { return n == VEC_LANES ? vec_load(p) : vec_load_part(p, n); }

enum { STRETCH = 64 }; /* pixels whose channels are gone through before the next ones: they stay in the L1 */

/* One row of one vector of channels: which kernel rows exist (ky in [from,to)), and where the first would begin. */
typedef struct strip {
    const float *x;
    int64_t at, line; /* float of kernel row 0; floats of a row */
    int from, to, wide, c;
    int lanes; /* of this vector */
} strip;

VEC_INLINE const float *tap_of(const strip *s, int ky, int x)
{
    return s->x + (s->at + ky * s->line + (int64_t)x * s->c);
}

static strip strip_of(const zn_depthwise_args *a, int64_t row, int k)
{
    const int y = (int)(row % a->h);
    const int64_t line = (int64_t)a->wide * a->c;
    return (strip){ .x = a->x,
                    .at = (row - 1) * line + k,
                    .line = line,
                    .from = y == 0 ? 1 : 0,
                    .to = y + 1 == a->h ? 2 : 3,
                    .wide = a->wide,
                    .c = a->c,
                    .lanes = a->c - k < VEC_LANES ? a->c - k : VEC_LANES };
}

/* Sum of the taps of pixel ox, kernel columns [left, right), all rows of the kernel that exist. */
VEC_INLINE vec taps(const strip *s, const vec w[9], int ox, int from, int to, int left, int right, int lanes, vec sum)
{
#pragma GCC unroll 3
    for (int ky = from; ky < to; ky++)
#pragma GCC unroll 3
        for (int kx = left; kx < right; kx++)
            sum = sum + w[3 * ky + kx] * load(tap_of(s, ky, ox + kx - 1), lanes);
    return sum;
}

/* Pixels [ox, end). from, to and lanes are constants for rows inside the map. */
VEC_INLINE void row_of(const strip *s, const vec w[9], bool add_x, int from, int to, int lanes, int ox, int end,
                       float *y)
{
    for (; ox < end; ox++) {
        const vec start = add_x ? load(tap_of(s, 1, ox), lanes) : vec_splat(0);
        const int left = ox == 0 ? 1 : 0, right = ox + 1 == s->wide ? 2 : 3;
        const vec sum = left == 0 && right == 3 ? taps(s, w, ox, from, to, 0, 3, lanes, start)
                                                : taps(s, w, ox, from, to, left, right, lanes, start);
        if (lanes == VEC_LANES)
            vec_store(y + (int64_t)ox * s->c, sum);
        else
            vec_store_part(y + (int64_t)ox * s->c, sum, lanes);
    }
}

static void stretch(const zn_depthwise_args *a, const float *turned, int64_t row, int k, int ox, int end)
{
    const strip s = strip_of(a, row, k);
    vec w[9];
#pragma GCC unroll 9
    for (int i = 0; i < 9; i++)
        w[i] = load(turned + i * a->c + k, s.lanes);
    float *y = a->y + row * s.line + k;
    if (s.lanes == VEC_LANES && s.from == 0 && s.to == 3)
        row_of(&s, w, a->add_x, 0, 3, VEC_LANES, ox, end, y);
    else
        row_of(&s, w, a->add_x, s.from, s.to, s.lanes, ox, end, y);
}

void ZN_KERNEL(depthwise)(const void *args, zn_range r)
{
    const zn_depthwise_args *a = args;
    float *turned = r.scratch; /* [9][c] */
    for (int k = 0; k < a->c; k++)
        for (int i = 0; i < 9; i++)
            turned[i * a->c + k] = a->w[9 * k + (a->flip ? 8 - i : i)];
    for (int64_t row = r.begin; row < r.end; row++)
        for (int ox = 0; ox < a->wide; ox += STRETCH)
            for (int k = 0; k < a->c; k += VEC_LANES)
                stretch(a, turned, row, k, ox, ox + STRETCH < a->wide ? ox + STRETCH : a->wide);
}

VEC_INLINE void weight_taps(const strip *s, const float *dy, int ox, int from, int to, int left, int right, int lanes,
                            vec sum[9])
{
    const vec d = load(dy + (int64_t)ox * s->c, lanes);
#pragma GCC unroll 3
    for (int ky = from; ky < to; ky++)
#pragma GCC unroll 3
        for (int kx = left; kx < right; kx++)
            sum[3 * ky + kx] = sum[3 * ky + kx] + d * load(tap_of(s, ky, ox + kx - 1), lanes);
}

static void weight_edge(const strip *s, const float *dy, int ox, vec sum[9])
{
    weight_taps(s, dy, ox, s->from, s->to, ox == 0 ? 1 : 0, ox + 1 == s->wide ? 2 : 3, s->lanes, sum);
}

/* Adds the sums of one row to sum[9]. */
static void weight_row(const zn_depthwise_args *a, int64_t row, int k, vec sum[9])
{
    const strip s = strip_of(a, row, k);
    const float *dy = a->dy + row * s.line + k;
    const bool inside = s.lanes == VEC_LANES && s.from == 0 && s.to == 3;
    weight_edge(&s, dy, 0, sum);
    if (inside) {
        vec t[9];
        memcpy(t, sum, sizeof t);
        for (int ox = 1; ox + 1 < s.wide; ox++)
            weight_taps(&s, dy, ox, 0, 3, 0, 3, VEC_LANES, t);
        memcpy(sum, t, sizeof t);
    } else {
        for (int ox = 1; ox + 1 < s.wide; ox++)
            weight_edge(&s, dy, ox, sum);
    }
    if (s.wide > 1)
        weight_edge(&s, dy, s.wide - 1, sum);
}

void ZN_KERNEL(depthwise_weight_grad)(const void *args, zn_range r)
{
    const zn_depthwise_args *a = args;
    const int64_t rows = (int64_t)a->n * a->h, size = zn_sum_block(rows);
    for (int64_t block = r.begin; block < r.end; block++)
        for (int k = 0; k < a->c; k += VEC_LANES) {
            vec sum[9];
            for (int i = 0; i < 9; i++)
                sum[i] = vec_splat(0);
            for (int64_t row = block * size; row < (block + 1) * size && row < rows; row++)
                weight_row(a, row, k, sum);
            for (int i = 0; i < 9; i++) {
                float lanes[VEC_LANES];
                vec_store(lanes, sum[i]);
                for (int j = 0; j < VEC_LANES && k + j < a->c; j++)
                    a->partial[block * 9 * a->c + 9 * (k + j) + i] = lanes[j];
            }
        }
}
