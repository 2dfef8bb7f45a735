/* Max pooling and its gradient. The gradient gathers: each input looks at the windows that contain it, so that rows are
 * independent of each other. */
#include "kernels/max_pool.h"

#include <stdbool.h>
#include <string.h>

enum { SIDE = ZN_MAX_POOL_SIDE, STRIDE = ZN_MAX_POOL_STRIDE };

static int least(int a, int b) { return a < b ? a : b; }

/* NaN passes through. */
static void take_larger(const float *x, int c, float *y)
{
    for (int k = 0; k < c; k++)
        y[k] = x[k] > y[k] || x[k] != x[k] ? x[k] : y[k];
}

static void pool_row(const zn_max_pool_args *a, int64_t row)
{
    const int64_t n = row / a->oh;
    const int top = (int)(row % a->oh) * STRIDE, bottom = least(top + SIDE, a->h);
    for (int ox = 0; ox < a->ow; ox++) {
        const int left = ox * STRIDE, right = least(left + SIDE, a->w);
        float *y = a->y + (row * a->ow + ox) * a->c;
        memcpy(y, a->x + ((n * a->h + top) * a->w + left) * a->c, sizeof *y * (size_t)a->c);
        for (int iy = top; iy < bottom; iy++)
            for (int ix = left; ix < right; ix++)
                take_larger(a->x + ((n * a->h + iy) * a->w + ix) * a->c, a->c, y);
    }
}

void zn_k_max_pool(const void *args, zn_range rows)
{
    for (int64_t row = rows.begin; row < rows.end; row++)
        pool_row(args, row);
}

/* Whether no value of the window at (top, left) that comes before (y, x) is as large. */
static bool is_first(const zn_max_pool_args *a, const float *map, int top, int left, int y, int x, int k)
{
    const float value = map[((int64_t)y * a->w + x) * a->c + k];
    const int right = least(left + SIDE, a->w);
    for (int iy = top; iy <= y; iy++)
        for (int ix = left; ix < (iy < y ? right : x); ix++)
            if (map[((int64_t)iy * a->w + ix) * a->c + k] == value)
                return false;
    return true;
}

/* What window (oy, ox) gives to the pixel (y, x) in it. */
static void gather(const zn_max_pool_args *a, int64_t n, int oy, int ox, int y, int x)
{
    const float *map = a->x + n * a->h * a->w * a->c, *value = map + ((int64_t)y * a->w + x) * a->c;
    const int64_t window = ((n * a->oh + oy) * a->ow + ox) * a->c;
    float *dx = a->dx + ((n * a->h + y) * a->w + x) * a->c;
    for (int k = 0; k < a->c; k++)
        if (value[k] == a->y[window + k] && is_first(a, map, oy * STRIDE, ox * STRIDE, y, x, k))
            dx[k] += a->dy[window + k];
}

/* The first window that contains position i; the last is i / STRIDE or the last there is. */
static int first_window(int i) { return i < SIDE ? 0 : (i - SIDE) / STRIDE + 1; }

static void gradient_row(const zn_max_pool_args *a, int64_t row)
{
    const int64_t n = row / a->h;
    const int y = (int)(row % a->h);
    memset(a->dx + row * a->w * a->c, 0, sizeof *a->dx * (size_t)a->w * (size_t)a->c);
    for (int x = 0; x < a->w; x++)
        for (int oy = first_window(y); oy <= least(y / STRIDE, a->oh - 1); oy++)
            for (int ox = first_window(x); ox <= least(x / STRIDE, a->ow - 1); ox++)
                gather(a, n, oy, ox, y, x);
}

void zn_k_max_pool_grad(const void *args, zn_range rows)
{
    for (int64_t row = rows.begin; row < rows.end; row++)
        gradient_row(args, row);
}
