/* Optimisers: a step over tensors one after the other, whose moments lie in one block. */
#include "train/optimiser/optim.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "kernels/optim.h"
#include "ops/ops.h"

#include <assert.h>
#include <math.h>

enum { GRAIN = 1 << 14 };

zn_status zn_optim_new(zn_optim *o, int64_t total, const zn_optim_options *options)
{
    *o = (zn_optim){ .options = *options, .total = total, .lr = options->lr };
    zn_optim_options *k = &o->options;
    if (k->beta2 == 0) {
        k->beta1 = 0.9f;
        k->beta2 = 0.999f;
    }
    if (k->eps == 0)
        k->eps = 1e-8f;
    const bool adam = k->kind != ZN_SGD;
    const bool wants[] = { adam || k->momentum != 0, adam, adam && k->amsgrad };
    float **moments[] = { &o->m, &o->v, &o->v_max };
    for (int i = 0; i < 3; i++) {
        *moments[i] = wants[i] ? zn_calloc((size_t)total, sizeof(float)) : NULL;
        if (wants[i] && !*moments[i]) {
            zn_optim_free(o);
            return ZN_FAIL(ZN_ENOMEM, "out of memory for the moments of %lld parameters", (long long)total);
        }
    }
    return ZN_OK;
}

void zn_optim_begin(zn_optim *o, float lr)
{
    o->step++;
    o->used = 0;
    o->lr = lr < 0 ? o->options.lr : lr;
}

static void launch(const zn_optim *o, zn_pool *pool, zn_body body, int64_t count, const void *args)
{
    zn_launch(&(zn_launch_context){ .pool = pool, .device = o->device }, body, count, GRAIN, args);
}

static float *at(const zn_optim *o, float *moments) { return moments ? moments + o->used : NULL; }

static void adam(const zn_optim *o, zn_pool *pool, float *w, const float *g, int64_t count, float lr, float decay)
{
    const zn_optim_options *k = &o->options;
    const double c1 = 1 - pow((double)k->beta1, (double)o->step), c2 = 1 - pow((double)k->beta2, (double)o->step);
    const zn_adam_args a = { .w = w,
                             .m = at(o, o->m),
                             .v = at(o, o->v),
                             .v_max = at(o, o->v_max),
                             .g = g,
                             .lr = lr,
                             .beta1 = k->beta1,
                             .beta2 = k->beta2,
                             .eps = k->kind == ZN_ADAM_SEED ? (float)((double)k->eps / sqrt(c2)) : k->eps,
                             .decay = k->kind == ZN_ADAMW ? decay : 0,
                             .penalty = k->kind == ZN_ADAMW ? 0 : decay,
                             .correction1 = (float)c1,
                             .correction2 = (float)c2 };
    launch(o, pool, zn_k_adam, count, &a);
}

void zn_optim_update(zn_optim *o, zn_pool *pool, float *w, const float *g, int64_t count, const zn_optim_tensor *tensor)
{
    assert(o->used + count <= o->total);
    const zn_optim_options *k = &o->options;
    const float factor = !tensor ? 1 : tensor->frozen ? 0 : tensor->lr_factor > 0 ? tensor->lr_factor : 1;
    const float lr = o->lr * factor;
    const float decay = tensor && tensor->no_decay ? 0 : k->weight_decay;
    if (k->kind == ZN_SGD) {
        const zn_sgd_args a = { .w = w,
                                .m = at(o, o->m),
                                .g = g,
                                .lr = lr,
                                .momentum = k->momentum,
                                .penalty = decay,
                                .nesterov = k->nesterov };
        launch(o, pool, zn_k_sgd, count, &a);
    } else {
        adam(o, pool, w, g, count, lr, decay);
    }
    o->used += count;
}

void zn_optim_free(zn_optim *o)
{
    zn_free(o->m);
    zn_free(o->v);
    zn_free(o->v_max);
    *o = (zn_optim){ 0 };
}

/* Sum of squares in LANES interleaved sums, which vectorises. */
static double square_sum(const float *g, int64_t count)
{
    enum { LANES = 8 };
    double sums[LANES] = { 0 }, total = 0;
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (int k = 0; k < LANES; k++)
            sums[k] += (double)g[i + k] * (double)g[i + k];
    for (; i < count; i++)
        total += (double)g[i] * (double)g[i];
    for (int k = 0; k < LANES; k++)
        total += sums[k];
    return total;
}

double zn_clip_norm(float *const *gradients, const int64_t *counts, int tensors, double limit)
{
    double sum = 0;
    for (int t = 0; t < tensors; t++)
        sum += square_sum(gradients[t], counts[t]);
    const double norm = sqrt(sum), factor = limit / (norm + 1e-6);
    for (int t = 0; t < tensors && factor < 1; t++)
        for (int64_t i = 0; i < counts[t]; i++)
            gradients[t][i] = (float)(factor * (double)gradients[t][i]);
    return norm;
}
