/* Shared functions of op descriptors, and the launch of a kernel on threads or on a device. */
#include "base/fail.h"
#include "kernels/narrow.h"
#include "ops/ops.h"

zn_status zn_same_shape(zn_node *n)
{
    n->shape = n->source[0]->shape;
    for (int i = 1; i < n->source_count; i++)
        if (!zn_shape_equal(n->shape, n->source[i]->shape)) {
            char a[96], b[96];
            return ZN_FAIL(ZN_ESHAPE, "shapes %s and %s differ", zn_shape_text(n->shape, a, sizeof a),
                           zn_shape_text(n->source[i]->shape, b, sizeof b));
        }
    return ZN_OK;
}

zn_status zn_like_first(zn_node *n)
{
    n->shape = n->source[0]->shape;
    return ZN_OK;
}

zn_status zn_like_second(zn_node *n)
{
    n->shape = n->source[1]->shape;
    return ZN_OK;
}

zn_status zn_need_rank(const zn_node *n, int rank)
{
    char text[96];
    if (n->source[0]->shape.rank != rank)
        return ZN_FAIL(ZN_ESHAPE, "needs a tensor of rank %d, not %s", rank,
                       zn_shape_text(n->source[0]->shape, text, sizeof text));
    return ZN_OK;
}

int zn_first_source(const zn_node *n)
{
    (void)n;
    return 0;
}

int zn_second_source(const zn_node *n)
{
    (void)n;
    return 1;
}

void zn_reach_neighbours(const zn_node *n, const zn_prepare *p, int64_t *lo, int64_t *hi)
{
    (void)n;
    (void)p;
    --*lo;
    ++*hi;
}

double zn_one_flop(const zn_node *n) { return (double)zn_shape_count(n->shape); }

double zn_one_slot(const zn_node *n, const zn_prepare *p)
{
    (void)p;
    return (double)zn_shape_count(n->shape);
}

zn_node_types zn_types_alike(const zn_node *n, const zn_prepare *p)
{
    (void)n, (void)p;
    return (zn_node_types){ .result = true, .sources = ~0u, .alike = ~0u };
}

zn_node_types zn_types_like_first(const zn_node *n, const zn_prepare *p)
{
    (void)n, (void)p;
    return (zn_node_types){ .result = true, .sources = 1, .alike = 1 };
}

zn_node_types zn_types_of_map(const zn_node *n, const zn_prepare *p)
{
    (void)n, (void)p;
    return (zn_node_types){ .result = true, .sources = 1 };
}

zn_node_types zn_types_of_norm_grad(const zn_node *n, const zn_prepare *p)
{
    (void)n, (void)p;
    return (zn_node_types){ .result = true, .sources = 1u | 1u << 2 };
}

zn_node_types zn_host_types_of_map(const zn_node *n, const zn_prepare *p)
{
    (void)p;
    const bool fits = zn_channels(n) <= ZN_NARROW_PIECE;
    return (zn_node_types){ .result = fits, .sources = fits };
}

zn_node_types zn_host_types_of_pairs(const zn_node *n, const zn_prepare *p)
{
    bool even = zn_channels(n) % 2 == 0;
    for (int i = 0; i < n->source_count; i++)
        even &= zn_channels(n->source[i]) % 2 == 0;
    return even ? zn_types_alike(n, p) : (zn_node_types){ 0 };
}

int64_t zn_floats_of(const zn_node *n, int64_t count)
{
    return count * (int64_t)zn_type_size(n->type) / (int64_t)sizeof(float);
}

void *zn_values_at(const zn_node *n, int64_t index) { return (char *)n->data + index * (int64_t)zn_type_size(n->type); }

bool zn_launches(const zn_node *n)
{
    (void)n;
    return true;
}

void zn_launch(const zn_launch_context *c, zn_body body, int64_t units, int64_t grain, const void *args)
{
    if (c->device)
        zn_device_launch(c->device, body, units, args);
    else
        zn_pool_run(c->pool, units, grain, body, args, c->scratch, c->scratch_stride);
}
