/* The head of a Lite-R block, strip by strip of a few pixels: rows of v are made once, from top to bottom, and four of
 * them stay in a ring; two rows of e come out of it at a time and go through the grouped product to the map. Zeros lie
 * around the map. The bits are those of the separate ops, which training runs where it needs what lies between. */
#include "kernels/lite_head.h"
#include "kernels/mix.h"
#include "kernels/simd/group_product.h"
#include "kernels/simd/rms.h"

void ZN_KERNEL(lite_head)(const void *args, zn_range r);

enum { RING = 4, FOUR = 4, PADDING = 16 };

/* Pixels [x0, x0 + count) of the rows of one image. */
typedef struct strip {
    const zn_lite_head_args *a;
    const float *image;
    const float *taps; /* [9][c] */
    float *ring;       /* [RING][row]; pixel 0 is x0 - 1 */
    int64_t row;
    int x0, count;
} strip;

static float *ring_row(const strip *s, int y) { return s->ring + (y + RING) % RING * s->row; }

/* Row y of v into the ring, whole groups of four pixels and one more on either side. */
static void row_in(const strip *s, int y)
{
    const zn_lite_head_args *a = s->a;
    const int pixels = (s->count + FOUR - 1) / FOUR * FOUR + 2;
    float *to = ring_row(s, y);
    if (y < 0 || y >= a->h) {
        memset(to, 0, sizeof(float) * (size_t)(pixels * a->c));
        return;
    }
    const int first = s->x0 == 0 ? 1 : 0, end = least(pixels, a->wide - s->x0 + 1);
    const int64_t line = y + 1 < a->h ? (int64_t)a->wide * a->c : 0;
    const float *x = s->image + ((int64_t)y * a->wide + s->x0 - 1 + first) * a->c;
    memset(to, 0, sizeof(float) * (size_t)(first * a->c));
    memset(to + (int64_t)end * a->c, 0, sizeof(float) * (size_t)((pixels - end) * a->c));
    to += first * a->c;
    for (int p = first; p < end; p += VEC_LANES) {
        float scale[VEC_LANES];
        const int some = least(VEC_LANES, end - p);
        inverse_rms(x, a->c, a->eps, some, scale);
        for (int t = 0; t < some; t++, x += a->c, to += a->c) {
            const vec v = vec_splat(scale[t]);
            for (int k = 0; k < a->c; k += VEC_LANES) {
                if (k % 16 == 0)
                    __builtin_prefetch(x + line + k); /* the row below */
                vec_store(to + k, vec_load(x + k) * v * vec_load(a->gain + k));
            }
        }
    }
}

/* e of four pixels in `rows` rows (1 or 2, a constant) from the ring rows v, the upper of them first. */
VEC_INLINE void sums_of(const int rows, const float *const v[RING], const float *taps, int c, float *e, int64_t e_row)
{
    for (int k = 0; k < c; k += VEC_LANES) {
        vec sum[2][FOUR], w[9];
#pragma GCC unroll 9
        for (int i = 0; i < 9; i++)
            w[i] = vec_load(taps + i * c + k);
#pragma GCC unroll 2
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
            for (int t = 0; t < FOUR; t++)
                sum[r][t] = vec_load(v[1 + r] + (t + 1) * c + k);
#pragma GCC unroll 4
        for (int i = 0; i < rows + 2; i++) {
            vec x[FOUR + 2];
#pragma GCC unroll 6
            for (int t = 0; t < FOUR + 2; t++)
                x[t] = vec_load(v[i] + t * c + k);
#pragma GCC unroll 2
            for (int r = 0; r < rows; r++) {
                const int ky = i - r;
                if (ky < 0 || ky > 2)
                    continue;
#pragma GCC unroll 3
                for (int kx = 0; kx < 3; kx++)
#pragma GCC unroll 4
                    for (int t = 0; t < FOUR; t++)
                        sum[r][t] = vec_fma(w[3 * ky + kx], x[t + kx], sum[r][t]);
            }
        }
#pragma GCC unroll 2
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
            for (int t = 0; t < FOUR; t++)
                vec_store(e + r * e_row + t * c + k, sum[r][t]);
    }
}

static void rows_of(const strip *s, int y, int rows, float *e, int64_t e_row)
{
    const int c = s->a->c;
    const float *v[RING];
    for (int i = 0; i < RING; i++)
        v[i] = ring_row(s, y - 1 + i);
    for (int p = 0; p < s->count; p += FOUR, e += FOUR * c) {
        if (rows == 2)
            sums_of(2, v, s->taps, c, e, e_row);
        else
            sums_of(1, v, s->taps, c, e, e_row);
        for (int i = 0; i < RING; i++)
            v[i] += FOUR * c;
    }
}

/* What the product needs, and where its results wait to be put in order. */
typedef struct ending {
    product q;
    const float *packed;
    float *results;
} ending;

/* Row y: from e to the map. */
static void row_out(const strip *s, const ending *d, int y, const float *e)
{
    const zn_lite_head_args *a = s->a;
    const product *q = &d->q;
    const float *start = dense(q) ? a->b : NULL;
    float *to = a->y + (s->image - a->x) / a->c * a->co + ((int64_t)y * a->wide + s->x0) * a->co;
    multiply(q, d->packed, e, s->count, d->results, q->total, start);
    for (int t = 0; t < s->count; t++, to += a->co) {
        float *row = d->results + (int64_t)t * q->total;
        close_gaps(q, row);
        for (int o = 0; !start && o < a->co; o++)
            row[o] += a->b[o];
        alternate(to, row, q->wide, q->groups);
    }
}

/* Rows [begin, end) of one image. */
static void image_rows(strip s, const ending *d, int begin, int end, float *e)
{
    const zn_lite_head_args *a = s.a;
    const int step = zn_lite_head_strip(a);
    const int64_t e_row = (int64_t)step * a->c;
    for (s.x0 = 0; s.x0 < a->wide; s.x0 += step) {
        s.count = least(step, a->wide - s.x0);
        int made = begin - 1;
        for (int y = begin, rows; y < end; y += rows) {
            rows = VEC_REGISTERS == 32 && y + 1 < end ? 2 : 1;
            for (; made <= y + rows; made++)
                row_in(&s, made);
            rows_of(&s, y, rows, e, e_row);
            for (int i = 0; i < rows; i++)
                row_out(&s, d, y + i, e + i * e_row);
        }
    }
}

void ZN_KERNEL(lite_head)(const void *args, zn_range r)
{
    const zn_lite_head_args *a = args;
    const int gi = a->c / a->groups, go = a->co / a->groups, most = zn_lite_head_strip(a);
    float *taps = r.scratch, *ring = taps + 9 * a->c;
    const int64_t row = (int64_t)(most + 2) * a->c + PADDING;
    float *e = ring + RING * row, *packed = e + 2 * (int64_t)most * a->c;
    ending d = { .q = product_of(a->w, a->groups, gi, go, 1, gi), .packed = packed };
    d.results = pack(&d.q, packed);
    for (int k = 0; k < a->c; k++)
        for (int i = 0; i < 9; i++)
            taps[i * a->c + k] = a->taps[9 * k + i];
    for (int64_t unit = r.begin; unit < r.end;) {
        const int64_t image = unit / a->h, end = least(r.end - image * a->h, a->h);
        const strip s = {
            .a = a, .image = a->x + image * a->h * a->wide * a->c, .taps = taps, .ring = ring, .row = row
        };
        image_rows(s, &d, (int)(unit - image * a->h), (int)end, e);
        unit = image * a->h + end;
    }
}
