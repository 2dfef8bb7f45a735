/* First, is the image damaged? Samples that hardly anything but an impulse explains are counted in cells of 32x32
 * pixels; impulses are everywhere, so at least half of the cells must have them. If it is, every sample at an end of
 * the scale is wrong unless it seems to lie in a clipped area, and the others tell its value: channels go together in
 * photos, so it is predicted from the other channels of its pixel, with slopes found among the neighbours. */
#include "io/image/pixels/impulses.h"

#include "base/alloc.h"
#include "base/fail.h"

#include <string.h>

enum { CELL = 32, SHARES = 4096, LEAST_OTHERS = 5, REACH = 2 };
static const double least_gap = 96;         /* of 255, from an isolated sample to the nearest of its neighbours */
static const double least_share = 0.001;    /* of the samples are isolated in half of the cells of a damaged image */
static const double least_alone = 0.1;      /* of the samples at the ends of the scale; heavy noise has 0.01 */
static const double least_balance = 0.0625; /* of the isolated samples are at the rarer end of the scale */

typedef struct samples {
    const zn_image *image;
    int64_t row; /* samples from a pixel to the one below */
    int top;     /* full scale */
} samples;

typedef struct census {
    int64_t isolated[2]; /* samples at 0 and at full scale */
    int64_t whole;       /* of them, those whose pixel has the same value in all channels */
    int64_t cells_by_isolated[SHARES + 1], cells_by_extreme[SHARES + 1];
} census;

static int sample(const samples *s, int64_t i)
{
    return s->top == UINT8_MAX ? ((const uint8_t *)s->image->pixels)[i] : ((const uint16_t *)s->image->pixels)[i];
}

static bool is_extreme(const samples *s, int64_t i) { return sample(s, i) == 0 || sample(s, i) == s->top; }

/* Offsets of the neighbours of a sample that are in the image; returns their number. */
static int neighbours(const samples *s, int64_t i, int64_t offset[8])
{
    const int64_t x = i % s->row / 3, y = i / s->row;
    int count = 0;
    for (int k = 0; k < 9; k++) {
        const int dx = k % 3 - 1, dy = k / 3 - 1;
        if (k != 4 && x + dx >= 0 && x + dx < s->image->width && y + dy >= 0 && y + dy < s->image->height)
            offset[count++] = dy * s->row + dx * 3;
    }
    return count;
}

/* ---- is it damaged? ---- */

/* No neighbour has the same value, and the sample is farther from them than they are from each other. Neighbours at the
 * other end of the scale are likely to be impulses as well. */
static bool is_isolated(const samples *s, int64_t i)
{
    int64_t offset[8];
    const int value = sample(s, i);
    int low = s->top, high = 0, others = 0;
    for (int k = 0, n = neighbours(s, i, offset); k < n; k++) {
        const int v = sample(s, i + offset[k]);
        if (v == value)
            return false;
        if (is_extreme(s, i + offset[k]))
            continue;
        low = v < low ? v : low;
        high = v > high ? v : high;
        others++;
    }
    const int gap = value ? value - high : low;
    return others >= LEAST_OTHERS && gap > least_gap * s->top / 255 && gap > high - low;
}

/* Channels of the sample's pixel that have the same value, itself included. */
static int equal_channels(const samples *s, int64_t i)
{
    int count = 0;
    for (int64_t c = i / 3 * 3; c < i / 3 * 3 + 3; c++)
        count += sample(s, c) == sample(s, i);
    return count;
}

static void count_cell(const samples *s, zn_region cell, census *c)
{
    int64_t extreme = 0, isolated = 0;
    for (int64_t y = cell.y; y < cell.y + cell.height; y++)
        for (int64_t i = y * s->row + cell.x * 3; i < y * s->row + (cell.x + cell.width) * 3; i++) {
            if (!is_extreme(s, i))
                continue;
            extreme++;
            if (!is_isolated(s, i))
                continue;
            isolated++;
            c->isolated[sample(s, i) > 0]++;
            c->whole += equal_channels(s, i) == 3;
        }
    const int64_t all = (int64_t)cell.width * cell.height * 3;
    c->cells_by_extreme[extreme * SHARES / all]++;
    c->cells_by_isolated[isolated * SHARES / all]++;
}

