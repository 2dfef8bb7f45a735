/* Attention; see attention.h. The gradient goes through blocks of queries, with their weights computed again:
 *
 *     dv += p' dy      ds = p (dy v' - sum over keys of p dy v')      dq = scale ds k      dk += scale ds' q */
#include "kernels/attention.h"

#include <math.h>
#include <string.h>

static float *row(const zn_rows *m, const zn_attention_args *a, int64_t unit, int64_t i)
{
    return m->data + unit / a->heads * m->sample + unit % a->heads * m->head + i * m->step;
}

static float dot(const float *a, const float *b, int n)
{
    float sum = 0;
    for (int i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* p[key] for one query. */
static void weights(const zn_attention_args *a, int64_t unit, int64_t query, float *p)
{
    float most = -INFINITY, sum = 0;
    for (int64_t j = 0; j < a->keys; j++) {
        p[j] = a->scale * dot(row(&a->q, a, unit, query), row(&a->k, a, unit, j), a->width);
        most = fmaxf(most, p[j]);
    }
    for (int64_t j = 0; j < a->keys; j++) {
        p[j] = expf(p[j] - most);
        sum += p[j];
    }
    for (int64_t j = 0; j < a->keys; j++)
        p[j] /= sum;
}

static void add_scaled(float *y, const float *x, float factor, int n)
{
    for (int i = 0; i < n; i++)
        y[i] += factor * x[i];
}

void zn_ref_attention(const void *args, zn_range r)
{
    const zn_attention_args *a = args;
    const int64_t blocks = zn_attention_blocks(a);
    float *p = r.scratch;
    for (int64_t unit = r.begin; unit < r.end; unit++)
        for (int64_t i = unit % blocks * ZN_ATTENTION_QUERIES;
             i < (unit % blocks + 1) * ZN_ATTENTION_QUERIES && i < a->queries; i++) {
            float *y = row(&a->y, a, unit / blocks, i);
            weights(a, unit / blocks, i, p);
            memset(y, 0, sizeof(float) * (size_t)a->width);
            for (int64_t j = 0; j < a->keys; j++)
                add_scaled(y, row(&a->v, a, unit / blocks, j), p[j], a->width);
        }
}

void zn_ref_attention_grad(const void *args, zn_range r)
{
    const zn_attention_args *a = args;
    float *p = r.scratch, *ds = p + a->keys;
    for (int64_t unit = r.begin; unit < r.end; unit++) {
        for (int64_t j = 0; j < a->keys; j++) {
            memset(row(&a->dk, a, unit, j), 0, sizeof(float) * (size_t)a->width);
            memset(row(&a->dv, a, unit, j), 0, sizeof(float) * (size_t)a->width);
        }
        for (int64_t i = 0; i < a->queries; i++) {
            const float *dy = row(&a->y, a, unit, i), *q = row(&a->q, a, unit, i);
            float *dq = row(&a->dq, a, unit, i), mean = 0;
            weights(a, unit, i, p);
            for (int64_t j = 0; j < a->keys; j++) {
                ds[j] = dot(dy, row(&a->v, a, unit, j), a->width);
                mean += p[j] * ds[j];
            }
            memset(dq, 0, sizeof(float) * (size_t)a->width);
            for (int64_t j = 0; j < a->keys; j++) {
                const float s = a->scale * p[j] * (ds[j] - mean);
                add_scaled(row(&a->dv, a, unit, j), dy, p[j], a->width);
                add_scaled(dq, row(&a->k, a, unit, j), s, a->width);
                add_scaled(row(&a->dk, a, unit, j), q, s, a->width);
            }
        }
    }
}
