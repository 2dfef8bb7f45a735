/* Small ops on channels: a vector added to every pixel, one row of a table of parameters, and a permutation that is
 * itself a parameter (an index table from a file). The spectral linear layer uses them. */
#include "base/fail.h"
#include "kernels/kernels.h"
#include "kernels/mix.h"
#include "ops/ops.h"

#include <string.h>

enum { GRAIN = 1 << 14 };

/* ---- y = x + b, b [C] ---- */

static zn_status add_shape(zn_node *n)
{
    n->shape = n->source[0]->shape;
    if (zn_shape_count(n->source[1]->shape) != zn_channels(n->source[0]))
        return ZN_FAIL(ZN_ESHAPE, "%d channels need as many values to add", zn_channels(n->source[0]));
    return ZN_OK;
}

static void add_run(const zn_node *n, const zn_launch_context *c)
{
    const zn_mix_args a = { .x = n->source[0]->data, .b = n->source[1]->data, .y = n->data, .c = zn_channels(n) };
    zn_launch(c, zn_k_add_channels, zn_positions(n), 1 + GRAIN / a.c, &a);
}

static void add_gradient(zn_node *n, zn_node *dy)
{
    zn_accumulate(n->source[0], dy);
    if (zn_needs_gradient(n->source[1]))
        zn_accumulate(n->source[1], zn_apply(&zn_op_channel_sum, NULL, 0, (zn_node *[]){ dy }, 1));
}

const zn_op zn_op_add_channels = { .name = "add_channels",
                                   .shape = add_shape,
                                   .run = add_run,
                                   .launches = zn_launches,
                                   .gradient = add_gradient,
                                   .flops = zn_one_flop,
                                   .slots = zn_one_slot,
                                   .in_place = zn_first_source };

zn_node *zn_add_channels(zn_node *x, zn_node *b)
{
    return zn_apply(&zn_op_add_channels, NULL, 0, (zn_node *[]){ x, b }, 2);
}

/* ---- row `k` of a table [rows,...] ---- */

typedef struct row_spec {
    int64_t row, rows; /* rows: for the gradient */
} row_spec;

static zn_status row_shape(zn_node *n)
{
    const row_spec *k = n->attribute;
    const zn_shape t = n->source[0]->shape;
    if (t.rank < 2 || k->row < 0 || k->row >= t.dim[0])
        return ZN_FAIL(ZN_ESHAPE, "there is no row %lld", (long long)k->row);
    n->shape.rank = t.rank - 1;
    memcpy(n->shape.dim, t.dim + 1, sizeof(int64_t) * (size_t)n->shape.rank);
    return ZN_OK;
}

static float *row_view(const zn_node *n)
{
    return n->source[0]->data + ((row_spec *)n->attribute)->row * zn_shape_count(n->shape);
}

static void row_run(const zn_node *n, const zn_launch_context *c)
{
    const zn_unary_args a = { .x = row_view(n), .y = n->data };
    zn_launch(c, zn_k_copy, zn_shape_count(n->shape), GRAIN, &a);
}

static void row_gradient(zn_node *n, zn_node *dy)
{
    const row_spec k = { ((row_spec *)n->attribute)->row, n->source[0]->shape.dim[0] };
    zn_accumulate(n->source[0], zn_apply(&zn_op_row_grad, &k, sizeof k, (zn_node *[]){ dy }, 1));
}

/* Rows and tables are parameters, not feature maps. They are marked global so that their dimensions are not treated
 * as positions. */
const zn_op zn_op_row = { .name = "row",
                          .shape = row_shape,
                          .run = row_run,
                          .view = row_view,
                          .launches = zn_launches,
                          .gradient = row_gradient,
                          .global = true };

int zn_row_index(const zn_node *n) { return (int)((row_spec *)n->attribute)->row; }

zn_node *zn_row(zn_node *table, int row)
{
    const row_spec k = { row, 0 };
    return zn_apply(&zn_op_row, &k, sizeof k, (zn_node *[]){ table }, 1);
}

