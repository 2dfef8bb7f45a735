/* Rearrangements: pixel shuffle and unshuffle, selection of channels. */
#include "kernels/mix.h"

#include <string.h>

void zn_ref_unshuffle(const void *args, zn_range r)
{
    const zn_shuffle_args *a = args;
    const int rr = a->r * a->r;
    for (int64_t row = r.begin; row < r.end; row++)
        for (int ry = 0; ry < a->r; ry++)
            for (int64_t x = 0; x < (int64_t)a->w * a->r; x++) {
                const float *from = a->x + ((row * a->r + ry) * a->w * a->r + x) * a->c;
                float *to = a->y + (row * a->w + x / a->r) * a->c * rr + ry * a->r + x % a->r;
                for (int k = 0; k < a->c; k++)
                    to[(int64_t)k * rr] = from[k];
            }
}

void zn_ref_shuffle(const void *args, zn_range r)
{
    const zn_shuffle_args *a = args;
    const int rr = a->r * a->r;
    for (int64_t row = r.begin; row < r.end; row++)
        for (int ry = 0; ry < a->r; ry++)
            for (int64_t x = 0; x < (int64_t)a->w * a->r; x++) {
                float *to = a->y + ((row * a->r + ry) * a->w * a->r + x) * a->c;
                const float *from = a->x + (row * a->w + x / a->r) * a->c * rr + ry * a->r + x % a->r;
                for (int k = 0; k < a->c; k++)
                    to[k] = from[(int64_t)k * rr];
            }
}

/* r neighbouring pixels are one contiguous run of r*c channels, so rows are copied run by run. */
void zn_k_space_to_depth(const void *args, zn_range r)
{
    const zn_shuffle_args *a = args;
    const int64_t run = (int64_t)a->r * a->c;
    for (int64_t row = r.begin; row < r.end; row++)
        for (int ry = 0; ry < a->r; ry++)
            for (int x = 0; x < a->w; x++)
                memcpy(a->y + ((row * a->w + x) * a->r + ry) * run, a->x + ((row * a->r + ry) * a->w + x) * run,
                       sizeof(float) * (size_t)run);
}

void zn_k_depth_to_space(const void *args, zn_range r)
{
    const zn_shuffle_args *a = args;
    const int64_t run = (int64_t)a->r * a->c;
    for (int64_t row = r.begin; row < r.end; row++)
        for (int ry = 0; ry < a->r; ry++)
            for (int x = 0; x < a->w; x++)
                memcpy(a->y + ((row * a->r + ry) * a->w + x) * run, a->x + ((row * a->w + x) * a->r + ry) * run,
                       sizeof(float) * (size_t)run);
}

void zn_k_select(const void *args, zn_range r)
{
    const zn_select_args *a = args;
    for (int64_t p = r.begin; p < r.end; p++)
        for (int k = 0; k < a->cout; k++)
            a->y[p * a->cout + k] = a->from[k] < 0 ? 0 : a->x[p * a->cin + a->from[k]];
}

void zn_k_select_grad(const void *args, zn_range r)
{
    const zn_select_args *a = args;
    for (int64_t p = r.begin; p < r.end; p++) {
        float *dx = a->y + p * a->cin;
        memset(dx, 0, sizeof(float) * (size_t)a->cin);
        for (int k = 0; k < a->cout; k++)
            if (a->from[k] >= 0)
                dx[a->from[k]] += a->x[p * a->cout + k];
    }
}

void zn_k_indices(const void *args, zn_range r)
{
    const zn_indices_args *a = args;
    for (int64_t i = r.begin; i < r.end; i++)
        a->indices[i] = a->table[i] >= 0 && a->table[i] < (float)a->limit ? (int32_t)a->table[i] : -1;
}
