/* The full block of gemm.h, 6 rows by 16 outputs, in assembly, for a whole column of blocks:
 *
 *     c[t][j] = sum over s < segments, k < 4 * groups of a[s][t][k] * b[s][k][j]        t < 6 * blocks, j < 16
 *
 * Why not C: gcc 12 keeps the 24 accumulators in registers but copies some of them at every step, clang 14 spills. On a
 * Neoverse-V1 this text reaches 3.8 of 4 FMLA per cycle, gcc's 1.7, clang's 0.8 (64 multipliers, data in L1).
 *
 * v0-v5 hold four multipliers of each row, v6 and v7 alternate as the vector of b, v8-v31 accumulate. A load stands before the
 * arithmetic of the vector ahead of it, and the last group of a block loads the first multipliers of the next block, so that
 * the blocks run into each other. Nothing is read beyond the end of a or b. */
#ifndef ZN_GEMM_NEON_H
#define ZN_GEMM_NEON_H

#include <stdint.h>

#define OP(op, acc, b, row, lane) op " v" #acc ".4s, v" #b ".4s, v" #row ".s[" #lane "]\n"
#define COLUMN(op, b, lane, r0, r1, r2, r3, r4, r5)                                                                    \
    OP(op, r0, b, 0, lane)                                                                                             \
    OP(op, r1, b, 1, lane)                                                                                             \
    OP(op, r2, b, 2, lane)                                                                                             \
    OP(op, r3, b, 3, lane)                                                                                             \
    OP(op, r4, b, 4, lane)                                                                                             \
    OP(op, r5, b, 5, lane)
#define LOAD_B(reg, offset) "ldr q" #reg ", [%[b], #" #offset "]\n"
#define LOAD_A(row) "ldr q" #row ", [%[a" #row "]], #16\n"

/* A quarter of a group: one lane of the multipliers against four vectors of b, o0 to o3 being the places of the next four. */
#define LANE(op, lane, o0, o1, o2)                                                                                     \
    LOAD_B(7, o0)                                                                                                      \
    COLUMN(op, 6, lane, 8, 12, 16, 20, 24, 28)                                                                         \
    LOAD_B(6, o1)                                                                                                      \
    COLUMN(op, 7, lane, 9, 13, 17, 21, 25, 29)                                                                         \
    LOAD_B(7, o2)                                                                                                      \
    COLUMN(op, 6, lane, 10, 14, 18, 22, 26, 30)
#define LAST_COLUMN(op, lane) COLUMN(op, 7, lane, 11, 15, 19, 23, 27, 31)

/* A group but for its last column, where the loads of what follows are woven in. v6 holds b[0] on entry. */
#define GROUP(op)                                                                                                      \
    LANE(op, 0, 16, 32, 48)                                                                                            \
    LOAD_B(6, 64)                                                                                                      \
    LAST_COLUMN(op, 0)                                                                                                 \
    LANE("fmla", 1, 80, 96, 112)                                                                                       \
    LOAD_B(6, 128)                                                                                                     \
    LAST_COLUMN("fmla", 1)                                                                                             \
    LANE("fmla", 2, 144, 160, 176)                                                                                     \
    LOAD_B(6, 192)                                                                                                     \
    LAST_COLUMN("fmla", 2)                                                                                             \
    LANE("fmla", 3, 208, 224, 240)
#define LAST_COLUMN_AND_LOADS                                                                                          \
    LOAD_B(6, 0)                                                                                                       \
    OP("fmla", 11, 7, 0, 3)                                                                                            \
    LOAD_A(0)                                                                                                          \
    OP("fmla", 15, 7, 1, 3)                                                                                            \
    LOAD_A(1)                                                                                                          \
    OP("fmla", 19, 7, 2, 3)                                                                                            \
    LOAD_A(2)                                                                                                          \
    OP("fmla", 23, 7, 3, 3)                                                                                            \
    LOAD_A(3)                                                                                                          \
    OP("fmla", 27, 7, 4, 3)                                                                                            \
    LOAD_A(4)                                                                                                          \
    OP("fmla", 31, 7, 5, 3)                                                                                            \
    LOAD_A(5)
#define STORE_ROW(v0, v1, v2, v3)                                                                                      \
    "stp q" #v0 ", q" #v1 ", [%[c]]\n"                                                                                 \
    "stp q" #v2 ", q" #v3 ", [%[c], #32]\n"                                                                            \
    "add %[c], %[c], %[c_row]\n"
#define STORE_ROWS                                                                                                     \
    STORE_ROW(8, 9, 10, 11)                                                                                            \
    STORE_ROW(12, 13, 14, 15)                                                                                          \
    STORE_ROW(16, 17, 18, 19)                                                                                          \
    STORE_ROW(20, 21, 22, 23)                                                                                          \
    STORE_ROW(24, 25, 26, 27)                                                                                          \
    STORE_ROW(28, 29, 30, 31)
#define LOAD_ROW(at, v0, v1, v2, v3)                                                                                   \
    "ldp q" #v0 ", q" #v1 ", [%[" at "]]\n"                                                                           \
    "ldp q" #v2 ", q" #v3 ", [%[" at "], #32]\n"
