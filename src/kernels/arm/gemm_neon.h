/* The full block of gemm.h, 6 rows by 16 outputs, in assembly: c = init + a * b over 4 * groups multipliers.
 *
 * Why not C: gcc 12 keeps the 24 accumulators in registers but copies some of them at every step, clang 14 spills. On a
 * Neoverse-V1 this text reaches 3.7 of 4 FMLA per cycle, gcc's 1.7, clang's 0.8 (64 multipliers, data in L1).
 *
 * v0-v5 hold four multipliers of each row, v6 and v7 alternate as the vector of b, v8-v31 accumulate. Each load stands before the
 * arithmetic of the vector ahead of it; the last group is written apart so that nothing is read beyond the end. */
#ifndef ZN_GEMM_NEON_H
#define ZN_GEMM_NEON_H

#include <stdint.h>

#define FMLA(acc, b, row, lane) "fmla v" #acc ".4s, v" #b ".4s, v" #row ".s[" #lane "]\n"
#define COLUMN_0(b, lane)                                                                                              \
    FMLA(8, b, 0, lane) FMLA(12, b, 1, lane) FMLA(16, b, 2, lane) FMLA(20, b, 3, lane) FMLA(24, b, 4, lane)            \
    FMLA(28, b, 5, lane)
#define COLUMN_1(b, lane)                                                                                              \
    FMLA(9, b, 0, lane) FMLA(13, b, 1, lane) FMLA(17, b, 2, lane) FMLA(21, b, 3, lane) FMLA(25, b, 4, lane)            \
    FMLA(29, b, 5, lane)
#define COLUMN_2(b, lane)                                                                                              \
    FMLA(10, b, 0, lane) FMLA(14, b, 1, lane) FMLA(18, b, 2, lane) FMLA(22, b, 3, lane) FMLA(26, b, 4, lane)           \
    FMLA(30, b, 5, lane)
#define COLUMN_3(b, lane)                                                                                              \
    FMLA(11, b, 0, lane) FMLA(15, b, 1, lane) FMLA(19, b, 2, lane) FMLA(23, b, 3, lane) FMLA(27, b, 4, lane)           \
    FMLA(31, b, 5, lane)
#define LOAD_B(reg, offset) "ldr q" #reg ", [%[b], #" #offset "]\n"

/* Lanes 0 to 2, and lane 3 but for its last column; v6 holds b[0] on entry and leaves v7 holding b[15]. */
#define FIFTEEN_COLUMNS                                                                                                \
    LOAD_B(7, 16) COLUMN_0(6, 0) LOAD_B(6, 32) COLUMN_1(7, 0) LOAD_B(7, 48) COLUMN_2(6, 0) LOAD_B(6, 64)               \
    COLUMN_3(7, 0) LOAD_B(7, 80) COLUMN_0(6, 1) LOAD_B(6, 96) COLUMN_1(7, 1) LOAD_B(7, 112) COLUMN_2(6, 1)             \
    LOAD_B(6, 128) COLUMN_3(7, 1) LOAD_B(7, 144) COLUMN_0(6, 2) LOAD_B(6, 160) COLUMN_1(7, 2) LOAD_B(7, 176)           \
    COLUMN_2(6, 2) LOAD_B(6, 192) COLUMN_3(7, 2) LOAD_B(7, 208) COLUMN_0(6, 3) LOAD_B(6, 224) COLUMN_1(7, 3)           \
    LOAD_B(7, 240) COLUMN_2(6, 3)

#define LOAD_A(row) "ldr q" #row ", [%[a" #row "]], #16\n"
#define ACC_ROW(op, at, step, v0, v1, v2, v3)                                                                          \
    op " q" #v0 ", q" #v1 ", [%[" at "]]\n" op " q" #v2 ", q" #v3 ", [%[" at "], #32]\n"                              \
       "add %[" at "], %[" at "], %[" step "]\n"
#define ACC_ROWS(op, at, step)                                                                                         \
    ACC_ROW(op, at, step, 8, 9, 10, 11)                                                                                \
    ACC_ROW(op, at, step, 12, 13, 14, 15)                                                                              \
    ACC_ROW(op, at, step, 16, 17, 18, 19)                                                                              \
    ACC_ROW(op, at, step, 20, 21, 22, 23)                                                                              \
    ACC_ROW(op, at, step, 24, 25, 26, 27)                                                                              \
    ACC_ROW(op, at, step, 28, 29, 30, 31)

/* groups >= 1. Strides in floats; init may be c itself, or one row with stride 0. */
static inline void gemm_6x16_neon(const float *a, int64_t row, const float *b, int64_t groups, const float *init,
                                  int64_t init_row, float *c, int64_t c_row)
{
    const float *a0 = a, *a1 = a + row, *a2 = a + 2 * row, *a3 = a + 3 * row, *a4 = a + 4 * row, *a5 = a + 5 * row;
    __asm__ volatile(LOAD_B(6, 0) LOAD_A(0) LOAD_A(1) LOAD_A(2) LOAD_A(3) LOAD_A(4) LOAD_A(5)
                     ACC_ROWS("ldp", "init", "init_row")
                     "subs %[groups], %[groups], #1\n"
                     "b.eq 2f\n"
                     "1:\n" FIFTEEN_COLUMNS
                     "add %[b], %[b], #256\n" LOAD_B(6, 0)
                     FMLA(11, 7, 0, 3) LOAD_A(0) FMLA(15, 7, 1, 3) LOAD_A(1) FMLA(19, 7, 2, 3) LOAD_A(2)
                     FMLA(23, 7, 3, 3) LOAD_A(3) FMLA(27, 7, 4, 3) LOAD_A(4) FMLA(31, 7, 5, 3) LOAD_A(5)
                     "subs %[groups], %[groups], #1\n"
                     "b.ne 1b\n"
                     "2:\n" FIFTEEN_COLUMNS COLUMN_3(7, 3)
                     ACC_ROWS("stp", "c", "c_row")
                     : [a0] "+r"(a0), [a1] "+r"(a1), [a2] "+r"(a2), [a3] "+r"(a3), [a4] "+r"(a4), [a5] "+r"(a5),
                       [b] "+r"(b), [groups] "+r"(groups), [init] "+r"(init), [c] "+r"(c)
                     : [init_row] "r"(4 * init_row), [c_row] "r"(4 * c_row)
                     : "memory", "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12",
                       "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26",
                       "v27", "v28", "v29", "v30", "v31");
}

#undef FMLA
#undef COLUMN_0
#undef COLUMN_1
#undef COLUMN_2
#undef COLUMN_3
#undef LOAD_B
#undef LOAD_A
#undef FIFTEEN_COLUMNS
#undef ACC_ROW
#undef ACC_ROWS

#endif
