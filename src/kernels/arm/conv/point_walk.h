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

#include "kernels/arm/two.h"
#include "kernels/conv.h"

#include <arm_neon.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Converts pixels to bf16, or to sums of two bf16, for point_walk.h: two pixels at a time, storing each group of
 * four channels at its position in a block. Memory 4 KB ahead is prefetched into L2 meanwhile; without that,
 * splitting takes up to twice as long. */

/* Halves of a group in a block of 12 pixels; floats per cache line; prefetch distance in floats. */
enum { ZN_POINT_GROUP = 48 * HALVES, ZN_POINT_LINE = 16, ZN_POINT_AHEAD = 1024 };

/* Four channels of two pixels (or outputs): high parts, and low parts at distance `low` in halves. With low parts,
 * the high parts are rounded as integers, which is faster; a NaN that overflows there stays in the low part. BFMLALT
 * reads the high half of each number in place, so that the remainder needs no mask. gcc 12 would turn the constant
 * into -1 of fp16. */
ZN_INLINE void zn_point_split(float32x4_t p, float32x4_t q, uint16_t *to, int low)
{
    if (HALVES == 1) {
        vst1q_u16(to, vreinterpretq_u16_bf16(vcvtq_high_bf16_f32(vcvtq_low_bf16_f32(p), q)));
        return;
    }
    uint16x8_t minus = vdupq_n_u16(0xbf80);
    __asm__("" : "+w"(minus));
    const bfloat16x8_t by = vreinterpretq_bf16_u16(minus);
    const uint32x4_t half = vdupq_n_u32(0x8000);
    const uint32x4_t ph = vaddq_u32(vreinterpretq_u32_f32(p), half), qh = vaddq_u32(vreinterpretq_u32_f32(q), half);
    p = vbfmlaltq_f32(p, vreinterpretq_bf16_u32(ph), by);
    q = vbfmlaltq_f32(q, vreinterpretq_bf16_u32(qh), by);
    vst1q_u16(to, vuzp2q_u16(vreinterpretq_u16_u32(ph), vreinterpretq_u16_u32(qh)));
    vst1q_u16(to + low, vreinterpretq_u16_bf16(vcvtq_high_bf16_f32(vcvtq_low_bf16_f32(p), q)));
}

ZN_INLINE void zn_point_fetch(const float *x) { __builtin_prefetch(x + ZN_POINT_AHEAD, 0, 2); }

/* Splits two pixels into their position in a block. */
static void zn_point_split_pixels(const float *p, const float *q, int cin, uint16_t *to)
{
    int k = 0;
    for (; k + ZN_POINT_LINE <= cin; k += ZN_POINT_LINE) {
        zn_point_fetch(p + k);
        zn_point_fetch(q + k);
#pragma GCC unroll 4
        for (int i = 0; i < ZN_POINT_LINE; i += 4, to += ZN_POINT_GROUP)
            zn_point_split(vld1q_f32(p + k + i), vld1q_f32(q + k + i), to, 8);
    }
    for (; k + 4 <= cin; k += 4, to += ZN_POINT_GROUP)
        zn_point_split(vld1q_f32(p + k), vld1q_f32(q + k), to, 8);
    if (k < cin) {
        float rest[2][4] = { { 0 } };
        memcpy(rest[0], p + k, sizeof(float) * (size_t)(cin - k));
        memcpy(rest[1], q + k, sizeof(float) * (size_t)(cin - k));
        zn_point_split(vld1q_f32(rest[0]), vld1q_f32(rest[1]), to, 8);
    }
}

/* v[j] = channel j of the four sub-pixels at x; rows are `line` floats apart, a sub-pixel has c channels. */
ZN_INLINE void zn_point_unshuffle(const float *x, int64_t line, int c, float32x4_t v[4])
{
    const float32x4_t a = vld1q_f32(x), b = vld1q_f32(x + c), d = vld1q_f32(x + line), e = vld1q_f32(x + line + c);
    const float32x4_t ad = vzip1q_f32(a, d), be = vzip1q_f32(b, e), ad2 = vzip2q_f32(a, d), be2 = vzip2q_f32(b, e);
    v[0] = vzip1q_f32(ad, be), v[1] = vzip2q_f32(ad, be), v[2] = vzip1q_f32(ad2, be2), v[3] = vzip2q_f32(ad2, be2);
}