static zn_status row_grad_shape(zn_node *n)
{
    const zn_shape row = n->source[0]->shape;
    n->shape = (zn_shape){ .rank = row.rank + 1, .dim = { ((row_spec *)n->attribute)->rows } };
    memcpy(n->shape.dim + 1, row.dim, sizeof(int64_t) * (size_t)row.rank);
    return ZN_OK;
}

static void row_grad_run(const zn_node *n, const zn_launch_context *c)
{
    const int64_t length = zn_shape_count(n->source[0]->shape);
    const zn_unary_args zeros = { .y = n->data, .a = 0 };
    const zn_unary_args row = { .x = n->source[0]->data, .y = n->data + ((row_spec *)n->attribute)->row * length };
    zn_launch(c, zn_k_fill, zn_shape_count(n->shape), GRAIN, &zeros);
    zn_launch(c, zn_k_copy, length, GRAIN, &row);
}

const zn_op zn_op_row_grad = {
    .name = "row_grad", .shape = row_grad_shape, .run = row_grad_run, .launches = zn_launches, .global = true
};

/* ---- y[j] = x[table[row][j]], the table a parameter of ZN_LAYOUT_INDEX ---- */

static zn_status permute_shape(zn_node *n)
{
    const int64_t row = *(int64_t *)n->attribute, c = zn_channels(n->source[0]);
    const zn_shape t = n->source[1]->shape;
    n->shape = n->source[0]->shape;
    if (t.rank != 2 || t.dim[1] != c || row < 0 || row >= t.dim[0])
        return ZN_FAIL(ZN_ESHAPE, "a permutation of %lld channels needs a table of that width", (long long)c);
    return ZN_OK;
}

static zn_needs permute_needs(const zn_node *n, const zn_prepare *p)
{
    (void)p;
    return (zn_needs){ .shared_scratch = sizeof(int32_t) * (size_t)zn_channels(n) };
}

/* The table holds integers as floats. It was checked when it was loaded; an index out of range selects nothing. */
static void permute_launch(const zn_node *n, const zn_launch_context *c, zn_body body)
{
    const int64_t channels = zn_channels(n);
    const zn_indices_args table = { .table = n->source[1]->data + *(int64_t *)n->attribute * channels,
                                    .indices = c->shared,
                                    .limit = (int)channels };
    const zn_select_args a = {
        .x = n->source[0]->data, .y = n->data, .from = c->shared, .cin = (int)channels, .cout = (int)channels
    };
    zn_launch(c, zn_k_indices, channels, GRAIN, &table);
    zn_launch(c, body, zn_positions(n), 1 + GRAIN / channels, &a);
}

static void permute_run(const zn_node *n, const zn_launch_context *c) { permute_launch(n, c, zn_k_select); }
static void permute_grad_run(const zn_node *n, const zn_launch_context *c) { permute_launch(n, c, zn_k_select_grad); }

static void permute_gradient(zn_node *n, zn_node *dy)
{
    zn_accumulate(n->source[0],
                  zn_apply(&zn_op_permute_grad, n->attribute, n->attribute_size, (zn_node *[]){ dy, n->source[1] }, 2));
}

const zn_op zn_op_permute = { .name = "permute",
                              .shape = permute_shape,
                              .run = permute_run,
                              .launches = zn_launches,
                              .gradient = permute_gradient,
                              .needs = permute_needs };
const zn_op zn_op_permute_grad = { .name = "permute_grad",
                                   .shape = permute_shape,
                                   .run = permute_grad_run,
                                   .launches = zn_launches,
                                   .needs = permute_needs };

int zn_permute_row(const zn_node *n) { return (int)*(int64_t *)n->attribute; }

zn_node *zn_permute_channels(zn_node *x, zn_node *table, int row)
{
    const int64_t k = row;
    return zn_apply(&zn_op_permute, &k, sizeof k, (zn_node *[]){ x, table }, 2);
}
