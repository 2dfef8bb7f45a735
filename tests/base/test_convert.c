/* Number formats against definitions written the slow way: every 8- and 16-bit pattern, and float32 values around every
 * rounding boundary. */
#include "base/convert.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct format {
    zn_dtype dtype;
    int exponent, mantissa, has_infinity;
} format;

static const format formats[] = {
    { ZN_F16, 5, 10, 1 }, { ZN_BF16, 8, 7, 1 }, { ZN_F8_E4M3, 4, 3, 0 }, { ZN_F8_E5M2, 5, 2, 1 }
};

/* The value of a bit pattern by the definition of the format. */
static double value_of(const format *f, uint32_t bits)
{
    const int bias = (1 << (f->exponent - 1)) - 1, top = (1 << f->exponent) - 1;
    const int e = (int)(bits >> f->mantissa) & top;
    const uint32_t m = bits & ((1u << f->mantissa) - 1);
    const double sign = bits >> (f->exponent + f->mantissa) & 1 ? -1 : 1;
    if (f->has_infinity && e == top)
        return m ? NAN : sign * INFINITY;
    if (!f->has_infinity && e == top && m == (1u << f->mantissa) - 1)
        return NAN;
    return sign * (e ? ldexp(1 + ldexp(m, -f->mantissa), e - bias) : ldexp(m, 1 - bias - f->mantissa));
}

static uint32_t narrowed(const format *f, float value)
{
    uint16_t wide = 0;
    uint8_t byte = 0;
    if (zn_dtype_size(f->dtype) == 1) {
        zn_from_f32(&byte, f->dtype, &value, 1);
        return byte;
    }
    zn_from_f32(&wide, f->dtype, &value, 1);
    return wide;
}

static float widened(const format *f, uint32_t bits)
{
    const uint16_t wide = (uint16_t)bits;
    const uint8_t byte = (uint8_t)bits;
    float value;
    zn_to_f32(&value, zn_dtype_size(f->dtype) == 1 ? (const void *)&byte : &wide, f->dtype, 1);
    return value;
}

static void assert_same(double a, double b)
{
    if (isnan(a) ? !isnan(b) : (a != b || signbit(a) != signbit(b)))
        fail_msg("%.17g is not %.17g", a, b);
}

static void every_pattern_widens_and_returns(void **state)
{
    (void)state;
    for (int k = 0; k < 4; k++) {
        const format *f = &formats[k];
        for (uint32_t bits = 0; bits < 1u << (1 + f->exponent + f->mantissa); bits++) {
            const float value = widened(f, bits);
            assert_same(value_of(f, bits), value);
            if (isnan(value))
                assert_true(isnan(value_of(f, narrowed(f, value))));
            else
                assert_int_equal(narrowed(f, value), bits);
        }
    }
}

/* Between two neighbours: below the middle the lower one, above it the upper one, in the middle the even one. */
static void rounding_is_to_nearest_even(void **state)
{
    (void)state;
    for (int k = 0; k < 4; k++) {
        const format *f = &formats[k];
        for (uint32_t bits = 0; bits + 1 < 1u << (f->exponent + f->mantissa); bits++) {
            const double low = value_of(f, bits), high = value_of(f, bits + 1);
            if (!isfinite(low) || !isfinite(high))
                continue;
            const float middle = (float)((low + high) / 2);
            const uint32_t even = bits & 1 ? bits + 1 : bits, sign = 1u << (f->exponent + f->mantissa);
            assert_int_equal(narrowed(f, middle), even);
            assert_int_equal(narrowed(f, nextafterf(middle, -INFINITY)), bits);
            assert_int_equal(narrowed(f, nextafterf(middle, INFINITY)), bits + 1);
            assert_int_equal(narrowed(f, -nextafterf(middle, INFINITY)), (bits + 1) | sign);
        }
    }
}

static void beyond_the_largest(void **state)
{
    (void)state;
    const struct {
        format f;
        float largest, tie; /* the tie rounds up to what would be even: out of range, except in E4M3 */
        uint32_t largest_bits, over_bits;
    } cases[] = { { formats[0], 65504, 65520, 0x7bff, 0x7c00 },
                  { formats[2], 448, 464, 0x7e, 0x7f },
                  { formats[3], 57344, 61440, 0x7b, 0x7c } };
    for (int k = 0; k < 3; k++) {
        const float tie = cases[k].tie;
        assert_int_equal(narrowed(&cases[k].f, nextafterf(tie, 0)), cases[k].largest_bits);
        assert_int_equal(narrowed(&cases[k].f, tie),
                         cases[k].f.has_infinity ? cases[k].over_bits : cases[k].largest_bits);
        assert_int_equal(narrowed(&cases[k].f, nextafterf(tie, INFINITY)), cases[k].over_bits);
        assert_int_equal(narrowed(&cases[k].f, 3e38f), cases[k].over_bits);
        assert_int_equal(narrowed(&cases[k].f, INFINITY), cases[k].over_bits);
        assert_true(isnan(value_of(&cases[k].f, narrowed(&cases[k].f, NAN))));
        assert_true(isnan(value_of(&cases[k].f, narrowed(&cases[k].f, -NAN))));
    }
    assert_int_equal(zn_f32_to_bf16(3.4e38f), 0x7f80);
    assert_int_equal(zn_f32_to_bf16(-INFINITY), 0xff80);
    uint32_t signalling = 0x7f800001;
    float nan;
    memcpy(&nan, &signalling, 4);
    assert_true(isnan(zn_bf16_to_f32(zn_f32_to_bf16(nan)))); /* the payload's top bits are all zero */
    assert_true(isnan(zn_f16_to_f32(zn_f32_to_f16(nan))));
}