/* Prefetches the cache lines of four sub-pixels. */
ZN_INLINE void zn_point_fetch_shuffled(const float *x, int64_t line, int c)
{
    zn_point_fetch(x);
    zn_point_fetch(x + c);
    zn_point_fetch(x + line);
    zn_point_fetch(x + line + c);
}

/* The same through a pixel unshuffle: a group is one channel of four sub-pixels. */
static void zn_point_split_shuffled(const float *p, const float *q, int64_t line, int cin, uint16_t *to)
{
    for (int k = 0; k < cin / 4; k += 4) {
        float32x4_t v[4], u[4];
        if (k % ZN_POINT_LINE == 0) {
            zn_point_fetch_shuffled(p + k, line, cin / 4);
            zn_point_fetch_shuffled(q + k, line, cin / 4);
        }
        zn_point_unshuffle(p + k, line, cin / 4, v);
        zn_point_unshuffle(q + k, line, cin / 4, u);
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++, to += ZN_POINT_GROUP)
            zn_point_split(v[i], u[i], to, 8);
    }
}

/* The same for maps of bf16, which are only put in order. */
static void zn_point_copy_pixels(const uint16_t *p, const uint16_t *q, int cin, uint16_t *to)
{
    int k = 0;
    for (; k + 8 <= cin; k += 8, to += 2 * ZN_POINT_GROUP) {
        const uint64x2_t a = vreinterpretq_u64_u16(vld1q_u16(p + k)), b = vreinterpretq_u64_u16(vld1q_u16(q + k));
        vst1q_u16(to, vreinterpretq_u16_u64(vzip1q_u64(a, b)));
        vst1q_u16(to + ZN_POINT_GROUP, vreinterpretq_u16_u64(vzip2q_u64(a, b)));
    }
    for (; k < cin; k += 4, to += ZN_POINT_GROUP) {
        const size_t bytes = sizeof *to * (size_t)(cin - k < 4 ? cin - k : 4);
        memset(to, 0, 8 * sizeof *to);
        memcpy(to, p + k, bytes);
        memcpy(to + 4, q + k, bytes);
    }
}

ZN_INLINE void zn_point_unshuffle_bf16(const uint16_t *x, int64_t line, int c, uint16x4_t v[4])
{
    const uint16x4_t a = vld1_u16(x), b = vld1_u16(x + c), d = vld1_u16(x + line), e = vld1_u16(x + line + c);
    const uint16x4_t ad = vzip1_u16(a, d), be = vzip1_u16(b, e), ad2 = vzip2_u16(a, d), be2 = vzip2_u16(b, e);
    v[0] = vzip1_u16(ad, be), v[1] = vzip2_u16(ad, be), v[2] = vzip1_u16(ad2, be2), v[3] = vzip2_u16(ad2, be2);
}

static void zn_point_copy_shuffled(const uint16_t *p, const uint16_t *q, int64_t line, int cin, uint16_t *to)
{
    for (int k = 0; k < cin / 4; k += 4) {
        uint16x4_t v[4], u[4];
        zn_point_unshuffle_bf16(p + k, line, cin / 4, v);
        zn_point_unshuffle_bf16(q + k, line, cin / 4, u);
        for (int i = 0; i < 4; i++, to += ZN_POINT_GROUP)
            vst1q_u16(to, vcombine_u16(v[i], u[i]));
    }
}

/* The inner loops of point_walk.h: blocks of 12 pixels by panels of 8 outputs over `groups` groups of four channels,
 *
 *     sum[i][j] = start[j] + high high                              i < 6 pairs of pixels, j < 4 pairs of outputs
 *     sum[i][j] = start[j] + high high + low high + high low        with two halves
 *
 * where a sum has the lanes (pixel 0, output 0), (0, 1), (1, 0), (1, 1), as BFMMLA computes them.
 *
 * It is in assembly because compilers copy the 24 accumulators around, to control the position of the loads, and so
 * that the results of a block are stored while its last products and the first of the next block run. A Neoverse-V1
 * sustains four BFMMLA per cycle if loads are in pairs with eight BFMMLA between them: 18.1 cycles for 72, and 19.1
 * with one load after every four. The products of a sum are 24 instructions apart, more than the latency of one. */

enum { ZN_POINT_PAIRS = 6, ZN_POINT_PIXELS = 2 * ZN_POINT_PAIRS, ZN_POINT_COLS = 8 };

