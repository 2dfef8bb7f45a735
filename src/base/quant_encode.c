/* Writes the blocks of GGUF files, as ggml's reference does: Q8_0 and Q4_0 byte for byte; the K types with a search of
 * each sub-block's scale and minimum, and then with the scales as they are stored. quant.c has the byte diagrams. */
#include "base/convert.h"
#include "base/quant.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

enum { SUB = 32, SIX_SUB = 16, K_BLOCK = 256, K_SUBS = K_BLOCK / SUB, SIX_SUBS = K_BLOCK / SIX_SUB };
#define NOTHING 1e-15f /* magnitudes below it are zero */

static void put_half(uint8_t *p, float value)
{
    const uint16_t half = zn_f32_to_f16(value);
    memcpy(p, &half, sizeof half);
}

static float stored_half(float value) { return zn_f16_to_f32(zn_f32_to_f16(value)); }

/* To the nearest integer, ties to even, for magnitudes below 2^22. */
static inline float nearest(float x) { return x + 12582912.0f - 12582912.0f; }

static inline float clamp(float x, float low, float high)
{
    x = x > low ? x : low;
    return x < high ? x : high;
}

/* ---- blocks of 32 with one scale ---- */

static void q8_0(const float *x, uint8_t *b)
{
    float most = 0;
    for (int i = 0; i < 32; i++)
        most = fmaxf(most, fabsf(x[i]));
    const float d = most / 127, inverse = d != 0 ? 1 / d : 0;
    put_half(b, d);
    for (int i = 0; i < 32; i++)
        b[2 + i] = (uint8_t)(int8_t)roundf(x[i] * inverse);
}

/* The element of largest magnitude gets the code with the largest range, 0. */
static void q4_0(const float *x, uint8_t *b)
{
    float most = 0, edge = 0;
    for (int i = 0; i < 32; i++)
        if (fabsf(x[i]) > most) {
            most = fabsf(x[i]);
            edge = x[i];
        }
    const float d = edge / -8, inverse = d != 0 ? 1 / d : 0;
    put_half(b, d);
    for (int i = 0; i < 16; i++) {
        const int low = (int)(x[i] * inverse + 8.5f), high = (int)(x[i + 16] * inverse + 8.5f);
        b[2 + i] = (uint8_t)((low < 15 ? low : 15) | (high < 15 ? high : 15) << 4);
    }
}

/* ---- Q4_K and Q5_K: x ~ scale code - minimum, codes from 0 to top ---- */

typedef struct affine {
    float scale, minimum;
} affine;

typedef float lanes __attribute__((vector_size(16)));
typedef int32_t mask __attribute__((vector_size(16)));

