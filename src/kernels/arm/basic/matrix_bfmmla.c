/* The product in bf16 with the matrix instructions of ARMv8.6: BFMMLA multiplies two outputs by two rows over four
 * inputs. Eight outputs by eight rows are summed at a time: 16 sums, and each operand loaded is used four times. */
#include "base/cpu.h"
#include "kernels/arm/sequence/attention_bfmmla.h"
#include "kernels/simd.h"
#include "kernels/simd/basic/matrix_bf16.h"

#include <arm_neon.h>

enum {
    QUAD = 4,     /* inputs of an instruction */
    UNROLLED = 4, /* such fours in a turn of the loop */
    BLOCK = 8,    /* outputs or rows of a block */
    PAIRS = BLOCK / 2,
    NEAR = 4,                   /* panels that are multiplied with a block of weights, one after the other */
    BLOCKS = SIDE / BLOCK,      /* of a tile, across and down */
    BLOCK_SUMS = BLOCK * BLOCK, /* floats */
};
_Static_assert(SIDE % BLOCK == 0 && DEPTH % (UNROLLED * QUAD) == 0 && ZN_BF16_STEP % (UNROLLED * QUAD) == 0,
               "whole blocks");

/* Operands of a block: for each four inputs, four pairs of outputs or rows. */
typedef uint16_t operands[PAIRS][2][QUAD];

/* multiply_block takes several at a time. */
static inline int quads_of(int depth) { return (depth + UNROLLED * QUAD - 1) / (UNROLLED * QUAD) * UNROLLED; }

/* Unpacks and rounds the weights of a piece; outputs and inputs that pad it are zero. */
static void unpack(const piece *p, scratch *t)
{
    const int quads = quads_of(p->depth), outputs = (p->columns + BLOCK - 1) / BLOCK * BLOCK;
    zn_packed stored = p->a->w;
    stored.rotated = 0; /* x is rotated instead */
    for (int c = 0; c < outputs; c++) {
        float values[DEPTH];
        if (c < p->columns)
            zn_packed_row(&stored, p->column + c, p->first, p->depth, values);
        const int there = c < p->columns ? p->depth : 0;
        memset(values + there, 0, sizeof(float) * (size_t)(quads * QUAD - there));
        uint16_t *to = t->w.quads.w[c / BLOCK][0][c % BLOCK / 2][c % 2];
        for (int q = 0; q < quads; q++)
            vst1_u16(to + q * BLOCK * QUAD, vreinterpret_u16_bf16(vcvt_bf16_f32(vld1q_f32(values + q * QUAD))));
    }
}

/* Orders a panel as operands: lines of pairs of inputs become fours of two rows. Fetches what is `ahead` numbers
 * after it. */
static void order_rows(const uint16_t *x, int64_t ahead, int quads, operands (*to)[DEPTH / QUAD])
{
    for (int q = 0; q < quads; q++) {
        __builtin_prefetch(x + ahead + (int64_t)4 * q * SIDE, 0, 2);
        __builtin_prefetch(x + ahead + (int64_t)(4 * q + 2) * SIDE, 0, 2);
        for (int i = 0; i < SIDE / 4; i++) {
            const uint16_t *line = x + (int64_t)2 * q * 2 * SIDE + 8 * i;
            const uint32x4_t first = vreinterpretq_u32_u16(vld1q_u16(line)),
                             second = vreinterpretq_u32_u16(vld1q_u16(line + 2 * SIDE));
            uint16_t *pair = to[2 * i / PAIRS][q][2 * i % PAIRS][0];
            vst1q_u16(pair, vreinterpretq_u16_u32(vzip1q_u32(first, second)));
            vst1q_u16(pair + 2 * QUAD, vreinterpretq_u16_u32(vzip2q_u32(first, second)));
        }
    }
}

/* clang-format off */
#define DOT(c, a, b)       "bfmmla v" #c ".4s, v" #a ".8h, v" #b ".8h\n"
#define LOAD(a, b, p, at)  "ldp q" #a ", q" #b ", [%[" #p "], #" #at "]\n"
#define STORE(a, b, p, at) "stp q" #a ", q" #b ", [%[" #p "], #" #at "]\n"
#define ROW(c0, c1, c2, c3, a, b0, b1, b2, b3) DOT(c0, a, b0) DOT(c1, a, b1) DOT(c2, a, b2) DOT(c3, a, b3)
#define NEXT(r, p, at)     "ldr q" #r ", [%[" #p "], #" #at "]\n"
/* Four inputs; a register gets what it needs for the next four, which are at `at`, as soon as it is free. */
#define QUADS(at)                                                                                                      \
    ROW(0, 1, 2, 3, 16, 20, 21, 22, 23) NEXT(16, w, at) ROW(4, 5, 6, 7, 17, 20, 21, 22, 23) NEXT(17, w, at + 16)       \
    ROW(8, 9, 10, 11, 18, 20, 21, 22, 23) NEXT(18, w, at + 32)                                                         \
    DOT(12, 19, 20) NEXT(20, x, at) DOT(13, 19, 21) NEXT(21, x, at + 16) DOT(14, 19, 22) NEXT(22, x, at + 32)          \
    DOT(15, 19, 23) NEXT(23, x, at + 48) NEXT(19, w, at + 48)
