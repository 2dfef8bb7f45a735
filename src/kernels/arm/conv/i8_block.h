/* The inner block of conv_i8.c: products of pairs of tiles, three at a time, and eight columns at one frequency.
 *
 * Twelve accumulators sum hi hi, on top of the bits of MAGIC. Twelve others sum hi lo + lo hi, which is then rounded
 * by 8 bits and added. The result, read as a float, is MAGIC + n, and c * (MAGIC + n) - c * MAGIC is exact before
 * its single rounding.
 *
 * It is in assembly because compilers copy the accumulators in the C form. A copied accumulator is not forwarded,
 * which halves the rate. Assembly also controls the position of the loads. A Neoverse-V1 does four products per
 * cycle along with 12 loads for 24 of them if the loads are spread out, and little more than three if they are
 * adjacent. */
#ifndef ZN_KERNELS_ARM_I8_BLOCK_H
#define ZN_KERNELS_ARM_I8_BLOCK_H

#include <stddef.h>
#include <stdint.h>

enum { ZN_I8_PAIRS = 3, ZN_I8_COLS = 8 };

#define MUL(op, c, a, b)           #op " v" #c ".4s, v" #a ".16b, v" #b ".16b\n"
#define ROW(op, c0, c1, c2, c3, a) MUL(op, c0, a, 28) MUL(op, c1, a, 29) MUL(op, c2, a, 30) MUL(op, c3, a, 31)

/* clang-format off */
/* 8 channels from offset k of a and 4k of b: v0 to v11 += hi hi, v12 to v23 += lo hi + hi lo. v28 to v31 hold the
 * high digits of b, v24 and v27 the high and low digits of the first row of a; those of the next step are loaded
 * here. */
#define LOAD(r, p, at) "ldr q" #r ", [%[" #p "], #" #at "]\n"
#define STEP(k)                                                                                                        \
    MUL(smmla, 0, 24, 28) MUL(smmla, 1, 24, 29) LOAD(25, a1, k) MUL(smmla, 2, 24, 30) MUL(smmla, 3, 24, 31)            \
    MUL(usmmla, 12, 27, 28) LOAD(26, a2, k) MUL(usmmla, 13, 27, 29) MUL(usmmla, 14, 27, 30) MUL(usmmla, 15, 27, 31)    \
    LOAD(27, a1, k + 16) ROW(smmla, 4, 5, 6, 7, 25) ROW(usmmla, 16, 17, 18, 19, 27) LOAD(27, a2, k + 16)               \
    MUL(smmla, 8, 26, 28) MUL(usmmla, 20, 27, 28) LOAD(28, b, 4 * k + 64)                                              \
    MUL(smmla, 9, 26, 29) MUL(usmmla, 21, 27, 29) LOAD(29, b, 4 * k + 80)                                              \
    MUL(smmla, 10, 26, 30) MUL(usmmla, 22, 27, 30) LOAD(30, b, 4 * k + 96)                                             \
    MUL(smmla, 11, 26, 31) MUL(usmmla, 23, 27, 31) LOAD(31, b, 4 * k + 112)                                            \
    MUL(smmla, 12, 24, 28) MUL(smmla, 13, 24, 29) LOAD(27, a0, k + 48) MUL(smmla, 14, 24, 30) MUL(smmla, 15, 24, 31)   \
    LOAD(24, a0, k + 32) MUL(smmla, 16, 25, 28) MUL(smmla, 20, 26, 28) LOAD(28, b, 4 * k + 128)                        \
    MUL(smmla, 17, 25, 29) MUL(smmla, 21, 26, 29) LOAD(29, b, 4 * k + 144)                                             \
    MUL(smmla, 18, 25, 30) MUL(smmla, 22, 26, 30) LOAD(30, b, 4 * k + 160)                                             \
    MUL(smmla, 19, 25, 31) MUL(smmla, 23, 26, 31) LOAD(31, b, 4 * k + 176)
#define FETCH(p) "prfm pldl1keep, [%[" #p "]]\n add %[" #p "], %[" #p "], #64\n"
#define PAIR(r0, r1, p, at) "ldp q" #r0 ", q" #r1 ", [%[" #p "], #" #at "]\n"
#define START(h0, h1, h2, h3, c0, c1, c2, c3)                                                                          \
    PAIR(h0, h1, magic, 0) PAIR(h2, h3, magic, 0) PAIR(c0, c1, table, 128) PAIR(c2, c3, table, 160)
/* A row of four sums: h += c / 256; then c = h * scales of the columns, and h is reset; then c times the scale r of
 * the row is stored, and c is reset. */
#define ADD(h, c, at)   "srsra v" #h ".4s, v" #c ".4s, #8\n" LOAD(c, table, at)
#define SCALE(h, c, s)  "fmla v" #c ".4s, v" #h ".4s, v" #s ".4s\n" LOAD(h, magic, 0)
#define TIMES(c, r)     "fmul v" #c ".4s, v" #c ".4s, v" #r ".4s\n"
#define ADD_ROW(h0, h1, h2, h3, c0, c1, c2, c3) ADD(h0, c0, 64) ADD(h1, c1, 80) ADD(h2, c2, 96) ADD(h3, c3, 112)
#define SCALE_ROW(h0, h1, h2, h3, c0, c1, c2, c3)                                                                      \
    SCALE(h0, c0, 28) SCALE(h1, c1, 29) SCALE(h2, c2, 30) SCALE(h3, c3, 31)
