/* The blocks of GGUF files, one function per type, each below its byte diagram. d, m: scale and minimum, both F16.
 * "halves": byte j holds element j in its low four bits and element j + half a block in its high four bits. */
#include "base/quant.h"

#include "base/convert.h"
#include "base/span.h"

static float half_at(const uint8_t *p) { return zn_f16_to_f32(zn_load16(p)); }

/* d | 16 bytes, halves                       w = d (q - 8) */
static void q4_0(const uint8_t *b, float *y)
{
    const float d = half_at(b);
    for (int j = 0; j < 16; j++) {
        y[j] = d * (float)((b[2 + j] & 15) - 8);
        y[j + 16] = d * (float)((b[2 + j] >> 4) - 8);
    }
}

/* d | m | 16 bytes, halves                   w = d q + m */
static void q4_1(const uint8_t *b, float *y)
{
    const float d = half_at(b), m = half_at(b + 2);
    for (int j = 0; j < 16; j++) {
        y[j] = d * (float)(b[4 + j] & 15) + m;
        y[j + 16] = d * (float)(b[4 + j] >> 4) + m;
    }
}

/* Element j of 32 with five bits: four bits as halves; the fifth is bit j of `high`. */
static int five_bits(const uint8_t *q, uint32_t high, int j)
{
    return (j < 16 ? q[j] & 15 : q[j - 16] >> 4) | (int)(high >> j & 1) << 4;
}

/* d | 32 fifth bits | 16 bytes, halves       w = d (q - 16) */
static void q5_0(const uint8_t *b, float *y)
{
    const float d = half_at(b);
    const uint32_t high = zn_load32(b + 2);
    for (int j = 0; j < 32; j++)
        y[j] = d * (float)(five_bits(b + 6, high, j) - 16);
}

/* d | m | 32 fifth bits | 16 bytes, halves   w = d q + m */
static void q5_1(const uint8_t *b, float *y)
{
    const float d = half_at(b), m = half_at(b + 2);
    const uint32_t high = zn_load32(b + 4);
    for (int j = 0; j < 32; j++)
        y[j] = d * (float)five_bits(b + 8, high, j) + m;
}

/* d | 32 signed bytes                        w = d q */
static void q8_0(const uint8_t *b, float *y)
{
    const float d = half_at(b);
    for (int j = 0; j < 32; j++)
        y[j] = d * (float)(int8_t)b[2 + j];
}

/* The K types: 256 elements in sub-blocks. Each sub-block has a small integer scale, which is multiplied by d (and m).
 *
 * 16 scales and minima of four bits | 64 bytes | d | m          w = d scale q - m minimum
 * Bytes 32h to 32h+31 hold elements 128h + 32k + l in bits 2k and 2k+1. */
static void q2_k(const uint8_t *b, float *y)
{
    const uint8_t *q = b + 16;
    const float d = half_at(b + 80), m = half_at(b + 82);
    for (int s = 0; s < 16; s++) {
        const float scale = d * (float)(b[s] & 15), low = m * (float)(b[s] >> 4);
        const uint8_t *from = q + 32 * (s / 8) + 16 * (s % 2);
        for (int l = 0; l < 16; l++)
            *y++ = scale * (float)(from[l] >> 2 * (s / 2 % 4) & 3) - low;
    }
}

/* 32 bytes of third bits | 64 bytes as in Q2_K | 16 scales of six bits in 12 bytes | d      w = d (scale - 32) q
 * q is 0 to 3, minus 4 if the third bit (bit 4h + k of byte l) is not set. */
static void q3_k(const uint8_t *b, float *y)
{
    const uint8_t *packed = b + 96;
    const float d = half_at(b + 108);
    for (int s = 0; s < 16; s++) {
        const int low = s < 8 ? packed[s] & 15 : packed[s - 8] >> 4, high = packed[8 + s % 4] >> 2 * (s / 4) & 3;
        const float scale = d * (float)((low | high << 4) - 32);
        const uint8_t *from = b + 32 + 32 * (s / 8) + 16 * (s % 2), *third = b + 16 * (s % 2);
        for (int l = 0; l < 16; l++)
            *y++ = scale * (float)((from[l] >> 2 * (s / 2 % 4) & 3) - (third[l] >> s / 2 & 1 ? 0 : 4));
    }
}

