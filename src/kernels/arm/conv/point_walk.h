/* 1x1 convolution on the bf16 matrix unit (BFMMLA), for conv_bf16x3.c and conv_point_bf16.c. Each includes this once
 * after it has defined
 *
 *     HALVES    number of bf16 that a value is the sum of: 1, or 2 with three products each
 *
 * A unit is a strip of pixels, which is split while it is copied to a layout for L1. Then it is multiplied with one
 * panel of 8 outputs after another. Pixel unshuffle and shuffle are free when loading and storing. Sums depend only
 * on their own pixel. */
#ifndef ZN_KERNELS_ARM_POINT_WALK_H
#define ZN_KERNELS_ARM_POINT_WALK_H

#include "kernels/arm/conv/point_block.h"
#include "kernels/arm/conv/point_split.h"
#include "kernels/conv.h"

#include <string.h>

enum {
    STRIP_BYTES = 32 << 10,    /* of split pixels: half of L1 */
    STRIP_MOST = 192 / HALVES, /* pixels */
    PANELS_BYTES = 16 << 10,   /* of weights */
    GROUP_A = ZN_POINT_GROUP,  /* values of a group of four channels: 12 pixels, all halves */
    GROUP_B = 32 * HALVES,     /* likewise of 8 outputs */
    PIXEL = 4 * HALVES,        /* likewise of a pixel */
};

static int groups_of(const zn_conv_shape *s) { return (s->cin + 3) / 4; }
static int panels_of(const zn_conv_shape *s) { return s->cout / ZN_POINT_COLS; }
static int64_t pixels_of(const zn_conv_shape *s) { return (int64_t)s->n * s->oh * s->ow; }

/* Pixels per unit, whole blocks. */
static int strip_of(const zn_conv_shape *s)
{
    const int blocks = STRIP_BYTES / (GROUP_A * 2 * groups_of(s)), most = STRIP_MOST / ZN_POINT_PIXELS;
    return ZN_POINT_PIXELS * (blocks < 1 ? 1 : blocks < most ? blocks : most);
}

/* With fewer channels, splitting and storing cost as much as the products save. With one product each there is more
 * to save: 16 to 32 channels take 0.80 of the time of FMLA, 32 to 64 take 0.54. */
enum { CIN_LEAST = HALVES == 1 ? 16 : 64, COUT_LEAST = HALVES == 1 ? 32 : 64, CIN_MOST = 4096 };

static bool supports(const zn_conv_shape *s)
{
    return s->kh == 1 && s->kw == 1 && s->stride == 1 && s->pad == 0 && !s->up2 && s->cin >= CIN_LEAST &&
           s->cin <= CIN_MOST && s->cout >= COUT_LEAST && s->cout % ZN_POINT_COLS == 0;
}

static size_t packed_bytes(const zn_conv_shape *s)
{
    return (size_t)panels_of(s) * (size_t)groups_of(s) * GROUP_B * sizeof(uint16_t) + ZN_POINT_SLACK;
}

/* Scratch: the split strip, and the initial sums of each panel, [4 pairs of outputs][4]. */
static size_t strip_bytes(const zn_conv_shape *s)
{
    return (size_t)strip_of(s) * (size_t)groups_of(s) * PIXEL * sizeof(uint16_t) + ZN_POINT_SLACK;
}

static size_t scratch_bytes(const zn_conv_shape *s) { return strip_bytes(s) + (size_t)s->cout * 2 * sizeof(float); }

static int64_t units(const zn_conv_shape *s) { return (pixels_of(s) + strip_of(s) - 1) / strip_of(s); }

/* The output that a column holds. Before a pixel shuffle, the columns of the first sub-pixel come first, then those
 * of the second, and so on. */
static int output_of(const zn_conv_shape *s, int column)
{
    const int each = s->cout / 4;
    return s->shuffle ? column % each * 4 + column / each : column;
}

