/* The inner block of conv_i8.c: products of 12 tiles and blocks of 8 columns at one frequency.
 *
 * First the sum of hi lo + lo hi, rounded down by 8 bits and added to the bits of MAGIC; on top of that hi hi. The
 * result read as a float is MAGIC + n, and c * (MAGIC + n) - c * MAGIC is exact before its one rounding. In assembly
 * because compilers copy accumulators about in the C form, and a copied accumulator is not forwarded, which halves the
 * rate. */
#ifndef ZN_KERNELS_ARM_I8_BLOCK_H
#define ZN_KERNELS_ARM_I8_BLOCK_H

#include <stddef.h>
#include <stdint.h>

enum { ZN_I8_TILES = 12, ZN_I8_COLS = 8 };

#define MUL(op, c, a, b) #op " v" #c ".4s, v" #a ".16b, v" #b ".16b\n"
#define MUL4(op, c0, c1, c2, c3, a, b0, b1, b2, b3)                                                                    \
    MUL(op, c0, a, b0) MUL(op, c1, a, b1) MUL(op, c2, a, b2) MUL(op, c3, a, b3)
#define LOAD(r, at) "ldr q" #r ", [%[a]" at "]\n"
#define LOAD_B(r0, r1, r2, r3, at)                                                                                     \
    "ldp q" #r0 ", q" #r1 ", [%[b], #" #at "]\n ldp q" #r2 ", q" #r3 ", [%[b], #" #at " + 32]\n"

/* clang-format off */
/* 8 channels of the six pairs of tiles: accumulators v0 to v23 */
#define LOW(op, at)                                                                                                    \
    LOAD_B(28, 29, 30, 31, at) LOAD(24, "") LOAD(25, ", %[s1]") LOAD(26, ", %[s2]") LOAD(27, ", %[s3]")                \
    MUL4(op, 0, 1, 2, 3, 24, 28, 29, 30, 31) LOAD(24, ", %[s4]")                                                       \
    MUL4(op, 4, 5, 6, 7, 25, 28, 29, 30, 31) LOAD(25, ", %[s5]") "add %[a], %[a], #32\n"                               \
    MUL4(op, 8, 9, 10, 11, 26, 28, 29, 30, 31) MUL4(op, 12, 13, 14, 15, 27, 28, 29, 30, 31)                            \
    MUL4(op, 16, 17, 18, 19, 24, 28, 29, 30, 31) MUL4(op, 20, 21, 22, 23, 25, 28, 29, 30, 31)
/* the same into v24 to v31 and v0 to v15 */
#define HIGH(at)                                                                                                       \
    LOAD_B(20, 21, 22, 23, at) LOAD(16, "") LOAD(17, ", %[s1]") LOAD(18, ", %[s2]") LOAD(19, ", %[s3]")                \
    MUL4(smmla, 24, 25, 26, 27, 16, 20, 21, 22, 23) LOAD(16, ", %[s4]")                                                \
    MUL4(smmla, 28, 29, 30, 31, 17, 20, 21, 22, 23) LOAD(17, ", %[s5]") "add %[a], %[a], #32\n"                        \
    MUL4(smmla, 0, 1, 2, 3, 18, 20, 21, 22, 23) MUL4(smmla, 4, 5, 6, 7, 19, 20, 21, 22, 23)                            \
    MUL4(smmla, 8, 9, 10, 11, 16, 20, 21, 22, 23) MUL4(smmla, 12, 13, 14, 15, 17, 20, 21, 22, 23)
#define LOW_LOOP(op, label)                                                                                            \
    "mov %[n], %[steps]\n" #label ":\n" LOW(op, 0)                                                                     \
    "prfm pldl1keep, [%[fetch]]\n prfm pldl1keep, [%[next]]\n" LOW(op, 64)                                             \
    "add %[b], %[b], #128\n prfm pldl1keep, [%[next], #64]\n prfm pldl1keep, [%[next], #128]\n"                        \
    "prfm pldl1keep, [%[fetch], #64]\n add %[fetch], %[fetch], #128\n add %[next], %[next], #192\n"                    \
    "subs %[n], %[n], #1\n b.ne " #label "b\n"
/* clang-format on */
#define FAR                                                                                                            \
    "ldr %[n], [%[far]], #8\n prfm pstl1keep, [%[n]]\n prfm pstl1keep, [%[n], #64]\n"                                  \
    "add %[n], %[n], %[other]\n prfm pldl1keep, [%[n]]\n prfm pldl1keep, [%[n], #64]\n"
#define START(c0, c1, c2, c3) "ldp q" #c0 ", q" #c1 ", [%[table], #128]\n ldp q" #c2 ", q" #c3 ", [%[table], #160]\n"
#define SHIFT(to, n)          "ldr q" #to ", [%[magic]]\n srsra v" #to ".4s, v" #n ".4s, #8\n"
/* accumulators c0 to c3 through t0 to t3 to memory; c0 is free for the scale of the row */
#define FINISH(c0, c1, c2, c3, row, t0, t1, t2, t3)                                                                    \
    "ldp q" #t0 ", q" #t1 ", [%[table], #64]\n ldp q" #t2 ", q" #t3 ", [%[table], #96]\n"                              \
    "fmla v" #t0 ".4s, v" #c0 ".4s, v16.4s\n fmla v" #t1 ".4s, v" #c1 ".4s, v17.4s\n"                                  \
    "fmla v" #t2 ".4s, v" #c2 ".4s, v18.4s\n fmla v" #t3 ".4s, v" #c3 ".4s, v19.4s\n"                                  \
    "ldr q" #c0 ", [%[rows], #16 * " #row "]\n"                                                                        \
    "fmul v" #t0 ".4s, v" #t0 ".4s, v" #c0 ".4s\n fmul v" #t1 ".4s, v" #t1 ".4s, v" #c0 ".4s\n"                        \
    "fmul v" #t2 ".4s, v" #t2 ".4s, v" #c0 ".4s\n fmul v" #t3 ".4s, v" #t3 ".4s, v" #c0 ".4s\n"                        \
    "stp q" #t0 ", q" #t1 ", [%[m]]\n stp q" #t2 ", q" #t3 ", [%[m], #32]\n add %[m], %[m], %[stride]\n"

