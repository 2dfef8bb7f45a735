/* The dense product and its gradients, scalar, with sums in double. */
#include "kernels/dense.h"
#include "base/least.h"

void zn_ref_dense(const void *dense_args, zn_range units);
void zn_ref_dense_grad(const void *dense_args, zn_range units);
void zn_ref_dense_weight_grad(const void *dense_args, zn_range units);

void zn_ref_dense(const void *args, zn_range r)
{
    const zn_dense_args *a = args;
    const int64_t strips = zn_dense_parts(a->n, ZN_DENSE_STRIP);
    for (int64_t u = r.begin; u < r.end; u++) {
        const int64_t row = u / strips * ZN_DENSE_GROUP, column = u % strips * ZN_DENSE_STRIP;
        for (int64_t p = row; p < zn_least(row + ZN_DENSE_GROUP, a->rows); p++)
            for (int64_t j = column; j < zn_least(column + ZN_DENSE_STRIP, a->n); j++) {
                double sum = a->bias ? (double)a->bias[j] : 0;
                for (int64_t i = 0; i < a->k; i++)
                    sum += (double)a->x[p * a->k + i] * (double)a->w[i * a->n + j];
                a->y[p * a->n + j] = (float)sum;
            }
    }
}

void zn_ref_dense_grad(const void *args, zn_range r)
{
    const zn_dense_args *a = args;
    const int64_t strips = zn_dense_parts(a->k, ZN_DENSE_INPUTS);
    for (int64_t u = r.begin; u < r.end; u++) {
        const int64_t row = u / strips * ZN_DENSE_GROUP, input = u % strips * ZN_DENSE_INPUTS;
        for (int64_t p = row; p < zn_least(row + ZN_DENSE_GROUP, a->rows); p++)
            for (int64_t i = input; i < zn_least(input + ZN_DENSE_INPUTS, a->k); i++) {
                double sum = 0;
                for (int j = 0; j < a->n; j++)
                    sum += (double)a->dy[p * a->n + j] * (double)a->w[i * a->n + j];
                a->y[p * a->k + i] = (float)sum;
            }
    }
}

void zn_ref_dense_weight_grad(const void *args, zn_range r)
{
    const zn_dense_args *a = args;
    for (int64_t i = r.begin * ZN_DENSE_INPUTS; i < zn_least(r.end * ZN_DENSE_INPUTS, a->k); i++)
        for (int j = 0; j < a->n; j++) {
            double sum = 0;
            for (int64_t p = 0; p < a->rows; p++)
                sum += (double)a->x[p * a->k + i] * (double)a->dy[p * a->n + j];
            a->y[i * a->n + j] = (float)sum;
        }
}
