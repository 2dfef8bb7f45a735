/* The product of simd/conv/gemm.h for AArch64: its full block, 6 rows by 16 outputs, in assembly, for a whole matrix
 * of blocks:
 *
 *     c[t][16 p + j] = sum over s < segments, k < 4 * groups of a[s][t][k] * b[p][s][k][j]
 *                      t < 6 * blocks, j < 16, p < panels
 *
 * Why not C: gcc 12 keeps the 24 accumulators in registers but copies some of them at every step, clang 14 spills.
 * On a Neoverse-V1 this code reaches 3.76 of 4 FMLA per cycle, gcc's 1.7, clang's 0.8 (64 multipliers, data in L1).
 *
 * v0-v5 hold four multipliers of each row, v6 and v7 alternate as the vector of b, v8-v31 accumulate. Each load is
 * placed before the arithmetic of the previous vector, and the last group of a block loads the first multipliers of
 * the next block, so that the blocks overlap. Nothing is read past the end of a or b. */
#include "kernels/simd/conv/gemm.h"

#define OP(op, acc, b, row, lane) op " v" #acc ".4s, v" #b ".4s, v" #row ".s[" #lane "]\n"
#define COLUMN(op, b, lane, r0, r1, r2, r3, r4, r5)                                                                    \
    OP(op, r0, b, 0, lane)                                                                                             \
    OP(op, r1, b, 1, lane)                                                                                             \
    OP(op, r2, b, 2, lane)                                                                                             \
    OP(op, r3, b, 3, lane)                                                                                             \
    OP(op, r4, b, 4, lane)                                                                                             \
    OP(op, r5, b, 5, lane)
#define LOAD_B(reg, offset) "ldr q" #reg ", [%[b], #" #offset "]\n"
#define LOAD_A(row)         "ldr q" #row ", [%[a" #row "]], #16\n"

/* A quarter of a group: one lane of the multipliers times four vectors of b. o0 to o3 are the offsets of the next
 * four. */
#define LANE(op, lane, o0, o1, o2)                                                                                     \
    LOAD_B(7, o0)                                                                                                      \
    COLUMN(op, 6, lane, 8, 12, 16, 20, 24, 28)                                                                         \
    LOAD_B(6, o1)                                                                                                      \
    COLUMN(op, 7, lane, 9, 13, 17, 21, 25, 29)                                                                         \
    LOAD_B(7, o2)                                                                                                      \
    COLUMN(op, 6, lane, 10, 14, 18, 22, 26, 30)
#define LAST_COLUMN(op, lane) COLUMN(op, 7, lane, 11, 15, 19, 23, 27, 31)

/* A group except its last column, where the loads for the next group are interleaved. v6 holds b[0] on entry. The
 * two prefetches are placed far from those loads, where they cost nothing. */
#define GROUP(op, fetch1, fetch2)                                                                                      \
    LANE(op, 0, 16, 32, 48)                                                                                            \
    LOAD_B(6, 64)                                                                                                      \
    LAST_COLUMN(op, 0)                                                                                                 \
    fetch1 LANE("fmla", 1, 80, 96, 112) LOAD_B(6, 128) LAST_COLUMN("fmla", 1) fetch2 LANE("fmla", 2, 144, 160, 176)    \
        LOAD_B(6, 192) LAST_COLUMN("fmla", 2) LANE("fmla", 3, 208, 224, 240)
#define FETCH(at, step)                                                                                                \
    "prfm pldl1keep, [" at "]\n"                                                                                       \
    "add " at ", " at ", " step "\n"
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
/* x11 holds the stride of c. */
#define STORE_ROW(v0, v1, v2, v3)                                                                                      \
    "stp q" #v0 ", q" #v1 ", [%[c]]\n"                                                                                 \
    "stp q" #v2 ", q" #v3 ", [%[c], #32]\n"                                                                            \
    "add %[c], %[c], x11\n"
#define STORE_ROWS                                                                                                     \
    "ldr x11, [%[rare], #48]\n" STORE_ROW(8, 9, 10, 11) STORE_ROW(12, 13, 14, 15) STORE_ROW(16, 17, 18, 19)            \
        STORE_ROW(20, 21, 22, 23) STORE_ROW(24, 25, 26, 27) STORE_ROW(28, 29, 30, 31)
