/* The head of a Lite-R block for AArch64: rows are normalised, then summed. */
#include "kernels/arm/kernels.h"
#include "kernels/arm/pinned.h"
#include "kernels/mix.h"
#include "kernels/simd/sequence/rms.h"
#include "kernels/simd/spectral/head.h"
#include <stdbool.h>

/* Depthwise 3x3 plus its own input, for a row of planes, for AArch64. Groups of sixteen pixels of a plane follow
 * each other without a gap: at each step tap j is applied to the pixel j before the newest. Nine sums thus grow side
 * by side, and a pixel is multiplied soon after it is requested (a Neoverse-V1 reads only four registers per cycle
 * that were ready when an instruction was queued; gelu_lines.c). Meanwhile the next row of the map is prefetched
 * into L1, and the row after it into L2, a few lines at a time: in a burst, each prefetch waits for the previous
 * one. The order of instructions matters, so each is its own `asm volatile` (wht_pass.h). */

enum { TAPS_BLOCK = 16, TAPS = 9, TAPS_FLOATS = TAPS_BLOCK * VEC_LANES };

typedef struct head_taps {
    const float *row[3]; /* rows of the first plane, one pixel before the first */
    const float *taps;   /* [planes][9][VEC_LANES] */
    float *e;
    int64_t plane, e_plane;
    int planes, blocks;        /* blocks per plane */
    const float *soon, *later; /* memory to prefetch into L1 and L2: floats per block, at most five cache lines */
    int64_t fetched;
} head_taps;

/* Addresses of a block: its rows, its taps and its results. */
typedef struct taps_place {
    const float *row[3], *taps;
    float *e;
} taps_place;

/* State in flight: pixel k of this block, or of the previous one, in sum[k]; the taps; for each row the pixel being
 * multiplied and the next one; and, if a row continues with this block, the pixel after the last of `left`. */
typedef struct taps_state {
    vec sum[TAPS_BLOCK], w[TAPS], x[3][2], over;
    const float *row[3], *left, *soon, *later;
    float *e;
} taps_state;

/* Tap j at step t. A drain only completes what the previous block has started. */
VEC_INLINE void taps_multiply(const int t, const int j, const bool drain, taps_state *s)
{
    const bool over = t >= j / 3 * 3 && t < j;
    vec *sum = s->sum + (t - j + TAPS_BLOCK) % TAPS_BLOCK;
    if (!drain || t < j)
        __asm__ volatile("fmla %0.4s, %1.4s, %2.4s"
                         : "+w"(*sum)
                         : "w"(s->w[j]), "w"(over ? s->over : s->x[j / 3][(t + j / 3) % 2]));
}

/* Loads the pixel of row i that step t + 1 starts with. */
VEC_INLINE void taps_load(const int t, const int i, taps_state *s, const taps_place *place)
{
    const int pixel = (t + 1 - 3 * i + TAPS_BLOCK) % TAPS_BLOCK;
    if (pixel == 0) {
        s->left = s->row[i];
        s->row[i] = place->row[i];
    }
    s->x[i][(t + 1 + i) % 2] = vec_load_pinned(s->row[i], pixel * VEC_LANES);
}

/* Step t of the block at `here`; the next block is at `next`. */
VEC_INLINE void taps_step(const int t, const bool drain, taps_state *s, const taps_place *here, const taps_place *next)
{
    const int then = (t + 1) % TAPS_BLOCK, done = (t - TAPS + TAPS_BLOCK) % TAPS_BLOCK;
    const taps_place *place = then ? here : next;
    taps_multiply(t, 1, drain, s);
    if (!drain) {
        taps_load(t, 0, s, place);
        s->sum[then] = vec_load_pinned(place->row[1], (then + 1) * VEC_LANES);
    }
    taps_load(t, 2, s, here);
    taps_multiply(t, 5, drain, s);
    taps_multiply(t, 2, drain, s);
    taps_multiply(t, 4, drain, s);
    taps_multiply(t, 8, drain, s);
    if (t == TAPS)
        s->e = here->e;
    if (t % 2)
        vec_store_two_pinned((char *)s->e, done * (int)sizeof(vec), s->sum + done);
    taps_load(t, 1, s, here);
    taps_multiply(t, 0, drain, s);
    taps_multiply(t, 7, drain, s);
    taps_multiply(t, 3, drain, s);
    taps_multiply(t, 6, drain, s);
    if (then % 3 < 2 && then < TAPS)
        s->over = vec_load_pinned(s->left, (TAPS_BLOCK + then % 3) * VEC_LANES);
    if (!drain && then < TAPS)
        s->w[then] = vec_load_pinned(place->taps, then * VEC_LANES);
    if (!drain && t % 3 == 1)
        vec_fetch_near_pinned(s->soon, t / 3 * 16);
    if (!drain && t % 3 == 2)
        vec_fetch_pinned(s->later, t / 3 * 16);
}

