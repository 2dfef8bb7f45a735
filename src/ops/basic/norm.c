/* Group norm over [N,H,W,C]: groups of C/groups consecutive channels share mean and variance over the whole map.
 * Layer norm is group norm with one group, where every pixel is its own map. Fusion merges the modulations and the
 * activation that follow into the norm. */
#include "kernels/norm.h"
#include "base/cpu.h"
#include "base/fail.h"
#include "graph/types.h"
#include "kernels/kernels.h"
#include "kernels/narrow.h"
#include "ops/passes/fuse.h"
#include "ops/slots.h"

typedef zn_norm spec;

/* x: a node of its shape. */
static zn_norm_args args_of(const zn_node *x, const spec *k)
{
    const int64_t c = zn_channels(x), rows = zn_positions(x);
    const int64_t n = k->pixels ? rows : x->shape.dim[0];
    return (zn_norm_args){
        .x = x->data, .n = n, .pixels = rows / n, .c = (int)c, .groups = k->groups, .eps = k->eps, .act = k->act
    };
}

static zn_status shape(zn_node *n)
{
    const spec *k = n->attribute;
    if (!k->pixels)
        ZN_TRY(zn_need_rank(n, 4));
    const zn_shape x = n->source[0]->shape;
    const int64_t c = x.dim[x.rank - 1];
    if (k->groups < 1 || c % k->groups)
        return ZN_FAIL(ZN_ESHAPE, "%lld channels do not divide into %d groups", (long long)c, k->groups);
    for (int i = 1; i < 3; i++)
        if (zn_shape_count(n->source[i]->shape) != c)
            return ZN_FAIL(ZN_ESHAPE, "gamma and beta need %lld values", (long long)c);
    n->shape = x;
    return ZN_OK;
}

/* A layer norm may process a few pixels at a time, since each pixel is its own map. A device processes all. */
enum { PIXELS = 256 };
static int64_t at_once(const spec *k, int64_t n, bool on_device)
{
    return k->pixels && n > PIXELS && !on_device ? PIXELS : n;
}

static zn_needs needs_for(const zn_node *n, int64_t maps)
{
    zn_norm_args a = args_of(n, n->attribute);
    a.n = maps;
    const bool narrow = n->source[0]->type != ZN_TYPE_F32;
    return (zn_needs){ .shared_scratch = sizeof(float) * (size_t)zn_norm_scratch(&a),
                       .thread_scratch = narrow ? sizeof(float) * (size_t)(zn_norm_block(&a) * a.c) : 0 };
}

static zn_needs needs(const zn_node *n, const zn_prepare *p)
{
    return needs_for(n, at_once(n->attribute, args_of(n, n->attribute).n, p->cpu & ZN_CPU_CUDA));
}

static void place(zn_norm_args *a, void *scratch)
{
    a->partial = scratch;
    a->table = a->partial + 2 * a->n * zn_norm_blocks(a) * a->c;
    a->sums = a->table + 3 * a->n * a->c;
}

static int64_t grain_of(const zn_norm_args *a) { return 1 + (1 << 14) / a->c; }

static void modulate(zn_norm_args *a, const zn_node *n)
{
    const spec *k = n->attribute;
    const float **const numbers[] = { &a->scale, &a->shift, &a->gain };
    int64_t *const steps[] = { &a->scale_step, &a->shift_step, &a->gain_step };
    const bool there[] = { k->scale, k->shift, k->gain };
    for (int i = 0, next = 3; i < 3; i++)
        if (there[i]) {
            *numbers[i] = n->source[next++]->data + k->first[i];
            *steps[i] = k->whole[i];
        }
}

