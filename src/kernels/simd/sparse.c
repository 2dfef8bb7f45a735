/* Depthwise 3x3 behind a block gate. A unit is a strip of channels of one image: its rows are copied, with a zero pixel
 * at both ends, into a ring of three short rows, since pixels of wide maps lie a multiple of a cache's size apart; the
 * nine weights of a vector are turned once for all pixels. Where a block's mask is 0 nothing is computed.
 *
 * Products are rounded before they are added, in the order of simd/depthwise.c, so that open gates give its bits (this
 * file is compiled without contraction). */
#include "kernels/gates.h"
#include "kernels/simd/vec_math.h"

void ZN_KERNEL(sparse_depthwise)(const void *args, zn_range r);
void ZN_KERNEL(sparse_depthwise_grad)(const void *args, zn_range r);
void ZN_KERNEL(sparse_depthwise_weight_grad)(const void *args, zn_range r);

enum { STRIP = ZN_SPARSE_STRIP, BLOCK = ZN_GATE_BLOCK, VECTORS = STRIP / VEC_LANES };

/* The channels [first, first + width) of image n; width is a multiple of BLOCK. */
typedef struct strip {
    const zn_sparse_args *a;
    int64_t pixel; /* first of the image */
    int first, width;
    float *w;    /* [9][STRIP], zero beyond the width */
    float *ring; /* [3][wide + 2][STRIP] */
} strip;

static strip strip_of(const zn_sparse_args *a, int64_t unit, float *scratch, bool flip)
{
    const int64_t strips = zn_sparse_strips(a);
    strip s = { .a = a, .pixel = unit / strips * a->h * a->wide, .first = (int)(unit % strips) * STRIP };
    s.width = a->c - s.first < STRIP ? a->c - s.first : STRIP;
    s.w = scratch;
    s.ring = scratch + 9 * STRIP;
    memset(scratch, 0, sizeof(float) * (9 * STRIP + 3 * (size_t)(a->wide + 2) * STRIP));
    for (int k = 0; k < s.width; k++)
        for (int i = 0; i < 9; i++)
            s.w[i * STRIP + k] = a->w[9 * (s.first + k) + (flip ? 8 - i : i)];
    return s;
}

static float *ring_row(const strip *s, int y) { return s->ring + (int64_t)((y + 3) % 3) * (s->a->wide + 2) * STRIP; }

static float mask_at(const strip *s, int64_t pixel, int k)
{
    return s->a->mask ? s->a->mask[pixel * (s->a->c / BLOCK) + (s->first + k) / BLOCK] : 1;
}

/* Row y of x into the ring, zeros beyond the image; multiplied by the mask if wanted. */
static void take_row(const strip *s, const float *x, int y, bool masked)
{
    float *to = ring_row(s, y) + STRIP;
    const zn_sparse_args *a = s->a;
    for (int ox = 0; ox < a->wide; ox++, to += STRIP) {
        const int64_t pixel = s->pixel + (int64_t)y * a->wide + ox;
        const bool inside = y >= 0 && y < a->h;
        for (int k = 0; k < s->width; k += BLOCK) {
            const float m = !inside ? 0 : masked ? mask_at(s, pixel, k) : 1;
            if (m == 1)
                memcpy(to + k, x + pixel * a->c + s->first + k, sizeof(float) * BLOCK);
            else if (m == 0)
                memset(to + k, 0, sizeof(float) * BLOCK);
            else
                for (int i = 0; i < BLOCK; i++)
                    to[k + i] = m * x[pixel * a->c + s->first + k + i];
        }
    }
}

/* The nine products of one vector of channels around pixel ox of row y. Taps outside the image are zeros. */
VEC_INLINE vec taps(const vec w[9], const float *const rows[3], int ox, int k)
{
    vec sum = vec_splat(0);
#pragma GCC unroll 3
    for (int ky = 0; ky < 3; ky++)
#pragma GCC unroll 3
        for (int kx = 0; kx < 3; kx++)
            sum = sum + w[3 * ky + kx] * vec_load(rows[ky] + (int64_t)(ox + kx) * STRIP + k);
    return sum;
}

/* Lanes of the masks of a vector that spans one block or several. */
VEC_INLINE vec mask_vector(const strip *s, int64_t pixel, int k, bool *open)
{
    if ((int)VEC_LANES <= (int)BLOCK) {
        const float m = mask_at(s, pixel, k);
        *open = m != 0;
        return vec_splat(m);
    }
    float m[VEC_LANES];
    *open = false;
    for (int i = 0; i < VEC_LANES; i++) {
        m[i] = k + i < s->width ? mask_at(s, pixel, k + i) : 0;
        *open |= m[i] != 0;
    }
    return vec_load(m);
}