static inline void head_taps_pinned(const head_taps *q)
{
    float nowhere[TAPS_FLOATS];
    taps_place here = { { q->row[0], q->row[1], q->row[2] }, q->taps, q->e };
    taps_state s = {
        .row = { q->row[0], q->row[1], q->row[2] }, .left = q->row[0], .soon = q->soon, .later = q->later, .e = nowhere
    };
    PINNED_UNROLL for (int k = 0; k < TAPS_BLOCK; k++) s.sum[k] = vec_splat(0);
    PINNED_UNROLL for (int k = 0; k < TAPS; k++) s.w[k] = vec_splat(0);
    PINNED_UNROLL for (int k = 0; k < 6; k++) s.x[k / 2][k % 2] = vec_splat(0);
    vec_pinned_fence();
    s.x[0][0] = s.over = vec_load_pinned(q->row[0], 0);
    s.sum[0] = vec_load_pinned(q->row[1], VEC_LANES);
    s.w[0] = vec_load_pinned(q->taps, 0);
    const int64_t count = (int64_t)q->planes * q->blocks;
    const int64_t seam = q->plane - q->blocks * TAPS_FLOATS, e_seam = q->e_plane - q->blocks * TAPS_FLOATS;
    int block = 0;
    for (int64_t i = 0; i < count; i++, s.soon += q->fetched, s.later += q->fetched) {
        const bool end = ++block == q->blocks;
        const int64_t step = i + 1 < count ? TAPS_FLOATS + (end ? seam : 0) : 0;
        const taps_place next = { { here.row[0] + step, here.row[1] + step, here.row[2] + step },
                                  here.taps + (end && step ? TAPS * VEC_LANES : 0),
                                  here.e + TAPS_FLOATS + (end ? e_seam : 0) };
        block = end ? 0 : block;
        PINNED_UNROLL for (int t = 0; t < TAPS_BLOCK; t++) taps_step(t, false, &s, &here, &next);
        here = next;
    }
    PINNED_UNROLL for (int t = 0; t < TAPS - 1; t++) taps_step(t, true, &s, &here, &here);
    vec_pinned_fence();
}

/* The two passes of an RMS norm into planes, for AArch64: sums of squares and products, four pixels at a time. A
 * line of each pixel is loaded in order (loads one pixel apart often conflict in one bank of L1) and multiplied soon
 * after it is requested. A plane gets its line in two pairs. The order of instructions matters, so each is its own
 * `asm volatile` (wht_pass.h). */

enum { HEAD_PIXELS = 4, HEAD_ACROSS = 4, HEAD_LINE = HEAD_ACROSS * VEC_LANES /* floats; divides c */ };

VEC_INLINE void head_load_line(const float *x, vec v[HEAD_ACROSS])
{
    __asm__ volatile("ldp %q0, %q1, [%2]" : "=w"(v[0]), "=w"(v[1]) : "r"(x));
    __asm__ volatile("ldp %q0, %q1, [%2, 32]" : "=w"(v[2]), "=w"(v[3]) : "r"(x));
}

VEC_INLINE vec head_times(vec v, vec by)
{
    vec result;
    __asm__ volatile("fmul %0.4s, %1.4s, %2.4s" : "=w"(result) : "w"(v), "w"(by));
    return result;
}

/* Adds a line of each pixel to their sums, even and odd vectors separately. */
VEC_INLINE void head_squares_line(const bool first, const float *x, int c, vec sum[HEAD_PIXELS][2])
{
    PINNED_UNROLL for (int t = 0; t < HEAD_PIXELS; t++)
    {
        vec v[HEAD_ACROSS];
        head_load_line(x + t * c, v);
        PINNED_UNROLL for (int u = 0; u < HEAD_ACROSS; u++)
        {
            if (first && u < 2)
                __asm__ volatile("fmul %0.4s, %1.4s, %1.4s" : "=w"(sum[t][u % 2]) : "w"(v[u]));
            else
                __asm__ volatile("fmla %0.4s, %1.4s, %1.4s" : "+w"(sum[t][u % 2]) : "w"(v[u]));
        }
    }
}

/* The sums of squares of c channels of four pixels, each in the order of squares() of simd/sequence/rms.h. */
VEC_INLINE vec head_squares(const float *x, int c)
{
    vec sum[HEAD_PIXELS][2];
    vec_pinned_fence();
    head_squares_line(true, x, c, sum);
    for (int k = HEAD_LINE; k < c; k += HEAD_LINE)
        head_squares_line(false, x + k, c, sum);
    return vpaddq_f32(vpaddq_f32(sum[0][0] + sum[0][1], sum[1][0] + sum[1][1]),
                      vpaddq_f32(sum[2][0] + sum[2][1], sum[3][0] + sum[3][1]));
}

