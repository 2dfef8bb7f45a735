/* Spectral mixing in tiles along rows or columns: sources x, gate [P,C], threshold [P,C] (kernels/gates.h). The
 * three gradients share all their transforms, so one op computes them: dx is its result, the others are stored in
 * its tail. */
#include "base/cpu.h"
#include "base/fail.h"
#include "kernels/gates.h"
#include "kernels/kernels.h"
#include "kernels/mix.h"
#include "ops/ops.h"
#include "ops/slots.h"

typedef struct spec {
    int axis, offset;
} spec;

static zn_tile_mix_args args_of(const zn_node *n)
{
    const spec *k = n->attribute;
    const zn_shape x = n->source[0]->shape;
    zn_tile_mix_args a = { .x = n->source[0]->data,
                           .gate = n->source[1]->data,
                           .th = n->source[2]->data,
                           .outer = 1,
                           .n = x.dim[k->axis],
                           .inner = 1,
                           .channels = (int)x.dim[x.rank - 1],
                           .p = (int)n->source[1]->shape.dim[0],
                           .offset = k->offset };
    for (int i = 0; i < k->axis; i++)
        a.outer *= x.dim[i];
    for (int i = k->axis + 1; i < x.rank; i++)
        a.inner *= x.dim[i];
    return a;
}

static zn_status shape(zn_node *n)
{
    ZN_TRY(zn_need_rank(n, 4));
    const zn_shape x = n->source[0]->shape, g = n->source[1]->shape;
    n->shape = x;
    if (g.rank != 2 || (g.dim[0] & (g.dim[0] - 1)) || g.dim[1] != x.dim[3] || !zn_shape_equal(g, n->source[2]->shape))
        return ZN_FAIL(ZN_ESHAPE, "tile gates must be [power of two][%lld]", (long long)x.dim[3]);
    return ZN_OK;
}

static zn_needs needs(const zn_node *n, const zn_prepare *p)
{
    (void)p;
    const zn_tile_mix_args a = args_of(n);
    return (zn_needs){ .thread_scratch = zn_tile_mix_scratch(&a) };
}

static void run(const zn_node *n, const zn_launch_context *c)
{
    zn_tile_mix_args a = args_of(n);
    a.y = n->data;
    zn_launch(c, zn_k_tile_mix, zn_tile_mix_units(&a), 1, &a);
}

static void gradient(zn_node *n, zn_node *dy)
{
    zn_node *all = zn_apply(&zn_op_tile_mix_grad, n->attribute, sizeof(spec),
                            (zn_node *[]){ n->source[0], n->source[1], n->source[2], dy }, 4);
    zn_accumulate(n->source[0], all);
    for (int i = 0; i < 2; i++)
        zn_accumulate_tail(n->source[1 + i], all, i * zn_shape_count(n->source[1]->shape));
}

static double flops(const zn_node *n)
{
    return (2 * log2((double)n->source[1]->shape.dim[0]) + 3) * (double)zn_shape_count(n->shape);
}

static double slots(const zn_node *n, const zn_prepare *p)
{
    (void)p;
    return zn_slots_tile((double)n->source[1]->shape.dim[0]) * (double)zn_shape_count(n->shape);
}

int zn_tile_mix_axis(const zn_node *n, int *offset)
{
    const spec *k = n->attribute;
    *offset = k->offset;
    return k->axis;
}

void zn_tile_reach(int64_t side, int offset, int64_t *lo, int64_t *hi)
{
    const int64_t before = (side - offset) % side;
    *lo = (*lo + before >= 0 ? (*lo + before) / side : -((-*lo - before + side - 1) / side)) * side - before;
    *hi = (*hi + before + side - 1) / side * side - before;
}

/* A position depends on its whole tile along the mixed axis; the other axis is treated the same here. */
static void reach(const zn_node *n, const zn_prepare *p, int64_t *lo, int64_t *hi)
{
    (void)p;
    zn_tile_reach(n->source[1]->shape.dim[0], ((spec *)n->attribute)->offset, lo, hi);
}

static int block(const zn_node *n, const zn_prepare *p)
{
    (void)p;
    return (int)n->source[1]->shape.dim[0];
}

const zn_op zn_op_tile_mix = { .name = "tile_mix",
                               .shape = shape,
                               .run = run,
                               .launches = zn_launches,
                               .gradient = gradient,
                               .needs = needs,
                               .flops = flops,
                               .slots = slots,
                               .reach = reach,
                               .block = block,
                               .mirrors = true };

zn_node *zn_tile_mix(zn_node *x, zn_node *gate, zn_node *th, int axis, int offset)
{
    const spec k = { axis, offset };
    return zn_apply(&zn_op_tile_mix, &k, sizeof k, (zn_node *[]){ x, gate, th }, 3);
}

/* Partial sums of both parameters, and their total. */
static int64_t parameters(const zn_node *n) { return 2 * zn_shape_count(n->source[1]->shape); }

static zn_needs grad_needs(const zn_node *n, const zn_prepare *p)
{
    zn_needs k = needs(n, p);
    const zn_tile_mix_args a = args_of(n);
    const int64_t blocks = zn_sum_parts(zn_tile_mix_units(&a), p->cpu & ZN_CPU_CUDA);
    k.shared_scratch = sizeof(float) * (size_t)(blocks * parameters(n));
    return k;
}

static int64_t grad_tail(const zn_node *n) { return parameters(n); }

static void grad_run(const zn_node *n, const zn_launch_context *c)
{
    zn_tile_mix_args a = args_of(n);
    const int64_t blocks = zn_sum_parts(zn_tile_mix_units(&a), c->device);
    a.dy = n->source[3]->data;
    a.y = n->data;
    a.partial = c->shared;
    zn_launch(c, zn_k_tile_mix_grad, blocks, 1, &a);
    const zn_reduce_args sum = {
        .x = a.partial, .y = n->data + zn_shape_count(n->shape), .rows = parameters(n), .c = (int)blocks
    };
    zn_launch(c, zn_k_sum_partials, sum.rows, 1024, &sum);
}

/* Three transforms, and a product and a sum per parameter. */
static double grad_flops(const zn_node *n) { return 1.5 * flops(n); }

const zn_op zn_op_tile_mix_grad = { .name = "tile_mix_grad",
                                    .shape = zn_like_first,
                                    .run = grad_run,
                                    .launches = zn_launches,
                                    .needs = grad_needs,
                                    .flops = grad_flops,
                                    .tail = grad_tail };
