/* Impulses of random values. First, does the image have them? Samples are counted that lie alone, much farther from
 * their neighbours than these are from each other; half of the cells must have them, above and below the neighbours, at
 * all heights of the scale. Noise, stars, hot pixels, rain and text are not like that.
 *
 * If it does, a sample is wrong if it is far from what the other channels of its pixel predict by a line through the
 * pixels around, measured by how well the line fits these. Some of them are impulses too, so the fit is repeated with
 * less weight for those far from the line; and of a pixel's channels the worst is taken first, since a wrong channel
 * makes the others look wrong. */
#include "base/alloc.h"
#include "base/fail.h"
#include "io/image/pixels/impulse_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    REACH = 2,
    AROUND = (2 * REACH + 1) * (2 * REACH + 1) - 1,
    LEAST_AROUND = 6,
    FITS = 4,
    ROUNDS = 3,
    QUARTERS = 4
};
static const double least_gap = 30;         /* of 255, from a sample that lies alone to the nearest neighbour */
static const double least_ratio = 2.5;      /* of that gap to the range of the neighbours, to count as damage */
static const double least_share = 0.002;    /* of the samples lie alone in half of the cells; heavy noise has 0.0008 */
static const double least_balance = 0.0625; /* of them are above, below, and in each quarter of the scale */
static const double least_road = 8;         /* of 255: mean difference to the four nearest values of a suspect */
static const double least_error = 15;       /* of 255, from the prediction, of a wrong sample where the line fits */
static const double error_by_misfit = 1.5;  /* more of it where the line does not fit */
static const double least_misfit = 3;       /* mean distance of the samples around from the line */
static const double least_hope = 0.5;       /* of the error of a wrong sample: those below are not looked at again */

static double value_of(const zn_samples *s, int64_t i) { return zn_sample_at(s, i) * 255.0 / s->top; }

/* ---- is it damaged? ---- */

/* Where a sample lies that is alone: +1 above all eight neighbours, -1 below them; 0: not alone. */
typedef struct lone {
    int side;
    int low, high; /* of the neighbours */
} lone;

static lone lone_of(const zn_samples *s, int64_t i, double ratio)
{
    int64_t offset[8];
    const int value = zn_sample_at(s, i), before = i % s->row >= 3 ? zn_sample_at(s, i - 3) : value;
    lone r = { 0, s->top, 0 };
    if (abs(value - before) <= least_gap * s->top / 255 || zn_sample_neighbours(s, i, offset) < 8)
        return r;
    for (int k = 0; k < 8; k++) {
        const int v = zn_sample_at(s, i + offset[k]);
        r.low = v < r.low ? v : r.low;
        r.high = v > r.high ? v : r.high;
    }
    const int gap = value > r.high ? value - r.high : r.low - value;
    if (gap > least_gap * s->top / 255 && gap > ratio * (r.high - r.low))
        r.side = value > r.high ? 1 : -1;
    return r;
}

/* The same where it tells damage: noise that is clipped has lone samples among others at the end of the scale. */
static int side_of_telling(const zn_samples *s, int64_t i)
{
    const lone r = lone_of(s, i, least_ratio);
    return r.low > 0 && r.high < s->top ? r.side : 0;
}

bool zn_random_impulses_suspected(const zn_samples *s)
{
    const int width = s->image->width, height = s->image->height;
    int64_t above = 0, all = 0, quarter[QUARTERS] = { 0 };
    zn_cells cells = { 0 };
    for (int y = 0; y < height; y += ZN_CELL)
        for (int x = 0; x < width; x += ZN_CELL) {
            const int w = width - x < ZN_CELL ? width - x : ZN_CELL, h = height - y < ZN_CELL ? height - y : ZN_CELL;
            const int64_t had = all;
            int64_t clipped = 0;
            for (int row = y; row < y + h; row++)
                for (int64_t i = row * s->row + x * 3; i < row * s->row + (x + w) * 3; i++) {
                    const int side = side_of_telling(s, i), value = zn_sample_at(s, i);
                    all += side != 0;
                    above += side > 0;
                    quarter[value * (int64_t)QUARTERS / (s->top + 1)] += side != 0;
                    clipped += value == 0 || value == s->top;
                }
            const int64_t samples = (int64_t)w * h * 3;
            if (2 * clipped <= samples) /* others tell nothing */
                cells.by_share[(all - had) * ZN_SHARES / samples]++;
        }
    const double least = least_balance * (double)all;
    bool balanced = (double)above > least && (double)(all - above) > least;
    for (int q = 0; q < QUARTERS; q++)
        balanced = balanced && (double)quarter[q] > least;
    return all && balanced && zn_cells_quantile(&cells, 0.5) > least_share;
}

/* ---- which samples are wrong ---- */

/* Rank-ordered absolute differences (ROAD, Garnett and others 2005): is the sample far from its nearest four values? */
static bool is_suspect(const zn_samples *s, int64_t i)
{
    int64_t offset[8];
    double nearest[4] = { 255, 255, 255, 255 }, sum = 0;
    const double value = value_of(s, i);
    const int n = zn_sample_neighbours(s, i, offset), most = n < 8 ? n / 2 : 4;
    for (int k = 0; k < n; k++) {
        double d = fabs(value_of(s, i + offset[k]) - value);
        for (int j = 0; j < most; j++)
            if (d < nearest[j]) {
                const double other = nearest[j];
                nearest[j] = d;
                d = other;
            }
    }
    for (int j = 0; j < most; j++)
        sum += nearest[j];
    return sum > least_road * most;
}

