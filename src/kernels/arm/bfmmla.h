/* The inner block of products with BFMMLA, which multiplies two rows by two rows over four numbers: twelve rows of x by
 * eight of w. Its 24 sums hide the latency of the instruction, which 16 do not (276 and 304 GFLOP/s on a Neoverse-V1,
 * whose peak is 332). */
#ifndef ZN_ARM_BFMMLA_H
#define ZN_ARM_BFMMLA_H

#include <stdint.h>

enum {
    BFMMLA_QUAD = 4, /* numbers of an instruction */
    BFMMLA_X = 12,   /* rows of a block */
    BFMMLA_W = 8,
    BFMMLA_UNROLLED = 4,              /* fours in a turn of the loop */
    BFMMLA_SUMS = BFMMLA_X * BFMMLA_W /* floats: [pair of rows of w][pair of rows of x][row of x][row of w] */
};

/* Four numbers of each row of a block. */
typedef uint16_t bfmmla_x[BFMMLA_X / 2][2][BFMMLA_QUAD];
typedef uint16_t bfmmla_w[BFMMLA_W / 2][2][BFMMLA_QUAD];

/* Where the sums of two rows of x and two of w are in those of their block; x and w are even. */
static inline int bfmmla_sums_at(int x, int w) { return (w / 2 * (BFMMLA_X / 2) + x / 2) * 4; }

/* clang-format off */
/* Sums in v0 to v23, x in v24 to v29, w in v30 and v31 by turns. A register gets what it needs next as soon as it is
 * free. */
#define BFMMLA_DOT(c, a, b)       "bfmmla v" #c ".4s, v" #a ".8h, v" #b ".8h\n"
#define BFMMLA_LOAD(r, p, at)     "ldr q" #r ", [%[" #p "], #" #at "]\n"
#define BFMMLA_STORE(r, p, at)    "str q" #r ", [%[" #p "], #" #at "]\n"
#define BFMMLA_PAIR(c0, c1, c2, c3, c4, c5, b, at)                                                                     \
    BFMMLA_DOT(c0, 24, b) BFMMLA_DOT(c1, 25, b) BFMMLA_DOT(c2, 26, b) BFMMLA_DOT(c3, 27, b) BFMMLA_DOT(c4, 28, b)      \
    BFMMLA_DOT(c5, 29, b) BFMMLA_LOAD(b, w, at)
#define BFMMLA_LAST(c, a, b, at)  BFMMLA_DOT(c, a, b) BFMMLA_LOAD(a, x, at)
/* Four numbers. wat: where their rows of w are; xat: where the next four of x are. */
#define BFMMLA_QUADS(wat, xat)                                                                                         \
    BFMMLA_PAIR(0, 1, 2, 3, 4, 5, 30, wat + 32) BFMMLA_PAIR(6, 7, 8, 9, 10, 11, 31, wat + 48)                          \
    BFMMLA_PAIR(12, 13, 14, 15, 16, 17, 30, wat + 64)                                                                  \
    BFMMLA_LAST(18, 24, 31, xat) BFMMLA_LAST(19, 25, 31, xat + 16) BFMMLA_LAST(20, 26, 31, xat + 32)                   \
    BFMMLA_LAST(21, 27, 31, xat + 48) BFMMLA_LAST(22, 28, 31, xat + 64) BFMMLA_LAST(23, 29, 31, xat + 80)              \
    BFMMLA_LOAD(31, w, wat + 80)
#define BFMMLA_SIX(op, a, b, c, d, e, f, p, at)                                                                        \
    op(a, p, at) op(b, p, at + 16) op(c, p, at + 32) op(d, p, at + 48) op(e, p, at + 64) op(f, p, at + 80)
#define BFMMLA_ALL(op)                                                                                                 \
    BFMMLA_SIX(op, 0, 1, 2, 3, 4, 5, sums, 0) BFMMLA_SIX(op, 6, 7, 8, 9, 10, 11, sums, 96)                             \
    BFMMLA_SIX(op, 12, 13, 14, 15, 16, 17, sums, 192) BFMMLA_SIX(op, 18, 19, 20, 21, 22, 23, sums, 288)

/* Adds products over 4 * quads numbers to sums; quads is a multiple of BFMMLA_UNROLLED. Loads some numbers after the
 * last ones, but does not use them: four of each row of x, and of half the rows of w. */
static inline void bfmmla_block(const bfmmla_x *x, const bfmmla_w *w, int quads, float sums[BFMMLA_SUMS])
{
    __asm__ volatile(
        BFMMLA_ALL(BFMMLA_LOAD)
        BFMMLA_SIX(BFMMLA_LOAD, 24, 25, 26, 27, 28, 29, x, 0) BFMMLA_LOAD(30, w, 0) BFMMLA_LOAD(31, w, 16)
        "1:\n"
        BFMMLA_QUADS(0, 96) BFMMLA_QUADS(64, 192) BFMMLA_QUADS(128, 288) BFMMLA_QUADS(192, 384)
        "add %[w], %[w], #256\n add %[x], %[x], #384\n subs %w[quads], %w[quads], #4\n b.ne 1b\n"
        BFMMLA_ALL(BFMMLA_STORE)
        : [w] "+r"(w), [x] "+r"(x), [quads] "+r"(quads)
        : [sums] "r"(sums)
        : "cc", "memory", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14",
          "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29",
          "v30", "v31");
}
/* clang-format on */

#endif