/* One row of results, all pixels of it; with a mask on the results, or without. */
static void give_row(const strip *s, int y, bool masked)
{
    const zn_sparse_args *a = s->a;
    const float *const rows[3] = { ring_row(s, y - 1), ring_row(s, y), ring_row(s, y + 1) };
    for (int k = 0; k < s->width; k += VEC_LANES) {
        const int lanes = s->width - k < VEC_LANES ? s->width - k : VEC_LANES;
        vec w[9];
#pragma GCC unroll 9
        for (int i = 0; i < 9; i++)
            w[i] = vec_load(s->w + i * STRIP + k);
        for (int ox = 0; ox < a->wide; ox++) {
            const int64_t pixel = s->pixel + (int64_t)y * a->wide + ox;
            float *to = a->y + pixel * a->c + s->first + k;
            bool open = true;
            const vec m = masked ? mask_vector(s, pixel, k, &open) : vec_splat(1);
            const vec sum = open ? (vec)(m * taps(w, rows, ox, k)) : vec_splat(0);
            if (lanes == VEC_LANES)
                vec_store(to, sum);
            else
                vec_store_part(to, sum, lanes);
        }
    }
}

static void convolve(const strip *s, const float *x, bool mask_input, bool mask_output)
{
    take_row(s, x, -1, false);
    take_row(s, x, 0, mask_input);
    for (int y = 0; y < s->a->h; y++) {
        take_row(s, x, y + 1, mask_input);
        give_row(s, y, mask_output);
    }
}

void ZN_KERNEL(sparse_depthwise)(const void *args, zn_range r)
{
    const zn_sparse_args *a = args;
    for (int64_t u = r.begin; u < r.end; u++) {
        const strip s = strip_of(a, u, r.scratch, false);
        convolve(&s, a->x, false, a->mask != NULL);
    }
}

void ZN_KERNEL(sparse_depthwise_grad)(const void *args, zn_range r)
{
    const zn_sparse_args *a = args;
    for (int64_t u = r.begin; u < r.end; u++) {
        const strip s = strip_of(a, u, r.scratch, true);
        convolve(&s, a->dy, a->mask != NULL, false);
    }
}

/* Adds one row of one vector to the nine sums. */
VEC_INLINE void weight_row(const strip *s, int y, int k, int lanes, vec sum[9])
{
    const zn_sparse_args *a = s->a;
    const float *const rows[3] = { ring_row(s, y - 1), ring_row(s, y), ring_row(s, y + 1) };
    vec t[9];
    memcpy(t, sum, sizeof t);
    for (int ox = 0; ox < a->wide; ox++) {
        const int64_t pixel = s->pixel + (int64_t)y * a->wide + ox;
        const float *dy = a->dy + pixel * a->c + s->first + k;
        bool open = true;
        const vec m = a->mask ? mask_vector(s, pixel, k, &open) : vec_splat(1);
        if (!open)
            continue;
        const vec d = m * (lanes == VEC_LANES ? vec_load(dy) : vec_load_part(dy, lanes));
#pragma GCC unroll 3
        for (int ky = 0; ky < 3; ky++)
#pragma GCC unroll 3
            for (int kx = 0; kx < 3; kx++)
                t[3 * ky + kx] = t[3 * ky + kx] + d * vec_load(rows[ky] + (int64_t)(ox + kx) * STRIP + k);
    }
    memcpy(sum, t, sizeof t);
}

void ZN_KERNEL(sparse_depthwise_weight_grad)(const void *args, zn_range r)
{
    const zn_sparse_args *a = args;
    for (int64_t u = r.begin; u < r.end; u++) {
        const strip s = strip_of(a, u, r.scratch, false);
        vec sums[VECTORS][9];
        memset(sums, 0, sizeof sums);
        take_row(&s, a->x, -1, false);
        take_row(&s, a->x, 0, false);
        for (int y = 0; y < a->h; y++) {
            take_row(&s, a->x, y + 1, false);
            for (int k = 0; k < s.width; k += VEC_LANES)
                weight_row(&s, y, k, s.width - k < VEC_LANES ? s.width - k : VEC_LANES, sums[k / VEC_LANES]);
        }
        float *dw = a->partial + u / zn_sparse_strips(a) * 9 * a->c + 9 * s.first;
        for (int k = 0; k < s.width; k++)
            for (int i = 0; i < 9; i++)
                dw[9 * k + i] = ((const float *)&sums[k / VEC_LANES][i])[k % VEC_LANES];
    }
}