typedef struct zn_i8_block {
    const int8_t *a; /* digits: six pairs of tiles, each [2 * steps][hi, lo][2][8] */
    size_t pair;     /* bytes from pair to pair */
    const int8_t *b; /* weights: blocks of [lo, hi][2 * steps][4][2][8] and a table of scales, -MAGIC * scales, sums */
    size_t steps;    /* channels / 16 */
    size_t blocks;   /* of 8 columns */
    size_t ahead;    /* bytes from a block of weights to the one to fetch */
    const float *rows; /* scales of the pairs, [6][4] */
    float *m;          /* products: pairs `stride` bytes apart, [4 * blocks][4] each */
    size_t stride;
    const float *const *far; /* two addresses for each block, of which 128 bytes are fetched, */
    size_t other;            /* and as many this many bytes on */
} zn_i8_block;

static inline void zn_i8_multiply(const zn_i8_block *k)
{
    static const int32_t magic[4] = { 0x4b400000, 0x4b400000, 0x4b400000, 0x4b400000 };
    const int8_t *a = k->a, *b = k->b, *next = k->a + 6 * k->pair, *table = k->b + k->steps * 256,
                 *fetch = k->b + k->ahead;
    const float *const *far = k->far;
    float *m = k->m;
    size_t blocks = k->blocks, n;
    /* clang-format off */
    __asm__ volatile(
        "0:\n"
        START(0, 1, 2, 3) START(4, 5, 6, 7) START(8, 9, 10, 11) START(12, 13, 14, 15) START(16, 17, 18, 19)
        START(20, 21, 22, 23) FAR LOW_LOOP(smmla, 1)
        "sub %[a], %[a], %[steps], lsl #6\n add %[a], %[a], #16\n" FAR LOW_LOOP(usmmla, 2)
        "prfm pldl1keep, [%[fetch]]\n prfm pldl1keep, [%[fetch], #64]\n prfm pldl1keep, [%[fetch], #128]\n"
        "add %[fetch], %[fetch], #192\n sub %[a], %[a], %[steps], lsl #6\n sub %[a], %[a], #16\n"
        "sub %[b], %[b], %[steps], lsl #7\n"
        SHIFT(24, 0) SHIFT(25, 1) SHIFT(26, 2) SHIFT(27, 3) SHIFT(28, 4) SHIFT(29, 5) SHIFT(30, 6) SHIFT(31, 7)
        SHIFT(0, 8) SHIFT(1, 9) SHIFT(2, 10) SHIFT(3, 11) SHIFT(4, 12) SHIFT(5, 13) SHIFT(6, 14) SHIFT(7, 15)
        SHIFT(8, 16) SHIFT(9, 17) SHIFT(10, 18) SHIFT(11, 19) SHIFT(12, 20) SHIFT(13, 21) SHIFT(14, 22) SHIFT(15, 23)
        "mov %[n], %[steps]\n"
        "3:\n" HIGH(0) HIGH(64) "add %[b], %[b], #128\n subs %[n], %[n], #1\n b.ne 3b\n"
        "ldp q16, q17, [%[table]]\n ldp q18, q19, [%[table], #32]\n mov %[n], %[m]\n"
        FINISH(24, 25, 26, 27, 0, 20, 21, 22, 23) FINISH(28, 29, 30, 31, 1, 24, 25, 26, 27)
        FINISH(0, 1, 2, 3, 2, 28, 29, 30, 31) FINISH(4, 5, 6, 7, 3, 0, 1, 2, 3)
        FINISH(8, 9, 10, 11, 4, 4, 5, 6, 7) FINISH(12, 13, 14, 15, 5, 8, 9, 10, 11)
        "add %[b], %[b], #192\n add %[table], %[b], %[steps], lsl #8\n add %[m], %[n], #64\n"
        "sub %[a], %[a], %[steps], lsl #6\n subs %[blocks], %[blocks], #1\n b.ne 0b\n"
        : [a] "+r"(a), [b] "+r"(b), [m] "+r"(m), [next] "+r"(next), [table] "+r"(table), [far] "+r"(far),
          [fetch] "+r"(fetch), [blocks] "+r"(blocks), [n] "=&r"(n)
        : [s1] "r"(k->pair), [s2] "r"(2 * k->pair), [s3] "r"(3 * k->pair), [s4] "r"(4 * k->pair),
          [s5] "r"(5 * k->pair), [steps] "r"(k->steps), [rows] "r"(k->rows), [magic] "r"(magic),
          [stride] "r"(k->stride), [other] "r"(k->other)
        : "cc", "memory", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13",
          "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28",
          "v29", "v30", "v31");
    /* clang-format on */
}

#undef MUL
#undef MUL4
#undef LOAD
#undef LOAD_B
#undef LOW
#undef HIGH
#undef LOW_LOOP
#undef FAR
#undef START
#undef SHIFT
#undef FINISH

#endif