static void run(const zn_node *n, const zn_launch_context *c)
{
    const spec *k = n->attribute;
    zn_norm_args a = args_of(n, k);
    const int64_t all = a.n, step = at_once(k, all, c->device);
    a.n = step;
    a.x_type = n->source[0]->type;
    a.y_type = n->type;
    place(&a, c->shared);
    a.gamma = n->source[1]->data;
    a.beta = n->source[2]->data;
    modulate(&a, n);
    if (k->pair) {
        a.more = n->source[n->source_count - 1]->data;
        a.split = zn_channels(n->source[0]);
    }
    const bool narrow = a.x_type != ZN_TYPE_F32 || a.y_type != ZN_TYPE_F32;
    for (int64_t first = 0; first < all; first += step) {
        const int64_t skip = first * a.pixels * a.c;
        a.x = zn_values_at(n->source[0], skip);
        a.y = zn_values_at(n, skip);
        a.n = all - first < step ? all - first : step;
        if (c->device) {
            zn_launch(c, zn_k_group_norm, a.n * a.groups, 1, &a);
            continue;
        }
        zn_launch(c, narrow ? zn_k_narrow_norm_sums : zn_k_norm_sums, a.n * zn_norm_blocks(&a), 1, &a);
        zn_launch(c, zn_k_norm_merge, a.n * a.groups, 1, &a);
        zn_launch(c, narrow ? zn_k_narrow_norm_apply : zn_k_norm_apply, a.n * a.pixels, grain_of(&a), &a);
    }
}

static zn_node_types types(const zn_node *n, const zn_prepare *p)
{
    const unsigned parts = 1u | 1u << (n->source_count - 1);
    return ((spec *)n->attribute)->pair ? (zn_node_types){ .result = true, .sources = parts, .alike = parts }
                                        : zn_types_of_map(n, p);
}

static void gradient(zn_node *n, zn_node *dy)
{
    zn_node *x = n->source[0], *gamma = n->source[1], *beta = n->source[2];
    zn_node *both = zn_apply(&zn_op_group_norm_grad, n->attribute, sizeof(spec), (zn_node *[]){ x, gamma, dy }, 3);
    zn_accumulate(x, both);
    zn_accumulate_tail(gamma, both, 0);
    zn_accumulate_tail(beta, both, zn_shape_count(gamma->shape));
}

static double flops(const zn_node *n) { return 6.0 * (double)zn_shape_count(n->shape); }

/* Sum, squared deviation from the mean, a factor and a shift. */
static double slots(const zn_node *n, const zn_prepare *p)
{
    (void)p;
    const zn_activation act = ((spec *)n->attribute)->act;
    const double more = act == ZN_ACT_SILU ? ZN_SLOTS_SILU : act == ZN_ACT_RELU ? 1 : 0;
    return (4.0 + more) * (double)zn_shape_count(n->shape);
}

const zn_op zn_op_group_norm = { .name = "group_norm",
                                 .shape = shape,
                                 .run = run,
                                 .launches = zn_launches,
                                 .types = types,
                                 .host_types = zn_host_types_of_map,
                                 .gradient = gradient,
                                 .needs = needs,
                                 .flops = flops,
                                 .slots = slots,
                                 .global = true };

static zn_node *norm(zn_node *x, zn_node *gamma, zn_node *beta, spec k)
{
    return zn_apply(&zn_op_group_norm, &k, sizeof k, (zn_node *[]){ x, gamma, beta }, 3);
}

zn_node *zn_group_norm(zn_node *x, zn_node *gamma, zn_node *beta, int groups, float eps)
{
    return norm(x, gamma, beta, (spec){ .groups = groups, .eps = eps });
}

zn_node *zn_layer_norm(zn_node *x, zn_node *gamma, zn_node *beta, float eps)
{
    return norm(x, gamma, beta, (spec){ .groups = 1, .eps = eps, .pixels = true });
}

/* Sources: x, gamma, dy. The gradients of gamma and beta are stored in the tail. */
static zn_needs grad_needs(const zn_node *n, const zn_prepare *p)
{
    (void)p;
    return needs_for(n, args_of(n->source[0], n->attribute).n);
}

static int64_t grad_tail(const zn_node *n) { return 2 * zn_shape_count(n->source[1]->shape); }

