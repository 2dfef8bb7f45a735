/* Converts number formats with integer operations and one float addition. There are no branches, so compilers vectorise
 * the loops on every machine. Adding a power of two makes the FPU normalise (or round to) the subnormals of the small
 * format without using a subnormal float32. */
#include "base/convert.h"

#include "base/fail.h"
#include "base/quant.h"
#include "base/span.h"

#include <string.h>

static const struct {
    const char *name;
    unsigned char size, is_float;
    unsigned short block; /* elements */
} dtypes[ZN_DTYPE_COUNT] = {
    [ZN_F64] = { "F64", 8, 1, 1 },         [ZN_F32] = { "F32", 4, 1, 1 },       [ZN_F16] = { "F16", 2, 1, 1 },
    [ZN_BF16] = { "BF16", 2, 1, 1 },       [ZN_I64] = { "I64", 8, 0, 1 },       [ZN_I32] = { "I32", 4, 0, 1 },
    [ZN_I16] = { "I16", 2, 0, 1 },         [ZN_I8] = { "I8", 1, 0, 1 },         [ZN_U64] = { "U64", 8, 0, 1 },
    [ZN_U32] = { "U32", 4, 0, 1 },         [ZN_U16] = { "U16", 2, 0, 1 },       [ZN_U8] = { "U8", 1, 0, 1 },
    [ZN_F8_E4M3] = { "F8_E4M3", 1, 1, 1 }, [ZN_BOOL] = { "BOOL", 1, 0, 1 },     [ZN_F8_E5M2] = { "F8_E5M2", 1, 1, 1 },
    [ZN_Q4_0] = { "Q4_0", 18, 0, 32 },     [ZN_Q4_1] = { "Q4_1", 20, 0, 32 },   [ZN_Q5_0] = { "Q5_0", 22, 0, 32 },
    [ZN_Q5_1] = { "Q5_1", 24, 0, 32 },     [ZN_Q8_0] = { "Q8_0", 34, 0, 32 },   [ZN_Q2_K] = { "Q2_K", 84, 0, 256 },
    [ZN_Q3_K] = { "Q3_K", 110, 0, 256 },   [ZN_Q4_K] = { "Q4_K", 144, 0, 256 }, [ZN_Q5_K] = { "Q5_K", 176, 0, 256 },
    [ZN_Q6_K] = { "Q6_K", 210, 0, 256 },
};

static int known(zn_dtype dtype) { return (int)dtype >= 0 && dtype < ZN_DTYPE_COUNT; }

const char *zn_dtype_name(zn_dtype dtype) { return known(dtype) ? dtypes[dtype].name : "unknown"; }
size_t zn_dtype_size(zn_dtype dtype) { return known(dtype) ? dtypes[dtype].size : 0; }
bool zn_dtype_is_float(zn_dtype dtype) { return known(dtype) && dtypes[dtype].is_float; }

size_t zn_dtype_block(zn_dtype dtype) { return known(dtype) ? dtypes[dtype].block : 1; }

bool zn_dtype_bytes(zn_dtype dtype, size_t count, size_t *bytes)
{
    const size_t block = zn_dtype_block(dtype);
    return known(dtype) && count % block == 0 && zn_mul_size(count / block, dtypes[dtype].size, bytes);
}

bool zn_dtype_parse(const char *name, size_t length, zn_dtype *dtype)
{
    for (int i = 0; i < ZN_DTYPE_COUNT; i++)
        if (dtypes[i].block == 1 && strlen(dtypes[i].name) == length && memcmp(dtypes[i].name, name, length) == 0) {
            *dtype = (zn_dtype)i;
            return true;
        }
    return false;
}

static inline uint32_t bits_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

/* condition ? yes : no, without a branch. */
static inline uint32_t choose(int condition, uint32_t yes, uint32_t no)
{
    const uint32_t mask = 0u - (uint32_t)condition;
    return (yes & mask) | (no & ~mask);
}

