/* The first and the last pass of DeepSpectralLinear (spectral_pass.h): pixels of a map become lanes of rows, and lanes
 * pixels, while the vectors are in registers for some steps of the transform anyway. */
#ifndef ZN_ARM_SPECTRAL_TURN_H
#define ZN_ARM_SPECTRAL_TURN_H

#include "kernels/arm/spectral_pass.h"

/* The lanes of a and b in turn. */
VEC_INLINE void pass_zip(vec a, vec b, vec *low, vec *high)
{
    __asm__ volatile("zip1 %0.4s, %1.4s, %2.4s" : "=w"(*low) : "w"(a), "w"(b));
    __asm__ volatile("zip2 %0.4s, %1.4s, %2.4s" : "=w"(*high) : "w"(a), "w"(b));
}

/* Operation k of four: lane i of v[j * step] and lane j of v[i * step] change places. */
VEC_INLINE void pass_turn(vec *v, const int step, vec t[4], const int k)
{
    if (k < 2)
        pass_zip(v[k * step], v[(k + 2) * step], t + 2 * k, t + 2 * k + 1);
    else
        pass_zip(t[k - 2], t[k], v + 2 * (k - 2) * step, v + (2 * (k - 2) + 1) * step);
}

/* Where the channels of eight pixels lie: one part of them or four, each in channels one behind the other. */
typedef struct pass_map {
    char *part[4]; /* of the first pixel */
    int parts;
    int64_t each, next; /* channels of a part, and bytes from one pixel to the next */
} pass_map;

/* Eight channels of eight pixels: v, whose factors are g, becomes what is written, next and g those at `pixel` plus
 * `offset` bytes. */
VEC_INLINE void pass_turn_block(vec *v, vec *next, vec *g, const char *const *pixel, const int offset,
                                const float *factors, char *to)
{
    vec t[4], rows[PASS_VECTORS];
    WHT_UNROLL for (int k = 0; k < 48; k++)
    {
        if (k < 8) {
            __asm__ volatile("fmul %0.4s, %0.4s, %1.4s" : "+w"(v[2 * k]) : "w"(g[0]));
            __asm__ volatile("fmul %0.4s, %0.4s, %1.4s" : "+w"(v[2 * k + 1]) : "w"(g[1]));
        } else if (k < 24) {
            const int square = (k - 8) / 4, half = square / 2, four = square % 2;
            vec *from = v + 8 * half + four;
            pass_turn(from, 2, t, k % 4);
            if (k % 4 == 3)
                WHT_UNROLL for (int j = 0; j < 4; j++) rows[2 * (4 * four + j) + half] = from[2 * j];
        } else {
            pass_step(3, rows, to, k - 24);
        }
        if (k >= 28 && k < 44 && k % 2 == 0)
            vec_load_two_pinned(pixel[(k - 28) / 2], offset, next + (k - 28));
        if (k == 44)
            pass_factors(factors, g);
    }
}

VEC_INLINE void pass_pixels(const pass_map *m, int part, const char *pixel[PASS_PIXELS])
{
    WHT_UNROLL for (int i = 0; i < PASS_PIXELS; i++) pixel[i] = m->part[part] + i * m->next;
}

/* The map -> rows of pixels times their factors, and the first three steps. Parts are multiples of 16 channels. */
PASS_FUNCTION pass_turned(const pass_map *m, const float *factors, char *to)
{
    const char *pixel[PASS_PIXELS];
    vec a[PASS_VECTORS], b[PASS_VECTORS], g[2];
    pass_pixels(m, 0, pixel);
    pass_factors(factors, g);
    WHT_UNROLL for (int i = 0; i < PASS_PIXELS; i++) vec_load_two_pinned(pixel[i], 0, a + 2 * i);
    for (int part = 0; part < m->parts; part++)
        for (int64_t left = m->each; left > 0; left -= 16, to += 2 * PASS_BYTES) {
            pass_turn_block(a, b, g, pixel, PASS_ROW, factors + 8, to);
            factors += 16;
            if (left > 16)
                pass_advance(pixel, PASS_PIXELS, 2 * PASS_ROW);
            else
                pass_pixels(m, part + 1 < m->parts ? part + 1 : 0, pixel);
            pass_turn_block(b, a, g, pixel, 0, factors, to + PASS_BYTES);
        }
}

/* Sixteen rows of four pixels on their way out: every fourth row, and bytes from there to the others. */
typedef struct pass_out {
    const char *row[4];
    int64_t apart[4];
} pass_out;

VEC_INLINE vec pass_out_load(const pass_out *q, const int row)
{
    vec v;
    if (row % 4 == 0)
        __asm__ volatile("ldr %q0, [%1]" : "=w"(v) : "r"(q->row[row / 4]));
    else
        __asm__ volatile("ldr %q0, [%1, %2]" : "=w"(v) : "r"(q->row[row / 4]), "r"(q->apart[row % 4]));
    return v;
}

/* Four steps, and sixteen channels of four pixels plus bias are lines of the map; next: the rows behind. */
VEC_INLINE void pass_out_block(pass_out *q, vec *v, vec *next, const float *bias, char *to, int64_t apart)
{
    vec t[4], kept[4];
    char *const pixel[4] = { to, to + apart, to + 2 * apart, to + 3 * apart };
    WHT_UNROLL for (int j = 0; j < 4; j++) q->row[j] += sizeof(vec);
    WHT_UNROLL for (int k = 0; k < 56; k++)
    {
        const int four = (k - 32) / 6, i = (k - 32) % 6;
        vec *of = v + 4 * four;
        if (k < 32) {
            const int h = 1 << k / 8, low = k % 8 / h * 2 * h + k % 8 % h;
            wht_butterfly(v + low, v + low + h);
        } else if (i < 4) {
            pass_turn(of, 1, t, i);
        } else {
            WHT_UNROLL for (int j = 2 * i - 8; j < 2 * i - 6; j++)
            {
                __asm__ volatile("fadd %0.4s, %0.4s, %1.4s" : "+w"(of[j]) : "w"(kept[four]));
                const vec two[2] = { v[4 * (four - four % 2) + j], of[j] };
                if (four % 2)
                    vec_store_two_pinned(pixel[j], four / 2 * PASS_ROW, two);
            }
        }
        if (k >= 26 && (k - 26) % 6 == 0 && k < 50)
            kept[(k - 26) / 6] = vec_load_pinned(bias, (k - 26) / 6 * 4);
        if (k >= 38 && k < 54)
            next[k - 38] = pass_out_load(q, k - 38);
    }
}

/* The last four steps: rows -> the map. Sixteen rows that are `apart` bytes apart are as many channels of a part, the
 * rows behind them the next ones. */
PASS_FUNCTION pass_out_all(const char *rows, int64_t apart, const float *bias, const pass_map *m)
{
    pass_out q = { .apart = { 0, apart, 2 * apart, 3 * apart } };
    vec a[PASS_VECTORS], b[PASS_VECTORS];
    WHT_UNROLL for (int j = 0; j < 4; j++) q.row[j] = rows + 4 * j * apart;
    WHT_UNROLL for (int j = 0; j < 16; j++) a[j] = pass_out_load(&q, j);
    for (int part = 0; part < m->parts; part++)
        for (int64_t k = 0; k < m->each; k += 16, bias += 16) {
            char *to = m->part[part] + k * (int64_t)sizeof(float);
            pass_out_block(&q, a, b, bias, to, m->next);
            pass_out_block(&q, b, a, bias, to + 4 * m->next, m->next);
        }
}

#endif