/* The samples around one, without those that are known to be wrong. */
typedef struct around {
    bool has_a, has_b; /* the other channels of the pixel tell something */
    int count;
    double v[AROUND], a[AROUND], b[AROUND], weight[AROUND];
} around;

static void look_around(const zn_samples *s, const uint8_t *state, int64_t i, around *r)
{
    const int64_t x = i % s->row / 3, y = i / s->row, first = i / 3 * 3, ia = first + (i + 1) % 3,
                  ib = first + (i + 2) % 3;
    const bool grey = s->image->grey;
    const double pixel_a = value_of(s, ia), pixel_b = value_of(s, ib);
    r->has_a = !grey && !state[ia];
    r->has_b = !grey && !state[ib];
    r->count = 0;
    for (int dy = -REACH; dy <= REACH; dy++)
        for (int dx = -REACH; dx <= REACH; dx++) {
            const int64_t d = dy * s->row + dx * 3;
            if ((!dx && !dy) || x + dx < 0 || x + dx >= s->image->width || y + dy < 0 || y + dy >= s->image->height ||
                state[i + d] || (r->has_a && state[ia + d]) || (r->has_b && state[ib + d]))
                continue;
            const double a = r->has_a ? value_of(s, ia + d) - pixel_a : 0,
                         b = r->has_b ? value_of(s, ib + d) - pixel_b : 0;
            const int k = r->count++;
            r->v[k] = value_of(s, i + d);
            r->a[k] = a;
            r->b[k] = b;
            r->weight[k] = zn_nearness(dx, dy) / (100 + a * a + b * b);
        }
}

/* A score of 1 makes a sample wrong. In 16 bits, because a photo of 24 megapixels has 72 million of them. */
enum { SCORE_ONE = 1024 };
static uint16_t score_of(double x) { return (uint16_t)fmin(x * SCORE_ONE + 0.5, UINT16_MAX); }

/* How far a sample is from its prediction, over what makes it wrong; 0: nothing to go by. */
static double suspicion(const zn_samples *s, const uint8_t *state, int64_t i)
{
    around r;
    double weight[AROUND], misfit = 0;
    zn_line line = { 0 };
    look_around(s, state, i, &r);
    if (r.count < LEAST_AROUND)
        return 0;
    memcpy(weight, r.weight, sizeof *weight * (size_t)r.count);
    for (int fit = 0; fit < FITS; fit++) {
        double all = 0, sum = 0;
        zn_moments m = { 0 };
        for (int k = 0; k < r.count; k++)
            zn_moments_add(&m, weight[k], r.v[k], r.a[k], r.b[k]);
        line = zn_moments_line(&m, r.has_a, r.has_b);
        double distance[AROUND];
        for (int k = 0; k < r.count; k++) {
            distance[k] = fabs(r.v[k] - line.value - line.a * r.a[k] - line.b * r.b[k]);
            all += weight[k];
            sum += weight[k] * distance[k];
        }
        misfit = fmax(1.25 * sum / all, least_misfit);
        for (int k = 0; k < r.count; k++)
            weight[k] = r.weight[k] / (1 + distance[k] * distance[k] / (misfit * misfit));
    }
    return fabs(value_of(s, i) - line.value) / (least_error + error_by_misfit * (misfit - least_misfit));
}

/* One more round: known ones stay if they still seem wrong, and of each pixel the worst of the others is added. */
static void judge(const uint16_t *score, uint8_t *state, int64_t count)
{
    for (int64_t i = 0; i < count; i += 3) {
        int worst = -1;
        for (int c = 0; c < 3; c++) {
            if (!state[i + c] && score[i + c] > SCORE_ONE && (worst < 0 || score[i + c] > score[i + worst]))
                worst = c;
            if (score[i + c] <= SCORE_ONE)
                state[i + c] = ZN_SAMPLE_RIGHT;
        }
        if (worst >= 0)
            state[i + worst] = ZN_SAMPLE_WRONG;
    }
}

zn_status zn_random_impulses_find(const zn_samples *s, uint8_t *state)
{
    const int64_t count = s->row * s->image->height;
    uint16_t *score;
    ZN_TRY(zn_alloc_for("the impulses of an image", (size_t)count * sizeof *score, (void **)&score));
    for (int64_t i = 0; i < count; i++) {
        score[i] = is_suspect(s, i) ? SCORE_ONE : 0;
        state[i] = lone_of(s, i, 1).side ? ZN_SAMPLE_WRONG : ZN_SAMPLE_RIGHT;
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int64_t i = 0; i < count; i++)
            if (score[i] > least_hope * SCORE_ONE)
                score[i] = score_of(suspicion(s, state, i));
        judge(score, state, count);
    }
    for (int64_t i = 0; s->image->grey && i < count; i++) /* its channels have the same score; rounds took one each */
        state[i] = state[i / 3 * 3];
    zn_free(score);
    return ZN_OK;
}
