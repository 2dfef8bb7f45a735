/* The first and the last pass of DeepSpectralLinear (spectral_pass.h). They transpose pixels of a map to lanes of
 * rows and back, while the vectors are in registers for some steps of the transform anyway. */
#ifndef ZN_ARM_SPECTRAL_TURN_H
#define ZN_ARM_SPECTRAL_TURN_H

#include "kernels/arm/spectral/spectral_gather.h"

/* Interleaves the lanes of a and b. */
VEC_INLINE void pass_zip(vec a, vec b, vec *low, vec *high)
{
    __asm__ volatile("zip1 %0.4s, %1.4s, %2.4s" : "=w"(*low) : "w"(a), "w"(b));
    __asm__ volatile("zip2 %0.4s, %1.4s, %2.4s" : "=w"(*high) : "w"(a), "w"(b));
}

/* Operation k of four: swaps lane i of v[j * step] and lane j of v[i * step]. */
VEC_INLINE void pass_turn(vec *v, const int step, vec t[4], const int k)
{
    if (k < 2)
        pass_zip(v[k * step], v[(k + 2) * step], t + 2 * k, t + 2 * k + 1);
    else
        pass_zip(t[k - 2], t[k], v + 2 * (k - 2) * step, v + (2 * (k - 2) + 1) * step);
}

/* Where the channels of some pixels are: in one part or four, each with consecutive channels. */
typedef struct pass_map {
    char *part[4]; /* of the first pixel */
    int parts;
    int64_t each, next; /* channels of a part, and bytes from one pixel to the next */
} pass_map;

/* A line of a map: sixteen channels of the first pixel. */
typedef struct pass_line {
    char *at;
    int part;
    int64_t left; /* channels left in this part */
} pass_line;

VEC_INLINE pass_line pass_first_line(const pass_map *m) { return (pass_line){ .at = m->part[0], .left = m->each }; }

/* The next line; after the last one, any line of the map. */
VEC_INLINE void pass_next_line(const pass_map *m, pass_line *l)
{
    l->at += PASS_LINE;
    l->left -= 16;
    if (l->left > 0)
        return;
    l->part++;
    l->left = m->each;
    l->at = m->part[l->part % m->parts];
}

/* Prefetches a line of each of eight pixels from L2 into L1. */
VEC_INLINE void pass_fetch_near(const char *line, int64_t apart)
{
    WHT_UNROLL for (int i = 0; i < PASS_PIXELS; i++) __asm__ volatile("prfm pldl1keep, [%0]" : : "r"(line + i * apart));
}

/* Sixteen channels of four pixels: v, with factors g, is transformed and stored; next and g are loaded from
 * `pixels`. */
VEC_INLINE void pass_turn_block(vec *v, vec *next, vec *g, const char *pixels, int64_t apart, const float *factors,
                                char *to)
{
    const char *const pixel[4] = { pixels, pixels + apart, pixels + 2 * apart, pixels + 3 * apart };
    vec t[4], rows[PASS_ROWS];
    WHT_UNROLL for (int k = 0; k < 56; k++)
    {
        if (k < 8) {
            WHT_UNROLL for (int i = 2 * k; i < 2 * k + 2;
                            i++) __asm__ volatile("fmul %0.4s, %0.4s, %1.4s" : "+w"(v[i]) : "w"(g[i % 4]));
        } else if (k < 24) {
            const int four = (k - 8) / 4;
            pass_turn(v + four, 4, t, k % 4);
            if (k % 4 == 3)
                WHT_UNROLL for (int j = 0; j < 4; j++) rows[4 * four + j] = v[4 * j + four];
        } else {
            pass_step(4, rows, to, k - 24);
        }
        if (k >= 38 && k < 54 && k % 2 == 0) {
            const int i = k - 38;
            vec_load_two_pinned(pixel[i / 4], i % 4 / 2 * 32, next + i);
        }
        if (k == 54)
            pass_factors(factors, g);
    }
}

/* The map -> rows of pixels times their factors, and the first four steps. */
PASS_FUNCTION pass_turned(const pass_map *m, const float *factors, char *to, int64_t panel)
{
    pass_line l = pass_first_line(m);
    vec a[PASS_ROWS], b[PASS_ROWS], g[4];
    pass_factors(factors, g);
    WHT_UNROLL for (int i = 0; i < PASS_ROWS; i += 2)
        vec_load_two_pinned(l.at + i / 4 * m->next, i % 4 / 2 * 32, a + i);
    while (l.part < m->parts) {
        const char *second = l.at + 4 * m->next;
        pass_next_line(m, &l);
        pass_fetch_near(l.at, m->next);
        pass_turn_block(a, b, g, second, m->next, factors, to);
        factors += 16;
        pass_turn_block(b, a, g, l.at, m->next, factors, to + panel);
        to += PASS_BYTES;
    }
}

/* Four steps, then sixteen channels of four pixels plus bias are stored as lines of the map; next: the rows at q. */
VEC_INLINE void pass_out_block(const pass_spread *q, vec *v, vec *next, const float *bias, char *to, int64_t apart)
{
    vec t[4], kept[4];
    char *const pixel[4] = { to, to + apart, to + 2 * apart, to + 3 * apart };
    WHT_UNROLL for (int k = 0; k < 56; k++)
    {
        const int four = (k - 32) / 6, i = (k - 32) % 6;
        vec *of = v + 4 * four;
        if (k < 32) {
            (void)pass_butterfly(v, k);
        } else if (i < 4) {
            pass_turn(of, 1, t, i);
        } else {
            WHT_UNROLL for (int j = 2 * i - 8; j < 2 * i - 6; j++)
            {
                __asm__ volatile("fadd %0.4s, %0.4s, %1.4s" : "+w"(of[j]) : "w"(kept[four]));
                const vec two[2] = { v[4 * (four - four % 2) + j], of[j] };
                if (four % 2)
                    vec_store_two_pinned(pixel[j], four / 2 * 32, two);
            }
        }
        if (k >= 26 && (k - 26) % 6 == 0 && k < 50)
            kept[(k - 26) / 6] = vec_load_pinned(bias, (k - 26) / 6 * 4);
        if (k >= 38 && k < 54)
            next[k - 38] = pass_spread_load(q, k - 38);
    }
}

/* The last four steps: rows -> the map. Sixteen rows that are as far apart as possible are sixteen channels of a
 * part; the rows after them are the next channels. */
PASS_FUNCTION pass_out(const pass_rows *r, const float *bias, const pass_map *m)
{
    const int64_t apart = r->rows / 16 * PASS_ROW;
    pass_spread first = pass_spread_of(r->from, apart), second = first;
    pass_line l = pass_first_line(m);
    vec a[PASS_ROWS], b[PASS_ROWS];
    WHT_UNROLL for (int j = 0; j < 4; j++) second.apart[j] += r->panel;
    WHT_UNROLL for (int j = 0; j < PASS_ROWS; j++) a[j] = pass_spread_load(&first, j);
    for (; l.part < m->parts; bias += 16) {
        char *to = l.at;
        pass_next_line(m, &l);
        pass_out_block(&second, a, b, bias, to, m->next);
        pass_advance(first.row, 4, PASS_ROW);
        WHT_UNROLL for (int j = 0; j < 4; j++) second.row[j] = first.row[j];
        pass_out_block(&first, b, a, bias, to + 4 * m->next, m->next);
    }
}

#endif
