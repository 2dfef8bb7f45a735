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
#ifndef ZN_KERNELS_ARM_POINT_BLOCK_H
#define ZN_KERNELS_ARM_POINT_BLOCK_H

#include <arm_neon.h>
#include <stddef.h>
#include <stdint.h>

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

#endif
