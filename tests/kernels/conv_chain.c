/* Does the error of one kernel stay small through a whole network? The two halves of TAESD with random weights, every
 * layer once with the reference kernel and once with the one the library would choose, each on its own results. */
#include "base/alloc.h"
#include "conv_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct chain {
    const zn_conv_kernel *ref;
    uint32_t cpu;
    zn_rng rng;
    float *x[2]; /* the map so far: reference, chosen */
    int64_t count;
} chain;

static float *floats_new(int64_t count)
{
    float *p = zn_alloc(sizeof(float) * (size_t)count);
    if (!p)
        exit(2);
    return p;
}

static void run(const zn_conv_kernel *k, zn_conv_args a, const float *w)
{
    float *packed = floats_new((int64_t)(k->packed_bytes(&a.s) / sizeof(float)) + 1);
    float *scratch = floats_new((int64_t)(k->scratch_bytes(&a.s) / sizeof(float)) + 1);
    k->pack(&a.s, w, packed);
    a.packed = packed;
    k->run(&a, (zn_range){ 0, k->units(&a.s), scratch });
    zn_free(packed);
    zn_free(scratch);
}

/* One layer; `skip` (may be NULL) is added before the activation. The former map is freed unless it is the skip of a
 * block. */
static void advance(chain *c, const zn_conv_shape *s, float *const skip[2], bool relu, bool keep)
{
    const int64_t weights = (int64_t)s->kh * s->kw * s->cin * s->cout, count = (int64_t)s->n * s->oh * s->ow * s->cout;
    float *w = floats_new(weights), *bias = floats_new(s->cout);
    fill_normal(&c->rng, w, weights, sqrtf((relu ? 2.0f : 1.0f) / (float)(s->kh * s->kw * s->cin)));
    fill_normal(&c->rng, bias, s->cout, 0.1f);
    for (int i = 0; i < 2; i++) {
        float *y = floats_new(count);
        const zn_conv_args a = {
            .s = *s, .x = c->x[i], .bias = bias, .residual = skip ? skip[i] : NULL, .y = y, .relu = relu
        };
        run(i ? zn_conv_choose(s, (zn_conv_wish){ .cpu = c->cpu }) : c->ref, a, w);
        if (!keep)
            zn_free(c->x[i]);
        c->x[i] = y;
    }
    c->count = count;
    zn_free(w);
    zn_free(bias);
}

double conv_chain_error(const conv_layer *layers, int count, const zn_conv_kernel *ref, uint32_t cpu)
{
    const zn_conv_shape *first = &layers[0].s;
    chain c = { .ref = ref, .cpu = cpu, .rng = zn_rng_new(5), .count = (int64_t)first->h * first->w * first->cin };
    for (int i = 0; i < 2; i++) {
        zn_rng r = zn_rng_new(6);
        c.x[i] = floats_new(c.count);
        fill_normal(&r, c.x[i], c.count, 1);
    }
    for (int l = 0; l < count; l++) {
        if (l + 1 == count || !layers[l + 1].residual) {
            advance(&c, &layers[l].s, NULL, layers[l].relu, false);
            continue;
        }
        for (int block = 0; block < layers[l + 1].times; block++) {
            float *const skip[2] = { c.x[0], c.x[1] };
            advance(&c, &layers[l].s, NULL, true, true);
            advance(&c, &layers[l].s, NULL, true, false);
            advance(&c, &layers[l + 1].s, skip, true, false);
            zn_free(skip[0]);
            zn_free(skip[1]);
        }
        l++;
    }
    double e = 0, n = 0;
    for (int64_t i = 0; i < c.count; i++) {
        const double want = (double)c.x[0][i], d = (double)c.x[1][i] - want;
        e += d * d;
        n += want * want;
    }
    zn_free(c.x[0]);
    zn_free(c.x[1]);
    return sqrt(e / n);
}
