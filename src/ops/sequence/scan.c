/* The selective scan of Mamba (kernels/scan.h) over tokens [N,..,C]: sequences, tokens, channels. The states at
 * chunk boundaries are stored in its tail; the gradient starts from them. One op computes all gradients: du is its
 * result, the others are stored in its tail. */
#include "kernels/scan.h"
#include "base/cpu.h"
#include "base/fail.h"
#include "kernels/kernels.h"
#include "ops/ops.h"
#include "ops/slots.h"

#include <string.h>

/* Sources. After them the scan has the first state, if any; the gradient has SCAN, DY and the first state. */
enum { U, DT, B, C, A_LOG, D, BIAS, FIRST, SCAN = FIRST, DY, GRAD_FIRST };

static int64_t last(zn_shape s) { return s.dim[s.rank - 1]; }

static zn_scan_args sizes_of(const zn_node *n)
{
    const zn_shape u = n->source[U]->shape;
    return (zn_scan_args){ .sequences = u.dim[0],
                           .length = zn_shape_count(u) / (u.dim[0] * last(u)),
                           .channels = (int)last(u),
                           .states = (int)last(n->source[B]->shape) };
}

/* Also how chunks run. */
static zn_scan_args plan_of(const zn_node *n, bool on_device)
{
    zn_scan_args a = sizes_of(n);
    a.on_device = on_device;
    a.apart = zn_scan_is_apart(&a);
    return a;
}

static zn_scan_args args_of(const zn_node *n, const zn_launch_context *c)
{
    zn_scan_args a = plan_of(n, c->device);
    a.u = n->source[U]->data;
    a.dt = n->source[DT]->data;
    a.b = n->source[B]->data;
    a.c = n->source[C]->data;
    a.a_log = n->source[A_LOG]->data;
    a.d = n->source[D]->data;
    a.bias = n->source[BIAS]->data;
    return a;
}

static int64_t map_size(const zn_scan_args *a) { return a->sequences * a->length * a->channels; }
static int64_t few_size(const zn_scan_args *a) { return a->sequences * a->length * a->states; }
static int64_t state_size(const zn_scan_args *a) { return a->sequences * a->channels * a->states; }
static int64_t inner_size(const zn_scan_args *a) { return a->apart ? zn_scan_inner(a, a->sequences, 0, 0) : 0; }

static zn_status shape(zn_node *n)
{
    const zn_shape u = n->source[U]->shape, b = n->source[B]->shape;
    if (u.rank < 3 || b.rank < 3)
        return ZN_FAIL(ZN_ESHAPE, "a scan needs sequences of tokens");
    const zn_scan_args a = sizes_of(n);
    const int64_t counts[] = { [U] = map_size(&a),
                               [DT] = map_size(&a),
                               [B] = few_size(&a),
                               [C] = few_size(&a),
                               [A_LOG] = (int64_t)a.channels * a.states,
                               [D] = a.channels,
                               [BIAS] = a.channels,
                               [FIRST] = state_size(&a) };
    for (int i = 0; i < n->source_count; i++)
        if (zn_shape_count(n->source[i]->shape) != counts[i])
            return ZN_FAIL(ZN_ESHAPE, "operand %d of a scan over %lld channels with %d states needs %lld values", i,
                           (long long)a.channels, a.states, (long long)counts[i]);
    n->shape = u;
    return ZN_OK;
}

/* The marks of a device, which has more of them. */
static int64_t tail(const zn_node *n)
{
    zn_scan_args a = sizes_of(n);
    a.on_device = true;
    return zn_scan_marks(&a);
}

static zn_needs needs(const zn_node *n, const zn_prepare *p)
{
    const zn_scan_args a = plan_of(n, p->cpu & ZN_CPU_CUDA);
    return (zn_needs){ .thread_scratch = zn_scan_scratch(&a),
                       .shared_scratch = sizeof(float) * 2 * (size_t)inner_size(&a) };
}

static void run(const zn_node *n, const zn_launch_context *c)
{
    zn_scan_args a = args_of(n, c);
    a.first = n->source_count > FIRST ? n->source[FIRST]->data : NULL;
    a.y = n->data;
    a.marks = n->data + zn_shape_count(n->shape);
    a.decay = c->shared;
    a.ends = a.decay + inner_size(&a);
    const int64_t units = zn_scan_runs(&a) * zn_scan_blocks(&a);
    if (a.apart) {
        zn_launch(c, zn_k_scan_ends, units, 1, &a);
        zn_launch(c, zn_k_scan_join, a.sequences * zn_scan_blocks(&a), 1, &a);
    }
    zn_launch(c, zn_k_scan, units, 1, &a);
}

/* Per state: the exponent and its power, the state's decay and update (2 + 1), its contribution to y. */
static double flops(const zn_node *n)
{
    const zn_scan_args a = sizes_of(n);
    return 7.0 * (double)map_size(&a) * a.states;
}

static double slots(const zn_node *n, const zn_prepare *p)
{
    (void)p;
    const zn_scan_args a = sizes_of(n);
    return (ZN_SLOTS_POWER2 + 4.0) * (double)map_size(&a) * a.states;
}

/* Offset of a gradient after du. */
static int64_t place_of(const zn_scan_args *a, int source)
{
    const int64_t map = map_size(a), few = few_size(a), parameters = map + 2 * few;
    const int64_t places[] = { [DT] = 0,
                               [B] = map,
                               [C] = map + few,
                               [A_LOG] = parameters,
                               [D] = parameters + (int64_t)a->channels * a->states,
                               [BIAS] = parameters + (int64_t)a->channels * (a->states + 1),
                               [FIRST] = parameters + zn_scan_parameters(a) };
    return places[source];
}