/* Scale and minimum of sub-block j of eight: six bits each, packed in 12 bytes. */
static void six_bits(const uint8_t *b, int j, int *scale, int *minimum)
{
    *scale = j < 4 ? b[j] & 63 : (b[j + 4] & 15) | b[j - 4] >> 6 << 4;
    *minimum = j < 4 ? b[j + 4] & 63 : b[j + 4] >> 4 | b[j] >> 6 << 4;
}

/* d | m | 12 bytes of scales and minima | [Q5_K: 32 bytes of fifth bits, bit j for sub-block j] | 128 bytes
 * w = d scale q - m minimum. Bytes 32k to 32k+31 hold sub-block 2k in their low four bits, 2k+1 in their high four
 * bits. */
static void q4_or_q5_k(const uint8_t *b, const uint8_t *fifth, const uint8_t *q, float *y)
{
    const float d = half_at(b), m = half_at(b + 2);
    for (int j = 0; j < 8; j++) {
        int scale, minimum;
        six_bits(b + 4, j, &scale, &minimum);
        const float step = d * (float)scale, low = m * (float)minimum;
        const uint8_t *from = q + 32 * (j / 2);
        for (int l = 0; l < 32; l++) {
            const int high = fifth ? (fifth[l] >> j & 1) << 4 : 0;
            *y++ = step * (float)((from[l] >> 4 * (j % 2) & 15) | high) - low;
        }
    }
}

static void q4_k(const uint8_t *b, float *y) { q4_or_q5_k(b, NULL, b + 16, y); }
static void q5_k(const uint8_t *b, float *y) { q4_or_q5_k(b, b + 16, b + 48, y); }

/* 128 bytes of low four bits | 64 bytes of high two | 16 signed scales | d                  w = d scale (q - 32)
 * Element 128h + 32k + l: four bits of byte 64h + 32(k%2) + l, low ones for k < 2; bits 2k and 2k+1 of byte 32h + l. */
static void q6_k(const uint8_t *b, float *y)
{
    const float d = half_at(b + 208);
    for (int s = 0; s < 16; s++) {
        const int h = s / 8, k = s / 2 % 4, l0 = 16 * (s % 2);
        const uint8_t *low = b + 64 * h + 32 * (k % 2) + l0, *high = b + 128 + 32 * h + l0;
        const float scale = d * (float)(int8_t)b[192 + s];
        for (int l = 0; l < 16; l++)
            *y++ = scale * (float)(((low[l] >> 4 * (k / 2) & 15) | (high[l] >> 2 * k & 3) << 4) - 32);
    }
}

void zn_blocks_to_f32(float *out, const void *blocks, zn_dtype dtype, size_t count)
{
    static void (*const kinds[ZN_DTYPE_COUNT])(const uint8_t *, float *) = {
        [ZN_Q4_0] = q4_0, [ZN_Q4_1] = q4_1, [ZN_Q5_0] = q5_0, [ZN_Q5_1] = q5_1, [ZN_Q8_0] = q8_0,
        [ZN_Q2_K] = q2_k, [ZN_Q3_K] = q3_k, [ZN_Q4_K] = q4_k, [ZN_Q5_K] = q5_k, [ZN_Q6_K] = q6_k,
    };
    if (zn_dtype_size(dtype) == 0 || !kinds[dtype])
        return;
    const size_t size = zn_dtype_size(dtype), block = zn_dtype_block(dtype);
    for (size_t i = 0; i < count / block; i++)
        kinds[dtype]((const uint8_t *)blocks + i * size, out + i * block);
}