/* Planes of `pixels` pixels (4 or 2): each pixel times its scale, then each channel times its gain. */
VEC_INLINE void head_norm(const int pixels, const float *x, int c, const float *scale, const float *gain, float *to,
                          int64_t plane)
{
    vec by[HEAD_PIXELS];
    PINNED_UNROLL for (int t = 0; t < pixels; t++) by[t] = vec_splat(scale[t]);
    vec_pinned_fence();
    for (int k = 0; k < c; k += HEAD_LINE) {
        vec v[HEAD_PIXELS][HEAD_ACROSS];
        PINNED_UNROLL for (int t = 0; t < pixels; t++)
        {
            head_load_line(x + t * c + k, v[t]);
            PINNED_UNROLL for (int u = 0; u < HEAD_ACROSS; u++) v[t][u] = head_times(v[t][u], by[t]);
        }
        PINNED_UNROLL for (int u = 0; u < HEAD_ACROSS; u++, to += plane)
        {
            const vec g = vec_load_pinned(gain + k, u * VEC_LANES);
            PINNED_UNROLL for (int t = 0; t < pixels; t++) v[t][u] = head_times(v[t][u], g);
            __asm__ volatile("stp %q0, %q1, [%2]" : : "w"(v[0][u]), "w"(v[1][u]), "r"(to));
            if (pixels > 2)
                __asm__ volatile("stp %q0, %q1, [%2, 32]" : : "w"(v[2][u]), "w"(v[3][u]), "r"(to));
        }
    }
    vec_pinned_fence();
}

/* 1 / rms of four pixels or more; the last ones of an odd count are computed twice, here and below. Not inlined,
 * because compilers keep the addresses of two loops in one function on the stack. */
static __attribute__((noinline)) void head_scales(const float *x, int c, float eps, int count, float *scale)
{
    for (int p = 0; p < count; p += HEAD_PIXELS) {
        const int at = p < count - HEAD_PIXELS ? p : count - HEAD_PIXELS;
        vec_store(scale + at, head_squares(x + (int64_t)at * c, c));
    }
    for (int p = 0; p < count; p += VEC_LANES)
        vec_store(scale + p, inverse_root(vec_load(scale + p), c, eps));
}

/* Planes of four pixels or more, at most those of a block and their neighbours. First computes the scales of all
 * pixels, because the roots have long latencies. */
static __attribute__((noinline)) void head_norm_row(const float *x, int c, float eps, const float *gain, int count,
                                                    float *to, int64_t plane)
{
    float scale[ZN_GROUPED_PIXELS + 2 + VEC_LANES];
    int p = 0;
    head_scales(x, c, eps, count, scale);
    for (; p + 2 < count; p += HEAD_PIXELS) {
        const int at = p < count - HEAD_PIXELS ? p : count - HEAD_PIXELS;
        head_norm(HEAD_PIXELS, x + (int64_t)at * c, c, scale + at, gain, to + at * VEC_LANES, plane);
    }
    if (p < count)
        head_norm(2, x + (int64_t)(count - 2) * c, c, scale + count - 2, gain, to + (count - 2) * VEC_LANES, plane);
}

static void norm_row(const strip *s, const float *x, int64_t ahead, int count, float *to)
{
    if (count >= HEAD_PIXELS)
        head_norm_row(x, s->a->c, s->a->eps, s->a->gain, count, to, s->plane);
    else
        norm_any(s, x, ahead, count, to);
}

/* The start of row y of the strip, including the pixel before it. After the last row that the strip needs come the
 * first rows of the next strip. */
static const float *map_row(const strip *s, int y)
{
    const zn_lite_head_args *a = s->a;
    const bool beyond = y > s->end;
    const int row = beyond ? y - s->end - 2 + s->begin : y, x = s->x0 - (s->x0 > 0) + (beyond ? s->count : 0);
    return s->image + ((int64_t)(row < 0 ? 0 : least(row, a->h - 1)) * a->wide + x) * a->c;
}

/* Prefetches the next two rows of the map, with a pixel on either side. */
static void taps_row(const strip *s, int y)
{
    const int blocks = (s->count + TAPS_BLOCK - 1) / TAPS_BLOCK;
    const head_taps q = { .row = { ring_row(s, y - 1), ring_row(s, y), ring_row(s, y + 1) },
                          .taps = s->taps,
                          .e = s->e,
                          .plane = s->plane,
                          .e_plane = s->e_plane,
                          .planes = s->a->c / VEC_LANES,
                          .blocks = blocks,
                          .soon = map_row(s, y + 2),
                          .later = map_row(s, y + 3),
                          .fetched = (s->count + 2) * VEC_LANES / blocks + 1 };
    head_taps_pinned(&q);
}

void zn_lite_head_arm(const void *args, zn_range r) { all_rows(args, r, (head_steps){ norm_row, taps_row }); }
