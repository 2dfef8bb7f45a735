/* The spectral half of a Prune block on vectors: a line of channels stays in L1 from the first transform to the
 * last. */
#include "kernels/line.h"
#include "kernels/gates.h"
#include "kernels/simd/prune/srig.h"
#include "kernels/simd/spectral/wht_line.h"

void ZN_KERNEL(line)(const void *args, zn_range r);
void ZN_KERNEL(line_grad)(const void *args, zn_range r);
void zn_ref_line(const void *args, zn_range r);
void zn_ref_line_grad(const void *args, zn_range r);

/* The reference handles short lines and narrow groups. */
static bool is_small(const zn_line_args *a)
{
    const int width = a->gamma ? a->c / a->groups : a->c;
    return a->c < WHT_HEAD || width % VEC_LANES || (width & (width - 1));
}

static float *line_at(const zn_line_args *a, void *scratch, int i)
{
    return (float *)scratch + i * zn_line_length(a->c) + ZN_LINE_PAD;
}

/* Writes the zeros around a line, for the taps. */
static void clear_pads(float *line, int c)
{
    memset(line - ZN_LINE_PAD, 0, sizeof(float) * ZN_LINE_PAD);
    memset(line + c, 0, sizeof(float) * ZN_LINE_PAD);
}

VEC_INLINE void head_of(const float *e, float *u)
{
    vec v[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        v[i] = vec_load(e + i * VEC_LANES);
    wht_head(v);
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        vec_store(u + i * VEC_LANES, v[i]);
}

enum { LIST = 512, AHEAD = 4 }; /* heads that are tested together; prefetch distance of e */

/* Lists the heads among `count` whose masks are not all 0. It has no branches, because masks are hard to predict. */
static int list_open(const float *mask, int count, int32_t *list)
{
    enum { BLOCKS = WHT_HEAD / ZN_GATE_BLOCK };
    int open = 0;
    for (int i = 0; i < count; i++) {
        bool any = false;
        for (int b = 0; b < BLOCKS; b++)
            any |= mask[i * BLOCKS + b] != 0;
        list[open] = i * WHT_HEAD;
        open += any;
    }
    return open;
}

/* The heads of `count` groups. If most of them are pruned, only the others are read; e is 0 in the rest. */
static void heads_of(const float *e, const float *mask, int count, float *u)
{
    int32_t list[LIST];
    const int open = mask ? list_open(mask, count, list) : count;
    if (2 * open >= count) {
        for (int k = 0; k < count * WHT_HEAD; k += WHT_HEAD)
            head_of(e + k, u + k);
        return;
    }
    memset(u, 0, sizeof(float) * (size_t)(count * WHT_HEAD));
    for (int i = 0; i < open; i++) {
        for (int k = 0; k < WHT_HEAD && i + AHEAD < open; k += 16)
            __builtin_prefetch(e + list[i + AHEAD] + k);
        head_of(e + list[i], u + list[i]);
    }
}

/* u = H e of one pixel. The factor `unit` is applied later. */
static void analyse(const zn_line_args *a, int64_t p, float *u)
{
    const float *e = a->e + p * a->c, *mask = a->mask ? a->mask + p * (a->c / ZN_GATE_BLOCK) : NULL;
    const int heads = a->c / WHT_HEAD;
    for (int i = 0; i < heads; i += LIST)
        heads_of(e + i * WHT_HEAD, mask ? mask + i * (WHT_HEAD / ZN_GATE_BLOCK) : NULL,
                 heads - i < LIST ? heads - i : LIST, u + i * WHT_HEAD);
    wht_rest(u, a->c);
}

/* t = N(unit u), in place of u except for SRIG, which keeps the scaled u. Returns the address of t. */
static float *nonlinear(const zn_line_args *a, float *u, float *t, const srig *gate)
{
    const vec unit = vec_splat(a->unit), zero = vec_splat(0);
    if (a->kind == ZN_LINE_SRIG) {
        for (int k = 0; k < a->c && a->unit != 1; k += VEC_LANES)
            vec_store(u + k, vec_load(u + k) * unit);
        srig_forward(gate, u);
        for (int k = 0; k < a->c; k += VEC_LANES)
            vec_store(t + k, vec_load(u + k) * vec_load(gate->g[SRIG_ROUNDS - 1] + k));
        return t;
    }
    for (int k = 0; k < a->c && (a->unit != 1 || a->kind == ZN_LINE_THRESHOLD); k += VEC_LANES) {
        const vec v = vec_load(u + k) * unit;
        vec_store(u + k, v);
        if (a->kind == ZN_LINE_THRESHOLD)
            vec_store(t + k, vec_with_sign(vec_max(vec_abs(v) - vec_abs(vec_load(a->w + k)), zero), v));
    }
    return a->kind == ZN_LINE_THRESHOLD ? t : u;
}

/* z = H of the taps of s (a padded line), without the factor `unit`. */
static void synthesise(const zn_line_args *a, const float *s, float *z)
{
    const float *left = a->mixer, *centre = left + a->c, *right = centre + a->c;
    for (int k = 0; k < a->c; k += WHT_HEAD) {
        vec v[8];
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++) {
            const int at = k + i * VEC_LANES;
            v[i] = vec_load(centre + at) * vec_load(s + at);
            v[i] = vec_fma(vec_load(left + at), vec_load(s + at - 1), v[i]);
            v[i] = vec_fma(vec_load(right + at), vec_load(s + at + 1), v[i]);
        }
        wht_head(v);
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++)
            vec_store(z + k + i * VEC_LANES, v[i]);
    }
    wht_rest(z, a->c);
}

