/* The inner block of conv_bf16x3.c: 12 pixels by 8 outputs over `groups` groups of four channels,
 *
 *     sum[i][j] = start[j] + high high + low high + high low        i < 6 pairs of pixels, j < 4 pairs of outputs
 *
 * where a sum has the lanes (pixel 0, output 0), (0, 1), (1, 0), (1, 1), as BFMMLA makes them.
 *
 * In assembly for the 24 accumulators, which compilers copy about, and for the places of the loads: a Neoverse-V1 keeps
 * up four BFMMLA in a cycle if the 26 loads beside 72 of them stand apart. The three products of a sum stand 24
 * instructions apart, more than the latency of one. */
#ifndef ZN_KERNELS_ARM_BF16X3_BLOCK_H
#define ZN_KERNELS_ARM_BF16X3_BLOCK_H

#include <arm_neon.h>
#include <stddef.h>
#include <stdint.h>

enum { ZN_X3_PAIRS = 6, ZN_X3_PIXELS = 2 * ZN_X3_PAIRS, ZN_X3_COLS = 8 };

/* Read by the assembly by offset. */
typedef struct zn_x3_block {
    const uint16_t *a;  /* [groups][6 pairs][high, low][2 pixels][4 channels] */
    const uint16_t *b;  /* [groups][high, low][4 pairs][2 outputs][4 channels] */
    const float *start; /* [4][4]: what the sums begin with */
    size_t groups;      /* at least 1 */
} zn_x3_block;

/* clang-format off */
#define MUL(c, a, b)           "bfmmla %" #c ".4s, v" #a ".8h, v" #b ".8h\n"
#define A(r, at)               "ldr q" #r ", [x9, #" #at "]\n"
#define B(r, at)               "ldr q" #r ", [x10, #" #at "]\n"
#define ROW(c0, c1, c2, c3, a) MUL(c0, a, 24) MUL(c1, a, 25) MUL(c2, a, 26) MUL(c3, a, 27)
/* The last row before b changes: each of its products makes room for the next b, from `at` on. */
#define TURN(c0, c1, c2, c3, a, at)                                                                                    \
    MUL(c0, a, 24) B(24, at) MUL(c1, a, 25) B(25, at + 16) MUL(c2, a, 26) B(26, at + 32) MUL(c3, a, 27) B(27, at + 48)
/* Six rows from `at` on against the b at hand. p and q hold the first two; r and s will hold those at `next`. */
#define PHASE(p, q, r, s, at, next, last)                                                                              \
    A(r, at + 64) ROW(0, 1, 2, 3, p) A(s, at + 96) ROW(4, 5, 6, 7, q) A(p, at + 128) ROW(8, 9, 10, 11, r)              \
    A(q, at + 160) ROW(12, 13, 14, 15, s) A(r, next) ROW(16, 17, 18, 19, p) A(s, next + 32) last
#define GROUP(p, q, r, s)                                                                                              \
    PHASE(p, q, r, s, 0, 16, ROW(20, 21, 22, 23, q))                                                                   \
    PHASE(r, s, p, q, 16, 0, TURN(20, 21, 22, 23, s, 64))                                                              \
    PHASE(p, q, r, s, 0, 192, TURN(20, 21, 22, 23, q, 128))                                                            \
    "add x9, x9, #192\n add x10, x10, #128\n subs x12, x12, #1\n"
#define START(c0, c1, c2, c3) "ldp %q" #c0 ", %q" #c1 ", [x11]\n ldp %q" #c2 ", %q" #c3 ", [x11, #32]\n"
#define SUMS(i) "=w"(sum[i][0]), "=w"(sum[i][1]), "=w"(sum[i][2]), "=w"(sum[i][3])

/* Reads ZN_X3_SLACK bytes beyond the end of a and b. */
enum { ZN_X3_SLACK = 64 };

static inline __attribute__((always_inline)) void zn_x3_multiply(const zn_x3_block *k, float32x4_t sum[ZN_X3_PAIRS][4])
{
    __asm__ volatile(
        "ldp x9, x10, [%24]\n ldp x11, x12, [%24, #16]\n"
        A(28, 0) A(29, 32) B(24, 0) B(25, 16) B(26, 32) B(27, 48)
        START(0, 1, 2, 3) START(4, 5, 6, 7) START(8, 9, 10, 11) START(12, 13, 14, 15) START(16, 17, 18, 19)
        START(20, 21, 22, 23)
        "0:\n" GROUP(28, 29, 30, 31) "b.eq 1f\n" GROUP(30, 31, 28, 29) "b.ne 0b\n"
        "1:\n"
        : SUMS(0), SUMS(1), SUMS(2), SUMS(3), SUMS(4), SUMS(5)
        : "r"(k)
        : "cc", "memory", "x9", "x10", "x11", "x12", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31");
}
/* clang-format on */

#undef MUL
#undef A
#undef B
#undef ROW
#undef TURN
#undef PHASE
#undef GROUP
#undef START
#undef SUMS

#endif
