/* Splits a convolution into products of bf16 tiles, and packs the weights for it.
 *
 * Positions are output pixels. With up2 they are input pixels, and each has four outputs, one for each parity
 * ("phase") of row and column. Each phase has its own kernel of about half the size: where two kernel rows read the
 * same input row, their weights are added. So position g and row d of the kernel of phase p read input row g *
 * stride + origin(p) + d.
 *
 * In a patch of pixels with their channels, the kw * cin values that one kernel row reads are contiguous. They are
 * split into `steps` equal runs of `depth` values; depth is even and at most that of a tile. No run includes a value
 * of another pixel, which could be a NaN. A unit is a rectangle of positions, small enough that its patch stays in
 * L2. */
#ifndef ZN_KERNELS_X86_CONV_AMX_PLAN_H
#define ZN_KERNELS_X86_CONV_AMX_PLAN_H

#include "kernels/conv.h"
#include "kernels/round_taps.h"
#include "kernels/x86/bf16.h"
#include "kernels/x86/tile.h"

#include <math.h>

enum {
    UNIT_ROWS = 16, /* maximum */
    UNIT_COLS = 64,
    LEAST_ROWS = 4,
    LEAST_UNITS = 32, /* minimum to share among threads, if the map is large enough */
    PATCH_BYTES = 512 << 10,
    LARGEST_PATCH = 8 << 20, /* for the smallest unit */
    FEW = 4,                 /* input channels of a layer whose operands have two parts */
    PARTS = 3,
    FEW_WEIGHTS = 128 * 128, /* for each tap */
};

typedef struct plan {
    int up;                     /* 2: up2; else 1 */
    int kh, kw;                 /* kernel of one phase */
    int parts;                  /* 1, or PARTS */
    int cin, steps, depth;      /* channels of a patch pixel; kw * cin = steps * depth */
    int couts;                  /* tiles of 16 outputs */
    int high, wide;             /* positions of the map */
    int rows, cols;             /* positions of a unit; cols is a multiple of the tile size */
    int down, across;           /* units per map */
    int patch_rows, patch_cols; /* pixels */
} plan;

static inline int least(int64_t a, int64_t b) { return (int)(a < b ? a : b); }
static inline int pieces(int64_t n, int of) { return (int)((n + of - 1) / of); }

/* The input row (or column) that position 0 and row 0 of the kernel of a phase read; rounds down. */
static inline int origin(const zn_conv_shape *s, int phase) { return s->up2 ? (phase - s->pad) >> 1 : -s->pad; }

/* Finds the fewest steps; this may pad a patch pixel with zero channels. */
static inline void plan_depth(const zn_conv_shape *s, plan *p)
{
    const int all = s->cin * p->parts;
    for (int c = (all + 1) / 2 * 2; c <= pieces(all, TILE_DEPTH) * TILE_DEPTH; c += 2) {
        const int k = p->kw * c;
        int steps = pieces(k, TILE_DEPTH);
        while (k % (2 * steps))
            steps++;
        if (!p->steps || steps < p->steps) {
            p->steps = steps;
            p->depth = k / steps;
            p->cin = c;
        }
    }
}

static inline void plan_units(const zn_conv_shape *s, plan *p)
{
    const int slack = s->up2 ? origin(s, 1) - origin(s, 0) : 0;
    p->down = pieces(p->high, p->rows);
    p->across = pieces(p->wide, p->cols);
    p->patch_rows = (p->rows - 1) * s->stride + p->kh + slack;
    p->patch_cols = (p->cols - 1) * s->stride + p->kw + slack;
}

static inline size_t patch_bytes(const plan *p)
{
    return sizeof(uint16_t) * (size_t)p->patch_rows * (size_t)p->patch_cols * (size_t)p->cin;
}

static inline plan plan_of(const zn_conv_shape *s)
{
    plan p = { .up = s->up2 ? 2 : 1,
               .kh = s->kh,
               .kw = s->kw,
               .parts = s->cin <= FEW ? PARTS : 1,
               .couts = pieces(s->cout, TILE_ROWS) };
    if (s->up2) {
        p.kh = s->kh / 2 + 1;
        p.kw = s->kw / 2 + 1;
    }
    plan_depth(s, &p);
    p.high = pieces(s->oh, p.up);
    p.wide = pieces(s->ow, p.up);
    p.rows = least(UNIT_ROWS, p.high);
    p.cols = least(UNIT_COLS, pieces(p.wide, TILE_ROWS) * TILE_ROWS);
    for (plan_units(s, &p); (int64_t)s->n * p.down * p.across < LEAST_UNITS || patch_bytes(&p) > PATCH_BYTES;
         plan_units(s, &p))
        if (p.cols > TILE_ROWS && (p.cols > 2 * p.rows || p.rows <= LEAST_ROWS))
            p.cols = pieces(p.cols / 2, TILE_ROWS) * TILE_ROWS;
        else if (p.rows > LEAST_ROWS)
            p.rows = (p.rows + 1) / 2;
        else
            break;
    return p;
}

