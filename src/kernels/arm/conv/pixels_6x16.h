/* 1x1 products of few channels in fp32, completed in registers: six pixels by sixteen outputs at a time,
 *
 *     y[t][16 p + j] = start[p][j] + sum over k < 4 groups of a[t][k] w[p][k][j] (+ residual)       t < 6 blocks
 *
 * It is in assembly for the same reasons as gemm.c. That product cannot start with a bias or end with a
 * residual: those would be separate passes over y, as long as the products. All outputs of a pixel are computed
 * before the next six pixels. */
#ifndef ZN_ARM_PIXELS_6X16_H
#define ZN_ARM_PIXELS_6X16_H

#include <stddef.h>
#include <stdint.h>

enum { ZN_6X16_PIXELS = 6, ZN_6X16_COLUMNS = 16 };

/* The assembly reads it by offset. Strides in bytes, counts at least 1. */
typedef struct zn_6x16 {
    const float *a;     /* pixels, `row` apart */
    const float *w;     /* [panels][4 groups][16] */
    const float *start; /* [panels][16] */
    float *y;           /* [6 blocks][panels][16] */
    int64_t row;
    int64_t residual; /* distance from y to the residual */
    int64_t groups, panels, blocks;
} zn_6x16;

/* clang-format off */
/* x0-x5 point to the pixels, x6 to w, x7 to start and x8 to y; x9 counts groups, x10 panels, x11 blocks. v0-v5 hold
 * four multipliers of each pixel, v6 and v7 alternate as the vector of w, v8-v31 are the sums. */
#define FMA(c, b, p, lane)    "fmla v" #c ".4s, v" #b ".4s, v" #p ".s[" #lane "]\n"
#define W(r, at)              "ldr q" #r ", [x6, #" #at "]\n"
#define COLUMN(b, lane, c0, c1, c2, c3, c4, c5)                                                                        \
    FMA(c0, b, 0, lane) FMA(c1, b, 1, lane) FMA(c2, b, 2, lane) FMA(c3, b, 3, lane) FMA(c4, b, 4, lane)                \
    FMA(c5, b, 5, lane)
#define COLUMNS(lane, at)                                                                                              \
    W(7, at + 16) COLUMN(7, lane, 9, 13, 17, 21, 25, 29) W(6, at + 32) COLUMN(6, lane, 10, 14, 18, 22, 26, 30)         \
    W(7, at + 48) COLUMN(7, lane, 11, 15, 19, 23, 27, 31)
#define LANE(lane, at)        W(6, at) COLUMN(6, lane, 8, 12, 16, 20, 24, 28) COLUMNS(lane, at)
/* Lane 0, with multipliers loaded where they are first used. */
#define LANE_AND_LOADS(A, at)                                                                                          \
    W(6, at) A(0) FMA(8, 6, 0, 0) A(1) FMA(12, 6, 1, 0) A(2) FMA(16, 6, 2, 0) A(3) FMA(20, 6, 3, 0) A(4)               \
    FMA(24, 6, 4, 0) A(5) FMA(28, 6, 5, 0) COLUMNS(0, at)
#define PAIR(op, r0, r1, at)  #op " q" #r0 ", q" #r1 ", [" at "]\n"
#define ADD(c, b)             "fadd v" #c ".4s, v" #c ".4s, v" #b ".4s\n"
#define START(c0, c1, c2, c3) PAIR(ldp, c0, c1, "x7") PAIR(ldp, c2, c3, "x7, #32")
#define PUT(c0, c1, c2, c3)                                                                                            \
    PAIR(stp, c0, c1, "x12") PAIR(stp, c2, c3, "x12, #32") START(c0, c1, c2, c3) "add x12, x12, x13\n"
/* The same with a residual; prefetches that of the next block. */
#define PUT_SUM(c0, c1, c2, c3)                                                                                        \
    PAIR(ldp, 6, 7, "x14") ADD(c0, 6) ADD(c1, 7) PAIR(ldp, 6, 7, "x14, #32") ADD(c2, 6) ADD(c3, 7)                     \
    "prfm pldl1keep, [x14, x15]\n add x14, x14, x13\n" PUT(c0, c1, c2, c3)
/* The destination of this panel (x12, its residual x14; x13 is the stride of a pixel, x15 of six) and the start of
 * the next. ne: the next panel has the same pixels. */
#define NEXT                                                                                                           \
    "ldr x9, [%0, #16]\n subs x10, x10, #1\n add x7, x7, #64\n csel x7, x7, x9, ne\n mov x12, x8\n"                    \
    "add x8, x8, #64\n ldr x13, [%0, #56]\n lsl x13, x13, #6\n add x15, x13, x13, lsl #1\n lsl x15, x15, #1\n"         \
    "ldr x14, [%0, #40]\n add x14, x14, x12\n"
