/* Packed weights as codes: see coded.h. Looking numbers up takes about a nanosecond for each, little beside what a
 * convolution does with them. */
#include "kernels/coded.h"

#include "base/convert.h"

static const uint8_t *codes_of(const void *coded) { return (const uint8_t *)coded + ZN_CODED_TABLE; }

void zn_coded_pack(const void *packed, size_t bytes, zn_type type, const float *meanings, void *coded)
{
    uint8_t *codes = (uint8_t *)coded + ZN_CODED_TABLE;
    if (type == ZN_TYPE_F32) {
        const float *from = packed;
        float *table = coded;
        for (int c = 0; c < ZN_CODES; c++)
            table[c] = meanings[c];
        for (size_t i = 0; i < bytes / sizeof *from; i++)
            codes[i] = (uint8_t)from[i];
        return;
    }
    const uint16_t *from = packed;
    uint16_t *table = coded;
    for (int c = 0; c < ZN_CODES; c++)
        table[c] = zn_f32_to_bf16(meanings[c]);
    for (size_t i = 0; i < bytes / sizeof *from; i++)
        codes[i] = (uint8_t)zn_bf16_to_f32(from[i]);
}

void zn_k_expand(const void *args, zn_range r)
{
    const zn_expand_args *a = args;
    const uint8_t *codes = codes_of(a->coded);
    if (a->type == ZN_TYPE_F32) {
        const float *table = a->coded;
        float *y = a->y;
        for (int64_t i = r.begin; i < r.end; i++)
            y[i] = table[codes[i]];
        return;
    }
    const uint16_t *table = a->coded;
    uint16_t *y = a->y;
    for (int64_t i = r.begin; i < r.end; i++)
        y[i] = table[codes[i]];
}