#define LOAD_ROWS                                                                                                      \
    LOAD_ROW("c", 8, 9, 10, 11)                                                                                        \
    "add %[step], %[c], %[c_row]\n" LOAD_ROW("step", 12, 13, 14, 15)                                                  \
    "add %[step], %[step], %[c_row]\n" LOAD_ROW("step", 16, 17, 18, 19)                                               \
    "add %[step], %[step], %[c_row]\n" LOAD_ROW("step", 20, 21, 22, 23)                                               \
    "add %[step], %[step], %[c_row]\n" LOAD_ROW("step", 24, 25, 26, 27)                                               \
    "add %[step], %[step], %[c_row]\n" LOAD_ROW("step", 28, 29, 30, 31)
#define SKIP_A                                                                                                         \
    "add %[a0], %[a0], %[step]\n"                                                                                   \
    "add %[a1], %[a1], %[step]\n"                                                                                   \
    "add %[a2], %[a2], %[step]\n"                                                                                   \
    "add %[a3], %[a3], %[step]\n"                                                                                   \
    "add %[a4], %[a4], %[step]\n"                                                                                   \
    "add %[a5], %[a5], %[step]\n"

/* Strides in floats, counts at least 1, groups at least 2. The `ahead`s are memory to fetch meanwhile, the first three into L1, the
 * last into L2: a line of each for nearly every group. ahead_step is a line, or 0 where nothing is known. */
typedef struct gemm_6x16 {
    const float *a, *b, *ahead_a, *ahead_b, *ahead_c, *ahead_far;
    float *c;
    int64_t row, segment, c_row, ahead_step;
    int64_t blocks, segments, groups;
    int64_t more; /* 1: add to what c holds */
} gemm_6x16;

static inline void gemm_6x16_neon(gemm_6x16 g)
{
    const float *a0 = g.a, *a1 = a0 + g.row, *a2 = a1 + g.row, *a3 = a2 + g.row, *a4 = a3 + g.row, *a5 = a4 + g.row;
    const int64_t k = 4 * g.groups;
    /* What is needed once a segment or a block, strides in bytes: an asm has no room for so many operands. */
    const int64_t rare[6] = { 4 * (g.segment - k),
                              4 * (6 * g.row - (g.segments - 1) * g.segment - k),
                              256 * (g.groups * g.segments - 1),
                              g.segments - 1,
                              g.groups - 1,
                              g.more };
    int64_t left, segments, step;
    __asm__ volatile(
        LOAD_B(6, 0) LOAD_A(0) LOAD_A(1) LOAD_A(2) LOAD_A(3) LOAD_A(4) LOAD_A(5)
        "1:\n"
        "ldp %[segments], %[left], [%[rare], #24]\n"
        "ldr %[step], [%[rare], #40]\n"
        "cbnz %[step], 6f\n"
        "sub %[left], %[left], #1\n" GROUP("fmul")
        "add %[b], %[b], #256\n" LAST_COLUMN_AND_LOADS
        "cbz %[left], 3f\n"
        "2:\n"
        "prfm pldl1keep, [%[ahead_a]]\n"
        "prfm pldl1keep, [%[ahead_a], %[ahead_b]]\n"
        "prfm pldl1keep, [%[ahead_a], %[ahead_c]]\n"
        "prfm pldl2keep, [%[ahead_a], %[ahead_far]]\n"
        "add %[ahead_a], %[ahead_a], %[ahead_step]\n"
        "sub %[left], %[left], #1\n" GROUP("fmla")
        "add %[b], %[b], #256\n" LAST_COLUMN_AND_LOADS
        "cbnz %[left], 2b\n"
        "3:\n" GROUP("fmla")
        "cbz %[segments], 4f\n"
        "sub %[segments], %[segments], #1\n"
        "ldr %[left], [%[rare], #32]\n"
        "ldr %[step], [%[rare]]\n"
        "add %[b], %[b], #256\n" SKIP_A LAST_COLUMN_AND_LOADS
        "b 2b\n"
        "4:\n"
        "subs %[blocks], %[blocks], #1\n"
        "b.eq 5f\n"
        "ldp %[step], %[left], [%[rare], #8]\n"
        "sub %[b], %[b], %[left]\n" SKIP_A LAST_COLUMN_AND_LOADS STORE_ROWS
        "b 1b\n"
        "6:\n" /* the sums go on from what c holds */
        LOAD_ROWS "b 2b\n"
        "5:\n" LAST_COLUMN("fmla", 3) STORE_ROWS
        : [a0] "+r"(a0), [a1] "+r"(a1), [a2] "+r"(a2), [a3] "+r"(a3), [a4] "+r"(a4), [a5] "+r"(a5), [b] "+r"(g.b),
          [c] "+r"(g.c), [blocks] "+r"(g.blocks), [ahead_a] "+r"(g.ahead_a), [left] "=&r"(left), [segments] "=&r"(segments),
          [step] "=&r"(step)
        : [rare] "r"(rare), [c_row] "r"(4 * g.c_row), [ahead_step] "r"(4 * g.ahead_step),
          [ahead_b] "r"((intptr_t)g.ahead_b - (intptr_t)g.ahead_a),
          [ahead_c] "r"((intptr_t)g.ahead_c - (intptr_t)g.ahead_a),
          [ahead_far] "r"((intptr_t)g.ahead_far - (intptr_t)g.ahead_a)
        : "memory", "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14",
          "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30",
          "v31");
}

#undef OP
#undef COLUMN
#undef LOAD_B
#undef LOAD_A
#undef LANE
#undef LAST_COLUMN
#undef GROUP
#undef LAST_COLUMN_AND_LOADS
#undef STORE_ROW
#undef STORE_ROWS
#undef SKIP_A
#undef LOAD_ROW
#undef LOAD_ROWS

#endif