static inline lanes load(const float *p)
{
    lanes v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline lanes choose(mask m, lanes a, lanes b) { return (lanes)((m & (mask)a) | (~m & (mask)b)); }

/* nearest and clamp, four at a time */
static inline lanes code_of(lanes x, lanes low, lanes high)
{
    x = x + 12582912.0f - 12582912.0f;
    x = choose(x > low, x, low);
    return choose(x < high, x, high);
}

static double total(lanes v) { return ((double)v[0] + (double)v[1]) + ((double)v[2] + (double)v[3]); }

/* 32 elements with their weights: large elements count more. */
typedef struct weighted {
    const float *x;
    float w[SUB], high;
    double sum, x_sum, xx_sum; /* of w, w x and w x x */
} weighted;

/* The best scale and minimum for the codes that a step size above `low` gives, by least squares, and their error.
 * False: there is none. */
static bool fit_codes(const weighted *e, float low, float inverse, float top, affine *out, double *error)
{
    const lanes zero = { 0 }, most = zero + top;
    lanes sum_l = zero, sum_ll = zero, sum_xl = zero;
    for (int i = 0; i < SUB; i += 4) {
        const lanes x = load(e->x + i), code = code_of((x - low) * inverse, zero, most), wl = load(e->w + i) * code;
        sum_l += wl;
        sum_ll += wl * code;
        sum_xl += wl * x;
    }
    const double l = total(sum_l), ll = total(sum_ll), xl = total(sum_xl), d = e->sum * ll - l * l;
    if (!(d > 0))
        return false;
    double scale = (e->sum * xl - e->x_sum * l) / d, minimum = -(ll * e->x_sum - l * xl) / d;
    if (minimum < 0) {
        scale = xl / ll;
        minimum = 0;
    }
    *error = e->xx_sum + scale * (scale * ll - 2 * xl - 2 * minimum * l) + minimum * (minimum * e->sum + 2 * e->x_sum);
    *out = (affine){ (float)scale, (float)minimum };
    return true;
}

static weighted weigh(const float *x, float *low)
{
    weighted e = { .x = x, .high = x[0] };
    float square = 0;
    *low = fminf(x[0], 0);
    for (int i = 0; i < SUB; i++)
        square += x[i] * x[i];
    const float spread = sqrtf(square / SUB);
    for (int i = 0; i < SUB; i++) {
        e.w[i] = spread + fabsf(x[i]);
        e.sum += (double)e.w[i];
        e.x_sum += (double)(e.w[i] * x[i]);
        e.xx_sum += (double)(e.w[i] * x[i] * x[i]);
        *low = fminf(*low, x[i]);
        e.high = fmaxf(e.high, x[i]);
    }
    return e;
}

/* Tries step sizes around the one that spans the range, which begins at the best minimum so far. */
static affine fit_affine(const float *x, float top, float first, int steps)
{
    float low;
    const weighted e = weigh(x, &low);
    affine best = { (e.high - low) / top, -low }, a;
    double least = INFINITY, error;
    if (!(e.high > low))
        return (affine){ 0, -low };
    for (int i = 0; i <= steps; i++) {
        const float inverse = (first + 0.1f * (float)i + top) / (e.high - low);
        if (!fit_codes(&e, low, inverse, top, &a, &error) || error >= least)
            continue;
        least = error;
        best = a;
        low = -a.minimum;
    }
    return best;
}

/* Six bits each, as six_bits in quant.c reads them. */
static void put_six_bits(uint8_t *b, int j, int scale, int minimum)
{
    if (j < 4) {
        b[j] = (uint8_t)scale;
        b[j + 4] = (uint8_t)minimum;
    } else {
        b[j + 4] = (uint8_t)((scale & 15) | (minimum & 15) << 4);
        b[j - 4] |= (uint8_t)(scale >> 4 << 6);
        b[j] |= (uint8_t)(minimum >> 4 << 6);
    }
}

static int six(float value, float most) { return most > 0 ? (int)clamp(nearest(value * (63 / most)), 0, 63) : 0; }

/* Header of 16 bytes and codes of all elements. */
static void encode_affine(const float *x, int top, float first, int steps, uint8_t *b, uint8_t codes[K_BLOCK])
{
    affine fits[K_SUBS];
    float most_scale = 0, most_minimum = 0;
    for (int j = 0; j < K_SUBS; j++) {
        fits[j] = fit_affine(x + SUB * j, (float)top, first, steps);
        most_scale = fmaxf(most_scale, fits[j].scale);
        most_minimum = fmaxf(most_minimum, fits[j].minimum);
    }
    put_half(b, most_scale / 63);
    put_half(b + 2, most_minimum / 63);
    const float d = stored_half(most_scale / 63), m = stored_half(most_minimum / 63);
    for (int j = 0; j < K_SUBS; j++) {
        const int scale = six(fits[j].scale, most_scale), minimum = six(fits[j].minimum, most_minimum);
        const float step = d * (float)scale, low = m * (float)minimum;
        put_six_bits(b + 4, j, scale, minimum);
        for (int i = SUB * j; i < SUB * (j + 1); i++)
            codes[i] = step != 0 ? (uint8_t)clamp(nearest((x[i] + low) / step), 0, (float)top) : 0;
    }
}

/* Low four bits of sub-block 2k, and of sub-block 2k+1 above them. */
static void put_nibbles(const uint8_t codes[K_BLOCK], uint8_t *q)
{
    for (int i = 0; i < K_BLOCK / 2; i++) {
        const uint8_t *from = codes + i / SUB * 2 * SUB + i % SUB;
        q[i] = (uint8_t)((from[0] & 15) | (from[SUB] & 15) << 4);
    }
}

static void q4_k(const float *x, uint8_t *b)
{
    uint8_t codes[K_BLOCK];
    encode_affine(x, 15, -1, 20, b, codes);
    put_nibbles(codes, b + 16);
}

static void q5_k(const float *x, uint8_t *b)
{
    uint8_t codes[K_BLOCK];
    encode_affine(x, 31, -0.5f, 15, b, codes);
    memset(b + 16, 0, SUB);
    for (int i = 0; i < K_BLOCK; i++)
        b[16 + i % SUB] |= (uint8_t)(codes[i] >> 4 << i / SUB);
    put_nibbles(codes, b + 48);
}

/* ---- Q6_K: x ~ scale code, codes from -32 to 31 ---- */

/* The scale of 16 elements: tries step sizes around the one that spans the range; squares of elements are weights. */
static float fit_scale(const float *x)
{
    float most = 0, edge = 0, scale = 0, best = 0;
    for (int i = 0; i < SIX_SUB; i++)
        if (fabsf(x[i]) > most) {
            most = fabsf(x[i]);
            edge = x[i];
        }
    if (most < NOTHING)
        return 0;
    for (int step = 0; step < 19; step++) {
        const int tenths = step == 0 ? 0 : step <= 9 ? step - 10 : step - 9; /* 0 first, then -9 to 9 */
        const float inverse = -(32 + 0.1f * (float)tenths) / edge;
        const lanes zero = { 0 };
        lanes sum_xl = zero, sum_ll = zero;
        for (int i = 0; i < SIX_SUB; i += 4) {
            const lanes e = load(x + i), code = code_of(e * inverse, zero - 32, zero + 31), w = e * e;
            sum_xl += w * e * code;
            sum_ll += w * code * code;
        }
        const float xl = (float)total(sum_xl), ll = (float)total(sum_ll);
        if (ll > 0 && (step == 0 || xl * xl > best * ll)) {
            scale = xl / ll;
            best = scale * xl;
        }
    }
    return scale;
}

static void put_six_codes(const uint8_t codes[K_BLOCK], uint8_t *b)
{
    for (int h = 0; h < 2; h++)
        for (int l = 0; l < 32; l++) {
            const uint8_t *c = codes + 128 * h + l;
            b[64 * h + l] = (uint8_t)((c[0] & 15) | (c[64] & 15) << 4);
            b[64 * h + 32 + l] = (uint8_t)((c[32] & 15) | (c[96] & 15) << 4);
            b[128 + 32 * h + l] = (uint8_t)(c[0] >> 4 | c[32] >> 4 << 2 | c[64] >> 4 << 4 | c[96] >> 4 << 6);
        }
}

static void q6_k(const float *x, uint8_t *b)
{
    float scales[SIX_SUBS], edge = 0;
    uint8_t codes[K_BLOCK];
    memset(codes, 32, sizeof codes);
    for (int j = 0; j < SIX_SUBS; j++) {
        scales[j] = fit_scale(x + SIX_SUB * j);
        edge = fabsf(scales[j]) > fabsf(edge) ? scales[j] : edge;
    }
    const float inverse = fabsf(edge) < NOTHING ? 0 : -128 / edge, d = inverse != 0 ? stored_half(1 / inverse) : 0;
    for (int j = 0; j < SIX_SUBS; j++) {
        const float scale = clamp(nearest(inverse * scales[j]), -128, 127), step = d * scale;
        b[192 + j] = (uint8_t)(int8_t)scale;
        for (int i = SIX_SUB * j; i < SIX_SUB * (j + 1) && step != 0; i++)
            codes[i] = (uint8_t)(clamp(nearest(x[i] / step), -32, 31) + 32);
    }
    put_half(b + 208, d);
    put_six_codes(codes, b);
}

/* ---- all ---- */

typedef void (*encoder)(const float *, uint8_t *);

static encoder encoder_of(zn_dtype dtype)
{
    static const encoder kinds[ZN_DTYPE_COUNT] = {
        [ZN_Q4_0] = q4_0, [ZN_Q8_0] = q8_0, [ZN_Q4_K] = q4_k, [ZN_Q5_K] = q5_k, [ZN_Q6_K] = q6_k
    };
    return zn_dtype_size(dtype) ? kinds[dtype] : NULL;
}

bool zn_blocks_can_write(zn_dtype dtype) { return encoder_of(dtype) != NULL; }

void zn_blocks_from_f32(void *blocks, zn_dtype dtype, const float *in, size_t count)
{
    const encoder encode = encoder_of(dtype);
    const size_t size = zn_dtype_size(dtype), block = zn_dtype_block(dtype);
    for (size_t i = 0; encode && i < count / block; i++)
        encode(in + i * block, (uint8_t *)blocks + i * size);
}
