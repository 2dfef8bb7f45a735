/* Sequences of tokens: causal convolution, reordering, means, Fourier features. */
#include "kernels/sequence.h"

#include "kernels/mix.h"

#include <math.h>
#include <string.h>

void zn_ref_causal_conv(const void *args, zn_range r);
void zn_ref_causal_conv_weight_grad(const void *args, zn_range r);

void zn_ref_causal_conv(const void *args, zn_range r)
{
    const zn_causal_conv_args *a = args;
    const int64_t c = a->channels;
    for (int64_t row = r.begin; row < r.end; row++)
        for (int64_t i = 0; i < c; i++) {
            float sum = a->bias ? a->bias[i] : 0;
            for (int k = 0; k < a->taps; k++) {
                const int64_t away = a->back ? a->taps - 1 - k : k - a->taps + 1, t = row % a->length + away;
                if (t >= 0 && t < a->length)
                    sum += a->w[k * c + i] * a->x[(row + away) * c + i];
            }
            a->y[row * c + i] = sum;
        }
}

void zn_ref_causal_conv_weight_grad(const void *args, zn_range r)
{
    const zn_causal_conv_args *a = args;
    const int64_t c = a->channels, rows = a->sequences * a->length, size = zn_sum_block(rows);
    for (int64_t block = r.begin; block < r.end; block++) {
        float *sum = a->partial + block * a->taps * c;
        memset(sum, 0, sizeof(float) * (size_t)(a->taps * c));
        for (int64_t row = block * size; row < (block + 1) * size && row < rows; row++)
            for (int k = 0; k < a->taps; k++) {
                const int64_t away = k - a->taps + 1;
                for (int64_t i = 0; i < c && row % a->length + away >= 0; i++)
                    sum[k * c + i] += a->dy[row * c + i] * a->x[(row + away) * c + i];
            }
    }
}

/* The index stored in a table, or -1. */
static int64_t index_at(const float *table, int64_t length)
{
    return *table >= 0 && *table < (float)length ? (int64_t)*table : -1;
}

void zn_k_gather(const void *args, zn_range r)
{
    const zn_gather_args *a = args;
    const int64_t c = a->channels;
    for (int64_t token = r.begin; token < r.end; token++) {
        const int64_t first = token / a->length * a->length;
        const float *table = a->table + (first * a->rows + a->row * a->length) + token % a->length;
        float *restrict y = a->y + token * c;
        memset(y, 0, sizeof(float) * (size_t)c);
        for (int k = 0; k < a->count; k++, table += a->length) {
            const int64_t from = index_at(table, a->length);
            const float *x = a->x[k] + (first + from) * c;
            for (int64_t i = 0; i < c && from >= 0; i++)
                y[i] += a->scale * x[i];
        }
    }
}

static int64_t valid_count(const zn_mean_tokens_args *a, int64_t sequence)
{
    int64_t count = 0;
    for (int64_t t = 0; t < a->length; t++)
        count += index_at(a->table + sequence * a->rows * a->length + t, a->length) >= 0;
    return count;
}

void zn_k_mean_tokens(const void *args, zn_range r)
{
    const zn_mean_tokens_args *a = args;
    const int64_t c = a->channels, strips = (c + ZN_MEAN_STRIP - 1) / ZN_MEAN_STRIP;
    for (int64_t unit = r.begin; unit < r.end; unit++) {
        const int64_t sequence = unit / strips, begin = unit % strips * ZN_MEAN_STRIP;
        const int64_t width = begin + ZN_MEAN_STRIP < c ? ZN_MEAN_STRIP : c - begin;
        const int64_t count = valid_count(a, sequence);
        double sum[ZN_MEAN_STRIP] = { 0 };
        for (int64_t t = 0; t < a->length; t++) {
            const float *x = a->x + (sequence * a->length + t) * c + begin;
            if (index_at(a->table + sequence * a->rows * a->length + t, a->length) >= 0)
                for (int64_t i = 0; i < width; i++)
                    sum[i] += (double)x[i];
        }
        for (int64_t i = 0; i < width; i++)
            a->y[sequence * c + begin + i] = count ? (float)(sum[i] / (double)count) : 0;
    }
}

void zn_k_mean_tokens_grad(const void *args, zn_range r)
{
    const zn_mean_tokens_args *a = args;
    const int64_t c = a->channels;
    for (int64_t sequence = r.begin; sequence < r.end; sequence++) {
        const int64_t count = valid_count(a, sequence);
        const float *dy = a->x + sequence * c, share = count ? 1.0f / (float)count : 0;
        for (int64_t t = 0; t < a->length; t++) {
            const bool valid = index_at(a->table + sequence * a->rows * a->length + t, a->length) >= 0;
            float *dx = a->y + (sequence * a->length + t) * c;
            for (int64_t i = 0; i < c; i++)
                dx[i] = valid ? share * dy[i] : 0;
        }
    }
}

/* Whole turns are removed before the angle is computed, so that large values lose no precision. */
static double turns_of(const zn_fourier_args *a, int64_t token, int feature)
{
    double turns = 0;
    for (int j = 0; j < a->sides; j++)
        turns += (double)a->b[feature * a->sides + j] * (double)a->p[token * a->sides + j];
    return turns - rint(turns);
}

static const double whole_turn = 6.283185307179586;

void zn_k_fourier(const void *args, zn_range r)
{
    const zn_fourier_args *a = args;
    for (int64_t token = r.begin; token < r.end; token++)
        for (int f = 0; f < a->features; f++) {
            const float angle = (float)(whole_turn * turns_of(a, token, f));
            a->to[(2 * token) * a->features + f] = cosf(angle);
            a->to[(2 * token + 1) * a->features + f] = sinf(angle);
        }
}

void zn_k_fourier_grad(const void *args, zn_range r)
{
    const zn_fourier_args *a = args;
    for (int64_t token = r.begin; token < r.end; token++) {
        const float *cosine = a->y + 2 * token * a->features, *dcosine = a->dy + 2 * token * a->features;
        const float *sine = cosine + a->features, *dsine = dcosine + a->features;
        for (int j = 0; j < a->sides; j++) {
            double sum = 0;
            for (int f = 0; f < a->features; f++)
                sum += (double)(cosine[f] * dsine[f] - sine[f] * dcosine[f]) * (double)a->b[f * a->sides + j];
            a->to[token * a->sides + j] = (float)(whole_turn * sum);
        }
    }
}