/* Bytes of packed weights: an operand tile, and those for 16 outputs of one phase. */
static inline int64_t step_bytes(const plan *p) { return (int64_t)(p->depth / 2) * TILE_BYTES; }
static inline int64_t slice_bytes(const plan *p) { return p->kh * p->steps * step_bytes(p); }

/* The weight of phase (py,px) at row dy and column dx of its kernel: the sum of the weights that read the same input
 * pixel. */
static inline float phase_weight(const zn_conv_shape *s, const float *w, const int phase[2], const int at[2], int ci,
                                 int co)
{
    const int up = s->up2 ? 2 : 1;
    const int y = up * (at[0] + origin(s, phase[0])) + s->pad - phase[0];
    const int x = up * (at[1] + origin(s, phase[1])) + s->pad - phase[1];
    double sum = 0;
    for (int ky = y < 0 ? 0 : y; ky < y + up && ky < s->kh; ky++)
        for (int kx = x < 0 ? 0 : x; kx < x + up && kx < s->kw; kx++)
            sum += (double)w[((int64_t)(ky * s->kw + kx) * s->cin + ci) * s->cout + co];
    return (float)sum;
}

/* The second bf16 number of a weight that is the sum of two. */
static inline uint16_t low_part(float v)
{
    const float rest = v - bf16_value(bf16_round(v));
    return isfinite(rest) ? bf16_round(rest) : 0; /* else the first number says it */
}

/* Operand tiles: pairs of consecutive values of the kernel row for 16 outputs, [depth / 2][16][2]. */
static inline void pack_step(const zn_conv_shape *s, const plan *p, const float *w, const int phase[2],
                             const int dy_step[2], int cout, uint16_t *to)
{
    for (int i = 0; i < p->depth; i++) {
        const int k = dy_step[1] * p->depth + i, at[2] = { dy_step[0], k / p->cin }, ci = k % p->cin;
        for (int j = 0; j < TILE_ROWS; j++) {
            const bool real = ci < s->cin * p->parts && cout + j < s->cout;
            const float v = real ? phase_weight(s, w, phase, at, ci % s->cin, cout + j) : 0;
            const bool low = p->parts > 1 && ci >= 2 * s->cin;
            to[(i / 2 * TILE_ROWS + j) * 2 + i % 2] = low ? low_part(v) : bf16_round(v);
        }
    }
}

/* Whether the taps of a kernel are rounded together if they never change. Layers with many weights take too long. */
static inline bool rounds_together(const zn_conv_shape *s, const plan *p)
{
    return p->parts == 1 && p->kh * p->kw > 1 && p->kh * p->kw <= ZN_ROUND_TAPS && s->cin * s->cout <= FEW_WEIGHTS;
}

/* Replaces what pack_step wrote for 16 outputs by weights that are rounded together. */
static inline void pack_together(const zn_conv_shape *s, const plan *p, const float *w, const int phase[2], int cout,
                                 uint16_t *to)
{
    float taps[ZN_ROUND_TAPS];
    uint16_t rounded[ZN_ROUND_TAPS];
    const int count = p->kh * p->kw, outputs = least(TILE_ROWS, s->cout - cout);
    for (int ci = 0; ci < s->cin; ci++)
        for (int j = 0; j < outputs; j++) {
            for (int t = 0; t < count; t++)
                taps[t] = phase_weight(s, w, phase, (int[2]){ t / p->kw, t % p->kw }, ci, cout + j);
            zn_round_taps(taps, count, rounded);
            for (int t = 0; t < count; t++) {
                const int k = t % p->kw * p->cin + ci, i = k % p->depth, step = t / p->kw * p->steps + k / p->depth;
                to[(step * (p->depth / 2) + i / 2) * TILE_ROWS * 2 + j * 2 + i % 2] = rounded[t];
            }
        }
}

/* [phase row][phase column][cout / 16][kernel row][step][depth / 2][16][2] */
static inline void plan_pack(const zn_conv_shape *s, const plan *p, const float *w, bool together, void *packed)
{
    char *to = packed;
    for (int phase = 0; phase < p->up * p->up; phase++)
        for (int c = 0; c < p->couts; c++) {
            const int at[2] = { phase / p->up, phase % p->up };
            uint16_t *first = (uint16_t *)(void *)to;
            for (int i = 0; i < p->kh * p->steps; i++, to += step_bytes(p))
                pack_step(s, p, w, at, (int[2]){ i / p->steps, i % p->steps }, c * TILE_ROWS, (uint16_t *)to);
            if (together)
                pack_together(s, p, w, at, c * TILE_ROWS, first);
        }
}

#endif
