/* Attention; see attention.h. The gradient processes blocks of queries and recomputes their weights:
 *
 *     dv += p' dy      ds = p (dy v' - sum over keys of p dy v')      dq = scale ds k      dk += scale ds' q */
#include "kernels/attention.h"

#include <math.h>
#include <string.h>

/* Row i of head `unit`; share: number of heads that share it. */
static float *row(const zn_rows *m, const zn_attention_args *a, int64_t unit, int share, int64_t i)
{
    return m->data + unit / a->heads * m->sample + unit % a->heads / share * m->head + i * m->step;
}

static float dot(const float *a, const float *b, int n)
{
    float sum = 0;
    for (int i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* Computes p[key] for one query; returns the number of keys it attends to. */
static int64_t weights(const zn_attention_args *a, int64_t unit, int64_t query, float *p)
{
    const int64_t seen = zn_attention_seen(a, query);
    float most = -INFINITY, sum = 0;
    for (int64_t j = 0; j < seen; j++) {
        p[j] = a->scale * dot(row(&a->q, a, unit, 1, query), row(&a->k, a, unit, zn_attention_share(a), j), a->width);
        most = fmaxf(most, p[j]);
    }
    for (int64_t j = 0; j < seen; j++) {
        p[j] = expf(p[j] - most);
        sum += p[j];
    }
    for (int64_t j = 0; j < seen; j++)
        p[j] /= sum;
    return seen;
}

static void add_scaled(float *y, const float *x, float factor, int n)
{
    for (int i = 0; i < n; i++)
        y[i] += factor * x[i];
}

void zn_ref_attention(const void *args, zn_range r)
{
    const zn_attention_args *a = args;
    const int64_t blocks = zn_attention_blocks(a), rows = zn_attention_rows(a);
    float *p = r.scratch;
    for (int64_t unit = r.begin; unit < r.end; unit++)
        for (int64_t i = unit % blocks * rows; i < (unit % blocks + 1) * rows && i < a->queries; i++) {
            float *y = row(&a->y, a, unit / blocks, 1, i);
            const int64_t seen = weights(a, unit / blocks, i, p);
            memset(y, 0, sizeof(float) * (size_t)a->width);
            for (int64_t j = 0; j < seen; j++)
                add_scaled(y, row(&a->v, a, unit / blocks, zn_attention_share(a), j), p[j], a->width);
        }
}

/* Adds the contribution of query i of a head to dk and dv, and writes its dq. */
static void back(const zn_attention_args *a, int64_t unit, int64_t i, float *p, float *ds)
{
    const int share = zn_attention_share(a);
    const float *dy = row(&a->y, a, unit, 1, i), *q = row(&a->q, a, unit, 1, i);
    float *dq = row(&a->dq, a, unit, 1, i), mean = 0;
    const int64_t seen = weights(a, unit, i, p);
    for (int64_t j = 0; j < seen; j++) {
        ds[j] = dot(dy, row(&a->v, a, unit, share, j), a->width);
        mean += p[j] * ds[j];
    }
    memset(dq, 0, sizeof(float) * (size_t)a->width);
    for (int64_t j = 0; j < seen; j++) {
        const float s = a->scale * p[j] * (ds[j] - mean);
        add_scaled(row(&a->dv, a, unit, share, j), dy, p[j], a->width);
        add_scaled(dq, row(&a->k, a, unit, share, j), s, a->width);
        add_scaled(row(&a->dk, a, unit, share, j), q, s, a->width);
    }
}

void zn_ref_attention_grad(const void *args, zn_range r)
{
    const zn_attention_args *a = args;
    const int share = zn_attention_share(a);
    float *p = r.scratch, *ds = p + a->keys;
    for (int64_t group = r.begin; group < r.end; group++) {
        for (int64_t j = 0; j < a->keys; j++) {
            memset(row(&a->dk, a, group * share, share, j), 0, sizeof(float) * (size_t)a->width);
            memset(row(&a->dv, a, group * share, share, j), 0, sizeof(float) * (size_t)a->width);
        }
        for (int64_t unit = group * share; unit < (group + 1) * share; unit++)
            for (int64_t i = 0; i < a->queries; i++)
                back(a, unit, i, p, ds);
    }
}
