/* Depthwise 3x3 behind a block gate, one pixel at a time: a pixel whose blocks are all pruned costs the zeros it is,
 * and so does one that no open pixel reaches in the gradient. Channels go by in groups of a cache line, since pixels of
 * wide maps lie a multiple of a cache's size apart and a line that was fetched must be used at once.
 *
 * Products are rounded before they are added, in the order of simd/depthwise.c, so that open gates give its bits (this
 * file is compiled without contraction). */
#include "kernels/gates.h"
#include "kernels/simd/vec_math.h"

void ZN_KERNEL(sparse_turn)(const void *args, zn_range r);
void ZN_KERNEL(sparse_depthwise)(const void *args, zn_range r);
void ZN_KERNEL(sparse_depthwise_grad)(const void *args, zn_range r);

enum { BLOCK = ZN_GATE_BLOCK, GROUP = 2 * ZN_GATE_BLOCK, VECTORS = GROUP / VEC_LANES };

/* Four channels at a time: two squares of four taps, and the last tap. */
void ZN_KERNEL(sparse_turn)(const void *args, zn_range r)
{
    const zn_sparse_turn_args *a = args;
    const int64_t row = zn_sparse_row(a->c);
    int64_t k = r.begin;
    for (; k + 4 <= r.end; k += 4) {
        const float *from = a->w + 9 * k;
        float t[9][4];
        interleave4(t[0], from, from + 9, from + 18, from + 27);
        interleave4(t[4], from + 4, from + 13, from + 22, from + 31);
        for (int i = 0; i < 4; i++)
            t[8][i] = from[9 * i + 8];
#pragma GCC unroll 9
        for (int tap = 0; tap < 9; tap++)
            memcpy(a->turned + tap * row + k, t[tap], sizeof t[tap]);
    }
    for (; k < r.end; k++)
        for (int tap = 0; tap < 9; tap++)
            a->turned[tap * row + k] = a->w[9 * k + tap];
}

/* Neighbours that count, in the order of the taps. */
typedef struct taps {
    const float *x[9], *w[9], *mask[9]; /* mask: of the neighbour, for the gradient */
    int count;
} taps;

static bool any_open(const zn_sparse_args *a, int64_t pixel)
{
    const float *m = a->mask + pixel * (a->c / BLOCK);
    int open = 0;
    for (int b = 0; b < a->c / BLOCK; b++)
        open |= m[b] != 0;
    return open;
}

static taps taps_of(const zn_sparse_args *a, int64_t pixel, bool back)
{
    taps t = { .count = 0 };
    const int64_t image = pixel / ((int64_t)a->h * a->wide) * a->h * a->wide;
    const int y = (int)((pixel - image) / a->wide), x = (int)((pixel - image) % a->wide);
    for (int tap = 0; tap < 9; tap++) {
        const int ny = y + tap / 3 - 1, nx = x + tap % 3 - 1;
        if (ny < 0 || ny >= a->h || nx < 0 || nx >= a->wide)
            continue;
        const int64_t from = image + (int64_t)ny * a->wide + nx;
        if (back && a->mask && !any_open(a, from))
            continue;
        t.x[t.count] = (back ? a->dy : a->x) + from * a->c;
        t.w[t.count] = a->turned + (back ? 8 - tap : tap) * zn_sparse_row(a->c);
        t.mask[t.count++] = back && a->mask ? a->mask + from * (a->c / BLOCK) : NULL;
    }
    return t;
}

/* The masks of a group as lanes; m has one for each block. */
VEC_INLINE void mask_lanes(const float *m, vec lanes[VECTORS])
{
#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; v++) {
        if ((int)VEC_LANES <= (int)BLOCK) {
            lanes[v] = vec_splat(m[v * VEC_LANES / BLOCK]);
            continue;
        }
        float t[VEC_LANES];
        for (int i = 0; i < VEC_LANES; i++)
            t[i] = m[(v * VEC_LANES + i) / BLOCK];
        lanes[v] = vec_load(t);
    }
}

