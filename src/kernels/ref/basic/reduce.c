/* Sums. Each result is summed in one fixed order for any thread count: short runs in float, the sums of the runs in
 * double. */
#include "kernels/kernels.h"

#include <string.h>

/* Sums of at most ZN_SUM_ROWS rows in float, four rows at a time. The inner loop runs along the channels and
 * vectorises. */
void zn_k_channel_sum(const void *args, zn_range r)
{
    const zn_reduce_args *a = args;
    const int64_t c = a->c;
    for (int64_t block = r.begin; block < r.end; block++) {
        const int64_t begin = block * ZN_SUM_ROWS, end = begin + ZN_SUM_ROWS < a->rows ? begin + ZN_SUM_ROWS : a->rows;
        const float *x = a->x + begin * c;
        float *restrict y = a->y + block * c;
        int64_t row = begin;
        memset(y, 0, sizeof(float) * (size_t)c);
        for (; row + 4 <= end; row += 4, x += 4 * c)
            for (int64_t k = 0; k < c; k++)
                y[k] += (x[k] + x[k + c]) + (x[k + 2 * c] + x[k + 3 * c]);
        for (; row < end; row++, x += c)
            for (int64_t k = 0; k < c; k++)
                y[k] += x[k];
    }
}

void zn_k_square_difference(const void *args, zn_range r)
{
    const zn_reduce_args *a = args;
    for (int64_t block = r.begin; block < r.end; block++) {
        const int64_t begin = block * ZN_REDUCE_BLOCK;
        const int64_t end = begin + ZN_REDUCE_BLOCK < a->rows ? begin + ZN_REDUCE_BLOCK : a->rows;
        double sum = 0;
        for (int64_t i = begin; i < end; i++) {
            const double d = (double)a->x[i] - (double)a->b[i];
            sum += d * d;
        }
        a->y[block] = (float)sum;
    }
}

/* Processes a range of neighbours at a time, so that memory is read in order. */
void zn_k_sum_partials(const void *args, zn_range r)
{
    enum { STRETCH = 256 };
    const zn_reduce_args *a = args;
    for (int64_t begin = r.begin; begin < r.end; begin += STRETCH) {
        const int64_t count = begin + STRETCH < r.end ? STRETCH : r.end - begin;
        double sum[STRETCH] = { 0 };
        for (int block = 0; block < a->c; block++) {
            const float *x = a->x + (int64_t)block * a->rows + begin;
            for (int64_t i = 0; i < count; i++)
                sum[i] += (double)x[i];
        }
        for (int64_t i = 0; i < count; i++)
            a->y[begin + i] = (float)sum[i];
    }
}
