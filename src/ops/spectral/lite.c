/* The Lite block in three passes (kernels/lite.h), created by fusion:
 *
 *     rows     spectral along W of a grouped convolution: sources x, w, b, gate
 *     columns  spectral along H: sources t, gate
 *     expand   x + grouped convolution: sources t, w, b, x */
#include "kernels/lite.h"
#include "base/fail.h"
#include "ops/passes/fuse.h"
#include "ops/slots.h"

/* The attribute: the band width of t (kernels/lite.h). */
static int band_of(const zn_node *n) { return *(const int *)n->attribute; }

static zn_lite_args rows_args(const zn_node *n)
{
    const int64_t *d = n->source[0]->shape.dim;
    return (zn_lite_args){ .x = n->source[0]->data,
                           .w = n->source[1]->data,
                           .b = n->source[2]->data,
                           .gate = n->source[3]->data,
                           .y = n->data,
                           .n = (int)d[0],
                           .h = (int)d[1],
                           .wide = (int)d[2],
                           .c = (int)d[3],
                           .ci = (int)n->shape.dim[3],
                           .groups = (int)n->source[1]->shape.dim[0],
                           .band = band_of(n) };
}

static zn_lite_args columns_args(const zn_node *n)
{
    const int64_t *d = n->shape.dim;
    return (zn_lite_args){ .t = n->source[0]->data,
                           .gate = n->source[1]->data,
                           .y = n->data,
                           .n = (int)d[0],
                           .h = (int)d[1],
                           .wide = (int)d[2],
                           .ci = (int)d[3],
                           .groups = 1,
                           .band = band_of(n) };
}

static zn_lite_args expand_args(const zn_node *n)
{
    const int64_t *d = n->shape.dim;
    return (zn_lite_args){ .x = n->source[3]->data,
                           .t = n->source[0]->data,
                           .w = n->source[1]->data,
                           .b = n->source[2]->data,
                           .y = n->data,
                           .n = (int)d[0],
                           .h = (int)d[1],
                           .wide = (int)d[2],
                           .c = (int)d[3],
                           .ci = (int)n->source[0]->shape.dim[3],
                           .groups = (int)n->source[1]->shape.dim[0],
                           .band = band_of(n) };
}

static zn_needs rows_needs(const zn_node *n, const zn_prepare *p)
{
    (void)p;
    const zn_lite_args a = rows_args(n);
    return (zn_needs){ .thread_scratch = zn_lite_scratch(&a) };
}

static zn_needs columns_needs(const zn_node *n, const zn_prepare *p)
{
    (void)p;
    const zn_lite_args a = columns_args(n);
    return (zn_needs){ .thread_scratch = zn_lite_scratch(&a) };
}

static zn_needs expand_needs(const zn_node *n, const zn_prepare *p)
{
    (void)p;
    const zn_lite_args a = expand_args(n);
    return (zn_needs){ .thread_scratch = zn_lite_scratch(&a) };
}

enum { ROWS_MOST = 16, TASKS = 4 }; /* rows per task, which share packed weights; least tasks per thread */

static void rows_run(const zn_node *n, const zn_launch_context *c)
{
    const zn_lite_args a = rows_args(n);
    const int64_t rows = (int64_t)a.n * a.h, most = rows / (TASKS * zn_pool_threads(c->pool));
    zn_launch(c, zn_k_lite_rows, rows, most < 1 ? 1 : most < ROWS_MOST ? most : ROWS_MOST, &a);
}

static void columns_run(const zn_node *n, const zn_launch_context *c)
{
    const zn_lite_args a = columns_args(n);
    const int64_t strips = zn_lite_strips(&a), most = strips / (TASKS * zn_pool_threads(c->pool));
    zn_launch(c, zn_k_lite_columns, strips, a.band ? (most < 1 ? 1 : most) : 1 + 256 / a.h, &a);
}

enum { EXPAND_GRAIN = 1 << 18 }; /* floats */

static void expand_run(const zn_node *n, const zn_launch_context *c)
{
    const zn_lite_args a = expand_args(n);
    zn_launch(c, zn_k_lite_expand, (int64_t)a.n * a.h * a.wide, 1 + EXPAND_GRAIN / a.c, &a);
}

/* Shapes were checked when the parts were built; copying a graph checks them again. */
static zn_status rows_shape(zn_node *n)
{
    n->shape = n->source[0]->shape;
    n->shape.dim[3] = n->source[1]->shape.dim[0] * n->source[1]->shape.dim[1];
    return ZN_OK;
}

static zn_status expand_shape(zn_node *n)
{
    n->shape = n->source[3]->shape;
    return ZN_OK;
}

