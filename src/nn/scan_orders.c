/* Scan orders of scattered points: grid rows from the top, and from left to right within a row; the same by columns;
 * both reversed. For the centres of a pixel grid these are the four directions of a cross-scan. The grid is needed
 * because no two points share the same y: sorting by y alone would ignore x. */
#include "base/alloc.h"
#include "base/fail.h"
#include "nn/mamba.h"

#include <math.h>
#include <stdlib.h>

typedef struct point {
    float bin, along; /* row or column of the grid, position in it */
    int64_t index;
} point;

static int by_place(const void *a, const void *b)
{
    const point *p = a, *q = b;
    if (p->bin != q->bin)
        return p->bin < q->bin ? -1 : 1;
    if (p->along != q->along)
        return p->along < q->along ? -1 : 1;
    return p->index < q->index ? -1 : 1;
}

static float bin_of(float v, int grid)
{
    const float bin = floorf((v + 1) * 0.5f * (float)grid);
    return bin < 0 ? 0 : bin > (float)(grid - 1) ? (float)(grid - 1) : bin;
}

/* Writes an order and, two rows further, its reverse. Also writes the position of each point in both. */
static void write_order(const point *sorted, int64_t count, int64_t length, float *order, float *place)
{
    float *back = order + 2 * length, *place_back = place + 2 * length;
    for (int64_t t = 0; t < length; t++)
        order[t] = back[t] = place[t] = place_back[t] = -1;
    for (int64_t t = 0; t < count; t++) {
        const int64_t index = sorted[t].index;
        order[t] = back[count - 1 - t] = (float)index;
        place[index] = (float)t;
        place_back[index] = (float)(count - 1 - t);
    }
}

zn_status zn_scan_orders(const float *coords, const int64_t *counts, int64_t n, int64_t length, int grid, float *table)
{
    point *points;
    if (grid < 1 || length > (1 << 24)) /* indices are stored as floats */
        return ZN_FAIL(ZN_ELIMIT, "no orders for %lld points on a grid of %d", (long long)length, grid);
    for (int64_t s = 0; counts && s < n; s++)
        if (counts[s] < 0 || counts[s] > length)
            return ZN_FAIL(ZN_ESHAPE, "sample %lld cannot have %lld of %lld points", (long long)s, (long long)counts[s],
                           (long long)length);
    ZN_TRY(zn_alloc_for("orders of points", sizeof *points * (size_t)(length + 1), (void **)&points));
    zn_status status = ZN_OK;
    for (int64_t s = 0; s < n && status == ZN_OK; s++) {
        const int64_t count = counts ? counts[s] : length;
        const float *xy = coords + 2 * s * length;
        float *order = table + s * ZN_SCAN_WAYS * length, *place = order + n * ZN_SCAN_WAYS * length;
        for (int64_t i = 0; i < 2 * count; i++)
            if (!isfinite(xy[i]))
                status =
                    ZN_FAIL(ZN_ENUMERIC, "point %lld of sample %lld is not finite", (long long)i / 2, (long long)s);
        for (int across = 1; across >= 0 && status == ZN_OK; across--) { /* by y first */
            for (int64_t i = 0; i < count; i++)
                points[i] = (point){ bin_of(xy[2 * i + across], grid), xy[2 * i + 1 - across], i };
            qsort(points, (size_t)count, sizeof *points, by_place);
            write_order(points, count, length, order + (1 - across) * length, place + (1 - across) * length);
        }
    }
    zn_free(points);
    return status;
}