#define SUMS(op)                                                                                                       \
    op(0, 1, sums, 0) op(2, 3, sums, 32) op(4, 5, sums, 64) op(6, 7, sums, 96) op(8, 9, sums, 128)                     \
    op(10, 11, sums, 160) op(12, 13, sums, 192) op(14, 15, sums, 224)

/* Adds products to sums, [pair of outputs][pair of rows] of two by two. The operands of the next four inputs are
 * loaded among the products of these; after the last ones some that nothing uses. A Neoverse-V1 does 3.9 products in a
 * cycle if two loads follow each four of them, 2.7 with one after each two, and 2.3 with LDP. */
static void multiply_block(const operands *w, const operands *x, int quads, float *sums)
{
    __asm__ volatile(
        SUMS(LOAD)
        LOAD(16, 17, w, 0) LOAD(18, 19, w, 32) LOAD(20, 21, x, 0) LOAD(22, 23, x, 32)
        "1:\n"
        QUADS(64) QUADS(128) QUADS(192) QUADS(256)
        "add %[w], %[w], #256\n add %[x], %[x], #256\n subs %w[quads], %w[quads], #4\n b.ne 1b\n"
        SUMS(STORE)
        : [w] "+r"(w), [x] "+r"(x), [quads] "+r"(quads)
        : [sums] "r"(sums)
        : "cc", "memory", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14",
          "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23");
}
/* clang-format on */

/* Brings the sums of a tile from the order of its blocks, [block of outputs][block of rows], to that of
 * matrix_bf16.h. */
static void order_sums(float (*sums)[SIDE])
{
    float blocks[BLOCKS][BLOCKS][PAIRS][PAIRS][2][2];
    memcpy(blocks, sums, sizeof blocks);
    for (int c = 0; c < SIDE; c++)
        for (int r = 0; r < SIDE; r += 2)
            memcpy(&sums[c][r], blocks[c / BLOCK][r / BLOCK][c % BLOCK / 2][r % BLOCK / 2][c % 2], 2 * sizeof(float));
}

static void multiply(const piece *p, scratch *t)
{
    const int quads = quads_of(p->depth), tiles = (p->columns + SIDE - 1) / SIDE;
    unpack(p, t);
    for (int near = 0; near < p->panels; near += NEAR) {
        const int count = (int)zn_least(NEAR, p->panels - near);
        for (int i = 0; i < count; i++)
            order_rows(p->x + (near + i) * p->panel, NEAR * p->panel, quads, t->w.quads.x[i]);
        for (int c = 0; c < p->columns; c += BLOCK)
            for (int i = 0; i < count; i++)
                for (int r = 0; r < BLOCKS; r++) {
                    float *sums = t->sums[near + i][c / SIDE][0] + (c % SIDE / BLOCK * BLOCKS + r) * (int)BLOCK_SUMS;
                    for (int line = 0; line < BLOCK_SUMS && i + 1 < count; line += 16) /* of the next panel */
                        __builtin_prefetch(sums + sizeof t->sums[0] / sizeof(float) + line, 1);
                    if (p->first == 0)
                        memset(sums, 0, sizeof(float) * BLOCK_SUMS);
                    multiply_block(t->w.quads.w[c / BLOCK], t->w.quads.x[i][r], quads, sums);
                }
        for (int i = 0; i < count && p->first + p->depth == p->a->in; i++)
            for (int c = 0; c < tiles; c++)
                order_sums(t->sums[near + i][c]);
    }
}

static void run(const void *args, zn_range r) { matrix_bf16(args, multiply, r); }

extern const zn_simd_table zn_table_bfmmla;
const zn_simd_table zn_table_bfmmla = { "bfmmla",
                                        ZN_CPU_BF16,
                                        {
                                            [ZN_SIMD_matrix_bf16] = { run, NULL },
                                            [ZN_SIMD_attention] = { zn_attention_bfmmla, zn_attention_bfmmla_supports },
                                        } };
