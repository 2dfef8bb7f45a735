/* Depthwise 3x3 followed by a block gate, one pixel at a time. A pixel whose blocks are all pruned only costs
 * writing its zeros; so does a pixel that no open pixel reaches in the gradient. Channels are processed in groups of
 * a cache line. Pixels of wide maps are a multiple of the cache size apart, so a loaded line must be used at once.
 *
 * Products are rounded before they are added, in the order of simd/conv/depthwise.c, so that open gates give the same
 * bits (this file is compiled without contraction). */
#include "base/least.h"
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

/* Neighbours inside the image, in the order of the taps. */
typedef struct taps {
    const float *x[9], *w[9];
    const float *mask[9]; /* masks of the neighbours, for the gradient; and their bits */
    const uint64_t *open[9];
    int count;
} taps;

static const uint64_t *open_of(const zn_sparse_args *a, int64_t pixel)
{
    return a->open + pixel * zn_sparse_words(a->c);
}
static uint64_t state_of(const zn_sparse_args *a, const uint64_t *open) { return open[zn_sparse_words(a->c) - 1]; }

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
        if (back && a->mask) {
            if (!(state_of(a, open_of(a, from)) & ZN_SPARSE_ANY))
                continue;
            t.open[t.count] = open_of(a, from);
            t.mask[t.count] = a->mask + from * (a->c / BLOCK);
        }
        t.x[t.count] = (back ? a->dy : a->x) + from * a->c;
        t.w[t.count++] = a->turned + (back ? 8 - tap : tap) * zn_sparse_row(a->c);
    }
    return t;
}

/* Where masks are applied: not at all, because they are 1; to the sum; to each tap. */
typedef enum way { NOWHERE, ON_SUM, ON_TAPS } way;

/* If the masks of all taps are equal, each 0 or 1, they can be applied to the sum. */
static way way_back(const zn_sparse_args *a, const taps *t)
{
    const size_t bytes = sizeof(uint64_t) * (size_t)zn_sparse_words(a->c);
    for (int i = 0; i < t->count; i++)
        if (!(state_of(a, t->open[i]) & ZN_SPARSE_PLAIN) || memcmp(t->open[i], t->open[0], bytes))
            return ON_TAPS;
    return t->count && state_of(a, t->open[0]) & ZN_SPARSE_FULL ? NOWHERE : ON_SUM;
}

/* The masks of a group as lanes; m has one per block. */
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

/* The sums of one group of channels; applies the masks of the taps if there are any. */
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

/* Lists the groups that any of the masks opens, at most LIST, from word *next. It uses few branches, because masks
 * are hard to predict. */
enum { LIST = 512, AHEAD = 4, WORD = 64 };
static int list_open(const uint64_t *const *open, int count, int end, int *next, int32_t *list)
{
    int found = 0;
    for (; *next * WORD * BLOCK < end && found <= LIST - WORD / 2; ++*next) {
        uint64_t bits = 0;
        for (int i = 0; i < count; i++)
            bits |= open[i][*next];
        for (bits = (bits | bits >> 1) & 0x5555555555555555; bits; bits &= bits - 1) {
            list[found] = (*next * WORD + __builtin_ctzll(bits)) * BLOCK;
            found += list[found] < end;
        }
    }
    return found;
}

/* Channels after the last whole group. */
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

VEC_INLINE void store_group(float *y, const vec sum[VECTORS])
{
#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; v++)
        vec_store(y + v * VEC_LANES, sum[v]);
}

/* Computes the open groups of a pixel; mask: for the sum, or NULL if masks are applied to the taps. */
static void listed(const taps *t, const uint64_t *const *open, int count, const float *mask, int end, float *y)
{
    for (int next = 0; next * WORD * BLOCK < end;) {
        int32_t list[LIST];
        const int found = list_open(open, count, end, &next, list);
        const bool far = mask && found * 4 < zn_least(LIST, end / GROUP); /* scattered: no hardware prefetch */
        for (int i = 0; i < found; i++) {
            vec sum[VECTORS], lanes[VECTORS];
            for (int j = 0; j < t->count && far && i + AHEAD < found; j++)
                __builtin_prefetch(t->x[j] + list[i + AHEAD]);
            if (mask)
                sum_group(t, list[i], false, sum);
            else
                sum_group(t, list[i], true, sum);
            if (mask) {
                mask_lanes(mask + list[i] / BLOCK, lanes);
#pragma GCC unroll 4
                for (int v = 0; v < VECTORS; v++) /* pruned values have no effect, even if they are not finite */
                    sum[v] = vec_where(vec_nonzero(lanes[v]), lanes[v] * sum[v]);
            }
            store_group(y + list[i], sum);
        }
    }
}

static void pixel_of(const zn_sparse_args *a, int64_t pixel, bool back)
{
    const taps t = taps_of(a, pixel, back);
    const uint64_t *own = a->mask ? open_of(a, pixel) : NULL;
    const float *mask = own && !back ? a->mask + pixel * (a->c / BLOCK) : NULL;
    const way how = !own ? NOWHERE : back ? way_back(a, &t) : state_of(a, own) & ZN_SPARSE_FULL ? NOWHERE : ON_SUM;
    float *y = a->y + pixel * a->c;
    const int whole = a->c / GROUP * GROUP;
    if (how != NOWHERE)
        memset(y, 0, sizeof(float) * (size_t)a->c);
    for (int k = 0; k < whole && how == NOWHERE; k += GROUP) {
        vec sum[VECTORS];
        sum_group(&t, k, false, sum);
        store_group(y + k, sum);
    }
    if (how == ON_SUM && back && t.count)
        listed(&t, t.open, 1, t.mask[0], whole, y);
    else if (how == ON_SUM && !back)
        listed(&t, &own, 1, mask, whole, y);
    else if (how == ON_TAPS)
        listed(&t, t.open, t.count, NULL, whole, y);
    single(a, &t, mask, whole, y);
}

void ZN_KERNEL(sparse_depthwise)(const void *args, zn_range r)
{
    const zn_sparse_args *a = args;
    for (int64_t p = r.begin; p < r.end; p++)
        if (a->mask && !(state_of(a, open_of(a, p)) & ZN_SPARSE_ANY))
            memset(a->y + p * a->c, 0, sizeof(float) * (size_t)a->c);
        else
            pixel_of(a, p, false);
}

void ZN_KERNEL(sparse_depthwise_grad)(const void *args, zn_range r)
{
    for (int64_t p = r.begin; p < r.end; p++)
        pixel_of(args, p, true);
}
