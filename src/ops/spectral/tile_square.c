/* GELU of spectral tiles along rows, then columns, tile by tile in one pass over memory. Fusion creates it from a
 * Lite-R block. Sources: x, gate and threshold of rows, gate and threshold of columns. */
#include "kernels/gates.h"
#include "ops/passes/fuse.h"
#include "ops/slots.h"

static zn_tile_square_args args_of(const zn_node *n)
{
    const int64_t *d = n->source[0]->shape.dim;
    return (zn_tile_square_args){ .x = n->source[0]->data,
                                  .gate = { n->source[1]->data, n->source[3]->data },
                                  .th = { n->source[2]->data, n->source[4]->data },
                                  .y = n->data,
                                  .n = (int)d[0],
                                  .h = (int)d[1],
                                  .wide = (int)d[2],
                                  .channels = (int)d[3],
                                  .p = (int)n->source[1]->shape.dim[0],
                                  .offset = *(int *)n->attribute,
                                  .type = n->type };
}

static zn_needs needs(const zn_node *n, const zn_prepare *p)
{
    (void)p;
    const zn_tile_square_args a = args_of(n);
    return (zn_needs){ .thread_scratch = zn_tile_square_scratch(&a) };
}

static zn_node_types types(const zn_node *n, const zn_prepare *p)
{
    const zn_tile_square_args a = args_of(n);
    return zn_tile_square_takes_half(a.channels, a.p) ? zn_types_like_first(n, p) : (zn_node_types){ 0 };
}

static void run(const zn_node *n, const zn_launch_context *c)
{
    const zn_tile_square_args a = args_of(n);
    const int64_t units = zn_tile_square_units(&a), some = units / 64; /* parameters are prepared for each block of
                                                                        * units */
    zn_launch(c, zn_k_tile_square, units, some > 1 ? some : 1, &a);
}

/* Two axes, each with two transforms, gate and threshold, then the activation. */
static double flops(const zn_node *n)
{
    return (2 * (2 * log2((double)n->source[1]->shape.dim[0]) + 3) + 1) * (double)zn_shape_count(n->shape);
}

static double slots(const zn_node *n, const zn_prepare *p)
{
    (void)p;
    return (2 * zn_slots_tile((double)n->source[1]->shape.dim[0]) + ZN_SLOTS_GELU) * (double)zn_shape_count(n->shape);
}

/* Both axes reach as far as one op along either axis. */
static void reach(const zn_node *n, const zn_prepare *p, int64_t *lo, int64_t *hi)
{
    (void)p;
    zn_tile_reach(n->source[1]->shape.dim[0], *(int *)n->attribute, lo, hi);
}

static int block(const zn_node *n, const zn_prepare *p)
{
    (void)p;
    return (int)n->source[1]->shape.dim[0];
}

const zn_op zn_op_tile_square = { .name = "tile_square",
                                  .shape = zn_like_first,
                                  .run = run,
                                  .launches = zn_launches,
                                  .types = types,
                                  .needs = needs,
                                  .flops = flops,
                                  .slots = slots,
                                  .reach = reach,
                                  .block = block,
                                  .mirrors = true };

void zn_fuse_tile_square(zn_node *n, int *uses)
{
    zn_node *columns = n->op == &zn_op_gelu ? n->source[0] : NULL;
    if (!columns || columns->op != &zn_op_tile_mix || uses[columns->index] != 1)
        return;
    zn_node *rows = columns->source[0];
    int offset[2];
    if (rows->op != &zn_op_tile_mix || uses[rows->index] != 1 || zn_tile_mix_axis(columns, &offset[1]) != 1 ||
        zn_tile_mix_axis(rows, &offset[0]) != 2 || offset[0] != offset[1] ||
        rows->source[1]->shape.dim[0] != columns->source[1]->shape.dim[0])
        return;
    zn_fuse_become(
        n, uses, &zn_op_tile_square, &offset[0], sizeof offset[0],
        (zn_node *[]){ rows->source[0], rows->source[1], rows->source[2], columns->source[1], columns->source[2] }, 5);
}