/* The sum over a group of channels, as four independent sums if it is wide enough; or the sum of squared deviations
 * from the mean. */
VEC_INLINE float sum_of(const float *r, int width, const bool square, float mean)
{
    const int step = width % (4 * VEC_LANES) ? VEC_LANES : 4 * VEC_LANES;
    vec sum[4] = { vec_splat(0), vec_splat(0), vec_splat(0), vec_splat(0) };
    for (int k = 0; k < width; k += step)
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++)
            if (i == 0 || step > VEC_LANES) {
                const vec v = vec_load(r + k + i * VEC_LANES), d = v - vec_splat(mean);
                sum[i] = square ? vec_fma(d, d, sum[i]) : (vec)(sum[i] + v);
            }
    return vec_sum((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

/* r = max(unit z, 0) with the moments of each group. */
static void rectify(const zn_line_args *a, const float *z, float *r, float *moments)
{
    const int width = a->c / a->groups;
    for (int k = 0; k < a->c; k += VEC_LANES)
        vec_store(r + k, vec_max(vec_load(z + k) * vec_splat(a->unit), vec_splat(0)));
    for (int g = 0; g < a->groups; g++) {
        const float mean = sum_of(r + g * width, width, false, 0) / (float)width;
        moments[2 * g] = mean;
        moments[2 * g + 1] = sum_of(r + g * width, width, true, mean);
    }
}

void ZN_KERNEL(line)(const void *args, zn_range range)
{
    const zn_line_args *a = args;
    if (is_small(a)) {
        zn_ref_line(args, range);
        return;
    }
    float *u = line_at(a, range.scratch, 0), *t = line_at(a, range.scratch, 1), *z = line_at(a, range.scratch, 2);
    srig gate = { 0 };
    if (a->kind == ZN_LINE_SRIG)
        gate = srig_of(a->turned, a->b, a->c, line_at(a, range.scratch, 3) - ZN_LINE_PAD);
    clear_pads(u, a->c);
    clear_pads(t, a->c);
    for (int64_t p = range.begin; p < range.end; p++) {
        float *y = a->y + p * a->c, *moments = a->gamma ? a->moments + p * 2 * a->groups : NULL;
        if (moments && (a->pruned[p] = zn_line_is_pruned(a, p))) {
            memset(moments, 0, sizeof(float) * 2 * (size_t)a->groups);
            continue;
        }
        analyse(a, p, u);
        float *s = nonlinear(a, u, t, &gate);
        for (int k = 0; k < a->c; k += VEC_LANES)
            vec_store(s + k, vec_load(s + k) * vec_load(a->scale + k));
        synthesise(a, s, z);
        if (moments)
            rectify(a, z, a->r + p * a->c, moments);
        else
            for (int k = 0; k < a->c; k += VEC_LANES)
                vec_store(y + k, vec_load(z + k) * vec_splat(a->unit));
    }
}

/* dz of one pixel's vector at k: back through norm and ReLU, if there are any. */
VEC_INLINE vec begin(const zn_line_args *a, const float *dy, const float *r, const float *stats, int shift, int k)
{
    const vec d = vec_load(dy + k);
    if (!a->gamma)
        return d;
    const float *t = stats + 4 * (k >> shift);
    const vec v = vec_load(r + k), scale = vec_splat(t[1]), xh = (v - vec_splat(t[0])) * scale;
    const vec dr = vec_fms(xh, vec_splat(t[3]), vec_fma(d, vec_load(a->gamma + k), vec_splat(0) - vec_splat(t[2])));
    return vec_where(vec_greater(v, vec_splat(0)), dr * scale);
}

/* dm = unit H dz */
static void begin_line(const zn_line_args *a, int64_t p, float *dm)
{
    const int shift = a->gamma ? __builtin_ctz((unsigned)(a->c / a->groups)) : 0; /* group width is a power of two */
    const float *stats = a->gamma ? a->stats + 4 * (p / a->pixels * a->groups) : NULL;
    const float *r = a->gamma ? a->r + p * a->c : NULL;
    for (int k = 0; k < a->c; k += WHT_HEAD) {
        vec v[8];
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++)
            v[i] = begin(a, a->dy + p * a->c, r, stats, shift, k + i * VEC_LANES);
        wht_head(v);
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++)
            vec_store(dm + k + i * VEC_LANES, v[i]);
    }
    wht_rest(dm, a->c);
    for (int k = 0; k < a->c && a->unit != 1; k += VEC_LANES)
        vec_store(dm + k, vec_load(dm + k) * vec_splat(a->unit));
}