/* The assembly reads it by offset. */
typedef struct zn_point_strip {
    const uint16_t *a;  /* [blocks][groups][6 pairs][halves][2 pixels][4 channels] */
    const uint16_t *b;  /* [groups][halves][4 pairs][2 outputs][4 channels] */
    const float *start; /* [4][4]: initial sums */
    size_t groups;      /* at least 2 */
    float *const *to;   /* [blocks + 1][12]: destinations of the pixels; the last twelve are only prefetched */
    size_t blocks;      /* at least 1 */
    ptrdiff_t offset;   /* bytes from a destination to the outputs of the first panel */
    ptrdiff_t residual; /* bytes from there to the residual */
    size_t panels;      /* consecutive panels, in all of b, start and outputs; at least 1 */
} zn_point_strip;

/* clang-format off */
/* x9 points into a and x10 into b; x12 counts groups, then is the next x9; x11 is start, x15 to, x16 offset, x17
 * that of the residual; x13 and x14 are two pixels. x1 is the block's a, x8 the first panel's b; x2 and x3 count the
 * remaining panels and blocks. */
#define MUL(c, a, b)           "bfmmla v" #c ".4s, v" #a ".8h, v" #b ".8h\n"
#define A(r, at)               "ldr q" #r ", [x9, #" #at "]\n"
#define N(r, at)               "ldr q" #r ", [x12, #" #at "]\n"
#define B(r, at)               "ldr q" #r ", [x10, #" #at "]\n"
#define ROW(c0, c1, c2, c3, a) MUL(c0, a, 24) MUL(c1, a, 25) MUL(c2, a, 26) MUL(c3, a, 27)
/* The last row before b changes: after each of its products the register is reloaded with the next b, from `at`. */
#define TURN(c0, c1, c2, c3, a, at)                                                                                    \
    MUL(c0, a, 24) B(24, at) MUL(c1, a, 25) B(25, at + 16) MUL(c2, a, 26) B(26, at + 32) MUL(c3, a, 27) B(27, at + 48)
/* Six rows from `at` times the current b. p and q hold the first two; afterwards r and s hold those at `next`. */
#define PHASE(p, q, r, s, at, next, last)                                                                              \
    A(r, at + 64) A(s, at + 96) ROW(0, 1, 2, 3, p) ROW(4, 5, 6, 7, q)                                                  \
    A(p, at + 128) A(q, at + 160) ROW(8, 9, 10, 11, r) ROW(12, 13, 14, 15, s)                                          \
    A(r, next) A(s, next + 32) ROW(16, 17, 18, 19, p) last
#define BOTH(p, q, r, s)                                                                                               \
    PHASE(p, q, r, s, 0, 16, ROW(20, 21, 22, 23, q))                                                                   \
    PHASE(r, s, p, q, 16, 0, TURN(20, 21, 22, 23, s, 64))                                                              \
    PHASE(p, q, r, s, 0, 192, TURN(20, 21, 22, 23, q, 128))                                                            \
    "add x9, x9, #192\n add x10, x10, #128\n subs x12, x12, #1\n"
/* The same with only high halves; the last two rows are done together, so that two registers of b are reloaded at
 * once. */
#define A2(r, s, at) "ldp q" #r ", q" #s ", [x9, #" #at "]\n"
#define B2(r, s, at) "ldp q" #r ", q" #s ", [x10, #" #at "]\n"
#define HIGH(p, q, r, s)                                                                                               \
    A2(r, s, 32) ROW(0, 1, 2, 3, p) ROW(4, 5, 6, 7, q) A2(p, q, 64) ROW(8, 9, 10, 11, r) ROW(12, 13, 14, 15, s)        \
    A2(r, s, 96) MUL(16, p, 24) MUL(17, p, 25) MUL(20, q, 24) MUL(21, q, 25) B2(24, 25, 64)                            \
    MUL(18, p, 26) MUL(19, p, 27) MUL(22, q, 26) MUL(23, q, 27) B2(26, 27, 96)                                         \
    "add x9, x9, #96\n add x10, x10, #64\n subs x12, x12, #1\n"
/* Converts the sums of a row to two pixels, and sets the initial sums of the next block in their place. v30 and v31
 * are free. */