static void grad_run(const zn_node *n, const zn_launch_context *c)
{
    zn_norm_args a = args_of(n->source[0], n->attribute);
    place(&a, c->shared);
    a.gamma = n->source[1]->data;
    a.dy = n->source[2]->data;
    a.y = n->data;
    a.x_type = n->source[0]->type;
    a.dy_type = n->source[2]->type;
    a.y_type = n->type;
    zn_launch(c, zn_k_norm_sums, a.n * zn_norm_blocks(&a), 1, &a);
    zn_launch(c, zn_k_norm_stats, a.n * a.groups, 1, &a);
    zn_launch(c, zn_k_norm_grad_sums, a.n * zn_norm_blocks(&a), 1, &a);
    zn_launch(c, zn_k_norm_grad_merge, a.n * a.groups, 1, &a);
    zn_launch(c, zn_k_norm_grad, a.n * a.pixels, grain_of(&a), &a);
    const zn_reduce_args sum = { .x = a.sums, .y = zn_node_tail(n), .rows = 2 * (int64_t)a.c, .c = (int)a.n };
    zn_launch(c, zn_k_sum_partials, sum.rows, 1024, &sum);
}

static double grad_flops(const zn_node *n) { return 14.0 * (double)zn_shape_count(n->shape); }

const zn_op zn_op_group_norm_grad = { .name = "group_norm_grad",
                                      .shape = zn_like_first,
                                      .run = grad_run,
                                      .launches = zn_launches,
                                      .types = zn_types_of_norm_grad,
                                      .needs = grad_needs,
                                      .flops = grad_flops,
                                      .tail = grad_tail,
                                      .global = true };

/* ---- fusion ---- */

static bool lone(const zn_node *n, const zn_op *op, const int *uses) { return n->op == op && uses[n->index] == 1; }

int zn_norm_before(const zn_node *n, const int *uses, zn_norm *k, zn_node *sources[ZN_MAX_SOURCES])
{
    if (n->op != &zn_op_silu && n->op != &zn_op_relu)
        return 0;
    zn_node *at = n->source[0], *modulations[2];
    int count = 0, total = 0;
    while (count < 2 && lone(at, &zn_op_modulate, uses)) {
        modulations[count++] = at;
        at = at->source[0];
    }
    if (!lone(at, &zn_op_group_norm, uses))
        return 0;
    *k = *(spec *)at->attribute;
    if (k->act != ZN_ACT_NONE || k->scale || k->pixels || (count == 2 && modulations[0]->source_count > 2))
        return 0; /* the second modulation may only scale */
    for (int i = 0; i < 3; i++)
        sources[total++] = at->source[i];
    if (count > 0) {
        const zn_node *first = modulations[count - 1];
        k->scale = true;
        sources[total++] = first->source[1];
        k->shift = first->source_count > 2;
        if (k->shift)
            sources[total++] = first->source[2];
    }
    k->gain = count == 2;
    if (k->gain)
        sources[total++] = modulations[0]->source[1];
    for (int i = 3; i < total; i++)
        if (zn_shape_count(sources[i]->shape) != at->shape.dim[0] * at->shape.dim[3])
            return 0; /* the table does not have one row per map */
    k->act = n->op == &zn_op_silu ? ZN_ACT_SILU : ZN_ACT_RELU;
    return total;
}

void zn_fuse_norm(zn_node *n, int *uses)
{
    spec k;
    zn_node *sources[ZN_MAX_SOURCES];
    const int count = zn_norm_before(n, uses, &k, sources);
    if (!count)
        return;
    const bool there[] = { k.scale, k.shift, k.gain };
    for (int i = 0, next = 3; i < 3; i++)
        if (there[i]) {
            sources[next] = zn_slice_whole(sources[next], &k.first[i], &k.whole[i]);
            next++;
        }
    zn_fuse_become(n, uses, &zn_op_group_norm, &k, sizeof k, sources, count);
}