/* Adds the gradients of mixer and scale to rows; dt = scale .* (transposed taps of dm). s is a padded line: scale .*
 * t. */
static void taps_back(const zn_line_args *a, const float *dm, const float *t, const float *s, float *dt, float *rows)
{
    const int64_t c = a->c;
    const float *left = a->mixer, *centre = left + c, *right = centre + c;
    for (int64_t k = 0; k < c; k += VEC_LANES) { /* may read the mixer's next row at the ends; dm is 0 there */
        const vec d = vec_load(dm + k);
        vec_store(rows + c + k, vec_fma(d, vec_load(s + k - 1), vec_load(rows + c + k)));
        vec_store(rows + 2 * c + k, vec_fma(d, vec_load(s + k), vec_load(rows + 2 * c + k)));
        vec_store(rows + 3 * c + k, vec_fma(d, vec_load(s + k + 1), vec_load(rows + 3 * c + k)));
        vec ds = vec_load(centre + k) * d;
        ds = vec_fma(vec_load(left + k + 1), vec_load(dm + k + 1), ds);
        ds = vec_fma(vec_load(right + k - 1), vec_load(dm + k - 1), ds);
        vec_store(rows + k, vec_fma(ds, vec_load(t + k), vec_load(rows + k)));
        vec_store(dt + k, ds * vec_load(a->scale + k));
    }
}

/* du = N'(u) dt, in place. */
static void nonlinear_back(const zn_line_args *a, const float *u, float *dt, const srig *gate, float *rows)
{
    if (a->kind == ZN_LINE_SRIG)
        srig_backward(gate, u, dt, dt, rows);
    const vec zero = vec_splat(0);
    for (int k = 0; k < a->c && a->kind == ZN_LINE_THRESHOLD; k += VEC_LANES) {
        const vec v = vec_load(u + k), w = vec_load(a->w + k);
        const vec d = vec_where(vec_greater(vec_abs(v), vec_abs(w)), vec_load(dt + k));
        /* -sign(u) sign(w) d; sign(0) = 0 */
        const vec same = vec_where(vec_greater(v * w, zero), d), other = vec_where(vec_greater(zero, v * w), d);
        vec_store(rows + k, vec_load(rows + k) + (other - same));
        vec_store(dt + k, d);
    }
}

static void pixel_grad(const zn_line_args *a, int64_t p, float *const lines[5], const srig *gate, float *rows)
{
    float *dm = lines[0], *u = lines[1], *t = lines[2], *s = lines[3], *dt = lines[4];
    begin_line(a, p, dm);
    analyse(a, p, u);
    const float *v = nonlinear(a, u, t, gate);
    for (int k = 0; k < a->c; k += VEC_LANES)
        vec_store(s + k, vec_load(v + k) * vec_load(a->scale + k));
    taps_back(a, dm, v, s, dt, rows);
    nonlinear_back(a, u, dt, gate, rows + 4 * (int64_t)a->c);
    float *de = a->y + p * a->c;
    for (int k = 0; k < a->c; k += WHT_HEAD) {
        vec h[8];
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++)
            h[i] = vec_load(dt + k + i * VEC_LANES) * vec_splat(a->unit);
        wht_head(h);
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++)
            vec_store(dt + k + i * VEC_LANES, h[i]);
    }
    wht_rest(dt, a->c);
    memcpy(de, dt, sizeof(float) * (size_t)a->c);
}

void ZN_KERNEL(line_grad)(const void *args, zn_range range)
{
    const zn_line_args *a = args;
    if (is_small(a)) {
        zn_ref_line_grad(args, range);
        return;
    }
    const int64_t all = a->n * a->pixels, size = zn_line_block(all), count = (int64_t)zn_line_rows(a->kind) * a->c;
    float *lines[5];
    for (int i = 0; i < 5; i++)
        clear_pads(lines[i] = line_at(a, range.scratch, i), a->c);
    srig gate = { 0 };
    if (a->kind == ZN_LINE_SRIG)
        gate = srig_of(a->turned, a->b, a->c, line_at(a, range.scratch, 5) - ZN_LINE_PAD);
    for (int64_t block = range.begin; block < range.end; block++) {
        float *rows = a->partial + block * count;
        memset(rows, 0, sizeof(float) * (size_t)count);
        for (int64_t p = block * size; p < (block + 1) * size && p < all; p++)
            if (a->gamma && a->pruned[p] != 0)
                memset(a->y + p * a->c, 0, sizeof(float) * (size_t)a->c);
            else
                pixel_grad(a, p, lines, &gate, rows);
    }
}