static void smaller_than_the_smallest(void **state)
{
    (void)state;
    for (int k = 0; k < 4; k++) {
        const double least = value_of(&formats[k], 1);
        assert_int_equal(narrowed(&formats[k], (float)(least / 2)), 0);
        assert_int_equal(narrowed(&formats[k], (float)(least * 0.51)), 1);
        assert_int_equal(narrowed(&formats[k], (float)(least * 0.49)), 0);
    }
    assert_int_equal(zn_f32_to_f16(1e-45f), 0);
    assert_int_equal(zn_f32_to_f16(-0.0f), 0x8000);
}

static void scaled_codes_saturate(void **state)
{
    (void)state;
    const float in[] = { 0, -0.0f, 896, 928, 1e30f, -INFINITY, 3, NAN };
    uint8_t codes[8];
    float scale;
    zn_to_e4m3(codes, in, 2, 8);
    assert_memory_equal(codes, ((uint8_t[]){ 0, 0x80, 0x7e, 0x7e, 0x7e, 0xfe, 0x3c, 0x7f }), 8);
    assert_int_equal(zn_e4m3_scale((float[]){ 1, -896, 3 }, 3, &scale), ZN_OK);
    assert_true(scale == 2);
    assert_int_equal(zn_e4m3_scale((float[]){ 0, -0.0f }, 2, &scale), ZN_OK);
    assert_true(scale == 1);
    assert_int_equal(zn_e4m3_scale((float[]){ 1, NAN }, 2, &scale), ZN_ENUMERIC);
    assert_int_equal(zn_e4m3_scale((float[]){ -INFINITY, 1 }, 2, &scale), ZN_ENUMERIC);
}

#define CHECK_INTEGER(dtype, type, ...)                                                                                \
    do {                                                                                                               \
        const type values[] = { __VA_ARGS__ };                                                                         \
        float out[8];                                                                                                  \
        char shifted[sizeof values + 1];                                                                               \
        memcpy(shifted + 1, values, sizeof values);                                                                    \
        zn_to_f32(out, shifted + 1, dtype, sizeof values / sizeof *values);                                            \
        assert_int_equal(zn_dtype_size(dtype), sizeof(type));                                                          \
        for (size_t i = 0; i < sizeof values / sizeof *values; i++)                                                    \
            assert_true(out[i] == (float)values[i]);                                                                   \
    } while (0)

static void integers_and_doubles(void **state)
{
    (void)state;
    CHECK_INTEGER(ZN_I8, int8_t, 0, -1, 127, -128);
    CHECK_INTEGER(ZN_U8, uint8_t, 0, 1, 127, 255);
    CHECK_INTEGER(ZN_I16, int16_t, 0, -1, 32767, -32768);
    CHECK_INTEGER(ZN_U16, uint16_t, 0, 1, 32768, 65535);
    CHECK_INTEGER(ZN_I32, int32_t, 0, -1, INT32_MAX, INT32_MIN, 16777217);
    CHECK_INTEGER(ZN_U32, uint32_t, 0, 1, UINT32_MAX, 16777217);
    CHECK_INTEGER(ZN_I64, int64_t, 0, -1, INT64_MAX, INT64_MIN);
    CHECK_INTEGER(ZN_U64, uint64_t, 0, 1, UINT64_MAX, 1ull << 63);
    CHECK_INTEGER(ZN_F64, double, 0, -0.1, 1e300, 1e-300, 1.0 + 1e-9);
    CHECK_INTEGER(ZN_F32, float, 0, -0.1f, 1e30f);
    const uint8_t truth[] = { 0, 1, 2, 255 };
    float out[4];
    zn_to_f32(out, truth, ZN_BOOL, 4);
    assert_memory_equal(out, ((float[]){ 0, 1, 1, 1 }), sizeof out);
    double back[2];
    zn_from_f32(back, ZN_F64, (float[]){ 0.1f, -INFINITY }, 2);
    assert_true(back[0] == (double)0.1f && back[1] == -INFINITY);
}

static void names(void **state)
{
    (void)state;
    for (int d = 0; d < ZN_DTYPE_COUNT; d++) {
        zn_dtype parsed;
        const char *name = zn_dtype_name((zn_dtype)d);
        const int plain = zn_dtype_block((zn_dtype)d) == 1;
        assert_int_equal(zn_dtype_parse(name, strlen(name), &parsed), plain); /* .safetensors files hold no blocks */
        if (plain)
            assert_int_equal(parsed, d);
    }
    zn_dtype none;
    assert_false(zn_dtype_parse("F3", 2, &none));
    assert_false(zn_dtype_parse("F321", 4, &none));
    assert_int_equal(zn_dtype_size(ZN_DTYPE_COUNT), 0);
    assert_string_equal(zn_dtype_name((zn_dtype)-1), "unknown");
    assert_true(zn_dtype_is_float(ZN_F8_E5M2) && !zn_dtype_is_float(ZN_I64));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pattern_widens_and_returns),
        cmocka_unit_test(rounding_is_to_nearest_even),
        cmocka_unit_test(beyond_the_largest),
        cmocka_unit_test(smaller_than_the_smallest),
        cmocka_unit_test(scaled_codes_saturate),
        cmocka_unit_test(integers_and_doubles),
        cmocka_unit_test(names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