/* Grouped product, and two transforms with the gate in between. */
static double rows_flops(const zn_node *n)
{
    const double per = 2.0 * (double)n->source[1]->shape.dim[2] + 2 * log2((double)n->shape.dim[2]) + 1;
    return (double)zn_shape_count(n->shape) * per;
}

static double columns_flops(const zn_node *n)
{
    return (double)zn_shape_count(n->shape) * (2 * log2((double)n->shape.dim[1]) + 1);
}

/* The product, and the residual. */
static double expand_flops(const zn_node *n)
{
    return (double)zn_shape_count(n->shape) * (2.0 * (double)n->source[1]->shape.dim[2] + 1);
}

static double rows_slots(const zn_node *n, const zn_prepare *p)
{
    (void)p;
    const double deep = (double)n->source[1]->shape.dim[2], length = (double)n->shape.dim[2];
    return (double)zn_shape_count(n->shape) * (deep + zn_slots_spectral(length));
}

static double columns_slots(const zn_node *n, const zn_prepare *p)
{
    (void)p;
    return (double)zn_shape_count(n->shape) * zn_slots_spectral((double)n->shape.dim[1]);
}

/* The sum starts with the residual; the bias is an addition. */
static double expand_slots(const zn_node *n, const zn_prepare *p)
{
    (void)p;
    return (double)zn_shape_count(n->shape) * ((double)n->source[1]->shape.dim[2] + 1);
}

static int residual(const zn_node *n)
{
    (void)n;
    return 3;
}

/* Bands have one row more than the map. */
static int64_t band_tail(const zn_node *n)
{
    return band_of(n) ? n->shape.dim[0] * n->shape.dim[2] * n->shape.dim[3] : 0;
}

const zn_op zn_op_lite_rows = { .name = "lite_rows",
                                .shape = rows_shape,
                                .run = rows_run,
                                .launches = zn_launches,
                                .needs = rows_needs,
                                .flops = rows_flops,
                                .slots = rows_slots,
                                .tail = band_tail,
                                .global = true };
const zn_op zn_op_lite_columns = { .name = "lite_columns",
                                   .shape = zn_like_first,
                                   .run = columns_run,
                                   .launches = zn_launches,
                                   .needs = columns_needs,
                                   .flops = columns_flops,
                                   .slots = columns_slots,
                                   .tail = band_tail,
                                   .in_place = zn_first_source,
                                   .global = true };
const zn_op zn_op_lite_expand = { .name = "lite_expand",
                                  .shape = expand_shape,
                                  .run = expand_run,
                                  .launches = zn_launches,
                                  .needs = expand_needs,
                                  .flops = expand_flops,
                                  .slots = expand_slots,
                                  .in_place = residual };

/* A plain grouped convolution with bias on a map. */
static bool is_grouped(const zn_node *n)
{
    return n->op == &zn_op_grouped && !zn_grouped_is_interleaved(n) && n->source_count == 3 && n->shape.rank == 4;
}

static bool is_spectral(const zn_node *n, int axis) { return n->op == &zn_op_spectral && zn_spectral_axis(n) == axis; }

/* The three passes that end in n store t in bands, if no other node reads it. */
static void choose_band(zn_node *n, const int *uses)
{
    zn_node *columns = n->source[0], *rows = columns->op == &zn_op_lite_columns ? columns->source[0] : NULL;
    if (!rows || rows->op != &zn_op_lite_rows || uses[columns->index] != 1 || uses[rows->index] != 1)
        return;
    const int64_t *d = columns->shape.dim;
    *(int *)rows->attribute = *(int *)columns->attribute = *(int *)n->attribute = zn_lite_band(d[1], d[2], d[3]);
}

void zn_fuse_lite(zn_node *n, int *uses)
{
    const int none = 0;
    if (is_spectral(n, 2)) {
        zn_node *g = n->source[0];
        if (is_grouped(g) && uses[g->index] == 1)
            zn_fuse_become(n, uses, &zn_op_lite_rows, &none, sizeof none,
                           (zn_node *[]){ g->source[0], g->source[1], g->source[2], n->source[1] }, 4);
        return;
    }
    if (is_spectral(n, 1) && n->shape.rank == 4)
        zn_fuse_become(n, uses, &zn_op_lite_columns, &none, sizeof none, (zn_node *[]){ n->source[0], n->source[1] },
                       2);
    for (int side = 0; side < 2 && n->op == &zn_op_add; side++) {
        zn_node *g = n->source[side], *x = n->source[1 - side];
        if (is_grouped(g) && uses[g->index] == 1 && x != g)
            zn_fuse_become(n, uses, &zn_op_lite_expand, &none, sizeof none,
                           (zn_node *[]){ g->source[0], g->source[1], g->source[2], x }, 4);
    }
    if (n->op == &zn_op_lite_expand)
        choose_band(n, uses);
}
