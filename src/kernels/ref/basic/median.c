/* 3x3 median by order statistics of its columns. With each column sorted, the median of nine is the median of three
 * values: the largest low, the middle of the middles and the smallest high. There are no branches, so compilers
 * vectorise it. */
#include "kernels/kernels.h"

static inline float lower(float a, float b) { return a < b ? a : b; }
static inline float higher(float a, float b) { return a < b ? b : a; }
static inline float middle(float a, float b, float c) { return higher(lower(a, b), lower(higher(a, b), c)); }

/* The median around position m of three rows; the neighbours are at l and r. */
static inline float median9(const float *const row[3], int64_t l, int64_t m, int64_t r)
{
    const float *a = row[0], *b = row[1], *c = row[2];
    const float low =
        higher(higher(lower(lower(a[l], b[l]), c[l]), lower(lower(a[m], b[m]), c[m])), lower(lower(a[r], b[r]), c[r]));
    const float high = lower(lower(higher(higher(a[l], b[l]), c[l]), higher(higher(a[m], b[m]), c[m])),
                             higher(higher(a[r], b[r]), c[r]));
    const float mid = middle(middle(a[l], b[l], c[l]), middle(a[m], b[m], c[m]), middle(a[r], b[r], c[r]));
    return middle(low, mid, high);
}

/* The three rows of the image around row y, with the edge repeated. */
static void rows_around(const zn_median_args *a, const float *x, int64_t y, const float *row[3])
{
    const int64_t length = (int64_t)a->w * a->c, inside = y % a->h;
    row[0] = x + (inside > 0 ? y - 1 : y) * length;
    row[1] = x + y * length;
    row[2] = x + (inside + 1 < a->h ? y + 1 : y) * length;
}

static void median_row(const zn_median_args *a, int64_t y)
{
    const int64_t c = a->c, length = (int64_t)a->w * c;
    const float *row[3];
    rows_around(a, a->x, y, row);
    float *out = a->y + y * length;
    for (int64_t i = c; i < length - c; i++)
        out[i] = median9(row, i - c, i, i + c);
    for (int64_t i = 0; i < c; i++) { /* the edge pixel is repeated; one pixel may be on both edges */
        const int64_t last = length - c + i;
        out[i] = median9(row, i, i, a->w > 1 ? i + c : i);
        out[last] = median9(row, a->w > 1 ? last - c : last, last, last);
    }
}

void zn_k_median3(const void *args, zn_range rows)
{
    for (int64_t y = rows.begin; y < rows.end; y++)
        median_row(args, y);
}

/* Adds dy of one position to the first of its neighbours that equals the median. */
static void give_back(const zn_median_args *a, int64_t y, int64_t i)
{
    const int64_t c = a->c, length = (int64_t)a->w * c;
    const int64_t at[3] = { i >= c ? i - c : i, i, i + c < length ? i + c : i };
    const float *row[3];
    rows_around(a, a->x, y, row);
    const float median = median9(row, at[0], at[1], at[2]);
    for (int k = 0; k < 9; k++)
        if (row[k / 3][at[k % 3]] == median) {
            a->y[row[k / 3] - a->x + at[k % 3]] += a->dy[y * length + i];
            return;
        }
}

void zn_k_median3_grad(const void *args, zn_range images)
{
    const zn_median_args *a = args;
    const int64_t length = (int64_t)a->w * a->c;
    for (int64_t i = images.begin * a->h * length; i < images.end * a->h * length; i++)
        a->y[i] = 0;
    for (int64_t y = images.begin * a->h; y < images.end * a->h; y++)
        for (int64_t i = 0; i < length; i++)
            give_back(a, y, i);
}