#define LOAD_ROW(v0, v1, v2, v3)                                                                                       \
    "ldp q" #v0 ", q" #v1 ", [x15]\n"                                                                                  \
    "ldp q" #v2 ", q" #v3 ", [x15, #32]\n"                                                                             \
    "add x15, x15, x11\n"
#define LOAD_ROWS                                                                                                      \
    "ldr x11, [%[rare], #48]\n"                                                                                        \
    "mov x15, %[c]\n" LOAD_ROW(8, 9, 10, 11) LOAD_ROW(12, 13, 14, 15) LOAD_ROW(16, 17, 18, 19)                         \
        LOAD_ROW(20, 21, 22, 23) LOAD_ROW(24, 25, 26, 27) LOAD_ROW(28, 29, 30, 31)
#define MOVE_A                                                                                                         \
    "add %[a0], %[a0], x11\n"                                                                                          \
    "add %[a1], %[a1], x11\n"                                                                                          \
    "add %[a2], %[a2], x11\n"                                                                                          \
    "add %[a3], %[a3], x11\n"                                                                                          \
    "add %[a4], %[a4], x11\n"                                                                                          \
    "add %[a5], %[a5], x11\n"

/* Strides in floats, counts at least 1, groups at least 2. Memory to prefetch into L1 meanwhile: ahead, advancing by
 * ahead_step floats for every second group; the panel of b after this one, a line for every group; far[p], a line
 * for every second group of panel p. More than two prefetches per group cost more than they gain. With ahead_step 0
 * only the first line of each is prefetched. */
typedef struct gemm_6x16 {
    const float *a, *b, *ahead;
    float *c;
    int64_t row, segment, c_row, panel, ahead_step; /* panel: from one panel of b to the next */
    int64_t blocks, segments, groups, panels;
    int64_t more; /* 1: add to c */
    const float *far[GEMM_PANELS_MOST];
} gemm_6x16;

/* Values that the assembly needs once per segment, block or panel, by offset; strides in bytes. An asm statement
 * cannot have that many operands. */
static inline void gemm_6x16_rare(const gemm_6x16 *g, int64_t rare[13])
{
    const int64_t k = 4 * g->groups,
                  depth = (g->segments - 1) * g->segment + k;       /* of a, from the start of a block to its end */
    rare[0] = 4 * (g->segment - k);                                 /*  0: a, to the next segment */
    rare[1] = 4 * (6 * g->row - depth);                             /*  8: a, to the next block */
    rare[2] = 256 * (g->groups * g->segments - 1);                  /* 16: b, back for it */
    rare[3] = g->segments - 1;                                      /* 24 */
    rare[4] = g->groups - 1;                                        /* 32 */
    rare[5] = g->more;                                              /* 40 */
    rare[6] = 4 * g->c_row;                                         /* 48 */
    rare[7] = g->blocks;                                            /* 56 */
    rare[8] = -4 * (6 * g->row * (g->blocks - 1) + depth);          /* 64: a, back for the next panel */
    rare[9] = 64 - 24 * g->c_row * g->blocks;                       /* 72: c, to the next panel */
    rare[10] = 4 * g->panel;                                        /* 80: prefetch distance in b */
    rare[11] = g->ahead_step ? 64 : 0;                              /* 88: and its step */
    rare[12] = 4 * (g->panel - 64 * g->groups * g->segments) + 256; /* 96: b, to the next panel */
}

