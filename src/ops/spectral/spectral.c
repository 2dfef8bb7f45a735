/* Walsh-Hadamard transforms along rows, columns or channels, and the spectral diagonal M(g) = (1/n) H diag(g) H.
 * Both are symmetric, so each is its own adjoint. */
#include "kernels/spectral.h"
#include "base/cpu.h"
#include "base/fail.h"
#include "kernels/kernels.h"
#include "kernels/mix.h"
#include "ops/ops.h"
#include "ops/slots.h"

typedef struct spec {
    int axis;
    float scale;
} spec;

/* The tensor viewed as [outer][n][inner] around the axis. */
static zn_wht_args args_of(const zn_node *x, const spec *k)
{
    zn_wht_args a = { .x = x->data, .scale = k->scale, .outer = 1, .n = x->shape.dim[k->axis], .inner = 1 };
    for (int i = 0; i < k->axis; i++)
        a.outer *= x->shape.dim[i];
    for (int i = k->axis + 1; i < x->shape.rank; i++)
        a.inner *= x->shape.dim[i];
    return a;
}

int zn_spectral_axis(const zn_node *n) { return ((spec *)n->attribute)->axis; }

bool zn_wht_is(const zn_node *n, int axis, float scale)
{
    const spec *k = n->attribute;
    return k->axis == axis && k->scale == scale;
}

static zn_status check_length(const zn_node *x, int axis)
{
    const int64_t n = x->shape.dim[axis];
    if (n < 1 || (n & (n - 1)))
        return ZN_FAIL(ZN_ESHAPE, "a Walsh-Hadamard transform needs a power of two, not %lld", (long long)n);
    return ZN_OK;
}

static zn_needs thread_needs(const zn_node *n, const zn_prepare *p)
{
    (void)p;
    const zn_wht_args a = args_of(n->source[0], n->attribute);
    return (zn_needs){ .thread_scratch = zn_wht_scratch(&a) };
}

static double flops_of(const zn_node *x, const spec *k, int transforms)
{
    return (double)zn_shape_count(x->shape) * (transforms * log2((double)x->shape.dim[k->axis]) + 1);
}

/* y = scale * H x along an axis */
static zn_status wht_shape(zn_node *n)
{
    n->shape = n->source[0]->shape;
    return check_length(n->source[0], ((spec *)n->attribute)->axis);
}

static void wht_run(const zn_node *n, const zn_launch_context *c)
{
    zn_wht_args a = args_of(n->source[0], n->attribute);
    a.y = n->data;
    zn_launch(c, zn_k_wht, zn_wht_units(&a), zn_wht_grain(&a), &a);
}

static void wht_gradient(zn_node *n, zn_node *dy)
{
    const spec *k = n->attribute;
    zn_accumulate(n->source[0], zn_wht(dy, k->axis, k->scale));
}

static double wht_flops(const zn_node *n) { return flops_of(n, n->attribute, 1); }

static double wht_slots(const zn_node *n, const zn_prepare *p)
{
    (void)p;
    const spec *k = n->attribute;
    const double length = (double)n->shape.dim[k->axis], factor = k->scale == 1 ? 0 : length > 1 ? ZN_SLOTS_FACTOR : 1;
    return (double)zn_shape_count(n->shape) * (zn_slots_wht(length) + factor);
}

const zn_op zn_op_wht = { .name = "wht",
                          .shape = wht_shape,
                          .run = wht_run,
                          .launches = zn_launches,
                          .gradient = wht_gradient,
                          .needs = thread_needs,
                          .flops = wht_flops,
                          .slots = wht_slots,
                          .in_place = zn_first_source,
                          .global = true };

zn_node *zn_wht(zn_node *x, int axis, float scale)
{
    const spec k = { axis, scale };
    return zn_apply(&zn_op_wht, &k, sizeof k, (zn_node *[]){ x }, 1);
}

