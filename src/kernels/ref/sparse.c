/* Depthwise 3x3 behind a block gate (specification B3). A (pixel, block of eight channels) whose mask is 0 costs a look
 * at the mask: its sums are not made, and nothing flows back through it. Taps are added in the order of the dense
 * kernel, so a mask of ones gives its bits. */
#include "kernels/gates.h"

#include <string.h>

enum { BLOCK = ZN_GATE_BLOCK };

/* A neighbour of one pixel of row `row`: its pixel number, or -1 outside the image. */
static int64_t neighbour(const zn_sparse_args *a, int64_t row, int x, int dy, int dx)
{
    const int64_t y = row % a->h + dy;
    if (y < 0 || y >= a->h || x + dx < 0 || x + dx >= a->wide)
        return -1;
    return (row + dy) * a->wide + x + dx;
}

void zn_k_sparse_depthwise(const void *args, zn_range r)
{
    const zn_sparse_args *a = args;
    const int blocks = a->c / BLOCK;
    for (int64_t row = r.begin; row < r.end; row++)
        for (int64_t i = 0; i < (int64_t)a->wide * blocks; i++) {
            const int ox = (int)(i / blocks), first = (int)(i % blocks) * BLOCK;
            const int64_t pixel = row * a->wide + ox;
            const float m = a->mask[pixel * blocks + i % blocks];
            float sum[BLOCK] = { 0 };
            for (int tap = 0; tap < 9 && m != 0; tap++) {
                const int64_t from = neighbour(a, row, ox, tap / 3 - 1, tap % 3 - 1);
                if (from < 0)
                    continue;
                for (int k = 0; k < BLOCK; k++)
                    sum[k] += a->w[9 * (first + k) + tap] * a->x[from * a->c + first + k];
            }
            for (int k = 0; k < BLOCK; k++)
                a->y[pixel * a->c + first + k] = m * sum[k];
        }
}

/* dx = sum over the outputs around each input of w mask dy; pruned outputs are left out. */
void zn_k_sparse_depthwise_grad(const void *args, zn_range r)
{
    const zn_sparse_args *a = args;
    const int blocks = a->c / BLOCK;
    for (int64_t row = r.begin; row < r.end; row++)
        for (int64_t i = 0; i < (int64_t)a->wide * blocks; i++) {
            const int ix = (int)(i / blocks), first = (int)(i % blocks) * BLOCK;
            float sum[BLOCK] = { 0 };
            for (int tap = 0; tap < 9; tap++) {
                const int64_t out = neighbour(a, row, ix, 1 - tap / 3, 1 - tap % 3);
                const float m = out < 0 ? 0 : a->mask[out * blocks + i % blocks];
                if (m == 0)
                    continue;
                for (int k = 0; k < BLOCK; k++)
                    sum[k] += a->w[9 * (first + k) + tap] * (m * a->dy[out * a->c + first + k]);
            }
            memcpy(a->y + (row * a->wide + ix) * a->c + first, sum, sizeof sum);
        }
}

void zn_k_sparse_depthwise_weight_grad(const void *args, zn_range r)
{
    const zn_sparse_args *a = args;
    const int blocks = a->c / BLOCK;
    for (int64_t row = r.begin; row < r.end; row++) {
        float *dw = a->partial + row * 9 * a->c;
        memset(dw, 0, sizeof(float) * 9 * (size_t)a->c);
        for (int64_t i = 0; i < (int64_t)a->wide * blocks; i++) {
            const int ox = (int)(i / blocks), first = (int)(i % blocks) * BLOCK;
            const int64_t pixel = row * a->wide + ox;
            const float m = a->mask[pixel * blocks + i % blocks];
            for (int tap = 0; tap < 9 && m != 0; tap++) {
                const int64_t from = neighbour(a, row, ox, tap / 3 - 1, tap % 3 - 1);
                if (from < 0)
                    continue;
                for (int k = first; k < first + BLOCK; k++)
                    dw[9 * k + tap] += m * a->dy[pixel * a->c + k] * a->x[from * a->c + k];
            }
        }
    }
}
