/* The head of a Lite-R block, in strips of a few pixels. Rows of v are computed once, from top to bottom, and three
 * of them stay in a ring. Each row of e is computed from the ring and passes through the grouped product to the map.
 * The map is padded with zeros. Inside, a vector of channels of all pixels of a row is one contiguous run:
 * neighbours are read and written sequentially, which is twice as fast on a Neoverse-V1 as loads one pixel apart.
 * The bits are the same as those of the separate ops, which training runs when it needs the intermediate values. The
 * kernel chooses how rows are normalised and summed: lite_head.c, in simd/ or in the folder of the ISA. */
#ifndef ZN_SIMD_HEAD_H
#define ZN_SIMD_HEAD_H

#include "kernels/lite_head.h"
#include "kernels/mix.h"
#include "kernels/simd/conv/group_product.h"
#include "kernels/simd/conv/group_quad.h"
#include "kernels/simd/sequence/rms.h"

enum { RING = 3, SUMS = VEC_REGISTERS == 32 ? 8 : 4 /* pixels of e at once */ };

/* In a single function gcc keeps the addresses of all loops on the stack, which is 1.5x as slow. */
#define APART static __attribute__((noinline))

typedef struct strip strip;

/* The two steps that a kernel may implement itself. */
typedef struct head_steps {
    /* v of `count` pixels of a row, from x into the ring; meanwhile prefetches memory at distance `ahead` into L2. */
    void (*norm)(const strip *s, const float *x, int64_t ahead, int count, float *to);
    /* Row y of e, in planes. */
    void (*planes)(const strip *s, int y);
} head_steps;

/* Pixels [x0, x0 + count) of the rows of one image. */
struct strip {
    const zn_lite_head_args *a;
    head_steps steps;
    const float *image;
    const float *taps;        /* [c / VEC_LANES][9][VEC_LANES] */
    float *ring;              /* [c / VEC_LANES][RING][row]; pixel 0 is x0 - 1 */
    float *e;                 /* one row */
    int64_t row, plane;       /* strides in the ring */
    int64_t e_plane, e_pixel; /* also planes for quads of groups, otherwise pixels with all their channels */
    int x0, count;
    int begin, end; /* rows of e */
};

static float *ring_row(const strip *s, int y) { return s->ring + (y + RING) % RING * s->row; }

/* Zeros for v of the pixels [begin, end) of a row. */
static void clear(const strip *s, float *row, int begin, int end)
{
    for (int k = 0; k < s->a->c && begin < end; k += VEC_LANES, row += s->plane)
        memset(row + begin * VEC_LANES, 0, sizeof(float) * (size_t)(end - begin) * VEC_LANES);
}

/* v of `count` pixels (a compile-time constant) from x into the ring; meanwhile prefetches memory at distance
 * `ahead` into L2. */
VEC_INLINE void norm_of(const int count, const float *x, int64_t ahead, const float *scale, const strip *s, float *to)
{
    enum { TOGETHER = ZN_LITE_HEAD_CHANNELS / VEC_LANES };
    const int c = s->a->c;
    const float *gain = s->a->gain;
    const int64_t plane = s->plane;
    vec by[VEC_LANES];
#pragma GCC unroll 16
    for (int t = 0; t < count; t++)
        by[t] = vec_splat(scale[t]);
    for (int k = 0; k < c; k += ZN_LITE_HEAD_CHANNELS) {
#pragma GCC unroll 16
        for (int t = 0; t < count; t++)
            __builtin_prefetch(x + ahead + t * c + k, 0, 2);
        vec v[VEC_LANES][TOGETHER];
#pragma GCC unroll 16
        for (int t = 0; t < count; t++)
#pragma GCC unroll 4
            for (int u = 0; u < TOGETHER; u++)
                v[t][u] = vec_load(x + t * c + k + u * VEC_LANES) * by[t];
#pragma GCC unroll 4
        for (int u = 0; u < TOGETHER; u++, to += plane) {
            const vec g = vec_load(gain + k + u * VEC_LANES);
#pragma GCC unroll 16
            for (int t = 0; t < count; t++)
                vec_store(to + t * VEC_LANES, v[t][u] * g);
        }
    }
}