/* [panel][group][halves][4 pairs][2 outputs][4 channels], zero-padded. */
static void pack(const zn_conv_shape *s, const float *w, void *packed)
{
    uint16_t *to = packed;
    for (int panel = 0; panel < panels_of(s); panel++)
        for (int group = 0; group < groups_of(s); group++, to += GROUP_B)
            for (int pair = 0; pair < 4; pair++) {
                float v[2][4] = { { 0 } };
                for (int o = 0; o < 2; o++)
                    for (int i = 0; i < 4; i++) {
                        const int column = panel * ZN_POINT_COLS + 2 * pair + o, channel = 4 * group + i;
                        if (channel < s->cin)
                            v[o][i] = w[(int64_t)channel * s->cout + output_of(s, column)];
                    }
                zn_point_split(vld1q_f32(v[0]), vld1q_f32(v[1]), to + 8 * pair, GROUP_B / 2);
            }
    memset(to, 0, ZN_POINT_SLACK);
}

/* Position of pixels: in a map of `channels`, or in the larger map (2 wide) on the other side of the shuffle. */
typedef struct place {
    int64_t at, step, row; /* offset of this pixel, distance to the next, and floats skipped at the end of a row */
    int left;              /* pixels left in the row, including this one */
    int wide;
} place;

static place place_of(int64_t p, int channels, bool shuffled, int wide)
{
    if (!shuffled)
        return (place){ p * channels, channels, 0, wide, wide };
    const int x = (int)(p % wide), c = channels / 4;
    return (place){ zn_conv_sub_pixel(p / wide, wide, x, 0, c), 2 * c, 2 * (int64_t)wide * c, wide - x, wide };
}

static void advance(place *p)
{
    p->at += p->step;
    if (--p->left == 0) {
        p->at += p->row;
        p->left = p->wide;
    }
}

/* Splits the pixels from `first` in whole blocks; the last block is padded with copies of the last pixel. */
static void split_strip(const zn_conv_args *a, int64_t first, int count, uint16_t *to)
{
    const zn_conv_shape *s = &a->s;
    const int64_t line = 2 * (int64_t)s->w * (s->cin / 4);
    place p = place_of(first, s->cin, s->unshuffle, s->w);
    for (int t = 0; t < count; t += ZN_POINT_PIXELS, to += groups_of(s) * GROUP_A)
        for (int i = 0; i < ZN_POINT_PIXELS; i += 2) {
            const float *x[2];
            for (int j = 0; j < 2; j++) {
                x[j] = a->x + p.at;
                if (t + i + j < count - 1)
                    advance(&p);
            }
            if (s->unshuffle)
                zn_point_split_shuffled(x[0], x[1], line, s->cin, to + PIXEL * i);
            else
                zn_point_split_pixels(x[0], x[1], s->cin, to + PIXEL * i);
        }
}

/* Floats from a pixel's address to the outputs of a panel. */
static int64_t offset_of(const zn_conv_shape *s, int panel)
{
    const int column = panel * ZN_POINT_COLS, each = s->cout / 4;
    return s->shuffle ? zn_conv_sub_pixel(0, s->ow, 0, column / each, each) + column % each : column;
}

/* Panels that a block is multiplied with before the next pixels. Two are a cache line of outputs, which would not
 * stay in L1, because lines of the same channels share its sets. With a residual, several consecutive lines are
 * faster. */
static int panels_together(const zn_conv_args *a)
{
    const zn_conv_shape *s = &a->s;
    const int columns = s->shuffle ? s->cout / 4 : s->cout, bytes = groups_of(s) * GROUP_B * (int)sizeof(uint16_t);
    const int most = a->residual && bytes < PANELS_BYTES / 2 ? PANELS_BYTES / bytes : 2;
    int panels = 8;
    while (panels > most || columns % (panels * ZN_POINT_COLS))
        panels /= 2;
    return panels;
}

/* y = act(sum + residual) for `count` pixels: what the assembly does not do. */
static void put(const zn_conv_args *a, float sums[][ZN_POINT_COLS], float *const *to, int64_t offset, int count)
{
    for (int p = 0; p < count; p++)
        for (int i = 0; i < ZN_POINT_COLS; i += 4) {
            float *y = to[p] + offset + i;
            float32x4_t v = vld1q_f32(sums[p] + i);
            if (a->residual)
                v = vaddq_f32(v, vld1q_f32(a->residual + (y - a->y)));
            vst1q_f32(y, a->relu ? vmaxq_f32(v, vdupq_n_f32(0)) : v);
        }
}