#define ZIP(which, to, c0, c1) "zip" #which " v" #to ".2d, v" #c0 ".2d, v" #c1 ".2d\n"
#define ADD(c, a)              "fadd v" #c ".4s, v" #c ".4s, v" #a ".4s\n"
#define PAIR(op, c0, c1, at)   #op " q" #c0 ", q" #c1 ", [" at "]\n"
#define WHERE                  "ldp x13, x14, [x15], #16\n add x13, x13, x16\n add x14, x14, x16\n"
#define START(c0, c1, c2, c3)  PAIR(ldp, c0, c1, "x11") PAIR(ldp, c2, c3, "x11, #32")
#define PUT(c0, c1, c2, c3)                                                                                            \
    WHERE ZIP(1, 30, c0, c1) ZIP(1, 31, c2, c3) PAIR(stp, 30, 31, "x13")                                               \
    ZIP(2, c1, c0, c1) ZIP(2, c3, c2, c3) PAIR(stp, c1, c3, "x14") START(c0, c1, c2, c3)
/* The same with a residual; prefetches that of the next block. */
#define FETCH                                                                                                          \
    "ldp x5, x6, [x15, #80]\n prfm pldl1keep, [x5, x17]\n prfm pldl1keep, [x6, x17]\n"
#define PUT_SUM(c0, c1, c2, c3)                                                                                        \
    WHERE FETCH "add x5, x13, x7\n add x6, x14, x7\n"                                                                  \
    ZIP(1, 30, c0, c1) ZIP(2, c1, c0, c1) PAIR(ldp, c0, 31, "x5") ADD(30, c0) ZIP(1, c0, c2, c3) ZIP(2, c3, c2, c3)    \
    ADD(c0, 31) PAIR(stp, 30, c0, "x13") PAIR(ldp, 30, 31, "x6") ADD(c1, 30) ADD(c3, 31) PAIR(stp, c1, c3, "x14")      \
    START(c0, c1, c2, c3)
/* The last six rows of a block, `step` bytes apart, each stored after the products of the next row. */
#define LAST(PUT, step)                                                                                                \
    ROW(0, 1, 2, 3, 28) A(28, 2 * step) ROW(4, 5, 6, 7, 29) A(29, 3 * step) PUT(0, 1, 2, 3)                            \
    ROW(8, 9, 10, 11, 28) A(28, 4 * step) PUT(4, 5, 6, 7) ROW(12, 13, 14, 15, 29) A(29, 5 * step) PUT(8, 9, 10, 11)    \
    ROW(16, 17, 18, 19, 28) N(28, 0) PUT(12, 13, 14, 15) TURN(20, 21, 22, 23, 29, 0) N(29, step) PUT(16, 17, 18, 19)   \
    PUT(20, 21, 22, 23)
/* Where the next products begin, before the last row, and their destination: ne means that this block has another
 * panel. */
#define NEXT(step)                                                                                                     \
    "ldr x5, [%0, #16]\n subs x2, x2, #1\n add x10, x10, #(4 * " #step ")\n csel x10, x10, x8, ne\n"                   \
    "add x11, x11, #64\n csel x11, x11, x5, ne\n add x12, x9, #(6 * " #step ")\n csel x12, x1, x12, ne\n"
#define NEXT_PLACE                                                                                                     \
    "ldp x5, x6, [%0, #48]\n add x16, x16, #32\n csel x16, x16, x5, ne\n add x17, x16, x6\n"                           \
    "ldr x6, [%0, #64]\n csel x2, x2, x6, ne\n sub x5, x15, #96\n csel x15, x5, x15, ne\n"                             \
    "mov x9, x12\n mov x1, x12\n cset x5, eq\n sub x3, x3, x5\n"
/* GROUP: all products of a group; FIRST: those of the last group except its last six rows. */
#define BLOCKS(GROUP, FIRST, step, PUT)                                                                                \
    "ldp x9, x8, [%0]\n ldp x11, x4, [%0, #16]\n ldp x15, x3, [%0, #32]\n ldp x16, x7, [%0, #48]\n"                    \
    "ldr x2, [%0, #64]\n add x17, x16, x7\n sub x4, x4, #1\n mov x10, x8\n mov x1, x9\n"                               \
    A(28, 0) A(29, step) B(24, 0) B(25, 16) B(26, 32) B(27, 48)                                                        \
    START(0, 1, 2, 3) START(4, 5, 6, 7) START(8, 9, 10, 11) START(12, 13, 14, 15) START(16, 17, 18, 19)                \
    START(20, 21, 22, 23)                                                                                              \
    "0: mov x12, x4\n"                                                                                                 \
    "1:\n" GROUP(28, 29, 30, 31) "b.eq 2f\n" GROUP(30, 31, 28, 29) "b.ne 1b\n"                                         \
    "2:\n" A(28, 0) A(29, step) FIRST NEXT(step) LAST(PUT, step) NEXT_PLACE "cbnz x3, 0b\n"
