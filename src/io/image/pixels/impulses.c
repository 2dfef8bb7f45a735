/* First, is the image damaged? Samples that hardly anything but an impulse explains are counted in cells of 32x32
 * pixels; impulses are everywhere, so at least half of the cells must have them. If it is, every sample at an end of
 * the scale is wrong unless it seems to lie in a clipped area, and the others tell its value: channels go together in
 * photos, so it is predicted from the other channels of its pixel, with slopes found among the neighbours
 * (impulse_fill.c). If it is not, impulse_random.c looks for impulses of any value. */
#include "io/image/pixels/impulses.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "io/image/pixels/impulse_parts.h"

enum { CELL = ZN_CELL, LEAST_OTHERS = 5 };
static const double least_gap = 96;         /* of 255, from an isolated sample to the nearest of its neighbours */
static const double least_share = 0.001;    /* of the samples are isolated in half of the cells of a damaged image */
static const double least_alone = 0.1;      /* of the samples at the ends of the scale; heavy noise has 0.01 */
static const double least_balance = 0.0625; /* of the isolated samples are at the rarer end of the scale */

typedef struct census {
    int64_t isolated[2]; /* samples at 0 and at full scale */
    int64_t whole;       /* of them, those whose pixel has the same value in all channels */
    zn_cells by_isolated, by_extreme;
} census;

static bool is_extreme(const zn_samples *s, int64_t i)
{
    return zn_sample_at(s, i) == 0 || zn_sample_at(s, i) == s->top;
}

/* ---- is it damaged? ---- */

/* No neighbour has the same value, and the sample is farther from them than they are from each other. Neighbours at the
 * other end of the scale are likely to be impulses as well. */
static bool is_isolated(const zn_samples *s, int64_t i)
{
    int64_t offset[8];
    const int value = zn_sample_at(s, i);
    int low = s->top, high = 0, others = 0;
    for (int k = 0, n = zn_sample_neighbours(s, i, offset); k < n; k++) {
        const int v = zn_sample_at(s, i + offset[k]);
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
static int equal_channels(const zn_samples *s, int64_t i)
{
    int count = 0;
    for (int64_t c = i / 3 * 3; c < i / 3 * 3 + 3; c++)
        count += zn_sample_at(s, c) == zn_sample_at(s, i);
    return count;
}

static void count_cell(const zn_samples *s, zn_region cell, census *c)
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
            c->isolated[zn_sample_at(s, i) > 0]++;
            c->whole += equal_channels(s, i) == 3;
        }
    const int64_t all = (int64_t)cell.width * cell.height * 3;
    c->by_extreme.by_share[extreme * ZN_SHARES / all]++;
    c->by_isolated.by_share[isolated * ZN_SHARES / all]++;
}

static int least(int a, int b) { return a < b ? a : b; }

static void count_cells(const zn_samples *s, census *c)
{
    *c = (census){ 0 };
    for (int y = 0; y < s->image->height; y += CELL)
        for (int x = 0; x < s->image->width; x += CELL)
            count_cell(s, (zn_region){ x, y, least(CELL, s->image->width - x), least(CELL, s->image->height - y) }, c);
}

/* The share of samples at the ends of the scale where little is clipped. */
static double share_of_extremes(const census *c) { return zn_cells_quantile(&c->by_extreme, 0.25); }

static bool is_damaged(const census *c)
{
    const int64_t all = c->isolated[0] + c->isolated[1],
                  rarer = c->isolated[0] < c->isolated[1] ? c->isolated[0] : c->isolated[1];
    const double isolated = zn_cells_quantile(&c->by_isolated, 0.5);
    return isolated > least_share && isolated > least_alone * share_of_extremes(c) &&
           (double)rarer > least_balance * (double)all;
}

/* ---- which samples are wrong ---- */

/* The more channels and neighbours are at the same end of the scale, the more a sample seems to be clipped. Some of
 * them are impulses too: `share` is that of samples at the ends, `whole` says that impulses hit all channels of a
 * pixel. */
static bool is_wrong(const zn_samples *s, int64_t i, double share, bool whole)
{
    int64_t offset[8];
    int equal = 0;
    if (!is_extreme(s, i))
        return false;
    for (int k = 0, n = zn_sample_neighbours(s, i, offset); k < n; k++)
        equal += zn_sample_at(s, i + offset[k]) == zn_sample_at(s, i);
    return equal + 1.5 * (equal_channels(s, i) - 1) < (whole ? 4.2 : 3) + 12 * share;
}

/* Salt and pepper are known by their values; whoever finds them needs not look for others. */
static void find_salt(const zn_samples *s, const census *c, uint8_t *state)
{
    const int64_t count = s->row * s->image->height;
    const bool whole = 2 * c->whole > c->isolated[0] + c->isolated[1];
    const double share = share_of_extremes(c);
    for (int64_t i = 0; i < count; i++)
        state[i] = is_wrong(s, i, share, whole) ? ZN_SAMPLE_WRONG : ZN_SAMPLE_RIGHT;
}

zn_status zn_impulses_fill(const zn_image *image, zn_image **out)
{
    const zn_samples s = zn_samples_of(image);
    census c;
    uint8_t *state;
    zn_status status = ZN_OK;
    *out = NULL;
    count_cells(&s, &c);
    const bool salt = is_damaged(&c);
    if (!salt && !zn_random_impulses_suspected(&s))
        return ZN_OK;
    ZN_TRY(zn_alloc_for("the impulses of an image", (size_t)(s.row * image->height), (void **)&state));
    if (salt)
        find_salt(&s, &c, state);
    else
        status = zn_random_impulses_find(&s, state);
    if (status == ZN_OK)
        status = zn_impulses_replace(image, state, out);
    zn_free(state);
    return status;
}