static int least(int a, int b) { return a < b ? a : b; }

static void count_cells(const samples *s, census *c)
{
    *c = (census){ 0 };
    for (int y = 0; y < s->image->height; y += CELL)
        for (int x = 0; x < s->image->width; x += CELL)
            count_cell(s, (zn_region){ x, y, least(CELL, s->image->width - x), least(CELL, s->image->height - y) }, c);
}

/* The share that `part` of the cells do not exceed. */
static double quantile(const int64_t cells[SHARES + 1], double part)
{
    int64_t all = 0, below = 0;
    int share = 0;
    for (int i = 0; i <= SHARES; i++)
        all += cells[i];
    while ((double)(below += cells[share]) < part * (double)all)
        share++;
    return (double)share / SHARES;
}

/* The share of samples at the ends of the scale where little is clipped. */
static double share_of_extremes(const census *c) { return quantile(c->cells_by_extreme, 0.25); }

static bool is_damaged(const census *c)
{
    const int64_t all = c->isolated[0] + c->isolated[1],
                  rarer = c->isolated[0] < c->isolated[1] ? c->isolated[0] : c->isolated[1];
    const double isolated = quantile(c->cells_by_isolated, 0.5);
    return isolated > least_share && isolated > least_alone * share_of_extremes(c) &&
           (double)rarer > least_balance * (double)all;
}

/* ---- which samples are wrong ---- */

/* The more channels and neighbours are at the same end of the scale, the more a sample seems to be clipped. Some of
 * them are impulses too: `share` is that of samples at the ends, `whole` says that impulses hit all channels of a
 * pixel. */
static bool is_wrong(const samples *s, int64_t i, double share, bool whole)
{
    int64_t offset[8];
    int equal = 0;
    if (!is_extreme(s, i))
        return false;
    for (int k = 0, n = neighbours(s, i, offset); k < n; k++)
        equal += sample(s, i + offset[k]) == sample(s, i);
    return equal + 1.5 * (equal_channels(s, i) - 1) < (whole ? 4.2 : 3) + 12 * share;
}

/* ---- what they should be ---- */

enum { RIGHT, WRONG, FILLED };

/* Weighted means of the channel to be filled, of the differences of two others to the pixel's, and of their products.
 */
typedef struct moments {
    double weight, v, a, b, va, vb, aa, bb, ab;
} moments;

static void add(moments *m, double weight, double v, double a, double b)
{
    m->weight += weight;
    m->v += weight * v;
    m->a += weight * a;
    m->b += weight * b;
    m->va += weight * v * a;
    m->vb += weight * v * b;
    m->aa += weight * a * a;
    m->bb += weight * b * b;
    m->ab += weight * a * b;
}

/* The line through the moments, at differences 0. Slopes are drawn towards those of grey images: 0.9 together. A
 * channel that says nothing has only differences of 0. */
static double predict(moments m, bool has_a, bool has_b)
{
    const double w = m.weight, pull = 20, slope = has_a && has_b ? 0.45 : 0.9;
    const double v = m.v / w, a = m.a / w, b = m.b / w;
    const double va = m.va / w - v * a + (has_a ? pull * slope : 0), vb = m.vb / w - v * b + (has_b ? pull * slope : 0);
    const double aa = m.aa / w - a * a + pull, bb = m.bb / w - b * b + pull, ab = m.ab / w - a * b;
    const double whole = aa * bb - ab * ab;
    return v - (va * bb - vb * ab) / whole * a - (aa * vb - ab * va) / whole * b;
}