static void multiply_strip(const zn_point_strip *k, bool add)
{
    if (HALVES == 1)
        (add ? zn_point_high_add : zn_point_high)(k);
    else
        (add ? zn_point_both_add : zn_point_both)(k);
}

/* A block of one panel via the stack: a last block with fewer pixels, or one with a ReLU. */
static void multiply_partly(const zn_conv_args *a, zn_point_strip k, float *const *to, int64_t offset, int count)
{
    float sums[2 * ZN_POINT_PIXELS][ZN_POINT_COLS], *rows[2 * ZN_POINT_PIXELS];
    for (int p = 0; p < 2 * ZN_POINT_PIXELS; p++)
        rows[p] = sums[p];
    k.to = rows, k.offset = 0, k.blocks = k.panels = 1;
    multiply_strip(&k, false);
    put(a, sums, to, offset, count < ZN_POINT_PIXELS ? count : ZN_POINT_PIXELS);
}

/* Computes some panels of outputs of a strip; `to` holds the destinations of its pixels. */
static void multiply(const zn_conv_args *a, const uint16_t *strip, const float *starts, float *const *to, int count,
                     int panel, int panels)
{
    const zn_conv_shape *s = &a->s;
    const int groups = groups_of(s), whole = a->relu ? 0 : count / ZN_POINT_PIXELS;
    const int64_t offset = offset_of(s, panel);
    zn_point_strip k = { .a = strip,
                         .b = (const uint16_t *)a->packed + (int64_t)panel * groups * GROUP_B,
                         .start = starts + panel * 16,
                         .groups = (size_t)groups,
                         .to = to,
                         .blocks = (size_t)whole,
                         .offset = offset * (int64_t)sizeof(float),
                         .residual = a->residual ? (intptr_t)a->residual - (intptr_t)a->y : 0,
                         .panels = (size_t)panels };
    if (whole)
        multiply_strip(&k, a->residual);
    for (int i = 0; i < panels; i++, k.b += groups * GROUP_B, k.start += 16)
        for (int t = whole * ZN_POINT_PIXELS; t < count; t += ZN_POINT_PIXELS) {
            k.a = strip + t * groups * PIXEL;
            multiply_partly(a, k, to + t, offset + i * ZN_POINT_COLS, count - t);
        }
}

/* The initial sums: [cout / 2][4], the bias of two columns for two pixels, in the order of output_of. */
static void set_starts(const zn_conv_args *a, float *starts)
{
    const int count = a->s.cout, step = a->s.shuffle ? 4 : 1;
    for (int i = 0, column = 0; i < step; i++)
        for (int o = i; o < count; o += step, column++) {
            float *start = starts + column / 2 * 4 + column % 2;
            start[0] = start[2] = a->bias ? a->bias[o] : 0;
        }
}

static void run(const void *args, zn_range r)
{
    const zn_conv_args *a = args;
    const zn_conv_shape *s = &a->s;
    const int length = strip_of(s), together = panels_together(a);
    const int64_t pixels = pixels_of(s);
    float *starts = (float *)(void *)((char *)r.scratch + strip_bytes(s));
    set_starts(a, starts);
    for (int64_t unit = r.begin; unit < r.end; unit++) {
        const int64_t first = unit * length;
        const int count = (int)(pixels - first < length ? pixels - first : length);
        float *to[STRIP_MOST + ZN_POINT_PIXELS];
        place y = place_of(first, s->cout, s->shuffle, s->ow);
        for (int t = 0; t < length + ZN_POINT_PIXELS; t++) {
            to[t] = a->y + y.at;
            if (t < count - 1)
                advance(&y);
        }
        split_strip(a, first, count, r.scratch);
        for (int panel = 0; panel < panels_of(s); panel += together)
            multiply(a, r.scratch, starts, to, count, panel, together);
    }
}

#endif
