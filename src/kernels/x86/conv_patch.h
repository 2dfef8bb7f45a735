/* The input of a unit as bf16, including the zeros of the border: patch[patch_rows][patch_cols][cin]. */
#ifndef ZN_KERNELS_X86_CONV_PATCH_H
#define ZN_KERNELS_X86_CONV_PATCH_H

#include "kernels/x86/conv_plan.h"

/* Position of a unit: image, first position, and the number of its positions inside the map. */
typedef struct spot {
    int n, row, col, rows, cols;
} spot;

static inline spot spot_of(const plan *p, int64_t unit)
{
    const int64_t line = unit / p->across;
    spot u = { .n = (int)(line / p->down),
               .row = (int)(line % p->down) * p->rows,
               .col = (int)(unit % p->across) * p->cols };
    u.rows = least(p->rows, p->high - u.row);
    u.cols = least(p->cols, p->wide - u.col);
    return u;
}

/* Converts `count` input pixels to p->cin channels. */
static inline void convert(const zn_conv_shape *s, const plan *p, const float *x, int count, uint16_t *to)
{
    if (p->cin == s->cin) {
        bf16_from(x, (int64_t)count * p->cin, to);
        return;
    }
    for (int i = 0; i < count; i++, x += s->cin, to += p->cin) {
        bf16_from(x, s->cin, to);
        for (int c = s->cin; c < p->cin; c++)
            to[c] = 0;
    }
}

static inline void clear(const plan *p, int count, uint16_t *to)
{
    memset(to, 0, sizeof *to * (size_t)count * (size_t)p->cin);
}

/* The columns of a unit's patch, and which of them are inside the map. */
typedef struct columns {
    int x, all, begin, end; /* patch column c is input column x + c */
} columns;

static inline columns columns_of(const zn_conv_shape *s, const plan *p, const spot *u)
{
    const int dropped = p->cols - pieces(u->cols, TILE_ROWS) * TILE_ROWS;
    columns c = { .x = u->col * s->stride + origin(s, 0), .all = p->patch_cols - dropped * s->stride };
    c.begin = c.x < 0 ? least(-(int64_t)c.x, c.all) : 0;
    c.end = c.x < s->w ? least(c.all, (int64_t)s->w - c.x) : 0;
    c.end = c.end < c.begin ? c.begin : c.end;
    return c;
}

/* The input of patch row r, starting at its first column inside the map; NULL above and below the map. */
static inline const float *input_row(const zn_conv_args *a, const spot *u, const columns *c, int r)
{
    const zn_conv_shape *s = &a->s;
    const int y = u->row * s->stride + origin(s, 0) + r;
    if (y < 0 || y >= s->h)
        return NULL;
    return a->x + (((int64_t)u->n * s->h + y) * s->w + c->x + c->begin) * s->cin;
}

/* Fills rows [first,end) of the patch. */
static inline void gather(const zn_conv_args *a, const plan *p, const spot *u, int first, int end, uint16_t *patch)
{
    const columns c = columns_of(&a->s, p, u);
    const int64_t line = (int64_t)p->patch_cols * p->cin;
    const int64_t begin = (int64_t)c.begin * p->cin, after = (int64_t)c.end * p->cin;
    for (int r = first; r < end; r++) {
        uint16_t *to = patch + r * line;
        const float *x = input_row(a, u, &c, r);
        if (!x) {
            clear(p, c.all, to);
            continue;
        }
        clear(p, c.begin, to);
        convert(&a->s, p, x, c.end - c.begin, to + begin);
        clear(p, c.all - c.end, to + after);
    }
}

#endif