/* What the samples around suggest for a wrong one, of 255. False: all of them are wrong. */
static bool suggest(const samples *s, const uint8_t *state, int64_t i, double *value)
{
    static const double near[] = { 1, 0.6065, 0.3679, 0, 0.1353, 0.0821, 0, 0, 0.0183 }; /* exp(-d/2) */
    const int64_t x = i % s->row / 3, y = i / s->row, first = i / 3 * 3, ia = first + (i + 1) % 3,
                  ib = first + (i + 2) % 3;
    const bool has_a = !state[ia], has_b = !state[ib];
    const double scale = 255.0 / s->top;
    moments m = { 0 };
    for (int k = 0; k < (2 * REACH + 1) * (2 * REACH + 1); k++) {
        const int dx = k % (2 * REACH + 1) - REACH, dy = k / (2 * REACH + 1) - REACH;
        const int64_t d = dy * s->row + dx * 3;
        if (x + dx < 0 || x + dx >= s->image->width || y + dy < 0 || y + dy >= s->image->height || state[i + d] ||
            (has_a && state[ia + d]) || (has_b && state[ib + d]))
            continue;
        const double a = has_a ? scale * (sample(s, ia + d) - sample(s, ia)) : 0;
        const double b = has_b ? scale * (sample(s, ib + d) - sample(s, ib)) : 0;
        add(&m, near[dx * dx + dy * dy] / (100 + a * a + b * b), scale * sample(s, i + d), a, b);
    }
    *value = m.weight > 0 ? predict(m, has_a, has_b) : 0;
    return m.weight > 0;
}

static void put(zn_image *image, int64_t i, double value)
{
    const double v = value < 0 ? 0 : value > 255 ? 255 : value;
    if (image->bits == 8)
        ((uint8_t *)image->pixels)[i] = (uint8_t)(v + 0.5);
    else
        ((uint16_t *)image->pixels)[i] = (uint16_t)(v * 257 + 0.5);
}

/* Fills the samples that have something to go by. What is filled counts in the next round; false: nothing is left. */
static bool fill(zn_image *image, uint8_t *state, int64_t count)
{
    const samples s = { image, (int64_t)image->width * 3, image->bits == 8 ? UINT8_MAX : UINT16_MAX };
    bool some = false, left = false;
    double value;
    for (int64_t i = 0; i < count; i++)
        if (state[i] == WRONG && suggest(&s, state, i, &value)) {
            put(image, i, value);
            state[i] = FILLED;
            some = true;
        }
    for (int64_t i = 0; i < count; i++) {
        state[i] = state[i] == WRONG ? WRONG : RIGHT;
        left |= state[i] == WRONG;
    }
    return some && left;
}

static zn_status copy_of(const zn_image *image, zn_image **out)
{
    ZN_TRY(zn_image_new(image->width, image->height, image->bits, out));
    memcpy((*out)->pixels, image->pixels, (size_t)image->width * (size_t)image->height * 3 * (size_t)(image->bits / 8));
    (*out)->grey = image->grey;
    return ZN_OK;
}

zn_status zn_impulses_fill(const zn_image *image, zn_image **out)
{
    const samples s = { image, (int64_t)image->width * 3, image->bits == 8 ? UINT8_MAX : UINT16_MAX };
    const int64_t count = s.row * image->height;
    census c;
    *out = NULL;
    count_cells(&s, &c);
    if (!is_damaged(&c))
        return ZN_OK;
    uint8_t *state;
    ZN_TRY(zn_alloc_for("the impulses of an image", (size_t)count, (void **)&state));
    const zn_status status = copy_of(image, out);
    if (status == ZN_OK) {
        const bool whole = 2 * c.whole > c.isolated[0] + c.isolated[1];
        const double share = share_of_extremes(&c);
        for (int64_t i = 0; i < count; i++)
            state[i] = is_wrong(&s, i, share, whole) ? WRONG : RIGHT;
        while (fill(*out, state, count))
            ;
    }
    zn_free(state);
    return status;
}