#define STORE_ROW(c0, c1, c2, c3, r)                                                                                   \
    TIMES(c0, r) TIMES(c1, r) TIMES(c2, r) TIMES(c3, r)                                                                \
    "stp q" #c0 ", q" #c1 ", [%[m]]\n" PAIR(c0, c1, table, 128)                                                        \
    "stp q" #c2 ", q" #c3 ", [%[m], #32]\n" PAIR(c2, c3, table, 160) "add %[m], %[m], %[stride]\n"
/* clang-format on */

typedef struct zn_i8_block {
    const int8_t *a;     /* digits: pairs of tiles, `pair` bytes apart, each [2 * steps][hi, lo][2][8] */
    size_t pair, blocks; /* blocks of three pairs */
    const int8_t *b;     /* weights: [2 * steps][hi, lo][4][2][8] and a table of scales, -MAGIC * scales, sums */
    size_t steps;        /* channels / 16 */
    const float *rows;   /* scales of the pairs, [.][4] */
    float *m;            /* products: pairs `stride` bytes apart, [4][4] each */
    size_t stride;
    const int8_t *next_a, *next_b; /* to prefetch meanwhile, for each block: steps lines and steps + 1 lines, */
    const float *const *far;       /* two lines from each of these addresses, */
    size_t other;                  /* and two lines at this distance in bytes */
} zn_i8_block;

/* The last step loads the data after the end: for b these are the scales of the columns, which are needed next; for
 * a the next pair, which is not used. */
static inline void zn_i8_multiply(const zn_i8_block *k)
{
    static const int32_t magic[8] = { 0x4b400000, 0x4b400000, 0x4b400000, 0x4b400000,
                                      0x4b400000, 0x4b400000, 0x4b400000, 0x4b400000 };
    const int8_t *a0 = k->a, *a1 = a0 + k->pair, *a2 = a1 + k->pair, *b = k->b, *table = b + k->steps * 256,
                 *next_a = k->next_a, *next_b = k->next_b;
    const float *rows = k->rows, *const *far = k->far;
    float *m = k->m;
    size_t n, blocks = k->blocks;
    /* clang-format off */
    __asm__ volatile(
        START(0, 1, 2, 3, 12, 13, 14, 15) START(4, 5, 6, 7, 16, 17, 18, 19) START(8, 9, 10, 11, 20, 21, 22, 23)
        "1:\n" PAIR(24, 27, a0, 0) PAIR(28, 29, b, 0) PAIR(30, 31, b, 32)
        "ldr %[n], [%[far]], #8\n prfm pstl1keep, [%[n]]\n prfm pstl1keep, [%[n], #64]\n"
        "add %[n], %[n], %[other]\n prfm pldl1keep, [%[n]]\n prfm pldl1keep, [%[n], #64]\n"
        "mov %[n], %[steps]\n"
        "0:\n" STEP(0) FETCH(next_a) STEP(32) FETCH(next_b)
        "add %[a0], %[a0], #64\n add %[a1], %[a1], #64\n add %[a2], %[a2], #64\n add %[b], %[b], #256\n"
        "subs %[n], %[n], #1\n b.ne 0b\n"
        PAIR(24, 25, rows, 0) LOAD(26, rows, 32)
        FETCH(next_b)
        ADD_ROW(0, 1, 2, 3, 12, 13, 14, 15) ADD_ROW(4, 5, 6, 7, 16, 17, 18, 19) SCALE_ROW(0, 1, 2, 3, 12, 13, 14, 15)
        ADD_ROW(8, 9, 10, 11, 20, 21, 22, 23) SCALE_ROW(4, 5, 6, 7, 16, 17, 18, 19)
        "add %[a0], %[a0], %[turn]\n add %[a1], %[a1], %[turn]\n add %[a2], %[a2], %[turn]\n"
        "sub %[b], %[b], %[steps], lsl #8\n add %[rows], %[rows], #48\n"
        STORE_ROW(12, 13, 14, 15, 24) SCALE_ROW(8, 9, 10, 11, 20, 21, 22, 23)
        STORE_ROW(16, 17, 18, 19, 25) STORE_ROW(20, 21, 22, 23, 26)
        "subs %[blocks], %[blocks], #1\n b.ne 1b\n"
        : [a0] "+&r"(a0), [a1] "+&r"(a1), [a2] "+&r"(a2), [b] "+&r"(b), [m] "+&r"(m), [n] "=&r"(n),
          [next_a] "+&r"(next_a), [next_b] "+&r"(next_b), [rows] "+&r"(rows), [far] "+&r"(far),
          [blocks] "+&r"(blocks)
        : [table] "r"(table), [magic] "r"(magic), [stride] "r"(k->stride), [other] "r"(k->other),
          [steps] "r"(k->steps), [turn] "r"(3 * k->pair - 64 * k->steps)
        : "cc", "memory", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13",
          "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28",
          "v29", "v30", "v31");
    /* clang-format on */
}

#undef MUL
#undef ROW
#undef LOAD
#undef STEP
#undef FETCH
#undef PAIR
#undef START
#undef ADD
#undef SCALE
#undef TIMES
#undef ADD_ROW
#undef SCALE_ROW
#undef STORE_ROW

#endif
