/* Dropout. For given seeds it is linear and its own transpose. */
#include "kernels/dropout.h"

#include "base/fail.h"
#include "ops/ops.h"

enum { GRAIN = 1 << 14 };

typedef struct dropout {
    float share;
    int place;
} dropout;

static zn_status dropout_shape(zn_node *n)
{
    const int64_t samples = zn_shape_count(n->source[1]->shape), count = zn_shape_count(n->source[0]->shape);
    if (count % samples || count / samples > UINT32_MAX)
        return ZN_FAIL(ZN_ESHAPE, "%lld elements are no %lld samples", (long long)count, (long long)samples);
    n->shape = n->source[0]->shape;
    return ZN_OK;
}

static void dropout_run(const zn_node *n, const zn_launch_context *c)
{
    const dropout *d = n->attribute;
    const int64_t count = zn_shape_count(n->shape);
    const zn_dropout_args a = { .x = n->source[0]->data,
                                .seeds = n->source[1]->data,
                                .y = n->data,
                                .each = count / zn_shape_count(n->source[1]->shape),
                                .place = (uint32_t)d->place,
                                .share = d->share,
                                .type = n->type };
    zn_launch(c, zn_k_dropout, count, GRAIN, &a);
}

static void dropout_gradient(zn_node *n, zn_node *dy)
{
    const dropout *d = n->attribute;
    zn_accumulate(n->source[0], zn_dropout(dy, n->source[1], d->share, d->place));
}

static double dropout_slots(const zn_node *n, const zn_prepare *p)
{
    (void)p;
    return 8 * (double)zn_shape_count(n->shape);
}

const zn_op zn_op_dropout = { .name = "dropout",
                              .shape = dropout_shape,
                              .run = dropout_run,
                              .launches = zn_launches,
                              .types = zn_types_like_first,
                              .gradient = dropout_gradient,
                              .flops = zn_one_flop,
                              .slots = dropout_slots,
                              .in_place = zn_first_source };

void zn_dropout_settings(const zn_node *n, float *share, int *place)
{
    const dropout *d = n->attribute;
    *share = d->share;
    *place = d->place;
}

zn_node *zn_dropout(zn_node *x, zn_node *seeds, float share, int place)
{
    const dropout d = { share, place };
    return zn_apply(&zn_op_dropout, &d, sizeof d, (zn_node *[]){ x, seeds }, 2);
}
