/* FP8, scalar. */
#include "kernels/fp8.h"

#include "base/convert.h"
#include "base/least.h"

#include <math.h>

enum { PIECE = 256 };

/* Numbers [first,first+count) of a row. */
static void numbers(const zn_quantise_args *a, int64_t row, int first, int count, float *out)
{
    const float *x = a->x + row * a->c + first, *gate = a->gate ? a->gate + row * a->c + first : NULL;
    for (int i = 0; i < count; i++)
        out[i] = gate ? gate[i] / (1 + expf(-gate[i])) * x[i] : x[i];
}

static float largest(const zn_quantise_args *a, int64_t row)
{
    float v[PIECE] = { 0 }, most = 0;
    for (int at = 0; at < a->c; at += PIECE) {
        const int count = (int)zn_least(PIECE, a->c - at);
        numbers(a, row, at, count, v);
        for (int i = 0; i < count; i++)
            most = fabsf(v[i]) > most ? fabsf(v[i]) : most;
    }
    return most;
}

static void quantise_piece(const zn_quantise_args *a, int64_t row, int at, float inverse, float scale)
{
    float v[PIECE] = { 0 };
    uint8_t codes[PIECE] = { 0 };
    const int count = (int)zn_least(PIECE, a->c - at);
    numbers(a, row, at, count, v);
    for (int i = 0; i < count; i++)
        v[i] *= inverse;
    if (a->y_type == ZN_TYPE_E4M3) {
        zn_to_e4m3((uint8_t *)a->y + row * a->c + at, v, 1, (size_t)count);
        return;
    }
    float *y = (float *)a->y + row * a->c + at;
    zn_to_e4m3(codes, v, 1, (size_t)count);
    zn_to_f32(y, codes, ZN_F8_E4M3, (size_t)count);
    for (int i = 0; i < count; i++)
        y[i] *= scale;
}

static float quantise(const zn_quantise_args *a, int64_t row)
{
    const float most = largest(a, row);
    const bool zero = most < ZN_E4M3_LEAST;
    const float scale = zero ? 1 : most / ZN_E4M3_MOST, inverse = zero ? 1 : ZN_E4M3_MOST / most;
    for (int at = 0; at < a->c; at += PIECE)
        quantise_piece(a, row, at, inverse, scale);
    return scale;
}

void zn_k_quantise(const void *args, zn_range r)
{
    const zn_quantise_args *a = args;
    for (int64_t row = r.begin; row < r.end; row++) {
        const float scale = quantise(a, row);
        if (a->y_type == ZN_TYPE_E4M3)
            a->scales[row] = scale;
    }
}

float zn_quantise_row(const float *x, int c, uint8_t *codes)
{
    const zn_quantise_args a = { .x = x, .y = codes, .c = c, .y_type = ZN_TYPE_E4M3 };
    return quantise(&a, 0);
}

void zn_k_matrix_fp8(const void *args, zn_range r)
{
    const zn_matrix_fp8_args *a = args;
    float x[ZN_FP8_DEPTH], w[PIECE];
    for (int64_t p = r.begin; p < r.end; p++) {
        zn_to_f32(x, a->x + p * a->in, ZN_F8_E4M3, (size_t)a->in);
        for (int64_t j = 0; j < a->out; j++) {
            double sum = 0;
            for (int at = 0; at < a->in; at += PIECE) {
                const int count = (int)zn_least(PIECE, a->in - at);
                zn_to_f32(w, a->w + j * a->in + at, ZN_F8_E4M3, (size_t)count);
                for (int i = 0; i < count; i++)
                    sum += (double)x[at + i] * (double)w[i];
            }
            a->y[p * a->out + j] = (float)(sum * (double)a->x_scales[p] * (double)a->w_scales[j]);
        }
    }
}
