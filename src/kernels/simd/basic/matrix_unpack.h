/* Reads packed weights as signed codes, w = s c + b (kernels/matrix_i8.h): formats that matrix_panel.h does not read
 * itself. One function per format; base/quant.c has the byte diagrams. Unsigned codes of n bits are shifted by 2^(n-1),
 * and b makes up for it. */
#ifndef ZN_SIMD_MATRIX_UNPACK_H
#define ZN_SIMD_MATRIX_UNPACK_H

#include "base/convert.h"
#include "base/span.h"
#include "kernels/matrix_i8.h"
#include "kernels/simd/vec.h"

/* Some groups of 32 weights of one output. */
typedef struct weight_line {
    int8_t *codes;
    float *s; /* one per group; Q6_K: two */
    float *b; /* one per group; not written for formats without */
} weight_line;

/* The scales and offsets of a format: two of s per group, and whether it has b. */
static inline bool weights_split(const zn_packed *w) { return !w->form.bits && w->dtype == ZN_Q6_K; }
static inline bool weights_shifted(const zn_packed *w)
{
    return w->form.bits || w->dtype == ZN_Q4_1 || w->dtype == ZN_Q5_1 || w->dtype == ZN_Q4_K || w->dtype == ZN_Q5_K;
}

VEC_INLINE float half_at(const uint8_t *p)
{
#if defined(__F16C__)
    return _cvtsh_ss(zn_load16(p));
#elif defined(__ARM_NEON)
    __fp16 half;
    memcpy(&half, p, sizeof half);
    return (float)half;
#else
    return zn_f16_to_f32(zn_load16(p));
#endif
}

/* 16 codes at once: compilers do not vectorise loops over bytes that may overlap. */
typedef uint8_t codes16 __attribute__((vector_size(16)));

VEC_INLINE codes16 codes16_load(const uint8_t *p)
{
    codes16 v;
    memcpy(&v, p, sizeof v);
    return v;
}

VEC_INLINE void codes16_store(int8_t *p, codes16 v) { memcpy(p, &v, sizeof v); }

VEC_INLINE void five_bits(const uint8_t *q, uint32_t high, int8_t *c)
{
    for (int j = 0; j < 16; j++) {
        c[j] = (int8_t)(((q[j] & 15) | (high >> j & 1) << 4) - 16);
        c[j + 16] = (int8_t)((q[j] >> 4 | (high >> (j + 16) & 1) << 4) - 16);
    }
}

/* Q5_0 and Q5_1: d, perhaps m, the fifth bits, then the others. */
VEC_INLINE void read_blocks(const uint8_t *p, int groups, const weight_line *to, bool minimum)
{
    const int head = minimum ? 4 : 2;
    for (int g = 0; g < groups; g++, p += head + 20) {
        to->s[g] = half_at(p);
        if (minimum)
            to->b[g] = half_at(p + 2) + to->s[g] * 16;
        five_bits(p + head + 4, zn_load32(p + head), to->codes + g * ZN_I8_GROUP);
    }
}

/* Scales and minima of the eight sub-blocks of Q5_K: six bits each, packed in 12 bytes. */
VEC_INLINE void six_bits(const uint8_t *p, uint8_t scale[8], uint8_t minimum[8])
{
    for (int j = 0; j < 4; j++) {
        scale[j] = p[j] & 63;
        minimum[j] = p[j + 4] & 63;
        scale[j + 4] = (uint8_t)((p[j + 8] & 15) | p[j] >> 6 << 4);
        minimum[j + 4] = (uint8_t)(p[j + 8] >> 4 | p[j + 4] >> 6 << 4);
    }
}

static void read_q5_k(const uint8_t *p, int groups, const weight_line *to)
{
    for (int g = 0; g < groups; g += 8, p += 176) {
        const float d = half_at(p), m = half_at(p + 2);
        const uint8_t *fifth = p + 16, *q = p + 48;
        uint8_t scale[8], minimum[8];
        six_bits(p + 4, scale, minimum);
        for (int j = 0; j < 8; j++) {
            int8_t *c = to->codes + (g + j) * ZN_I8_GROUP;
            const int high = 4 * (j % 2);
            to->s[g + j] = d * (float)scale[j];
            to->b[g + j] = to->s[g + j] * 16 - m * (float)minimum[j];
            for (int l = 0; l < ZN_I8_GROUP; l += 16) {
                const codes16 four = codes16_load(q + 32 * (j / 2) + l) >> (uint8_t)high & 15;
                codes16_store(c + l, (four | (codes16_load(fifth + l) >> (uint8_t)j & 1) << 4) - 16);
            }
        }
    }
}