static void gradient(zn_node *n, zn_node *dy)
{
    zn_node *sources[ZN_MAX_SOURCES], *const *of = n->source;
    const zn_scan_args a = sizes_of(n);
    memcpy(sources, of, sizeof(zn_node *) * FIRST);
    sources[SCAN] = n;
    sources[DY] = dy;
    sources[GRAD_FIRST] = n->source_count > FIRST ? of[FIRST] : NULL;
    zn_node *all = zn_apply(&zn_op_scan_grad, NULL, 0, sources, n->source_count + 2);
    zn_accumulate(of[U], all);
    for (int i = DT; i < n->source_count; i++)
        zn_accumulate_tail(of[i], all, place_of(&a, i));
}

const zn_op zn_op_scan = { .name = "scan",
                           .shape = shape,
                           .run = run,
                           .launches = zn_launches,
                           .gradient = gradient,
                           .needs = needs,
                           .flops = flops,
                           .slots = slots,
                           .tail = tail,
                           .global = true };

zn_node *zn_scan(const zn_scan_sources *s)
{
    return zn_apply(&zn_op_scan, NULL, 0,
                    (zn_node *[]){ s->u, s->dt, s->b, s->c, s->a_log, s->d, s->dt_bias, s->first }, s->first ? 8 : 7);
}

void zn_scan_last_state(const zn_node *n, float *out)
{
    const zn_scan_args a = sizes_of(n);
    const float *marks = n->data + zn_shape_count(n->shape);
    for (int64_t s = 0; s < a.sequences; s++)
        for (int64_t k = 0; k < a.channels; k++)
            for (int i = 0; i < a.states; i++)
                out[(s * a.channels + k) * a.states + i] =
                    marks[zn_scan_mark(&a, s, zn_scan_chunks(&a), k / ZN_SCAN_BLOCK) + i * ZN_SCAN_BLOCK +
                          k % ZN_SCAN_BLOCK];
}

/* ---- all gradients at once ---- */

static zn_status grad_shape(zn_node *n)
{
    n->shape = n->source[U]->shape;
    return ZN_OK;
}

static int64_t grad_tail(const zn_node *n)
{
    const zn_scan_args a = sizes_of(n);
    return place_of(&a, FIRST) + (n->source_count > GRAD_FIRST ? state_size(&a) : 0);
}

static zn_needs grad_needs(const zn_node *n, const zn_prepare *p)
{
    const zn_scan_args a = plan_of(n, p->cpu & ZN_CPU_CUDA);
    const size_t own = zn_scan_grad_scratch(&a), join = zn_scan_scratch(&a);
    const int64_t partial = zn_scan_runs(&a) * zn_scan_parameters(&a) + 2 * zn_scan_groups(&a) * few_size(&a);
    return (zn_needs){ .thread_scratch = own > join ? own : join,
                       .shared_scratch = sizeof(float) * (size_t)(partial + 2 * inner_size(&a)) };
}

static void sum(const zn_launch_context *c, const float *partial, int64_t blocks, int64_t count, float *y)
{
    const zn_reduce_args a = { .x = partial, .y = y, .rows = count, .c = (int)blocks };
    zn_launch(c, zn_k_sum_partials, count, 1024, &a);
}

static void grad_run(const zn_node *n, const zn_launch_context *c)
{
    zn_scan_args a = args_of(n, c);
    float *behind = n->data + zn_shape_count(n->shape);
    a.marks = n->source[SCAN]->data + zn_shape_count(n->shape);
    a.dy = n->source[DY]->data;
    a.du = n->data;
    a.ddt = behind + place_of(&a, DT);
    a.dfirst = n->source_count > GRAD_FIRST ? behind + place_of(&a, FIRST) : NULL;
    a.partial = c->shared;
    a.partial_bc = a.partial + zn_scan_runs(&a) * zn_scan_parameters(&a);
    a.decay = a.partial_bc + 2 * zn_scan_groups(&a) * few_size(&a);
    a.ends = a.decay + inner_size(&a);
    if (a.apart) {
        zn_launch(c, zn_k_scan_grad_ends, zn_scan_runs(&a) * zn_scan_blocks(&a), 1, &a);
        zn_launch(c, zn_k_scan_grad_join, a.sequences * zn_scan_blocks(&a), 1, &a);
    }
    zn_launch(c, zn_k_scan_grad, zn_scan_runs(&a) * zn_scan_groups(&a), 1, &a);
    sum(c, a.partial, zn_scan_runs(&a), zn_scan_parameters(&a), behind + place_of(&a, A_LOG));
    sum(c, a.partial_bc, zn_scan_groups(&a), 2 * few_size(&a), behind + place_of(&a, B));
}

/* The forward pass again, and per state: g, its contributions to five sums, and its propagation to the previous
 * token. */
static double grad_flops(const zn_node *n)
{
    const zn_scan_args a = sizes_of(n);
    return (7.0 + 15.0) * (double)map_size(&a) * a.states;
}

static double grad_slots(const zn_node *n, const zn_prepare *p)
{
    (void)p;
    const zn_scan_args a = sizes_of(n);
    return (ZN_SLOTS_POWER2 + 13.0) * (double)map_size(&a) * a.states;
}

const zn_op zn_op_scan_grad = { .name = "scan_grad",
                                .shape = grad_shape,
                                .run = grad_run,
                                .launches = zn_launches,
                                .needs = grad_needs,
                                .flops = grad_flops,
                                .slots = grad_slots,
                                .tail = grad_tail,
                                .global = true };
