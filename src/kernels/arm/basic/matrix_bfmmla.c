/* The product in bf16 with the matrix instructions of ARMv8.6: BFMMLA multiplies two outputs by two rows over four
 * inputs. Eight outputs by eight rows are summed at a time: 16 sums, and each operand loaded is used four times. */
#include "base/cpu.h"
#include "kernels/arm/bfmmla.h"
#include "kernels/arm/sequence/attention_bfmmla.h"
#include "kernels/simd.h"
#include "kernels/simd/basic/matrix_bf16.h"

#include <arm_neon.h>

enum {
    QUAD = BFMMLA_QUAD,
    BLOCK = BFMMLA_BLOCK,
    PAIRS = BFMMLA_PAIRS,
    NEAR = 4,              /* panels that are multiplied with a block of weights, one after the other */
    BLOCKS = SIDE / BLOCK, /* of a tile, across and down */
};
_Static_assert(SIDE % BLOCK == 0 && DEPTH % (BFMMLA_UNROLLED * QUAD) == 0 &&
                   ZN_BF16_STEP % (BFMMLA_UNROLLED * QUAD) == 0,
               "whole blocks");

/* bfmmla_block takes several at a time. */
static inline int quads_of(int depth)
{
    return (depth + BFMMLA_UNROLLED * QUAD - 1) / (BFMMLA_UNROLLED * QUAD) * BFMMLA_UNROLLED;
}

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
static void order_rows(const uint16_t *x, int64_t ahead, int quads, bfmmla_operands (*to)[DEPTH / QUAD])
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
                    float *sums = t->sums[near + i][c / SIDE][0] + (c % SIDE / BLOCK * BLOCKS + r) * (int)BFMMLA_SUMS;
                    for (int line = 0; line < BFMMLA_SUMS && i + 1 < count; line += 16) /* of the next panel */
                        __builtin_prefetch(sums + sizeof t->sums[0] / sizeof(float) + line, 1);
                    if (p->first == 0)
                        memset(sums, 0, sizeof(float) * BFMMLA_SUMS);
                    bfmmla_block(t->w.quads.w[c / BLOCK], t->w.quads.x[i][r], quads, sums);
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
