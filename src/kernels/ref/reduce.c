/* Sums. Each result is summed in one fixed order, in double, whatever the thread count. */
#include "kernels/kernels.h"

void zn_k_channel_sum(const void *args, zn_range r)
{
    const zn_reduce_args *a = args;
    for (int64_t c = r.begin; c < r.end; c++) {
        double sum = 0;
        for (int64_t row = 0; row < a->rows; row++)
            sum += (double)a->x[row * a->c + c];
        a->y[c] = (float)sum;
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

void zn_k_sum_partials(const void *args, zn_range r)
{
    const zn_reduce_args *a = args;
    for (int64_t i = r.begin; i < r.end; i++) {
        double sum = 0;
        for (int block = 0; block < a->c; block++)
            sum += (double)a->x[(int64_t)block * a->rows + i];
        a->y[i] = (float)sum;
    }
}
