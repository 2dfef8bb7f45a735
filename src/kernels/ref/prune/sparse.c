/* Depthwise 3x3 followed by a block gate (specification B3). A (pixel, block of eight channels) whose mask is 0 only
 * costs reading the mask: its sums are not computed, and no gradient flows through it. Taps are added in the order
 * of the dense kernel, so a mask of ones gives the same bits. */
#include "kernels/gates.h"

#include <string.h>

enum { BLOCK = ZN_GATE_BLOCK, STRIP = ZN_SPARSE_STRIP };

void zn_ref_sparse_turn(const void *sparse_turn_args, zn_range channels);
void zn_ref_sparse_depthwise(const void *sparse_args, zn_range pixels);
void zn_ref_sparse_depthwise_grad(const void *sparse_args, zn_range pixels);
void zn_ref_sparse_depthwise_weight_grad(const void *sparse_args, zn_range strips);

/* The index of a neighbour of a pixel in image n, row y, or -1 outside the image. */
static int64_t neighbour(const zn_sparse_args *a, int64_t n, int y, int x, int dy, int dx)
{
    if (y + dy < 0 || y + dy >= a->h || x + dx < 0 || x + dx >= a->wide)
        return -1;
    return (n * a->h + y + dy) * a->wide + x + dx;
}

static float mask_of(const zn_sparse_args *a, int64_t pixel, int k)
{
    return a->mask ? a->mask[pixel * (a->c / BLOCK) + k / BLOCK] : 1;
}

/* One result: the sum over taps, from output pixel to input pixel (forward) or the reverse (back). */
static float result(const zn_sparse_args *a, int64_t n, int y, int x, int k, bool back)
{
    float sum = 0;
    for (int tap = 0; tap < 9; tap++) {
        const int64_t from = neighbour(a, n, y, x, tap / 3 - 1, tap % 3 - 1);
        if (from < 0)
            continue;
        const float w = a->w[9 * k + (back ? 8 - tap : tap)], m = back ? mask_of(a, from, k) : 1;
        if (m != 0)
            sum += w * (back ? m * a->dy[from * a->c + k] : a->x[from * a->c + k]);
    }
    return sum;
}

static void convolve(const zn_sparse_args *a, zn_range r, bool back)
{
    const int64_t size = (int64_t)a->h * a->wide;
    for (int64_t pixel = r.begin; pixel < r.end; pixel++)
        for (int k = 0; k < a->c; k++) {
            const int64_t p = pixel % size;
            const float m = back ? 1 : mask_of(a, pixel, k);
            a->y[pixel * a->c + k] =
                m == 0 ? 0 : m * result(a, pixel / size, (int)(p / a->wide), (int)(p % a->wide), k, back);
        }
}

void zn_ref_sparse_turn(const void *args, zn_range r)
{
    const zn_sparse_turn_args *a = args;
    for (int64_t k = r.begin; k < r.end; k++)
        for (int tap = 0; tap < 9; tap++)
            a->turned[tap * zn_sparse_row(a->c) + k] = a->w[9 * k + tap];
}

/* The bits of `count` blocks, at most 64; eight at a time, which compilers vectorise. */
static uint64_t bits_of(const float *m, int count)
{
    uint64_t bits = 0;
    int b = 0;
    for (; b + 8 <= count; b += 8) {
        int byte = 0;
        for (int i = 0; i < 8; i++)
            byte += (m[b + i] != 0) << i;
        bits |= (uint64_t)byte << b;
    }
    for (; b < count; b++)
        bits |= (uint64_t)(m[b] != 0) << b;
    return bits;
}

void zn_k_sparse_look(const void *args, zn_range r)
{
    const zn_sparse_look_args *a = args;
    const int blocks = a->c / BLOCK;
    const int64_t words = zn_sparse_words(a->c);
    for (int64_t p = r.begin; p < r.end; p++) {
        const float *m = a->mask + p * blocks;
        uint64_t *open = a->open + p * words, any = 0;
        int odd = 0, less = 0; /* masks that are neither 0 nor 1; masks that are not 1 */
        for (int first = 0; first < blocks; first += 64) {
            open[first / 64] = bits_of(m + first, blocks - first < 64 ? blocks - first : 64);
            any |= open[first / 64];
        }
        for (int b = 0; b < blocks; b++) {
            odd |= (m[b] != 0) & (m[b] != 1);
            less |= m[b] != 1;
        }
        open[words - 1] = (any ? ZN_SPARSE_ANY : 0) | (odd ? 0 : ZN_SPARSE_PLAIN) | (less ? 0 : ZN_SPARSE_FULL);
    }
}

void zn_ref_sparse_depthwise(const void *args, zn_range r) { convolve(args, r, false); }
void zn_ref_sparse_depthwise_grad(const void *args, zn_range r) { convolve(args, r, true); }

void zn_ref_sparse_depthwise_weight_grad(const void *args, zn_range r)
{
    const zn_sparse_args *a = args;
    const int64_t strips = zn_sparse_strips(a);
    for (int64_t u = r.begin; u < r.end; u++)
        for (int k = (int)(u % strips) * STRIP; k < a->c && k < ((int)(u % strips) + 1) * STRIP; k++)
            for (int tap = 0; tap < 9; tap++) {
                const int64_t n = u / strips;
                double sum = 0;
                for (int64_t p = 0; p < (int64_t)a->h * a->wide; p++) {
                    const int64_t pixel = n * a->h * a->wide + p;
                    const int64_t from =
                        neighbour(a, n, (int)(p / a->wide), (int)(p % a->wide), tap / 3 - 1, tap % 3 - 1);
                    const float m = mask_of(a, pixel, k);
                    if (from >= 0 && m != 0)
                        sum += (double)(m * a->dy[pixel * a->c + k]) * (double)a->x[from * a->c + k];
                }
                a->partial[n * 9 * a->c + 9 * k + tap] = (float)sum;
            }
}
