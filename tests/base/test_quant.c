/* Quantised blocks against their definitions written the slow way, element by element, on random bytes. */
#include "base/convert.h"
#include "base/mlx.h"
#include "base/quant.h"
#include "base/rng.h"
#include "base/span.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>

static double half(const uint8_t *p) { return zn_f16_to_f32(zn_load16(p)); }
static int bits(const uint8_t *p, int at, int count) { return p[at / 8] >> at % 8 & ((1 << count) - 1); }
static int nibble(const uint8_t *p, int e, int half_block)
{
    return bits(p, 8 * (e % half_block) + e / half_block * 4, 4);
}

/* Element e of a block of the kinds with 32. */
static double small_value(zn_dtype dtype, const uint8_t *b, int e)
{
    const double d = half(b);
    switch (dtype) {
    case ZN_Q4_0:
        return d * (nibble(b + 2, e, 16) - 8);
    case ZN_Q4_1:
        return d * nibble(b + 4, e, 16) + half(b + 2);
    case ZN_Q5_0:
        return d * (nibble(b + 6, e, 16) + 16 * bits(b + 2, e, 1) - 16);
    case ZN_Q5_1:
        return d * (nibble(b + 8, e, 16) + 16 * bits(b + 4, e, 1)) + half(b + 2);
    default:
        return d * (b[2 + e] < 128 ? b[2 + e] : b[2 + e] - 256);
    }
}

/* Twelve bytes: eight scales, eight minima; the upper two bits of the last four lie on top of the first four. */
static int scale_of(const uint8_t *p, int j)
{
    return j < 4 ? bits(p + j, 0, 6) : bits(p + j + 4, 0, 4) + 16 * bits(p + j - 4, 6, 2);
}
static int minimum_of(const uint8_t *p, int j)
{
    return j < 4 ? bits(p + j + 4, 0, 6) : bits(p + j + 4, 4, 4) + 16 * bits(p + j, 6, 2);
}

static double large_value(zn_dtype dtype, const uint8_t *b, int e)
{
    const int h = e / 128, k = e % 128 / 32, l = e % 32, sixteenth = e / 16, eighth = e / 32;
    if (dtype == ZN_Q2_K)
        return half(b + 80) * bits(b + sixteenth, 0, 4) * bits(b + 16 + 32 * h + l, 2 * k, 2) -
               half(b + 82) * bits(b + sixteenth, 4, 4);
    if (dtype == ZN_Q3_K) {
        const int low = bits(b + 96 + sixteenth % 8, sixteenth / 8 * 4, 4);
        const int high = bits(b + 104 + sixteenth % 4, sixteenth / 4 * 2, 2);
        const int q = bits(b + 32 + 32 * h + l, 2 * k, 2) + 4 * bits(b + l, 4 * h + k, 1) - 4;
        return half(b + 108) * (low + 16 * high - 32) * q;
    }
    if (dtype == ZN_Q6_K) {
        const int low = bits(b + 64 * h + 32 * (k % 2) + l, k / 2 * 4, 4), high = bits(b + 128 + 32 * h + l, 2 * k, 2);
        return half(b + 208) * (int8_t)b[192 + sixteenth] * (low + 16 * high - 32);
    }
    const int five = dtype == ZN_Q5_K;
    const int q =
        nibble(b + (five ? 48 : 16) + 32 * (eighth / 2), e % 64, 32) + (five ? 16 * bits(b + 16 + l, eighth, 1) : 0);
    return half(b) * scale_of(b + 4, eighth) * q - half(b + 2) * minimum_of(b + 4, eighth);
}

/* Scales become ordinary numbers: random bits would be NaN now and then. */
static void fill(zn_rng *r, zn_dtype dtype, uint8_t *block)
{
    const size_t size = zn_dtype_size(dtype), d = dtype == ZN_Q2_K   ? 80
                                                  : dtype == ZN_Q3_K ? 108
                                                  : dtype == ZN_Q6_K ? 208
                                                                     : 0;
    for (size_t i = 0; i < size; i++)
        block[i] = (uint8_t)(zn_rng_next(r) >> 56);
    for (size_t i = d; i < d + 4 && i + 1 < size; i += 2) {
        const uint16_t scale = zn_f32_to_f16(zn_rng_normal(r));
        memcpy(block + i, &scale, 2);
    }
}

static void every_kind(void **state)
{
    (void)state;
    enum { BLOCKS = 50 };
    static uint8_t blocks[BLOCKS * 210 + 1];
    static float out[BLOCKS * 256];
    zn_rng r = zn_rng_new(5);
    for (zn_dtype dtype = ZN_Q4_0; dtype < ZN_DTYPE_COUNT; dtype++) {
        const int size = (int)zn_dtype_size(dtype), count = (int)zn_dtype_block(dtype);
        assert_true(count == 32 || count == 256);
        for (int i = 0; i < BLOCKS; i++)
            fill(&r, dtype, blocks + 1 + i * size);
        zn_to_f32(out, blocks + 1, dtype, (size_t)BLOCKS * (size_t)count);
        for (int i = 0; i < BLOCKS * count; i++) {
            const uint8_t *b = blocks + 1 + i / count * size;
            const double want = count == 32 ? small_value(dtype, b, i % count) : large_value(dtype, b, i % count);
            if (!(fabs((double)out[i] - want) <= 1e-6 * fmax(fabs(want), 64 * 64)))
                fail_msg("%s element %d: %.9g is not %.9g", zn_dtype_name(dtype), i, (double)out[i], want);
        }
    }
}