static inline void gemm_6x16_neon(const gemm_6x16 *g)
{
    const float *a0 = g->a, *a1 = a0 + g->row, *a2 = a1 + g->row, *a3 = a2 + g->row, *a4 = a3 + g->row,
                *a5 = a4 + g->row;
    const float *b = g->b, *ahead = g->ahead;
    float *c = g->c;
    int64_t blocks = g->blocks, panels = g->panels, rare[13];
    gemm_6x16_rare(g, rare);
    /* clang-format off */
    __asm__ volatile(
        LOAD_B(6, 0) LOAD_A(0) LOAD_A(1) LOAD_A(2) LOAD_A(3) LOAD_A(4) LOAD_A(5)
        "mov x14, %[far]\n"
        "0:\n" /* a panel: x12 and x13 walk over what to fetch */
        "ldp x12, x16, [%[rare], #80]\n"
        "add x12, x12, %[b]\n"
        "ldr x13, [x14], #8\n"
        "1:\n" /* a block: x9 counts groups, x10 segments */
        "ldp x10, x9, [%[rare], #24]\n"
        "ldr x11, [%[rare], #40]\n"
        "cbnz x11, 6f\n"
        "sub x9, x9, #1\n" GROUP("fmul", "", "")
        "add %[b], %[b], #256\n" LAST_COLUMN_AND_LOADS
        "cbz x9, 3f\n"
        "8:\n" /* x9 groups, two at a time */
        "add x9, x9, #1\n"
        "tbz x9, #0, 9f\n"
        "2:\n"
        GROUP("fmla", FETCH("%[ahead]", "%[ahead_step]"), FETCH("x12", "x16"))
        "add %[b], %[b], #256\n" LAST_COLUMN_AND_LOADS
        "9:\n"
        "sub x9, x9, #2\n" GROUP("fmla", FETCH("x13", "x16"), FETCH("x12", "x16"))
        "add %[b], %[b], #256\n" LAST_COLUMN_AND_LOADS
        "cmp x9, #1\n"
        "b.gt 2b\n"
        "3:\n" GROUP("fmla", "", "")
        "cbz x10, 4f\n"
        "sub x10, x10, #1\n" /* the next segment */
        "ldr x9, [%[rare], #32]\n"
        "ldr x11, [%[rare]]\n"
        "add %[b], %[b], #256\n" MOVE_A LAST_COLUMN_AND_LOADS
        "b 8b\n"
        "4:\n"
        "subs %[blocks], %[blocks], #1\n"
        "b.eq 5f\n"
        "ldp x11, x9, [%[rare], #8]\n" /* the next block */
        "sub %[b], %[b], x9\n" MOVE_A LAST_COLUMN_AND_LOADS STORE_ROWS
        "b 1b\n"
        "5:\n"
        "subs %[panels], %[panels], #1\n"
        "b.eq 7f\n"
        "ldp %[blocks], x11, [%[rare], #56]\n" /* the next panel */
        "ldr x9, [%[rare], #96]\n"
        "add %[b], %[b], x9\n" MOVE_A LAST_COLUMN_AND_LOADS STORE_ROWS
        "ldr x9, [%[rare], #72]\n"
        "add %[c], %[c], x9\n"
        "b 0b\n"
        "6:\n" LOAD_ROWS /* the sums continue from c */
        "b 8b\n"
        "7:\n" LAST_COLUMN("fmla", 3) STORE_ROWS
        : [a0] "+r"(a0), [a1] "+r"(a1), [a2] "+r"(a2), [a3] "+r"(a3), [a4] "+r"(a4), [a5] "+r"(a5), [b] "+r"(b),
          [c] "+r"(c), [blocks] "+r"(blocks), [panels] "+r"(panels), [ahead] "+r"(ahead)
        : [rare] "r"(rare), [far] "r"(g->far), [ahead_step] "r"(4 * g->ahead_step)
        : "memory", "cc", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16", "v0", "v1", "v2", "v3", "v4", "v5",
          "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21",
          "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31");
    /* clang-format on */
}

/* The number of rows done, for all whole panels of `width`: whole blocks, or none. */
static int gemm_fast(const gemm_args *g, int rows, int width)
{
    if (width < 16 || g->k % 4 != 0 || g->k < 8 || g->segments < 1 || rows < 6)
        return 0;
    gemm_6x16 x = { .a = g->a,
                    .b = g->b + g->skip * 16,
                    .c = g->c,
                    .row = g->row,
                    .segment = g->segment,
                    .c_row = g->c_row,
                    .panel = (int64_t)g->depth * 16,
                    .blocks = rows / 6,
                    .segments = g->segments,
                    .groups = g->k / 4,
                    .more = g->more,
                    .ahead = g->ahead ? g->ahead : g->a };
    const int64_t fetches = gemm_fetches(g, rows);
    for (int p = 0; p < width / 16; p += GEMM_PANELS_MOST) {
        x.panels = width / 16 - p < GEMM_PANELS_MOST ? width / 16 - p : GEMM_PANELS_MOST;
        x.ahead_step = g->ahead ? (g->ahead_floats / (fetches * x.panels + 1) + 4) & ~3 : 0;
        for (int i = 0; i < x.panels; i++)
            x.far[i] = g->ahead ? g->far[i] : g->b;
        gemm_6x16_neon(&x);
        x.b += x.panel * x.panels;
        x.c += 16 * x.panels;
    }
    return rows / 6 * 6;
}

void ZN_KERNEL(gemm)(const gemm_args *g, int rows, int width) { gemm_from(gemm_fast(g, rows, width), g, rows, width); }
