/* The product in bf16 with the matrix instructions of ARMv8.6: BFMMLA multiplies two rows by two outputs over four
 * inputs. Twelve rows by eight outputs are summed at a time. The inputs of a panel stay in the first cache while the
 * weights of all outputs of a strip come from the second, in order. */
#include "base/cpu.h"
#include "kernels/arm/bfmmla.h"
#include "kernels/arm/sequence/attention_bfmmla.h"
#include "kernels/simd.h"
#include "kernels/simd/basic/matrix_bf16.h"

#include <arm_neon.h>

enum {
    QUAD = BFMMLA_QUAD,
    BLOCK = BFMMLA_W,    /* outputs */
    GROUP = 32,          /* weights with a scale */
    FAR = DEPTH / GROUP, /* groups ahead that are fetched */
    LINE = 32,           /* numbers of a line of the cache */
};
_Static_assert((int)PANEL == (int)BFMMLA_X && (int)RUN == (int)QUAD && (int)STRIP % (int)BLOCK == 0 &&
                   (int)ZN_BF16_STEP % (BFMMLA_UNROLLED * QUAD) == 0,
               "whole blocks");

static inline int quads_of(int depth)
{
    return (depth + BFMMLA_UNROLLED * QUAD - 1) / (BFMMLA_UNROLLED * QUAD) * BFMMLA_UNROLLED;
}

/* ---- weights ---- */

/* Writes a group of 32 weights of two outputs, code * scale. A code added to the bits of 1.5 * 2^23 makes the float
 * 1.5 * 2^23 + code; adding and subtracting is faster than SCVTF. */
static inline void put_group(const int8x16_t codes[2][2], const float scales[2], bfmmla_w *to, int pair)
{
    const float32x4_t start = vdupq_n_f32(12582912);
    for (int part = 0; part < 2; part++)
        for (int half = 0; half < 2; half++)
            for (int high = 0; high < 2; high++) {
                float32x4_t v[2];
                for (int i = 0; i < 2; i++) {
                    const int16x8_t wide = half ? vmovl_high_s8(codes[i][part]) : vmovl_s8(vget_low_s8(codes[i][part]));
                    const int32x4_t bits =
                        vaddw_s16(vreinterpretq_s32_f32(start), high ? vget_high_s16(wide) : vget_low_s16(wide));
                    v[i] = vmulq_n_f32(vsubq_f32(vreinterpretq_f32_s32(bits), start), scales[i]);
                }
                const bfloat16x8_t both = vcvtq_high_bf16_f32(vcvtq_low_bf16_f32(v[0]), v[1]);
                vst1q_u16(to[4 * part + 2 * half + high][pair][0], vreinterpretq_u16_bf16(both));
            }
}

/* Two outputs in Q8_0 or Q4_0: a scale in fp16, then codes; with four bits, elements j and j + 16 in byte j. */
static inline void unpack_two(const uint8_t *row, size_t row_bytes, int groups, const bool nibbles, bfmmla_w *to,
                              int pair)
{
    const size_t size = nibbles ? 18 : 34;
    for (int g = 0; g < groups; g++) {
        int8x16_t codes[2][2];
        float scales[2];
        for (int i = 0; i < 2; i++) {
            const uint8_t *p = row + (size_t)i * row_bytes + (size_t)g * size;
            float16_t scale;
            memcpy(&scale, p, sizeof scale);
            scales[i] = (float)scale;
            __builtin_prefetch(p + FAR * size, 0, 2);
            const uint8x16_t first = vld1q_u8(p + 2);
            if (nibbles) {
                codes[i][0] = vsubq_s8(vreinterpretq_s8_u8(vandq_u8(first, vdupq_n_u8(15))), vdupq_n_s8(8));
                codes[i][1] = vsubq_s8(vreinterpretq_s8_u8(vshrq_n_u8(first, 4)), vdupq_n_s8(8));
            } else {
                codes[i][0] = vreinterpretq_s8_u8(first);
                codes[i][1] = vreinterpretq_s8_u8(vld1q_u8(p + 18));
            }
        }
        put_group(codes, scales, to + g * GROUP / QUAD, pair);
    }
}