#define FIRST_BOTH                                                                                                     \
    PHASE(28, 29, 30, 31, 0, 16, ROW(20, 21, 22, 23, 29)) PHASE(30, 31, 28, 29, 16, 0, TURN(20, 21, 22, 23, 31, 64))

/* The loops read ZN_POINT_SLACK bytes past the end of a and b. */
enum { ZN_POINT_SLACK = 64 };

#define CLOBBERED                                                                                                      \
    "cc", "memory", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15",    \
    "x16", "x17", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15",\
    "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31"

/* With one half or two; the second function of each pair adds the residual. */
static inline void zn_point_high(const zn_point_strip *k)
{
    __asm__ volatile(BLOCKS(HIGH, "", 16, PUT) : : "r"(k) : CLOBBERED);
}
static inline void zn_point_high_add(const zn_point_strip *k)
{
    __asm__ volatile(BLOCKS(HIGH, "", 16, PUT_SUM) : : "r"(k) : CLOBBERED);
}
static inline void zn_point_both(const zn_point_strip *k)
{
    __asm__ volatile(BLOCKS(BOTH, FIRST_BOTH, 32, PUT) : : "r"(k) : CLOBBERED);
}
static inline void zn_point_both_add(const zn_point_strip *k)
{
    __asm__ volatile(BLOCKS(BOTH, FIRST_BOTH, 32, PUT_SUM) : : "r"(k) : CLOBBERED);
}
/* clang-format on */

#undef MUL
#undef A
#undef N
#undef B
#undef ROW
#undef TURN
#undef PHASE
#undef BOTH
#undef A2
#undef B2
#undef HIGH
#undef ZIP
#undef ADD
#undef PAIR
#undef WHERE
#undef START
#undef PUT
#undef FETCH
#undef PUT_SUM
#undef LAST
#undef NEXT
#undef NEXT_PLACE
#undef BLOCKS
#undef FIRST_BOTH
#undef CLOBBERED

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
    return s->kh == 1 && s->kw == 1 && s->stride == 1 && s->pad == 0 && !s->up2 && zn_conv_keeps_size(s) &&
           s->cin >= CIN_LEAST && s->cin <= CIN_MOST && s->cout >= COUT_LEAST && s->cout % ZN_POINT_COLS == 0;
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

/* Splits two pixels at offsets p and q of the map. */
static void split_pair(const zn_conv_args *a, int64_t p, int64_t q, uint16_t *to)
{
    const zn_conv_shape *s = &a->s;
    const uint16_t *x = (const uint16_t *)(const void *)a->x;
    const int64_t line = 2 * (int64_t)s->w * (s->cin / 4);
    const bool narrow = HALVES == 1 && a->x_type != ZN_TYPE_F32;
    if (narrow && s->unshuffle)
        zn_point_copy_shuffled(x + p, x + q, line, s->cin, to);
    else if (narrow)
        zn_point_copy_pixels(x + p, x + q, s->cin, to);
    else if (s->unshuffle)
        zn_point_split_shuffled(a->x + p, a->x + q, line, s->cin, to);
    else
        zn_point_split_pixels(a->x + p, a->x + q, s->cin, to);
}

/* Splits the pixels from `first` in whole blocks; the last block is padded with copies of the last pixel. */
static void split_strip(const zn_conv_args *a, int64_t first, int count, uint16_t *to)
{
    const zn_conv_shape *s = &a->s;
    place p = place_of(first, s->cin, s->unshuffle, s->w);
    for (int t = 0; t < count; t += ZN_POINT_PIXELS, to += groups_of(s) * GROUP_A)
        for (int i = 0; i < ZN_POINT_PIXELS; i += 2) {
            int64_t at[2];
            for (int j = 0; j < 2; j++) {
                at[j] = p.at;
                if (t + i + j < count - 1)
                    advance(&p);
            }
            split_pair(a, at[0], at[1], to + PIXEL * i);
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
