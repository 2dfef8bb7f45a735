#include "train/optim.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "kernels/kernels.h"

#include <assert.h>
#include <math.h>

zn_status zn_adamw_new(zn_adamw *o, int64_t total, const zn_adamw_options *options)
{
    *o = (zn_adamw){ .options = *options, .total = total };
    o->m = zn_calloc((size_t)total, sizeof *o->m);
    o->v = zn_calloc((size_t)total, sizeof *o->v);
    if (o->m && o->v)
        return ZN_OK;
    zn_adamw_free(o);
    return ZN_FAIL(ZN_ENOMEM, "out of memory for the moments of %lld parameters", (long long)total);
}

void zn_adamw_begin(zn_adamw *o)
{
    o->step++;
    o->used = 0;
}

void zn_adamw_update(zn_adamw *o, zn_pool *pool, float *w, const float *g, int64_t count)
{
    assert(o->used + count <= o->total);
    const zn_adamw_options *k = &o->options;
    const zn_adamw_args a = { .w = w,
                              .m = o->m + o->used,
                              .v = o->v + o->used,
                              .g = g,
                              .lr = k->lr,
                              .beta1 = k->beta1,
                              .beta2 = k->beta2,
                              .eps = k->eps,
                              .decay = k->weight_decay,
                              .correction1 = (float)(1 - pow((double)k->beta1, (double)o->step)),
                              .correction2 = (float)(1 - pow((double)k->beta2, (double)o->step)) };
    zn_pool_run(pool, count, 1 << 14, zn_k_adamw, &a, NULL, 0);
    o->used += count;
}

void zn_adamw_free(zn_adamw *o)
{
    zn_free(o->m);
    zn_free(o->v);
    *o = (zn_adamw){ 0 };
}