/* v of `count` pixels of a row. First computes the scales of all pixels, whose roots and divisions have long
 * latencies, then the products. */
APART void norm_any(const strip *s, const float *x, int64_t ahead, int count, float *to)
{
    const int c = s->a->c;
    float scale[ZN_GROUPED_PIXELS + 2 + VEC_LANES];
    int p = 0;
    for (; p < count; p += VEC_LANES)
        inverse_rms(x + (int64_t)p * c, c, s->a->eps, least(VEC_LANES, count - p), scale + p);
    for (p = 0; p + VEC_LANES <= count; p += VEC_LANES)
        norm_of(VEC_LANES, x + (int64_t)p * c, ahead, scale + p, s, to + p * VEC_LANES);
    for (; p < count; p++)
        norm_of(1, x + (int64_t)p * c, ahead, scale + p, s, to + p * VEC_LANES);
}

/* Loads row y of v into the ring: whole groups of SUMS pixels and one more pixel on either side. */
APART void row_in(const strip *s, int y)
{
    const zn_lite_head_args *a = s->a;
    const int pixels = (s->count + SUMS - 1) / SUMS * SUMS + 2;
    float *to = ring_row(s, y);
    if (y < 0 || y >= a->h) {
        clear(s, to, 0, pixels);
        return;
    }
    const int first = s->x0 == 0 ? 1 : 0, end = least(pixels, a->wide - s->x0 + 1);
    const float *x = s->image + ((int64_t)y * a->wide + s->x0 - 1 + first) * a->c;
    clear(s, to, 0, first);
    clear(s, to, end, pixels);
    to += first * VEC_LANES;
    s->steps.norm(s, x, y + 2 < a->h ? 2 * (int64_t)a->wide * a->c : 0, end - first, to);
}

/* e of SUMS pixels from the ring rows v. A pixel is multiplied with all its weights as soon as it is loaded: if both
 * factors have been in registers for long, a Neoverse-V1 does two multiply-adds per cycle instead of four. */
VEC_INLINE void sums_of(const float *const v[RING], int at, const vec w[9], float *e, int64_t e_pixel)
{
    vec sum[SUMS];
#pragma GCC unroll 8
    for (int t = 0; t < SUMS; t++)
        sum[t] = vec_load(v[1] + at + (t + 1) * VEC_LANES);
#pragma GCC unroll 3
    for (int i = 0; i < RING; i++) {
        const float *row = v[i] + at;
        __asm__("" : "+r"(row)); /* otherwise compilers load all pixels first */
#pragma GCC unroll 10
        for (int t = 0; t < SUMS + 2; t++) {
            const vec x = vec_load(row + t * VEC_LANES);
#pragma GCC unroll 3
            for (int kx = 2; kx >= 0; kx--)
                if (t >= kx && t - kx < SUMS)
                    sum[t - kx] = vec_fma(w[3 * i + kx], x, sum[t - kx]);
        }
    }
#pragma GCC unroll 8
    for (int t = 0; t < SUMS; t++)
        vec_store(e + t * e_pixel, sum[t]);
}

/* Row y of e, by vectors of channels. */
VEC_INLINE void row_of(const bool planes, const strip *s, int y)
{
    const int64_t plane = s->plane, e_plane = s->e_plane, e_pixel = planes ? VEC_LANES : s->e_pixel;
    const int c = s->a->c, end = s->count * VEC_LANES;
    const float *v[RING], *taps = s->taps;
    for (int i = 0; i < RING; i++)
        v[i] = ring_row(s, y - 1 + i);
    for (int k = 0; k < c; k += VEC_LANES, taps += 9 * VEC_LANES) {
        float *e = s->e + k / VEC_LANES * e_plane;
        vec w[9];
#pragma GCC unroll 9
        for (int i = 0; i < 9; i++)
            w[i] = vec_load(taps + i * VEC_LANES);
        for (int at = 0; at < end; at += SUMS * VEC_LANES, e += SUMS * e_pixel)
            sums_of(v, at, w, e, e_pixel);
        for (int i = 0; i < RING; i++)
            v[i] += plane;
    }
}