static void sizes(void **state)
{
    (void)state;
    size_t size;
    assert_true(zn_dtype_bytes(ZN_Q4_K, 512, &size) && size == 288);
    assert_true(zn_dtype_bytes(ZN_Q8_0, 0, &size) && size == 0);
    assert_true(zn_dtype_bytes(ZN_F32, 3, &size) && size == 12);
    assert_false(zn_dtype_bytes(ZN_Q4_K, 32, &size));
    assert_false(zn_dtype_bytes(ZN_F64, SIZE_MAX / 4, &size));
    assert_false(zn_dtype_bytes(ZN_DTYPE_COUNT, 1, &size));
    float untouched = 7;
    zn_blocks_to_f32(&untouched, "", ZN_F32, 1);
    zn_to_f32(&untouched, "", ZN_DTYPE_COUNT, 1);
    assert_true(untouched == 7);
}

/* Codes of every width, packed and read back; and groups whose every element comes back within half a step. */
static void affine_groups(void **state)
{
    (void)state;
    enum { COUNT = 256 };
    static const int widths[] = { 2, 3, 4, 5, 6, 8 };
    zn_rng r = zn_rng_new(6);
    for (int i = 0; i < 6; i++) {
        const zn_mlx_form form = { widths[i], 64 };
        const float ones[] = { 1, 1, 1, 1 }, zeros[4] = { 0 };
        uint8_t codes[COUNT], packed[COUNT];
        float in[COUNT], out[COUNT], scales[4], biases[4];
        assert_true(zn_mlx_form_known(form));
        for (int k = 0; k < COUNT; k++) {
            codes[k] = (uint8_t)(zn_rng_next(&r) >> (64 - widths[i]));
            in[k] = zn_rng_normal(&r) + (k < 64 ? 5.0f : -1.0f);
        }
        zn_mlx_pack(packed, codes, COUNT, widths[i]);
        zn_mlx_to_f32(out, packed, ones, zeros, COUNT, &form);
        for (int k = 0; k < COUNT; k++)
            assert_true(out[k] == (float)codes[k]);
        zn_mlx_from_f32(packed, scales, biases, in, COUNT, &form, ZN_F32);
        zn_mlx_to_f32(out, packed, scales, biases, COUNT, &form);
        for (int k = 0; k < COUNT; k++)
            assert_true(fabsf(out[k] - in[k]) <= 1.01f * fabsf(scales[k / 64])); /* the far end may be cut */
    }
    assert_false(zn_mlx_form_known((zn_mlx_form){ 7, 64 }) || zn_mlx_form_known((zn_mlx_form){ 4, 48 }));
    const float flat[32] = { 0 };
    float out[32], scale, bias;
    uint8_t packed[16];
    zn_mlx_from_f32(packed, &scale, &bias, flat, 32, &(zn_mlx_form){ 4, 32 }, ZN_F16);
    zn_mlx_to_f32(out, packed, &scale, &bias, 32, &(zn_mlx_form){ 4, 32 });
    for (int k = 0; k < 32; k++)
        assert_true(out[k] == 0);
}

/* Relative error of encoded random numbers, at most what ggml's reference reaches plus 1 %; and blocks that are all
 * zero, of one sign, or of one value. */
static void encoded(void **state)
{
    (void)state;
    static const struct {
        zn_dtype dtype;
        double most;
    } kinds[] = {
        { ZN_Q8_0, 0.0054 }, { ZN_Q4_0, 0.0868 }, { ZN_Q6_K, 0.018 }, { ZN_Q5_K, 0.0363 }, { ZN_Q4_K, 0.0717 }
    };
    enum { COUNT = 1 << 16 };
    static float x[COUNT], y[COUNT];
    static uint8_t blocks[2 * COUNT];
    zn_rng r = zn_rng_new(8);
    for (int i = 0; i < COUNT; i++)
        x[i] = 0.02f * zn_rng_normal(&r);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        double error = 0, power = 0;
        assert_true(zn_blocks_can_write(kinds[k].dtype));
        zn_blocks_from_f32(blocks, kinds[k].dtype, x, COUNT);
        zn_to_f32(y, blocks, kinds[k].dtype, COUNT);
        for (int i = 0; i < COUNT; i++) {
            error += pow((double)(x[i] - y[i]), 2);
            power += pow((double)x[i], 2);
        }
        const double relative = sqrt(error / power);
        print_message("%s: %.5f\n", zn_dtype_name(kinds[k].dtype), relative);
        assert_true(relative <= kinds[k].most);
        for (int pattern = 0; pattern < 4; pattern++) {
            float edge[256];
            for (int i = 0; i < 256; i++)
                edge[i] = pattern == 0 ? 0 : pattern == 1 ? 3 : pattern == 2 ? fabsf(x[i]) : -fabsf(x[i]);
            zn_blocks_from_f32(blocks, kinds[k].dtype, edge, 256);
            zn_to_f32(y, blocks, kinds[k].dtype, 256);
            for (int i = 0; i < 256; i++)
                assert_true(fabsf(y[i] - edge[i]) <= (pattern == 0 ? 0 : pattern == 1 ? 0.02f : 0.01f));
        }
    }
    assert_false(zn_blocks_can_write(ZN_Q2_K) || zn_blocks_can_write(ZN_F32));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(encoded), cmocka_unit_test(every_kind),
                                        cmocka_unit_test(sizes), cmocka_unit_test(affine_groups) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