#define NEXT_PLACE                                                                                                     \
    "add x14, x8, x13, lsl #2\n add x14, x14, x13\n csel x8, x8, x14, ne\n ldr x12, [%0, #8]\n"                        \
    "csel x6, x6, x12, ne\n ldr x12, [%0, #56]\n csel x10, x10, x12, ne\n cset x12, eq\n sub x11, x11, x12\n"
#define BLOCKS(SUM, PUT, BACK)                                                                                         \
    "ldp x0, x6, [%0]\n ldp x7, x8, [%0, #16]\n ldr x12, [%0, #32]\n ldp x10, x11, [%0, #56]\n"                        \
    "add x1, x0, x12\n add x2, x1, x12\n add x3, x2, x12\n add x4, x3, x12\n add x5, x4, x12\n"                        \
    START(8, 9, 10, 11) START(12, 13, 14, 15) START(16, 17, 18, 19) START(20, 21, 22, 23) START(24, 25, 26, 27)        \
    START(28, 29, 30, 31)                                                                                              \
    "0: ldr x9, [%0, #48]\n 1:\n" SUM "b.ne 1b\n" NEXT                                                                 \
    PUT(8, 9, 10, 11) PUT(12, 13, 14, 15) PUT(16, 17, 18, 19) PUT(20, 21, 22, 23) PUT(24, 25, 26, 27)                  \
    PUT(28, 29, 30, 31) BACK NEXT_PLACE "cbnz x11, 0b\n"

/* Four channels, and the step back to the first, of these pixels or of the next six. */
#define CHANNELS(p) "ldr q" #p ", [x" #p "], #16\n"
#define SUM_CHANNELS                                                                                                   \
    LANE_AND_LOADS(CHANNELS, 0) LANE(1, 64) "subs x9, x9, #1\n" LANE(2, 128) "add x6, x6, #256\n" LANE(3, -64)
#define BACK_CHANNELS                                                                                                  \
    "ldr x9, [%0, #48]\n ldr x12, [%0, #32]\n add x12, x12, x12, lsl #1\n lsl x12, x12, #1\n csel x12, xzr, x12, ne\n" \
    "sub x12, x12, x9, lsl #4\n add x0, x0, x12\n add x1, x1, x12\n add x2, x2, x12\n add x3, x3, x12\n"               \
    "add x4, x4, x12\n add x5, x5, x12\n"
/* Nine neighbours in a line, three channels each, of pixels that are 12 bytes apart. */
#define TAPS0(p) "ldur q" #p ", [x0, #12 * " #p "]\n"
#define TAPS4(p) "ldur q" #p ", [x0, #12 * " #p " + 16]\n"
#define TAPS8(p) "ldur q" #p ", [x0, #12 * " #p " + 32]\n"
#define SUM_TAPS                                                                                                       \
    LANE_AND_LOADS(TAPS0, 0) LANE(1, 64) "subs x9, x9, #1\n" LANE(2, 128) LANE(3, 192) LANE_AND_LOADS(TAPS4, 256)      \
    LANE(1, 320) "ldr x12, [%0, #32]\n" LANE(2, 384) LANE(3, 448) LANE_AND_LOADS(TAPS8, 512)                           \
    "add x0, x0, x12\n add x6, x6, #576\n"
#define BACK_TAPS                                                                                                      \
    "ldr x9, [%0, #48]\n ldr x12, [%0, #32]\n mov x14, #72\n csel x14, xzr, x14, ne\n msub x14, x9, x12, x14\n"        \
    "add x0, x0, x14\n"

#define CLOBBERED                                                                                                      \
    "cc", "memory", "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14",     \
    "x15", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15",       \
    "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31"
#define ALL(SUM, PUT, BACK) __asm__ volatile(BLOCKS(SUM, PUT, BACK) : : "r"(k) : CLOBBERED)
/* clang-format on */

static inline void zn_6x16_multiply(const zn_6x16 *k) { ALL(SUM_CHANNELS, PUT, BACK_CHANNELS); }
static inline void zn_6x16_multiply_add(const zn_6x16 *k) { ALL(SUM_CHANNELS, PUT_SUM, BACK_CHANNELS); }
/* 3x3 from three channels: a is the upper left neighbour of the first pixel, `row` is the distance to the next of
 * `groups` lines, and w is [panels][groups][9][16]. Reads 12 bytes past the last neighbour. */
static inline void zn_6x16_taps(const zn_6x16 *k) { ALL(SUM_TAPS, PUT, BACK_TAPS); }

#undef FMA
#undef W
#undef COLUMN
#undef COLUMNS
#undef LANE
#undef LANE_AND_LOADS
#undef PAIR
#undef ADD
#undef START
#undef PUT
#undef PUT_SUM
#undef NEXT
#undef NEXT_PLACE
#undef BLOCKS
#undef CHANNELS
#undef SUM_CHANNELS
#undef BACK_CHANNELS
#undef TAPS0
#undef TAPS4
#undef TAPS8
#undef SUM_TAPS
#undef BACK_TAPS
#undef CLOBBERED
#undef ALL

#endif