/* y = M(gate) x in one pass over memory */
static zn_status spectral_shape(zn_node *n)
{
    const spec *k = n->attribute;
    n->shape = n->source[0]->shape;
    ZN_TRY(check_length(n->source[0], k->axis));
    const int64_t length = n->shape.dim[k->axis], gates = zn_shape_count(n->source[1]->shape);
    if (gates != length)
        return ZN_FAIL(ZN_ESHAPE, "the network was made for a side of %lld here, not %lld", (long long)gates,
                       (long long)length);
    return ZN_OK;
}

static void spectral_run(const zn_node *n, const zn_launch_context *c)
{
    zn_wht_args a = args_of(n->source[0], n->attribute);
    a.y = n->data;
    a.gate = n->source[1]->data;
    zn_launch(c, zn_k_wht, zn_wht_units(&a), zn_wht_grain(&a), &a);
}

static void spectral_gradient(zn_node *n, zn_node *dy)
{
    zn_node *x = n->source[0], *gate = n->source[1];
    if (zn_needs_gradient(x))
        zn_accumulate(x, zn_apply(&zn_op_spectral, n->attribute, sizeof(spec), (zn_node *[]){ dy, gate }, 2));
    if (zn_needs_gradient(gate))
        zn_accumulate(gate, zn_apply(&zn_op_gate_grad, n->attribute, sizeof(spec), (zn_node *[]){ x, dy }, 2));
}

static double spectral_flops(const zn_node *n) { return flops_of(n, n->attribute, 2); }

static double spectral_slots(const zn_node *n, const zn_prepare *p)
{
    (void)p;
    return (double)zn_shape_count(n->shape) * zn_slots_spectral((double)n->shape.dim[zn_spectral_axis(n)]);
}

const zn_op zn_op_spectral = { .name = "spectral",
                               .shape = spectral_shape,
                               .run = spectral_run,
                               .launches = zn_launches,
                               .gradient = spectral_gradient,
                               .needs = thread_needs,
                               .flops = spectral_flops,
                               .slots = spectral_slots,
                               .in_place = zn_first_source,
                               .global = true };

zn_node *zn_spectral(zn_node *x, zn_node *gate, int axis)
{
    const spec k = { axis, 1.0f / (float)x->shape.dim[axis] };
    return zn_apply(&zn_op_spectral, &k, sizeof k, (zn_node *[]){ x, gate }, 2);
}

static zn_status gate_grad_shape(zn_node *n)
{
    n->shape = ZN_SHAPE(n->source[0]->shape.dim[((spec *)n->attribute)->axis]);
    return ZN_OK;
}

/* Number of partial sums. */
static int64_t gate_grad_blocks(const zn_wht_args *a, bool gpu)
{
    return gpu ? zn_sum_parts(zn_wht_units(a), true) : zn_wht_units(a);
}

static zn_needs gate_grad_needs(const zn_node *n, const zn_prepare *p)
{
    zn_needs needs = thread_needs(n, p);
    const zn_wht_args a = args_of(n->source[0], n->attribute);
    needs.shared_scratch = sizeof(float) * (size_t)(gate_grad_blocks(&a, p->cpu & ZN_CPU_CUDA) * a.n);
    return needs;
}

static void gate_grad_run(const zn_node *n, const zn_launch_context *c)
{
    const zn_gate_grad_args a = { .t = args_of(n->source[0], n->attribute),
                                  .dy = n->source[1]->data,
                                  .partial = c->shared };
    const int64_t units = gate_grad_blocks(&a.t, c->device);
    zn_launch(c, zn_k_gate_grad, units, zn_wht_grain(&a.t), &a);
    const zn_reduce_args sum = { .x = a.partial, .y = n->data, .rows = a.t.n, .c = (int)units };
    zn_launch(c, zn_k_sum_partials, sum.rows, 64, &sum);
}

const zn_op zn_op_gate_grad = { .name = "gate_grad",
                                .shape = gate_grad_shape,
                                .run = gate_grad_run,
                                .launches = zn_launches,
                                .needs = gate_grad_needs,
                                .global = true };