/* Any format, through fp32; what pads the last quads is zero, and so is the output if the row is not there. */
static void unpack_any(const zn_packed *w, int64_t row, bool there, int first, int depth, bfmmla_w *to, int c)
{
    const int quads = quads_of(depth), count = there ? depth : 0;
    float values[DEPTH];
    if (there)
        zn_packed_row(w, row, first, depth, values);
    memset(values + count, 0, sizeof(float) * (size_t)(quads * QUAD - count));
    for (int q = 0; q < quads; q++)
        vst1_u16(to[q][c / 2][c % 2], vreinterpret_u16_bf16(vcvt_bf16_f32(vld1q_f32(values + q * QUAD))));
}

/* Unpacks and rounds the weights of a piece; outputs and inputs that pad it are zero. */
static void unpack(const piece *p, scratch *t)
{
    zn_packed stored = p->a->w;
    stored.rotated = 0; /* x is rotated instead */
    const bool groups = !stored.form.bits && !stored.scales && (stored.dtype == ZN_Q4_0 || stored.dtype == ZN_Q8_0);
    const size_t skip = groups ? (size_t)(p->first / GROUP) * zn_dtype_size(stored.dtype) : 0;
    for (int c = 0; c < (p->columns + BLOCK - 1) / BLOCK * BLOCK; c += 2) {
        bfmmla_w *to = (bfmmla_w *)t->w.quads[c / BLOCK];
        const uint8_t *row = stored.data + (size_t)(p->column + c) * stored.row_bytes + skip;
        if (groups && c + 1 < p->columns && stored.dtype == ZN_Q4_0)
            unpack_two(row, stored.row_bytes, p->depth / GROUP, true, to, c % BLOCK / 2);
        else if (groups && c + 1 < p->columns)
            unpack_two(row, stored.row_bytes, p->depth / GROUP, false, to, c % BLOCK / 2);
        else
            for (int i = c; i < c + 2; i++)
                unpack_any(&stored, p->column + i, i < p->columns, p->first, p->depth, to, i % BLOCK);
    }
}

/* ---- products ---- */

static void multiply(const piece *p, scratch *t)
{
    const int quads = quads_of(p->depth), share = p->depth * PANEL / (STRIP / BLOCK);
    unpack(p, t);
    for (int i = 0; i < p->panels; i++) {
        const uint16_t *x = p->x + i * p->panel, *next = x + p->panel;
        for (int c = 0; c < p->columns; c += BLOCK) {
            float *sums = t->sums[i][0][0] + c * PANEL;
            for (int line = 0; line < share; line += LINE)
                __builtin_prefetch(next + c / BLOCK * share + line, 0, 3);
            if (p->first == 0)
                memset(sums, 0, sizeof(float) * BFMMLA_SUMS);
            bfmmla_block((const bfmmla_x *)(const void *)x, (const bfmmla_w *)t->w.quads[c / BLOCK], quads, sums);
        }
    }
}

/* The sums are [block of outputs][BFMMLA_SUMS]. */
static void put(const zn_matrix_bf16_args *a, int64_t row, int rows, int column, int columns,
                const float sums[ACROSS][SIDE][PANEL])
{
    for (int c = 0; c < columns; c += BLOCK)
        for (int r = 0; r < rows; r++) {
            float *y = a->y + (row + r) * a->out + column + c;
            const float *from = sums[0][0] + c / BLOCK * (int)BFMMLA_SUMS + r % 2 * 2;
            for (int i = 0; i < zn_least(BLOCK, columns - c); i += 2)
                if (c + i + 1 < columns)
                    vst1_f32(y + i, vld1_f32(from + bfmmla_sums_at(r, i)));
                else
                    y[i] = from[bfmmla_sums_at(r, i)];
        }
}

static void run(const void *args, zn_range r) { matrix_bf16(args, multiply, put, r); }

extern const zn_simd_table zn_table_bfmmla;
const zn_simd_table zn_table_bfmmla = { "bfmmla",
                                        ZN_CPU_BF16,
                                        {
                                            [ZN_SIMD_matrix_bf16] = { run, NULL },
                                            [ZN_SIMD_attention] = { zn_attention_bfmmla, zn_attention_bfmmla_supports },
                                        } };
