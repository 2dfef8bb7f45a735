/* Max pooling with windows of 3x3 at a stride of 2, without padding. */
#include "kernels/max_pool.h"

#include "base/fail.h"
#include "ops/ops.h"

enum { SIDE = ZN_MAX_POOL_SIDE, STRIDE = ZN_MAX_POOL_STRIDE };

typedef struct pool_spec {
    bool reaches_out; /* a last window may reach past the edge */
} pool_spec;

static zn_status shape(zn_node *n)
{
    ZN_TRY(zn_need_rank(n, 4));
    const int64_t *x = n->source[0]->shape.dim;
    const int more = ((const pool_spec *)n->attribute)->reaches_out ? STRIDE - 1 : 0;
    char text[96];
    if (x[1] + more < SIDE || x[2] + more < SIDE)
        return ZN_FAIL(ZN_ESHAPE, "a map %s is smaller than a window of %d x %d",
                       zn_shape_text(n->source[0]->shape, text, sizeof text), SIDE, SIDE);
    n->shape = ZN_SHAPE(x[0], (x[1] + more - SIDE) / STRIDE + 1, (x[2] + more - SIDE) / STRIDE + 1, x[3]);
    return ZN_OK;
}

static zn_max_pool_args args_of(const zn_node *x, const zn_node *y)
{
    const int64_t *in = x->shape.dim, *out = y->shape.dim;
    return (zn_max_pool_args){ .x = x->data,
                               .y = y->data,
                               .h = (int)in[1],
                               .w = (int)in[2],
                               .oh = (int)out[1],
                               .ow = (int)out[2],
                               .c = (int)in[3] };
}

static void run(const zn_node *n, const zn_launch_context *c)
{
    const zn_max_pool_args a = args_of(n->source[0], n);
    zn_launch(c, zn_k_max_pool, n->shape.dim[0] * n->shape.dim[1], 1, &a);
}

static void run_gradient(const zn_node *n, const zn_launch_context *c)
{
    zn_max_pool_args a = args_of(n->source[0], n->source[1]);
    a.dy = n->source[2]->data;
    a.dx = n->data;
    zn_launch(c, zn_k_max_pool_grad, n->shape.dim[0] * n->shape.dim[1], 1, &a);
}

static void gradient(zn_node *n, zn_node *dy)
{
    zn_node *sources[] = { n->source[0], n, dy };
    zn_accumulate(n->source[0], zn_apply(&zn_op_max_pool_grad, NULL, 0, sources, 3));
}

/* Comparisons. */
static double flops(const zn_node *n) { return SIDE * SIDE * (double)zn_shape_count(n->shape); }

static double slots(const zn_node *n, const zn_prepare *p)
{
    (void)p;
    return flops(n);
}

static void reach(const zn_node *n, const zn_prepare *p, int64_t *lo, int64_t *hi)
{
    (void)n;
    (void)p;
    *lo = *lo * STRIDE;
    *hi = (*hi - 1) * STRIDE + SIDE;
}

const zn_op zn_op_max_pool = { .name = "max_pool",
                               .shape = shape,
                               .run = run,
                               .launches = zn_launches,
                               .gradient = gradient,
                               .flops = flops,
                               .slots = slots,
                               .reach = reach };
const zn_op zn_op_max_pool_grad = {
    .name = "max_pool_grad", .shape = zn_like_first, .run = run_gradient, .launches = zn_launches, .global = true
};

zn_node *zn_max_pool(zn_node *x, bool reaches_out)
{
    const pool_spec k = { reaches_out };
    return zn_apply(&zn_op_max_pool, &k, sizeof k, &x, 1);
}
