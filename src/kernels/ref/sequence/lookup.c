/* Gathers rows of a table by index. */
#include "kernels/lookup.h"

#include <string.h>

/* The row index, or -1. */
static int64_t row_of(const zn_lookup_args *a, int64_t i)
{
    return a->ids[i] >= 0 && a->ids[i] < (float)a->rows ? (int64_t)a->ids[i] : -1;
}

void zn_k_lookup(const void *args, zn_range r)
{
    const zn_lookup_args *a = args;
    for (int64_t i = r.begin; i < r.end; i++) {
        const int64_t row = row_of(a, i);
        if (row < 0)
            memset(a->y + i * a->c, 0, sizeof(float) * (size_t)a->c);
        else
            zn_packed_row(&a->table, row, 0, a->c, a->y + i * a->c);
    }
}

void zn_k_lookup_grad(const void *args, zn_range r)
{
    const zn_lookup_args *a = args;
    for (int64_t strip = r.begin; strip < r.end; strip++) {
        const int64_t begin = strip * ZN_LOOKUP_STRIP, rest = a->c - begin;
        const int64_t wide = rest < ZN_LOOKUP_STRIP ? rest : ZN_LOOKUP_STRIP;
        for (int64_t row = 0; row < a->rows; row++)
            memset(a->y + row * a->c + begin, 0, sizeof(float) * (size_t)wide);
        for (int64_t i = 0; i < a->count; i++) {
            const int64_t row = row_of(a, i);
            for (int64_t k = begin; row >= 0 && k < begin + wide; k++)
                a->y[row * a->c + k] += a->dy[i * a->c + k];
        }
    }
}
