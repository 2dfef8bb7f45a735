/* 1x1 convolution from or to at most four channels, fp32. It is bound by memory, so pixels are read in place, and
 * their cache lines are written in order. From few channels it also writes through a pixel shuffle; to few channels
 * it also reads through a pixel unshuffle. The many channels are then ordered by sub-pixel. The kernel chooses how
 * blocks of pixels are multiplied: conv_narrow.c, in simd/ or in the folder of the ISA. */
#ifndef ZN_SIMD_NARROW_H
#define ZN_SIMD_NARROW_H

#include "kernels/conv.h"
#include "kernels/simd/vec_math.h"

enum { NARROW = 4, WIDE = 16 /* divides the other side */, UNIT = 512 /* pixels */, VECTORS = WIDE / VEC_LANES };

static bool from_narrow(const zn_conv_shape *s) { return s->cin <= NARROW; }

static bool supports(const zn_conv_shape *s)
{
    const int wide = from_narrow(s) ? s->cout : s->cin, narrow = from_narrow(s) ? s->cin : s->cout;
    if (s->kh != 1 || s->kw != 1 || s->stride != 1 || s->pad || s->up2 || !zn_conv_keeps_size(s) || narrow > NARROW)
        return false;
    if (from_narrow(s) ? s->unshuffle : s->shuffle)
        return false;
    return wide % (s->shuffle || s->unshuffle ? 4 * WIDE : WIDE) == 0;
}

static size_t packed_bytes(const zn_conv_shape *s) { return sizeof(float) * (size_t)s->cin * (size_t)s->cout; }

/* Index of channel k on the wide side: k itself, or ordered by sub-pixel. */
static int place(const zn_conv_shape *s, int k)
{
    return s->shuffle ? k % 4 * (s->cout / 4) + k / 4 : s->unshuffle ? k % 4 * (s->cin / 4) + k / 4 : k;
}

/* [wide / WIDE][narrow][WIDE] from few channels, [narrow][wide] to few channels. */
static void pack(const zn_conv_shape *s, const float *w, void *packed)
{
    float *to = packed;
    for (int i = 0; i < s->cin; i++)
        for (int o = 0; o < s->cout; o++) {
            const int at = place(s, from_narrow(s) ? o : i);
            to[from_narrow(s) ? (at / WIDE * s->cin + i) * WIDE + at % WIDE : o * s->cin + at] =
                w[(int64_t)i * s->cout + o];
        }
}

/* The bias in the order of the outputs. */
static size_t scratch_bytes(const zn_conv_shape *s) { return sizeof(float) * (size_t)s->cout; }

static int64_t pixels_of(const zn_conv_shape *s) { return (int64_t)s->n * s->oh * s->ow; }
static int64_t units(const zn_conv_shape *s) { return (pixels_of(s) + UNIT - 1) / UNIT; }

/* Sixteen outputs of `pixels` neighbours (a compile-time constant, like cin), which are `step` floats apart from y
 * on. x holds their channels; w and bias start at those outputs. */
VEC_INLINE void spread(const int pixels, const int cin, const zn_conv_args *a, const float *x, const float *w,
                       const float *bias, int64_t at, int64_t step)
{
    const vec zero = vec_splat(0);
    vec sum[NARROW][VECTORS];
#pragma GCC unroll 4
    for (int p = 0; p < pixels; p++)
#pragma GCC unroll 4
        for (int u = 0; u < VECTORS; u++)
            sum[p][u] = vec_load(bias + u * VEC_LANES);
#pragma GCC unroll 4
    for (int i = 0; i < cin; i++)
#pragma GCC unroll 4
        for (int u = 0; u < VECTORS; u++) {
            const vec v = vec_load(w + i * WIDE + u * VEC_LANES);
#pragma GCC unroll 4
            for (int p = 0; p < pixels; p++)
                sum[p][u] = vec_fma(vec_splat(x[p * cin + i]), v, sum[p][u]);
        }
    if (a->residual)
        for (int p = 0; p < pixels; p++)
            for (int u = 0; u < VECTORS; u++)
                sum[p][u] = sum[p][u] + vec_load(a->residual + at + p * step + u * VEC_LANES);
    if (a->relu)
        for (int p = 0; p < pixels; p++)
            for (int u = 0; u < VECTORS; u++)
                sum[p][u] = vec_max(sum[p][u], zero);
#pragma GCC unroll 4
    for (int p = 0; p < pixels; p++)
#pragma GCC unroll 4
        for (int u = 0; u < VECTORS; u++)
            vec_store(a->y + at + p * step + u * VEC_LANES, sum[p][u]);
}

/* All outputs of some neighbours in one row. */
VEC_INLINE void spread_pixels(const int pixels, const int cin, const zn_conv_args *a, const float *bias, int64_t pixel)
{
    const zn_conv_shape *s = &a->s;
    const int parts = s->shuffle ? 4 : 1, each = s->cout / parts;
    for (int sub = 0; sub < parts; sub++) {
        const int64_t at =
            s->shuffle ? zn_conv_sub_pixel(pixel / s->ow, s->ow, pixel % s->ow, sub, each) : pixel * s->cout;
        for (int o = 0; o < each; o += WIDE)
            spread(pixels, cin, a, a->x + pixel * cin, (const float *)a->packed + (sub * each + o) * cin,
                   bias + sub * each + o, at + o, s->shuffle ? 2 * (int64_t)each : each);
    }
}

