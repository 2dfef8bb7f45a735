/* Several steps of a transformer's block in one pass. */
#include "kernels/token.h"

#include "kernels/fp8.h"
#include "kernels/kernels.h"

#include <math.h>

static void gated_token(const zn_gated_norm_args *a, int64_t t, float *to)
{
    const float *x = a->x + t * a->c;
    float sum = 0;
    for (int k = 0; k < a->c; k++)
        sum += x[k] * x[k];
    const float s = 1.0f / sqrtf(sum / (float)a->c + a->eps);
    for (int k = 0; k < a->c; k++) {
        const float scale = a->limit > 0 ? a->limit * tanhf(a->scale[k] / a->limit) : a->scale[k];
        const float factor = a->plus_one ? 1 + scale : scale;
        const float y = factor * (x[k] * s * a->w[k]);
        to[k] = a->residual ? a->residual[t * a->c + k] + y : y;
    }
}

void zn_k_gated_norm(const void *args, zn_range r)
{
    const zn_gated_norm_args *a = args;
    float token[ZN_GATED_NORM_MOST];
    for (int64_t t = r.begin; t < r.end; t++) {
        const bool codes = a->y_type == ZN_TYPE_E4M3;
        gated_token(a, t, codes ? token : a->y + t * a->c);
        if (codes)
            a->scales[t] = zn_quantise_row(token, a->c, (uint8_t *)a->y + t * a->c);
    }
}

void zn_k_norm_rope(const void *args, zn_range r)
{
    const zn_norm_rope_args *a = args;
    const zn_rope_args *k = &a->rope;
    const int c = 2 * k->pairs;
    for (int64_t i = r.begin * k->heads; i < r.end * k->heads; i++) {
        const float *x = k->x + i * c;
        float sum = 0;
        for (int j = 0; j < c; j++)
            sum += x[j] * x[j];
        const float s = 1.0f / sqrtf(sum / (float)c + a->eps);
        for (int j = 0; j < c; j++)
            k->y[i * c + j] = x[j] * s * a->w[j];
    }
    zn_rope_args turn = *k;
    turn.x = k->y;
    zn_k_rope(&turn, r);
}

void zn_k_silu_multiply(const void *args, zn_range r)
{
    const zn_binary_args *a = args;
    for (int64_t i = r.begin; i < r.end; i++)
        a->y[i] = a->a[i] / (1 + expf(-a->a[i])) * a->b[i];
}
