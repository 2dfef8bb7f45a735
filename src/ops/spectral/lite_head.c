/* The head of a Lite-R block in one pass (kernels/lite_head.h), created by fusion from an interleaved grouped
 * convolution of x + depthwise(x) of an RMS norm. Sources: x, gain, taps, w, b. */
#include "kernels/lite_head.h"
#include "ops/passes/fuse.h"
#include "ops/slots.h"

static zn_lite_head_args args_of(const zn_node *n)
{
    const int64_t *d = n->source[0]->shape.dim;
    return (zn_lite_head_args){ .x = n->source[0]->data,
                                .gain = n->source[1]->data,
                                .taps = n->source[2]->data,
                                .w = n->source[3]->data,
                                .b = n->source[4]->data,
                                .y = n->data,
                                .eps = *(float *)n->attribute,
                                .n = (int)d[0],
                                .h = (int)d[1],
                                .wide = (int)d[2],
                                .c = (int)d[3],
                                .co = (int)n->shape.dim[3],
                                .groups = (int)n->source[3]->shape.dim[0],
                                .type = n->type };
}

/* Shapes were checked when the parts were built; copying a graph checks them again. */
static zn_status shape(zn_node *n)
{
    const int64_t *w = n->source[3]->shape.dim;
    n->shape = n->source[0]->shape;
    n->shape.dim[3] = w[0] * w[1];
    return ZN_OK;
}

static zn_needs needs(const zn_node *n, const zn_prepare *p)
{
    (void)p;
    const zn_lite_head_args a = args_of(n);
    return (zn_needs){ .thread_scratch = zn_lite_head_scratch(&a) };
}

static zn_node_types types(const zn_node *n, const zn_prepare *p)
{
    const zn_lite_head_args a = args_of(n);
    return zn_lite_head_takes_half(a.c, a.co, a.groups) ? zn_types_like_first(n, p) : (zn_node_types){ 0 };
}

/* Rows per task. A task computes two more rows than its own. It gets half of a thread's rows, but at least
 * ROWS_LEAST while there are enough for all threads, and at most ROWS_MOST. */
enum { ROWS_LEAST = 32, ROWS_MOST = 64 };

static void run(const zn_node *n, const zn_launch_context *c)
{
    const zn_lite_head_args a = args_of(n);
    const int64_t rows = (int64_t)a.n * a.h, each = rows / zn_pool_threads(c->pool);
    int64_t task = each / 2 > ROWS_LEAST ? each / 2 : each < ROWS_LEAST ? each : ROWS_LEAST;
    task = task < 1 ? 1 : task < ROWS_MOST ? task : ROWS_MOST;
    zn_launch(c, zn_k_lite_head, rows, task, &a);
}

static double products(const zn_node *n)
{
    return (double)zn_shape_count(n->shape) * (double)n->source[3]->shape.dim[2];
}

/* Sum of the parts. */
static double flops(const zn_node *n)
{
    return (4 + 19) * (double)zn_shape_count(n->source[0]->shape) + 2 * products(n);
}

static double slots(const zn_node *n, const zn_prepare *p)
{
    (void)p;
    return (3 + 9) * (double)zn_shape_count(n->source[0]->shape) + products(n);
}

const zn_op zn_op_lite_head = { .name = "lite_head",
                                .shape = shape,
                                .run = run,
                                .launches = zn_launches,
                                .types = types,
                                .needs = needs,
                                .flops = flops,
                                .slots = slots,
                                .reach = zn_reach_neighbours };

void zn_fuse_lite_head(zn_node *n, int *uses)
{
    if (n->op != &zn_op_grouped || n->source_count != 3 || n->shape.rank != 4 || !zn_grouped_is_interleaved(n))
        return;
    zn_node *taps = n->source[0], *norm = taps->op == &zn_op_depthwise ? taps->source[0] : NULL;
    if (!norm || uses[taps->index] != 1 || !zn_depthwise_is_residual(taps) || norm->op != &zn_op_rms_norm ||
        zn_rms_norm_has_limit(norm) || uses[norm->index] != 1 || norm->shape.dim[3] % ZN_LITE_HEAD_CHANNELS)
        return;
    zn_fuse_become(n, uses, &zn_op_lite_head, norm->attribute, sizeof(float),
                   (zn_node *[]){ norm->source[0], norm->source[1], taps->source[1], n->source[1], n->source[2] }, 5);
}