/* All outputs of NARROW neighbours in one row; cin is a compile-time constant. */
typedef void spread_block(const int cin, const zn_conv_args *a, const float *bias, int64_t pixel);
VEC_INLINE void spread_four(const int cin, const zn_conv_args *a, const float *bias, int64_t pixel)
{
    spread_pixels(NARROW, cin, a, bias, pixel);
}

VEC_INLINE void spread_all(spread_block *const four, const int cin, const zn_conv_args *a, const float *bias,
                           int64_t pixel, int64_t end)
{
    while (pixel < end) {
        const int64_t left = a->s.shuffle ? a->s.ow - pixel % a->s.ow : end - pixel; /* in the row, if rows matter */
        const int some = left >= NARROW && pixel + NARROW <= end ? NARROW : 1;
        if (some == NARROW)
            four(cin, a, bias, pixel);
        else
            spread_pixels(1, cin, a, bias, pixel);
        pixel += some;
    }
}

/* Position of a pixel's channels: in one run, or in two rows of two sub-pixels each. */
typedef struct runs {
    const float *x; /* channels of the first of some neighbours */
    int64_t next;   /* floats from one run to the other */
    int count, size;
} runs;

static runs runs_of(const zn_conv_args *a, int64_t pixel)
{
    const zn_conv_shape *s = &a->s;
    if (!s->unshuffle)
        return (runs){ a->x + pixel * s->cin, 0, 1, s->cin };
    const int c = s->cin / 4;
    return (runs){ a->x + zn_conv_sub_pixel(pixel / s->ow, s->ow, pixel % s->ow, 0, c), 2 * (int64_t)s->ow * c, 2,
                   2 * c };
}

/* `pixels` neighbours to cout outputs (both compile-time constants). */
VEC_INLINE void gather(const int pixels, const int cout, const zn_conv_args *a, int64_t pixel)
{
    const int cin = a->s.cin;
    const runs q = runs_of(a, pixel);
    const float *x = q.x, *w = a->packed;
    vec sum[NARROW][NARROW];
#pragma GCC unroll 4
    for (int p = 0; p < pixels; p++)
#pragma GCC unroll 4
        for (int o = 0; o < cout; o++)
            sum[p][o] = vec_splat(0);
    for (int r = 0; r < q.count; r++, x += q.next, w += q.size)
        for (int k = 0; k < q.size; k += VEC_LANES) {
            vec m[NARROW];
#pragma GCC unroll 4
            for (int p = 0; p < pixels; p++)
                m[p] = vec_load(x + p * q.size + k);
#pragma GCC unroll 4
            for (int o = 0; o < cout; o++) {
                const vec v = vec_load(w + o * cin + k);
#pragma GCC unroll 4
                for (int p = 0; p < pixels; p++)
                    sum[p][o] = vec_fma(m[p], v, sum[p][o]);
            }
        }
    for (int p = 0; p < pixels; p++)
        for (int o = 0; o < cout; o++) {
            const int64_t at = (pixel + p) * cout + o;
            const float v = vec_sum(sum[p][o]) + (a->bias ? a->bias[o] : 0) + (a->residual ? a->residual[at] : 0);
            a->y[at] = a->relu && v < 0 ? 0 : v;
        }
}

/* Computes some of the `left` neighbours in one row, starting at pixel; cout is a compile-time constant. Returns how
 * many. */
typedef int gather_block(const int cout, const zn_conv_args *a, const float *bias, int64_t pixel, int64_t left);
VEC_INLINE int gather_some(const int cout, const zn_conv_args *a, const float *bias, int64_t pixel, int64_t left)
{
    const int together = VEC_REGISTERS == 32 || cout < 4 ? 4 : 3; /* as many sums as fit the registers */
    (void)bias;
    if (left >= together)
        gather(together, cout, a, pixel);
    else
        gather(1, cout, a, pixel);
    return left >= together ? together : 1;
}

VEC_INLINE void gather_all(gather_block *const some, const int cout, const zn_conv_args *a, const float *bias,
                           int64_t pixel, int64_t end)
{
    while (pixel < end) {
        const int64_t row = a->s.unshuffle ? a->s.ow - pixel % a->s.ow : end - pixel; /* if rows are not contiguous */
        pixel += some(cout, a, bias, pixel, row < end - pixel ? row : end - pixel);
    }
}

/* Processes all pixels of a range with these block functions (compile-time constants). */
VEC_INLINE void narrow_run(const zn_conv_args *a, zn_range r, spread_block *const four, gather_block *const some)
{
    const zn_conv_shape *s = &a->s;
    const int64_t pixels = pixels_of(s), pixel = r.begin * UNIT, end = r.end * UNIT < pixels ? r.end * UNIT : pixels;
    const int narrow = from_narrow(s) ? s->cin : s->cout;
    float *bias = r.scratch;
    for (int o = 0; o < s->cout; o++)
        bias[from_narrow(s) ? place(s, o) : o] = a->bias ? a->bias[o] : 0;
    if (from_narrow(s) && narrow == 1)
        spread_all(four, 1, a, bias, pixel, end);
    else if (from_narrow(s) && narrow == 2)
        spread_all(four, 2, a, bias, pixel, end);
    else if (from_narrow(s) && narrow == 3)
        spread_all(four, 3, a, bias, pixel, end);
    else if (from_narrow(s))
        spread_all(four, 4, a, bias, pixel, end);
    else if (narrow == 1)
        gather_all(some, 1, a, bias, pixel, end);
    else if (narrow == 2)
        gather_all(some, 2, a, bias, pixel, end);
    else if (narrow == 3)
        gather_all(some, 3, a, bias, pixel, end);
    else
        gather_all(some, 4, a, bias, pixel, end);
}

#endif
