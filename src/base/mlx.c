/* Affine quantisation of MLX files. */
#include "base/mlx.h"

#include "base/convert.h"

#include <math.h>
#include <string.h>

enum { MAX_GROUP = 128 };

bool zn_mlx_form_known(zn_mlx_form form)
{
    const int bits = form.bits, group = form.group;
    return ((bits >= 2 && bits <= 6) || bits == 8) && (group == 32 || group == 64 || group == 128);
}

/* A code may span two bytes; the second byte is read only then. */
static unsigned code_at(const uint8_t *codes, size_t index, int bits)
{
    const size_t at = index * (size_t)bits, byte = at / 8, shift = at % 8;
    unsigned v = codes[byte];
    if (shift + (size_t)bits > 8)
        v |= (unsigned)codes[byte + 1] << 8;
    return v >> shift & ((1u << bits) - 1);
}

void zn_mlx_to_f32(float *out, const uint8_t *codes, const float *scales, const float *biases, size_t count,
                   const zn_mlx_form *form)
{
    const size_t group = (size_t)form->group;
    for (size_t g = 0; g < count / group; g++) {
        const float scale = scales[g], bias = biases[g];
        const uint8_t *from = codes + g * group * (size_t)form->bits / 8;
        float *to = out + g * group;
        if (form->bits == 4) /* nearly all files: two codes per byte */
            for (size_t i = 0; i < group / 2; i++) {
                to[2 * i] = scale * (float)(from[i] & 15) + bias;
                to[2 * i + 1] = scale * (float)(from[i] >> 4) + bias;
            }
        else
            for (size_t i = 0; i < group; i++)
                to[i] = scale * (float)code_at(from, i, form->bits) + bias;
    }
}

void zn_mlx_pack(uint8_t *packed, const uint8_t *codes, size_t count, int bits)
{
    memset(packed, 0, count * (size_t)bits / 8);
    for (size_t i = 0; i < count; i++) {
        const size_t at = i * (size_t)bits, byte = at / 8, shift = at % 8;
        packed[byte] |= (uint8_t)(codes[i] << shift);
        if (shift + (size_t)bits > 8)
            packed[byte + 1] |= (uint8_t)(codes[i] >> (8 - shift));
    }
}

static float rounded(float value, zn_dtype as)
{
    return as == ZN_F16    ? zn_f16_to_f32(zn_f32_to_f16(value))
           : as == ZN_BF16 ? zn_bf16_to_f32(zn_f32_to_bf16(value))
                           : value;
}

/* Computes codes, scale and bias of one group. w is already rounded. The end of the range that is further from zero is
 * represented exactly. */
static void fit(const float *w, int group, int bits, uint8_t *codes, float *scale, float *bias)
{
    const float top = (float)((1 << bits) - 1);
    float low = w[0], high = w[0];
    for (int i = 1; i < group; i++) {
        low = fminf(low, w[i]);
        high = fmaxf(high, w[i]);
    }
    const int from_low = fabsf(low) > fabsf(high);
    const float edge = from_low ? low : high, width = fmaxf((high - low) / top, 1e-7f);
    float s = from_low ? width : -width;
    const float zero = rintf(edge / s);
    s = zero != 0 ? edge / zero : s;
    const float b = zero != 0 ? edge : 0;
    for (int i = 0; i < group; i++)
        codes[i] = (uint8_t)fminf(fmaxf(rintf((w[i] - b) / s), 0), top);
    *scale = s;
    *bias = b;
}

void zn_mlx_from_f32(uint8_t *codes, float *scales, float *biases, const float *in, size_t count,
                     const zn_mlx_form *form, zn_dtype as)
{
    const size_t group = (size_t)form->group;
    float w[MAX_GROUP];
    uint8_t wide[MAX_GROUP];
    for (size_t g = 0; g < count / group; g++) {
        for (size_t i = 0; i < group; i++)
            w[i] = rounded(in[g * group + i], as);
        fit(w, form->group, form->bits, wide, &scales[g], &biases[g]);
        scales[g] = rounded(scales[g], as);
        biases[g] = rounded(biases[g], as);
        zn_mlx_pack(codes + g * group * (size_t)form->bits / 8, wide, group, form->bits);
    }
}
