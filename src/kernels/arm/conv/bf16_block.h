/* The inner block of conv_bf16.c: products of six pairs of tiles and eight columns at one frequency, and of all such
 * blocks of a unit.
 *
 * It is in assembly because compilers copy the 24 accumulators around, and to control the position of the loads. A
 * Neoverse-V1 does four BFMMLA per cycle along with 10 loads for 24 of them if the loads are spread out. 64 channels
 * take 114 cycles with the data in L1, 96 of them for the products. */
#ifndef ZN_KERNELS_ARM_BF16_BLOCK_H
#define ZN_KERNELS_ARM_BF16_BLOCK_H

#include <stddef.h>
#include <stdint.h>

/* In bytes: a group of four channels of six pairs at six frequencies, plus 16 to avoid bank conflicts. */
enum { ZN_BF16_PAIRS = 6, ZN_BF16_COLS = 8, ZN_BF16_PAIR = 96, ZN_BF16_GROUP = 592 };

/* Bytes read past the end of a and b. */
enum { ZN_BF16_SLACK = 1024 };

typedef struct zn_bf16_block {
    const uint16_t *a; /* [blocks of six pairs][4 * steps groups][ZN_BF16_GROUP bytes]; a pair's values are [2][4] */
    size_t blocks;
    const uint16_t *b; /* weights: [cols][4 * steps groups][4 pairs of columns][2][4] */
    size_t cols;       /* blocks of eight columns */
    size_t steps;      /* channels / 16 */
    float *m;          /* products: pairs `stride` bytes apart, [4 * cols][4] each */
    size_t stride;
    const uint16_t *next_b;  /* to prefetch meanwhile, in each step: two cache lines of b, */
    const float *const *far; /* a cache line from this address, for each block the next address, */
    size_t other;            /* and a cache line at this distance in bytes */
} zn_bf16_block;

/* clang-format off */
#define A(r, g, p)   "ldr q" #r ", [%[a], #(" #g " * 592 + " #p " * 96)]\n"
#define B(r, g, n)   "ldr q" #r ", [%[b], #(" #g " * 64 + " #n " * 16)]\n"
#define MUL(c, a, b) "bfmmla v" #c ".4s, v" #a ".8h, v" #b ".8h\n"
/* Group g: p and q hold its first two pairs, v24 to v27 its columns. Afterwards r, s and v24 to v27 hold those of
 * group h. */
#define GROUP(p, q, r, s, g, h)                                                                                        \
    A(r, g, 2) MUL(0, p, 24) MUL(1, p, 25) MUL(2, p, 26) MUL(3, p, 27)                                                 \
    A(s, g, 3) MUL(4, q, 24) MUL(5, q, 25) MUL(6, q, 26) MUL(7, q, 27)                                                 \
    A(p, g, 4) MUL(8, r, 24) MUL(9, r, 25) MUL(10, r, 26) MUL(11, r, 27)                                               \
    A(q, g, 5) MUL(12, s, 24) MUL(13, s, 25) MUL(14, s, 26) MUL(15, s, 27)                                             \
    A(r, h, 0) MUL(16, p, 24) MUL(20, q, 24) B(24, h, 0) MUL(17, p, 25) MUL(21, q, 25) B(25, h, 1)                     \
    MUL(18, p, 26) MUL(22, q, 26) B(26, h, 2) MUL(19, p, 27) MUL(23, q, 27) B(27, h, 3) A(s, h, 1)
#define ZERO(c0, c1, c2, c3)                                                                                           \
    "movi v" #c0 ".4s, #0\n movi v" #c1 ".4s, #0\n movi v" #c2 ".4s, #0\n movi v" #c3 ".4s, #0\n"
#define STORE(c0, c1, c2, c3)                                                                                          \
    "stp q" #c0 ", q" #c1 ", [%[m]]\n stp q" #c2 ", q" #c3 ", [%[m], #32]\n add %[m], %[m], %[stride]\n"

static inline void zn_bf16_multiply(const zn_bf16_block *k)
{
    const uint16_t *a = k->a, *b = k->b, *next_b = k->next_b;
    const float *const *far = k->far;
    float *m = k->m;
    size_t n, i, y, cols = k->cols;
    __asm__ volatile(
        "2:\n mov %[i], %[blocks]\n"
        "1:\n" A(28, 0, 0) A(29, 0, 1) B(24, 0, 0) B(25, 0, 1) B(26, 0, 2) B(27, 0, 3)
        ZERO(0, 1, 2, 3) ZERO(4, 5, 6, 7) ZERO(8, 9, 10, 11) ZERO(12, 13, 14, 15) ZERO(16, 17, 18, 19)
        ZERO(20, 21, 22, 23)
        "ldr %[y], [%[far]], #8\n mov %[n], %[steps]\n"
        "0:\n" GROUP(28, 29, 30, 31, 0, 1) "prfm pstl1keep, [%[y]]\n"
        GROUP(30, 31, 28, 29, 1, 2) "prfm pldl1keep, [%[next_b]]\n"
        GROUP(28, 29, 30, 31, 2, 3) "prfm pldl2keep, [%[y], %[other]]\n add %[y], %[y], #64\n"
        GROUP(30, 31, 28, 29, 3, 4) "prfm pldl1keep, [%[next_b], #64]\n add %[next_b], %[next_b], #128\n"
        "add %[a], %[a], #2368\n add %[b], %[b], #256\n subs %[n], %[n], #1\n b.ne 0b\n"
        STORE(0, 1, 2, 3) STORE(4, 5, 6, 7) STORE(8, 9, 10, 11) STORE(12, 13, 14, 15) STORE(16, 17, 18, 19)
        STORE(20, 21, 22, 23)
        "sub %[b], %[b], %[steps], lsl #8\n subs %[i], %[i], #1\n b.ne 1b\n"
        "sub %[a], %[a], %[back]\n add %[b], %[b], %[steps], lsl #8\n add %[m], %[m], %[turn]\n"
        "subs %[cols], %[cols], #1\n b.ne 2b\n"
        : [a] "+&r"(a), [b] "+&r"(b), [m] "+&r"(m), [n] "=&r"(n), [i] "=&r"(i), [y] "=&r"(y), [cols] "+&r"(cols),
          [next_b] "+&r"(next_b), [far] "+&r"(far)
        : [stride] "r"(k->stride), [steps] "r"(k->steps), [blocks] "r"(k->blocks), [other] "r"(k->other),
          [back] "r"(k->blocks * k->steps * 4 * ZN_BF16_GROUP), [turn] "r"(64 - ZN_BF16_PAIRS * k->blocks * k->stride)
        : "cc", "memory", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13",
          "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28",
          "v29", "v30", "v31");
}
/* clang-format on */

#undef A
#undef B
#undef MUL
#undef GROUP
#undef ZERO
#undef STORE

#endif