/* The sums of one group of channels; the taps' own masks are applied if there are any. */
VEC_INLINE void sum_group(const taps *t, int k, const bool masked, vec sum[VECTORS])
{
#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; v++)
        sum[v] = vec_splat(0);
    for (int i = 0; i < t->count; i++) {
        vec lanes[VECTORS];
        if (masked)
            mask_lanes(t->mask[i] + k / BLOCK, lanes);
#pragma GCC unroll 4
        for (int v = 0; v < VECTORS; v++) {
            const vec x = vec_load(t->x[i] + k + v * VEC_LANES);
            sum[v] = sum[v] + vec_load(t->w[i] + k + v * VEC_LANES) * (masked ? (vec)(lanes[v] * x) : x);
        }
    }
}

/* Groups from `first` on, LIST at most, that any of the masks opens: without branches, since masks are hard to guess.
 */
enum { LIST = 512 };
static int list_open(const float *const *masks, int count, int first, int end, int32_t *list)
{
    int open = 0;
    for (int k = first; k < end; k += GROUP) {
        bool any = false;
        for (int i = 0; i < count; i++)
            any |= (masks[i][k / BLOCK] != 0) | (masks[i][k / BLOCK + 1] != 0);
        list[open] = k;
        open += any;
    }
    return open;
}

/* Channels behind the last whole group. */
static void single(const zn_sparse_args *a, const taps *t, const float *mask, int k, float *y)
{
    for (; k < a->c; k++) {
        const float m = mask ? mask[k / BLOCK] : 1;
        float sum = 0;
        for (int i = 0; i < t->count && m != 0; i++)
            sum += t->w[i][k] * (t->mask[i] ? t->mask[i][k / BLOCK] * t->x[i][k] : t->x[i][k]);
        y[k] = m == 0 ? 0 : m * sum;
    }
}

/* mask: of the pixel itself, forward; the taps have theirs on the way back. */
static void pixel_of(const zn_sparse_args *a, int64_t pixel, bool back)
{
    const taps t = taps_of(a, pixel, back);
    const bool masked = a->mask != NULL;
    const float *mask = masked && !back ? a->mask + pixel * (a->c / BLOCK) : NULL;
    float *y = a->y + pixel * a->c;
    const int whole = a->c / GROUP * GROUP;
    if (masked)
        memset(y, 0, sizeof(float) * (size_t)a->c);
    for (int k = 0; k < whole && !masked; k += GROUP) {
        vec sum[VECTORS];
        sum_group(&t, k, false, sum);
#pragma GCC unroll 4
        for (int v = 0; v < VECTORS; v++)
            vec_store(y + k + v * VEC_LANES, sum[v]);
    }
    for (int first = 0; first < whole && masked; first += LIST * GROUP) {
        int32_t list[LIST];
        const int end = whole - first < LIST * GROUP ? whole : first + LIST * GROUP;
        const int open = back ? list_open(t.mask, t.count, first, end, list) : list_open(&mask, 1, first, end, list);
        for (int i = 0; i < open; i++) {
            vec sum[VECTORS], lanes[VECTORS];
            if (back)
                sum_group(&t, list[i], true, sum);
            else
                sum_group(&t, list[i], false, sum);
            if (!back)
                mask_lanes(mask + list[i] / BLOCK, lanes);
#pragma GCC unroll 4
            for (int v = 0; v < VECTORS; v++) /* what is pruned cannot hurt, even if it is not finite */
                vec_store(y + list[i] + v * VEC_LANES,
                          back ? sum[v] : vec_where(vec_nonzero(lanes[v]), lanes[v] * sum[v]));
        }
    }
    single(a, &t, mask, whole, y);
}

void ZN_KERNEL(sparse_depthwise)(const void *args, zn_range r)
{
    const zn_sparse_args *a = args;
    for (int64_t p = r.begin; p < r.end; p++)
        if (a->mask && !any_open(a, p))
            memset(a->y + p * a->c, 0, sizeof(float) * (size_t)a->c);
        else
            pixel_of(a, p, false);
}

void ZN_KERNEL(sparse_depthwise_grad)(const void *args, zn_range r)
{
    for (int64_t p = r.begin; p < r.end; p++)
        pixel_of(args, p, true);
}