APART void row_of_pixels(const strip *s, int y) { row_of(false, s, y); }

/* The operands of the product, and the buffer where its results are reordered. */
typedef struct ending {
    product q;
    const float *packed;
    float *results;
    bool quads;
} ending;

/* Row y: from e to the map. */
APART void row_out(const strip *s, const ending *d, int y)
{
    const zn_lite_head_args *a = s->a;
    const product *q = &d->q;
    float *to = a->y + (s->image - a->x) / a->c * a->co + ((int64_t)y * a->wide + s->x0) * a->co;
#if defined(__ARM_NEON)
    if (d->quads) {
        const group_quad g = { s->e, d->packed, a->b, to, s->e_plane, q->deep, q->wide };
        group_quads(&g, s->count);
        return;
    }
#endif
    const float *start = dense(q) ? a->b : NULL;
    multiply(q, d->packed, s->e, s->count, d->results, q->total, start);
    for (int t = 0; t < s->count; t++, to += a->co) {
        float *row = d->results + (int64_t)t * q->total;
        close_gaps(q, row);
        for (int o = 0; !start && o < a->co; o++)
            row[o] += a->b[o];
        alternate(to, row, q->wide, q->groups);
    }
}

/* Rows [begin, end) of one image. */
static void image_rows(strip s, const ending *d, int begin, int end)
{
    const zn_lite_head_args *a = s.a;
    const int step = zn_lite_head_strip(a);
    s.begin = begin;
    s.end = end;
    for (s.x0 = 0; s.x0 < a->wide; s.x0 += step) {
        s.count = least(step, a->wide - s.x0);
        for (int y = begin - 1; y <= begin; y++)
            row_in(&s, y);
        for (int y = begin; y < end; y++) {
            row_in(&s, y + 1);
            if (d->quads)
                s.steps.planes(&s, y);
            else
                row_of_pixels(&s, y);
            row_out(&s, d, y);
        }
    }
}

/* Assigns the offsets of all buffers in scratch; returns the start of the product's own scratch. */
static float *lay_out(strip *s, bool quads, float *scratch)
{
    const int c = s->a->c, most = zn_lite_head_strip(s->a);
    float *taps = scratch;
    const float *from = s->a->taps;
    for (int k = 0; k < c; k += VEC_LANES, from += 9 * VEC_LANES)
        for (int i = 0; i < 9; i++)
            for (int lane = 0; lane < VEC_LANES; lane++)
                taps[9 * k + i * VEC_LANES + lane] = from[9 * lane + i];
    s->taps = taps;
    s->ring = taps + 9 * c;
    s->row = (int64_t)(most + 2) * VEC_LANES;
    s->plane = RING * s->row;
    s->e = s->ring + RING * (int64_t)(most + 2) * c;
    s->e_plane = quads ? (int64_t)most * VEC_LANES : VEC_LANES;
    s->e_pixel = quads ? VEC_LANES : c;
    return s->e + (int64_t)most * c;
}

static void all_rows(const zn_lite_head_args *a, zn_range r, head_steps steps)
{
    const int gi = a->c / a->groups, go = a->co / a->groups;
    ending d = { .q = product_of(a->w, a->groups, gi, go, 1, gi), .quads = group_quads_do(a->groups, gi, go) };
    strip s = { .a = a, .steps = steps };
    float *packed = lay_out(&s, d.quads, r.scratch);
    d.packed = packed;
#if defined(__ARM_NEON)
    if (d.quads)
        group_quad_pack(a->w, gi, go, packed);
    else
#endif
        d.results = pack(&d.q, packed);
    for (int64_t unit = r.begin; unit < r.end;) {
        const int64_t image = unit / a->h, end = least(r.end - image * a->h, a->h);
        s.image = a->x + image * a->h * a->wide * a->c;
        image_rows(s, &d, (int)(unit - image * a->h), (int)end);
        unit = image * a->h + end;
    }
}

#endif