static void read_q6_k(const uint8_t *p, int groups, const weight_line *to)
{
    for (int g = 0; g < groups; g += 8, p += 210) {
        const float d = half_at(p + 208);
        for (int s = 0; s < 16; s++)
            to->s[2 * g + s] = d * (float)(int8_t)p[192 + s];
        for (int j = 0; j < 8; j++) {
            const int h = j / 4, k = j % 4;
            const uint8_t *low = p + 64 * h + 32 * (k % 2), *high = p + 128 + 32 * h;
            int8_t *c = to->codes + (g + j) * ZN_I8_GROUP;
            for (int l = 0; l < ZN_I8_GROUP; l += 16) {
                const codes16 four = codes16_load(low + l) >> (uint8_t)(4 * (k / 2)) & 15;
                const codes16 two = codes16_load(high + l) >> (uint8_t)(2 * k) & 3;
                codes16_store(c + l, (four | two << 4) - 32);
            }
        }
    }
}

/* 16 bytes of two codes each, the first in the low four bits. */
VEC_INLINE void pairs(const uint8_t *p, int8_t *c)
{
    typedef uint16_t wide __attribute__((vector_size(32)));
    typedef uint8_t codes32 __attribute__((vector_size(32)));
    const wide both = __builtin_convertvector(codes16_load(p), wide);
    const codes32 v = (codes32)((both & 15) | both >> 4 << 8) - 8;
    memcpy(c, &v, sizeof v);
}

/* A code may span two bytes. count: a multiple of 32. */
static void mlx_codes(const uint8_t *p, int bits, int count, int8_t *c)
{
    const int shift = 1 << (bits - 1);
    if (bits == 4)
        for (int i = 0; i < count; i += 32)
            pairs(p + i / 2, c + i);
    else if (bits == 8)
        for (int i = 0; i < count; i++)
            c[i] = (int8_t)(p[i] - 128);
    else
        for (int i = 0; i < count; i++) {
            const int at = i * bits, byte = at / 8, skip = at % 8;
            const int pair = p[byte] | (skip + bits > 8 ? p[byte + 1] << 8 : 0);
            c[i] = (int8_t)((pair >> skip & ((1 << bits) - 1)) - shift);
        }
}

static void read_mlx(const zn_packed *w, int64_t row, int first, int groups, const weight_line *to)
{
    const int bits = w->form.bits, each = w->form.group / ZN_I8_GROUP; /* of our groups in one of theirs */
    const size_t at = (size_t)row * w->groups + (size_t)(first / w->form.group), count = (size_t)(groups / each);
    zn_to_f32(to->s, w->scales + at * zn_dtype_size(w->scale_dtype), w->scale_dtype, count);
    zn_to_f32(to->b, w->biases + at * zn_dtype_size(w->bias_dtype), w->bias_dtype, count);
    for (int g = groups - 1; g >= 0; g--) {
        const float s = to->s[g / each];
        to->b[g] = to->b[g / each] + s * (float)(1 << (bits - 1));
        to->s[g] = s;
    }
    mlx_codes(w->data + (size_t)row * w->row_bytes + (size_t)first * (size_t)bits / 8, bits, groups * ZN_I8_GROUP,
              to->codes);
}

/* Bytes, and a scale for the row or the matrix. */
static void read_bytes(const zn_packed *w, int64_t row, int first, int groups, const weight_line *to)
{
    float scale;
    zn_to_f32(&scale, w->scales + (size_t)row * w->groups * zn_dtype_size(w->scale_dtype), w->scale_dtype, 1);
    for (int g = 0; g < groups; g++)
        to->s[g] = scale;
    memcpy(to->codes, w->data + (size_t)row * w->row_bytes + first, (size_t)groups * ZN_I8_GROUP);
}

/* Where inputs from `first` on of a row begin. */
static inline const uint8_t *packed_at(const zn_packed *w, int64_t row, int first)
{
    return w->data + (size_t)row * w->row_bytes + (size_t)first / zn_dtype_block(w->dtype) * zn_dtype_size(w->dtype);
}

/* Inputs from `first` on, which is a multiple of ZN_PACKED_STEP. groups: of 32, whole blocks. */
static void read_weights(const zn_packed *w, int64_t row, int first, int groups, const weight_line *to)
{
    if (w->form.bits) {
        read_mlx(w, row, first, groups, to);
        return;
    }
    const uint8_t *p = packed_at(w, row, first);
    switch (w->dtype) {
    case ZN_Q5_0:
        read_blocks(p, groups, to, false);
        break;
    case ZN_Q5_1:
        read_blocks(p, groups, to, true);
        break;
    case ZN_Q5_K:
        read_q5_k(p, groups, to);
        break;
    case ZN_Q6_K:
        read_q6_k(p, groups, to);
        break;
    case ZN_I8:
        read_bytes(w, row, first, groups, to);
        break;
    default:
        break; /* zn_matrix_i8_bits is 0, or matrix_panel.h reads them */
    }
}

#endif
