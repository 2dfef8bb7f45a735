/* Causal convolution over the tokens of each channel, with channels as lanes, four tokens at a time. */
#include "kernels/mix.h"
#include "kernels/sequence.h"
#include "kernels/simd/lanes.h"

void ZN_KERNEL(causal_conv)(const void *args, zn_range r);
void ZN_KERNEL(causal_conv_weight_grad)(const void *args, zn_range r);

enum { TOKENS = 4 };

/* Distance of the input of tap k from its token. */
VEC_INLINE int64_t away_of(const zn_causal_conv_args *a, int k) { return a->back ? a->taps - 1 - k : k - a->taps + 1; }
VEC_INLINE bool inside(const zn_causal_conv_args *a, int64_t row, int64_t away)
{
    const int64_t t = row % a->length + away;
    return t >= 0 && t < a->length;
}

/* n channels of `count` tokens (a compile-time constant) from row; `all`: every tap of each is inside the sequence. */
VEC_INLINE void sums(const int count, const zn_causal_conv_args *a, int64_t row, int64_t i, int n, bool all)
{
    const int64_t c = a->channels;
    vec sum[TOKENS];
#pragma GCC unroll 4
    for (int j = 0; j < count; j++)
        sum[j] = a->bias ? load(a->bias + i, n) : vec_splat(0);
    for (int k = 0; k < a->taps; k++) {
        const vec w = load(a->w + k * c + i, n);
        const int64_t away = away_of(a, k);
#pragma GCC unroll 4
        for (int j = 0; j < count; j++)
            if (all || inside(a, row + j, away))
                sum[j] = vec_fma(w, load(a->x + (row + j + away) * c + i, n), sum[j]);
    }
#pragma GCC unroll 4
    for (int j = 0; j < count; j++)
        store(a->y + (row + j) * c + i, sum[j], n);
}

VEC_INLINE void rows_of(const int count, const zn_causal_conv_args *a, int64_t row)
{
    const int64_t first = row % a->length, reach = a->taps - 1;
    const bool all = a->back ? first + count + reach <= a->length : first >= reach && first + count <= a->length;
    int64_t i = 0;
    if (all)
        for (; i + VEC_LANES <= a->channels; i += VEC_LANES)
            sums(count, a, row, i, VEC_LANES, true);
    for (; i < a->channels; i += VEC_LANES)
        sums(count, a, row, i, a->channels - i < VEC_LANES ? (int)(a->channels - i) : VEC_LANES, false);
}

void ZN_KERNEL(causal_conv)(const void *args, zn_range r)
{
    const zn_causal_conv_args *a = args;
    int64_t row = r.begin;
    for (; row + TOKENS <= r.end; row += TOKENS)
        rows_of(TOKENS, a, row);
    for (; row < r.end; row++)
        rows_of(1, a, row);
}

void ZN_KERNEL(causal_conv_weight_grad)(const void *args, zn_range r)
{
    const zn_causal_conv_args *a = args;
    const int64_t c = a->channels, rows = a->sequences * a->length, size = zn_sum_block(rows);
    for (int64_t block = r.begin; block < r.end; block++) {
        const int64_t begin = block * size, end = begin + size < rows ? begin + size : rows;
        for (int k = 0; k < a->taps; k++) {
            const int64_t away = k - a->taps + 1;
            float *sum = a->partial + (block * a->taps + k) * c;
            memset(sum, 0, sizeof(float) * (size_t)c);
            for (int64_t row = begin; row < end; row++) {
                const float *x = a->x + (row + away) * c, *dy = a->dy + row * c;
                for (int64_t i = 0; i < c && inside(a, row, away); i += VEC_LANES) {
                    const int n = c - i < VEC_LANES ? (int)(c - i) : VEC_LANES;
                    store(sum + i, vec_fma(load(x + i, n), load(dy + i, n), load(sum + i, n)), n);
                }
            }
        }
    }
}
