/* The inner block of products with BFMMLA, which multiplies two rows by two rows over four numbers: eight rows by
 * eight, so each operand loaded is used four times. */
#ifndef ZN_ARM_BFMMLA_H
#define ZN_ARM_BFMMLA_H

#include <stdint.h>

enum {
    BFMMLA_QUAD = 4,  /* numbers of an instruction */
    BFMMLA_BLOCK = 8, /* rows of a block */
    BFMMLA_PAIRS = BFMMLA_BLOCK / 2,
    BFMMLA_UNROLLED = 4,                      /* fours in a turn of the loop */
    BFMMLA_SUMS = BFMMLA_BLOCK * BFMMLA_BLOCK /* floats: [pair of rows of w][pair of rows of x] of two by two */
};

/* Four numbers of each row of a block. */
typedef uint16_t bfmmla_operands[BFMMLA_PAIRS][2][BFMMLA_QUAD];

/* clang-format off */
#define BFMMLA_DOT(c, a, b)       "bfmmla v" #c ".4s, v" #a ".8h, v" #b ".8h\n"
#define BFMMLA_LOAD(a, b, p, at)  "ldp q" #a ", q" #b ", [%[" #p "], #" #at "]\n"
#define BFMMLA_STORE(a, b, p, at) "stp q" #a ", q" #b ", [%[" #p "], #" #at "]\n"
#define BFMMLA_ROW(c0, c1, c2, c3, a, b0, b1, b2, b3) BFMMLA_DOT(c0, a, b0) BFMMLA_DOT(c1, a, b1) BFMMLA_DOT(c2, a, b2) BFMMLA_DOT(c3, a, b3)
#define BFMMLA_NEXT(r, p, at)     "ldr q" #r ", [%[" #p "], #" #at "]\n"
/* Four inputs; a register gets what it needs for the next four, which are at `at`, as soon as it is free. */
#define BFMMLA_QUADS(at)                                                                                                      \
    BFMMLA_ROW(0, 1, 2, 3, 16, 20, 21, 22, 23) BFMMLA_NEXT(16, w, at) BFMMLA_ROW(4, 5, 6, 7, 17, 20, 21, 22, 23) BFMMLA_NEXT(17, w, at + 16)       \
    BFMMLA_ROW(8, 9, 10, 11, 18, 20, 21, 22, 23) BFMMLA_NEXT(18, w, at + 32)                                                         \
    BFMMLA_DOT(12, 19, 20) BFMMLA_NEXT(20, x, at) BFMMLA_DOT(13, 19, 21) BFMMLA_NEXT(21, x, at + 16) BFMMLA_DOT(14, 19, 22) BFMMLA_NEXT(22, x, at + 32)          \
    BFMMLA_DOT(15, 19, 23) BFMMLA_NEXT(23, x, at + 48) BFMMLA_NEXT(19, w, at + 48)
#define BFMMLA_ALL(op)                                                                                                       \
    op(0, 1, sums, 0) op(2, 3, sums, 32) op(4, 5, sums, 64) op(6, 7, sums, 96) op(8, 9, sums, 128)                     \
    op(10, 11, sums, 160) op(12, 13, sums, 192) op(14, 15, sums, 224)

/* Adds products to sums, [pair of outputs][pair of rows] of two by two. The operands of the next four inputs are
 * loaded among the products of these; after the last ones some that nothing uses. A Neoverse-V1 does 3.9 products in a
 * cycle if two loads follow each four of them, 2.7 with one after each two, and 2.3 with LDP. */
static inline void bfmmla_block(const bfmmla_operands *w, const bfmmla_operands *x, int quads, float sums[BFMMLA_SUMS])
{
    __asm__ volatile(
        BFMMLA_ALL(BFMMLA_LOAD)
        BFMMLA_LOAD(16, 17, w, 0) BFMMLA_LOAD(18, 19, w, 32) BFMMLA_LOAD(20, 21, x, 0) BFMMLA_LOAD(22, 23, x, 32)
        "1:\n"
        BFMMLA_QUADS(64) BFMMLA_QUADS(128) BFMMLA_QUADS(192) BFMMLA_QUADS(256)
        "add %[w], %[w], #256\n add %[x], %[x], #256\n subs %w[quads], %w[quads], #4\n b.ne 1b\n"
        BFMMLA_ALL(BFMMLA_STORE)
        : [w] "+r"(w), [x] "+r"(x), [quads] "+r"(quads)
        : [sums] "r"(sums)
        : "cc", "memory", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14",
          "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23");
}
/* clang-format on */

#endif
