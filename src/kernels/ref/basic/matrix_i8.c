/* The product in 8-bit integers, scalar: rows are quantised as kernels/matrix_i8.h says, and multiplied with the
 * weights as floats, with sums in double. That is the same up to the rounding of fp32. */
#include "kernels/i8_group.h"

#include "base/cpu.h"
#include "base/least.h"

void zn_ref_matrix_codes(const void *matrix_codes_args, zn_range rows);
void zn_ref_matrix_i8(const void *matrix_i8_args, zn_range units);

int zn_matrix_i8_bits(const zn_packed *w)
{
    static const int bits[ZN_DTYPE_COUNT] = { [ZN_Q4_0] = 4, [ZN_Q4_1] = 4, [ZN_Q5_0] = 5, [ZN_Q5_1] = 5,
                                              [ZN_Q8_0] = 8, [ZN_Q4_K] = 4, [ZN_Q5_K] = 5, [ZN_Q6_K] = 6 };
    if (w->form.bits)
        return w->form.bits < 4 ? 4 : w->form.bits;
    return w->dtype == ZN_I8 && w->scales ? 8 : bits[w->dtype];
}

bool zn_matrix_i8_centred(const zn_packed *w) { return !w->form.bits && zn_matrix_i8_bits(w) == 8; }

/* Without instructions for dot products, codes of 8 bits take as many instructions as fp32 and gain only while
 * unpacking to fp32 is a large part of the work. */
bool zn_matrix_i8_pays(const zn_packed *w, int64_t rows, uint32_t cpu)
{
    enum { FEW_ROWS = 192 };
    const int bits = zn_matrix_i8_bits(w);
    if (!bits || cpu & ZN_CPU_CUDA)
        return false;
    if (cpu & (ZN_CPU_AVX512VNNI | ZN_CPU_AVXVNNI | ZN_CPU_DOTPROD | ZN_CPU_I8MM))
        return true;
    return cpu & ZN_CPU_AVX2 && (bits < 8 || rows < FEW_ROWS);
}

void zn_ref_matrix_codes(const void *args, zn_range r)
{
    const zn_matrix_codes_args *a = args;
    float x[ZN_PACKED_ROTATED];
    for (int64_t p = r.begin; p < r.end; p++)
        for (int64_t i = 0; i < a->in; i += ZN_I8_GROUP) {
            const int64_t at = p * a->in + i, within = i % ZN_PACKED_ROTATED;
            if (within == 0) {
                const int64_t count = zn_least(ZN_PACKED_ROTATED, a->in - i);
                memcpy(x, a->x + at, sizeof *x * (size_t)count);
                zn_packed_rotate(x, count, a->rotated);
            }
            quantise_group(x + within, a->centred, a->q.codes + at, a->q.scales + at / ZN_I8_GROUP,
                           a->q.sums + at / ZN_I8_GROUP);
        }
}

/* One element of the result; w: scratch for some of its weights. */
static float element(const zn_matrix_i8_args *a, int64_t p, int64_t j, float *w)
{
    const int64_t groups = a->in / ZN_I8_GROUP;
    const bool centred = zn_matrix_i8_centred(&a->w);
    zn_packed stored = a->w;
    double sum = 0;
    stored.rotated = 0; /* x is rotated instead */
    for (int64_t i = 0; i < a->in; i++) {
        if (i % ZN_I8_DEPTH == 0)
            zn_packed_row(&stored, j, i, zn_least(ZN_I8_DEPTH, a->in - i), w);
        const int64_t g = p * groups + i / ZN_I8_GROUP;
        const double centre = centred ? (double)a->x.sums[g] : 0;
        const int8_t code = (int8_t)(a->x.codes[p * a->in + i] ^ ZN_I8_SHIFT);
        sum += (centre + (double)a->x.scales[g] * code) * (double)w[i % ZN_I8_DEPTH];
    }
    return (float)sum;
}

void zn_ref_matrix_i8(const void *args, zn_range r)
{
    const zn_matrix_i8_args *a = args;
    const int64_t strips = zn_matrix_i8_strips(a);
    for (int64_t u = r.begin; u < r.end; u++) {
        const int64_t first = u / strips * ZN_I8_ROWS, begin = u % strips * ZN_I8_STRIP;
        for (int64_t p = first; p < zn_least(first + ZN_I8_ROWS, a->rows); p++)
            for (int64_t j = begin; j < zn_least(begin + ZN_I8_STRIP, a->out); j++)
                a->y[p * a->out + j] = element(a, p, j, r.scratch);
    }
}
