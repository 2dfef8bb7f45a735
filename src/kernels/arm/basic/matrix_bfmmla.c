/* The product in bf16 with the matrix instructions of ARMv8.6: BFMMLA multiplies two outputs by two rows over four
 * inputs. Eight outputs by eight rows are summed at a time: 16 sums, and each operand loaded is used four times. */
#include "base/convert.h"
#include "base/cpu.h"
#include "kernels/simd.h"
#include "kernels/simd/basic/matrix_bf16.h"

#include <arm_neon.h>

enum { QUAD = 4 /* inputs of an instruction */, BLOCK = 8 /* outputs or rows of a block */ };
_Static_assert(SIDE % BLOCK == 0 && DEPTH % QUAD == 0 && ZN_BF16_STEP % QUAD == 0, "whole blocks");

static inline int quads_of(int depth) { return (depth + QUAD - 1) / QUAD; }

/* Writes inputs of one output, or zeros: every second four numbers belong to its neighbour. */
static void put_output(const uint16_t *from, int quads, uint16_t (*to)[2][QUAD], int which)
{
    for (int q = 0; q < quads; q++)
        memcpy(to[q][which], from + q * QUAD, sizeof to[q][which]);
}

/* Unpacks and rounds the weights of a piece; outputs and inputs that pad it are zero. */
static void unpack(const piece *p, scratch *t)
{
    const int quads = quads_of(p->depth), outputs = (p->columns + BLOCK - 1) / BLOCK * BLOCK;
    zn_packed stored = p->a->w;
    stored.rotated = 0; /* x is rotated instead */
    for (int c = 0; c < outputs; c++) {
        uint16_t rounded[DEPTH] = { 0 };
        float values[DEPTH];
        if (c < p->columns) {
            zn_packed_row(&stored, p->column + c, p->first, p->depth, values);
            zn_from_f32(rounded, ZN_BF16, values, (size_t)p->depth);
        }
        put_output(rounded, quads, t->w.quads.w[c / 2], c % 2);
    }
}

/* Orders a panel as operands: lines of pairs of inputs become fours of two rows. */
static void order_rows(const uint16_t *x, int quads, uint16_t (*to)[DEPTH / QUAD][2][QUAD])
{
    for (int q = 0; q < quads; q++)
        for (int i = 0; i < SIDE / 4; i++) {
            const uint16_t *line = x + (int64_t)2 * q * 2 * SIDE + 8 * i;
            const uint32x4_t first = vreinterpretq_u32_u16(vld1q_u16(line)),
                             second = vreinterpretq_u32_u16(vld1q_u16(line + 2 * SIDE));
            vst1q_u16(to[2 * i][q][0], vreinterpretq_u16_u32(vzip1q_u32(first, second)));
            vst1q_u16(to[2 * i + 1][q][0], vreinterpretq_u16_u32(vzip2q_u32(first, second)));
        }
}

static inline bfloat16x8_t operand(const uint16_t *p) { return vreinterpretq_bf16_u16(vld1q_u16(p)); }

/* Adds a block of products to sums[output][row], or sets them. */
static void multiply_block(uint16_t (*w)[DEPTH / QUAD][2][QUAD], uint16_t (*x)[DEPTH / QUAD][2][QUAD], int quads,
                           bool more, float (*sums)[SIDE])
{
    enum { PAIRS = BLOCK / 2 };
    float32x4_t c[PAIRS][PAIRS];
    for (int i = 0; i < PAIRS; i++)
        for (int j = 0; j < PAIRS; j++)
            c[i][j] =
                more ? vcombine_f32(vld1_f32(&sums[2 * i][2 * j]), vld1_f32(&sums[2 * i + 1][2 * j])) : vdupq_n_f32(0);
    for (int q = 0; q < quads; q++) {
        bfloat16x8_t a[PAIRS], b[PAIRS];
        for (int i = 0; i < PAIRS; i++) {
            a[i] = operand(w[i][q][0]);
            b[i] = operand(x[i][q][0]);
        }
        for (int i = 0; i < PAIRS; i++)
            for (int j = 0; j < PAIRS; j++)
                c[i][j] = vbfmmlaq_f32(c[i][j], a[i], b[j]);
    }
    for (int i = 0; i < PAIRS; i++)
        for (int j = 0; j < PAIRS; j++) {
            vst1_f32(&sums[2 * i][2 * j], vget_low_f32(c[i][j]));
            vst1_f32(&sums[2 * i + 1][2 * j], vget_high_f32(c[i][j]));
        }
}

static void multiply(const piece *p, scratch *t)
{
    const int quads = quads_of(p->depth);
    unpack(p, t);
    for (int i = 0; i < p->panels; i++) {
        order_rows(p->x + i * p->panel, quads, t->w.quads.x);
        for (int c = 0; c < p->columns; c += BLOCK)
            for (int r = 0; r < SIDE; r += BLOCK)
                multiply_block(t->w.quads.w + c / 2, t->w.quads.x + r / 2, quads, p->first > 0,
                               (float(*)[SIDE]) & t->sums[i][c / SIDE][c % SIDE][r]);
    }
}

static void run(const void *args, zn_range r) { matrix_bf16(args, multiply, r); }

extern const zn_simd_table zn_table_bfmmla;
const zn_simd_table zn_table_bfmmla = { "bfmmla", ZN_CPU_BF16, { [ZN_SIMD_matrix_bf16] = { run, NULL } } };