static inline float float_of(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

/* Widens a float with 1 sign bit, `exponent` and `mantissa` bits, bias 2^(exponent-1)-1 and IEEE infinities. */
static inline uint32_t widen(uint32_t v, int exponent, int mantissa)
{
    const int shift = 23 - mantissa;
    const uint32_t bias = (1u << (exponent - 1)) - 1, top = ((1u << exponent) - 1) << 23;
    const uint32_t sign = (v >> (exponent + mantissa)) << 31;
    const uint32_t magnitude = (v & ((1u << (exponent + mantissa)) - 1)) << shift;
    const uint32_t field = magnitude & top, rebias = (127 - bias) << 23, smallest = rebias + (1u << 23);
    const uint32_t normal = magnitude + rebias;
    const uint32_t special = magnitude | 0x7f800000u;
    const uint32_t subnormal = bits_of(float_of(magnitude + smallest) - float_of(smallest));
    return sign | choose(field == top, special, choose(field == 0, subnormal, normal));
}

/* The same for a format without infinities (E4M3FN): only all ones is NaN. */
static inline uint32_t widen_e4m3(uint32_t v)
{
    const uint32_t sign = (v >> 7) << 31, magnitude = (v & 0x7f) << 20, smallest = 121u << 23;
    const uint32_t normal = magnitude + (120u << 23);
    const uint32_t subnormal = bits_of(float_of(magnitude + smallest) - float_of(smallest));
    return sign | choose((v & 0x7f) == 0x7f, 0x7fc00000u, choose((v & 0x78) == 0, subnormal, normal));
}

/* Magnitude bits of |f| rounded to the small format. At and above `limit` (float32 bits) the result is `infinity`. */
static inline uint32_t narrow(uint32_t f, int exponent, int mantissa, uint32_t limit, uint32_t infinity, uint32_t nan)
{
    const int shift = 23 - mantissa;
    const uint32_t bias = (1u << (exponent - 1)) - 1, sign = (f >> 31) << (exponent + mantissa);
    const uint32_t magnitude = f & 0x7fffffffu, smallest = (127 - bias + 1) << 23;
    const uint32_t magic = (127 - bias + (uint32_t)shift + 1)
                           << 23; /* its last bit has the weight of the format's last bit */
    const uint32_t subnormal = bits_of(float_of(magnitude) + float_of(magic)) - magic;
    const uint32_t odd = (magnitude >> shift) & 1;
    const uint32_t normal = (magnitude - ((127 - bias) << 23) + (1u << (shift - 1)) - 1 + odd) >> shift;
    const uint32_t finite = choose(magnitude < smallest, subnormal, normal);
    return sign | choose(magnitude > 0x7f800000u, nan, choose(magnitude >= limit, infinity, finite));
}

static inline uint32_t narrow_f16(uint32_t f) { return narrow(f, 5, 10, 143u << 23, 0x7c00, 0x7e00); }
static inline uint32_t narrow_e5m2(uint32_t f) { return narrow(f, 5, 2, 143u << 23, 0x7c, 0x7f); }
static inline uint32_t narrow_e4m3(uint32_t f) { return narrow(f, 4, 3, 0x43e80001u, 0x7f, 0x7f); } /* above 464 */

static inline uint32_t saturate_e4m3(uint32_t f) { return narrow(f, 4, 3, 0x43e80001u, 0x7e, 0x7f); }

static inline uint32_t narrow_bf16(uint32_t f)
{
    const uint32_t rounded = (f + 0x7fff + ((f >> 16) & 1)) >> 16;
    return choose((f & 0x7fffffffu) > 0x7f800000u, (f >> 16) | 0x40, rounded);
}

float zn_f16_to_f32(uint16_t half) { return float_of(widen(half, 5, 10)); }
uint16_t zn_f32_to_f16(float value) { return (uint16_t)narrow_f16(bits_of(value)); }
float zn_bf16_to_f32(uint16_t half) { return float_of((uint32_t)half << 16); }
uint16_t zn_f32_to_bf16(float value) { return (uint16_t)narrow_bf16(bits_of(value)); }

/* The input may be unaligned, so each element is read with memcpy. Compilers merge these into vector loads. */
#define TO_F32(label, type, expression)                                                                                \
    case label:                                                                                                        \
        for (size_t i = 0; i < count; i++) {                                                                           \
            type v;                                                                                                    \
            memcpy(&v, (const char *)in + i * sizeof v, sizeof v);                                                     \
            out[i] = (expression);                                                                                     \
        }                                                                                                              \
        break

void zn_to_f32(float *out, const void *in, zn_dtype from, size_t count)
{
    switch (from) {
        TO_F32(ZN_F64, double, (float)v);
        TO_F32(ZN_F16, uint16_t, float_of(widen(v, 5, 10)));
        TO_F32(ZN_BF16, uint16_t, float_of((uint32_t)v << 16));
        TO_F32(ZN_F8_E4M3, uint8_t, float_of(widen_e4m3(v)));
        TO_F32(ZN_F8_E5M2, uint8_t, float_of(widen(v, 5, 2)));
        TO_F32(ZN_I64, int64_t, (float)v);
        TO_F32(ZN_I32, int32_t, (float)v);
        TO_F32(ZN_I16, int16_t, (float)v);
        TO_F32(ZN_I8, int8_t, (float)v);
        TO_F32(ZN_U64, uint64_t, (float)v);
        TO_F32(ZN_U32, uint32_t, (float)v);
        TO_F32(ZN_U16, uint16_t, (float)v);
        TO_F32(ZN_U8, uint8_t, (float)v);
        TO_F32(ZN_BOOL, uint8_t, v ? 1.0f : 0.0f);
    case ZN_F32:
        memcpy(out, in, count * sizeof *out);
        break;
    default:
        zn_blocks_to_f32(out, in, from, count);
        break;
    }
}

#define FROM_F32(label, type, expression)                                                                              \
    case label:                                                                                                        \
        for (size_t i = 0; i < count; i++) {                                                                           \
            const uint32_t f = bits_of(in[i]);                                                                         \
            const type v = (type)(expression);                                                                         \
            memcpy((char *)out + i * sizeof v, &v, sizeof v);                                                          \
        }                                                                                                              \
        break

void zn_from_f32(void *restrict out, zn_dtype to, const float *restrict in, size_t count)
{
    switch (to) {
        FROM_F32(ZN_F64, double, float_of(f));
        FROM_F32(ZN_F16, uint16_t, narrow_f16(f));
        FROM_F32(ZN_BF16, uint16_t, narrow_bf16(f));
        FROM_F32(ZN_F8_E4M3, uint8_t, narrow_e4m3(f));
        FROM_F32(ZN_F8_E5M2, uint8_t, narrow_e5m2(f));
    case ZN_F32:
        memcpy(out, in, count * sizeof *in);
        break;
    default:
        break;
    }
}

void zn_to_e4m3(uint8_t *restrict out, const float *restrict in, float scale, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = (uint8_t)saturate_e4m3(bits_of(in[i] / scale));
}

zn_status zn_e4m3_scale(const float *in, size_t count, float *scale)
{
    uint32_t largest = 0; /* magnitudes sort like their bits; infinity and NaN are largest */
    for (size_t i = 0; i < count; i++) {
        const uint32_t magnitude = bits_of(in[i]) & 0x7fffffffu;
        largest = magnitude > largest ? magnitude : largest;
    }
    if (largest >= 0x7f800000u)
        return ZN_FAIL(ZN_ENUMERIC, "values that are not finite have no scale");
    *scale = largest ? float_of(largest) / 448 : 1;
    return ZN_OK;
}
