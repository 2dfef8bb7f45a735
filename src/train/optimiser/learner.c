/* Sums of gradients, clipping, the optimiser and averages over a list of parameters. */
#include "train/optimiser/learner.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "kernels/kernels.h"
#include "kernels/optim.h"
#include "ops/ops.h"

#include <math.h>
#include <string.h>

/* ---- parameters without a model ---- */

/* By name: the same start whatever other parameters there are. */
static void start(zn_model_parameter *p, uint64_t seed, float scale)
{
    zn_rng rng = zn_rng_new(seed ^ zn_seed_for(0, p->name));
    const int64_t count = zn_shape_count(p->shape);
    const float deviation = p->shape.rank == 4 ? scale * sqrtf(2.0f / (float)(count / p->shape.dim[3])) : 0;
    for (int64_t i = 0; i < count; i++)
        p->data[i] = deviation > 0 ? deviation * zn_rng_normal(&rng) : 0;
}

static bool is_orphan(const zn_node *n) { return n->op == &zn_op_parameter && !n->data; }

zn_status zn_parameters_adopt(zn_parameters *p, zn_graph *g, uint64_t seed, float scale)
{
    int count = 0;
    for (int i = 0; i < zn_graph_count(g); i++)
        count += is_orphan(zn_graph_at(g, i));
    p->list = zn_arena_alloc(&p->arena, sizeof *p->list * (size_t)(count + 1));
    for (int i = 0; i < zn_graph_count(g) && p->list; i++) {
        zn_node *n = zn_graph_at(g, i);
        if (!is_orphan(n))
            continue;
        zn_model_parameter *q = &p->list[p->count];
        *q = (zn_model_parameter){
            .name = zn_arena_copy(&p->arena, n->name), .shape = n->shape, .layout = n->layout, .role = n->role
        };
        q->data = zn_arena_alloc(&p->arena, sizeof(float) * (size_t)zn_shape_count(n->shape));
        if (!q->name || !q->data)
            break;
        start(q, seed, scale);
        n->data = q->data;
        p->count++;
    }
    return p->arena.failed ? ZN_FAIL(ZN_ENOMEM, "out of memory for parameters of the loss") : ZN_OK;
}

void zn_parameters_bind(const zn_parameters *p, zn_graph *g)
{
    for (int i = 0; i < zn_graph_count(g); i++) {
        zn_node *n = zn_graph_at(g, i);
        for (int k = 0; k < p->count && is_orphan(n); k++)
            if (strcmp(p->list[k].name, n->name) == 0)
                n->data = p->list[k].data;
    }
}

void zn_parameters_free(zn_parameters *p)
{
    zn_arena_free(&p->arena);
    *p = (zn_parameters){ 0 };
}

/* ---- learners ---- */

enum { GRAIN = 1 << 14 };

static void launch(const zn_learner *l, zn_body body, int64_t units, int64_t grain, const void *args)
{
    zn_launch(&(zn_launch_context){ .pool = l->options.pool, .device = l->options.device }, body, units, grain, args);
}

static zn_status copy_parameters(zn_learner *l)
{
    l->ema = zn_calloc((size_t)l->count + 1, sizeof *l->ema);
    if (!l->ema)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for training");
    for (int i = 0; i < l->count; i++) {
        const size_t bytes = sizeof(float) * (size_t)l->counts[i];
        ZN_TRY(zn_alloc_for("training", bytes, (void **)&l->ema[i]));
        memcpy(l->ema[i], l->parameters[i]->data, bytes);
    }
    return ZN_OK;
}

/* Sums of 1, 2, 4, ... parts wait for their like: one level for each bit of the number of parts. */
static zn_status make_tree(zn_learner *l)
{
    while (l->options.parts >> l->levels)
        l->levels++;
    ZN_TRY(zn_alloc_for("gradients", sizeof(float) * (size_t)(l->total * l->levels), (void **)&l->tree));
    float *at = l->tree;
    for (int i = 0; i < l->count; at += l->counts[i++])
        l->sums[i] = at;
    return ZN_OK;
}

/* Calls `use` for every buffer of the state, and for the buffers that only a step uses if `all`, until it fails. */
static zn_status for_each_buffer(const zn_learner *l, bool all, zn_status (*use)(void *user, void *host, size_t bytes),
                                 void *user)
{
    const size_t total = sizeof(float) * (size_t)l->total;
    const struct {
        void *host;
        size_t bytes;
    } flat[] = { { l->optim.m, total },
                 { l->optim.v, total },
                 { l->optim.v_max, total },
                 { all ? l->tree : NULL, total * (size_t)l->levels },
                 { all ? l->squares : NULL, sizeof *l->squares * (size_t)l->blocks },
                 { all ? l->flags : NULL, sizeof *l->flags * (size_t)l->blocks } };
    for (size_t i = 0; i < sizeof flat / sizeof *flat; i++)
        if (flat[i].host)
            ZN_TRY(use(user, flat[i].host, flat[i].bytes));
    for (int i = 0; i < l->count; i++) {
        const size_t bytes = sizeof(float) * (size_t)l->counts[i];
        ZN_TRY(use(user, l->parameters[i]->data, bytes));
        if (l->ema)
            ZN_TRY(use(user, l->ema[i], bytes));
    }
    return ZN_OK;
}

static zn_status add_twin(void *learner, void *host, size_t bytes)
{
    zn_learner *l = learner;
    ZN_TRY(zn_device_twin(l->options.device, host, bytes));
    l->twins++;
    return ZN_OK;
}

/* Buffers come in the order in which they got their twins; the last ones may never have. */
static zn_status drop_twin(void *learner, void *host, size_t bytes)
{
    zn_learner *l = learner;
    (void)bytes;
    if (l->twins-- > 0)
        zn_device_drop(l->options.device, host);
    return ZN_OK;
}

static zn_status send(void *learner, void *host, size_t bytes)
{
    zn_device_send(((const zn_learner *)learner)->options.device, host, bytes);
    return ZN_OK;
}

static zn_status fetch(void *learner, void *host, size_t bytes)
{
    zn_device_fetch(((const zn_learner *)learner)->options.device, host, bytes);
    return ZN_OK;
}

typedef zn_status copy_fn(void *learner, void *host, size_t bytes);

static zn_status copy_state(const zn_learner *l, copy_fn *copy, bool sums)
{
    zn_device *d = l->options.device;
    void *user = (void *)(uintptr_t)l;
    if (!d)
        return ZN_OK;
    zn_device_lock(d);
    zn_status status =
        sums ? copy(user, l->tree, sizeof *l->tree * (size_t)l->total) : for_each_buffer(l, false, copy, user);
    if (status == ZN_OK)
        status = zn_device_wait(d);
    zn_device_unlock(d);
    return status;
}

zn_status zn_learner_fetch(const zn_learner *l) { return copy_state(l, fetch, false); }
zn_status zn_learner_send(const zn_learner *l) { return copy_state(l, send, false); }
zn_status zn_learner_fetch_sums(const zn_learner *l) { return copy_state(l, fetch, true); }
zn_status zn_learner_send_sums(const zn_learner *l) { return copy_state(l, send, true); }

static zn_status move_to_device(zn_learner *l)
{
    if (!l->options.device)
        return ZN_OK;
    zn_device_lock(l->options.device);
    const zn_status status = for_each_buffer(l, true, add_twin, l);
    zn_device_unlock(l->options.device);
    ZN_TRY(status);
    return zn_learner_send(l);
}

static zn_status prepare(zn_learner *l)
{
    if (!l->parameters || !l->gradients || !l->counts || !l->sums)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for training");
    for (int i = 0; i < l->count; i++) {
        l->total += l->counts[i] = zn_shape_count(l->parameters[i]->shape);
        l->blocks += zn_reduce_blocks(l->counts[i]);
        l->extreme |= zn_any_extreme(l->parameters[i]->data, l->counts[i]);
    }
    ZN_TRY(zn_optim_new(&l->optim, l->total, &l->options.optim));
    l->optim.device = l->options.device;
    ZN_TRY(make_tree(l));
    ZN_TRY(zn_alloc_for("training", sizeof *l->squares * (size_t)l->blocks, (void **)&l->squares));
    ZN_TRY(zn_alloc_for("training", sizeof *l->flags * (size_t)l->blocks, (void **)&l->flags));
    if (l->options.average)
        ZN_TRY(copy_parameters(l));
    return move_to_device(l);
}

zn_status zn_learner_new(zn_learner *l, const zn_model_parameter *const *parameters, int count,
                         const zn_learner_options *options)
{
    *l = (zn_learner){ .options = *options, .count = count, .scale = 1 };
    l->parameters = zn_calloc((size_t)count + 1, sizeof *l->parameters);
    l->gradients = zn_calloc((size_t)count + 1, sizeof *l->gradients);
    l->counts = zn_calloc((size_t)count + 1, sizeof *l->counts);
    l->sums = zn_calloc((size_t)count + 1, sizeof *l->sums);
    if (l->parameters)
        memcpy(l->parameters, parameters, sizeof *parameters * (size_t)count);
    const zn_status status = prepare(l);
    if (status != ZN_OK)
        zn_learner_free(l);
    return status;
}

void zn_learner_free(zn_learner *l)
{
    if (l->twins) {
        zn_device_lock(l->options.device);
        (void)!for_each_buffer(l, true, drop_twin, l);
        zn_device_unlock(l->options.device);
    }
    for (int i = 0; l->ema && i < l->count; i++)
        zn_free(l->ema[i]);
    zn_free(l->ema);
    zn_free(l->sums);
    zn_free(l->tree);
    zn_free(l->squares);
    zn_free(l->flags);
    zn_optim_free(&l->optim);
    zn_free(l->parameters);
    zn_free(l->gradients);
    zn_free(l->counts);
    *l = (zn_learner){ 0 };
}

/* The last level in use is added to the one before. */
static void join_levels(zn_learner *l)
{
    const float *from = l->tree + --l->waiting * l->total;
    const zn_unary_args a = { .x = from, .y = l->tree + (l->waiting - 1) * l->total };
    launch(l, zn_k_accumulate, l->total, GRAIN, &a);
}

void zn_learner_gather(zn_learner *l, int part, int of)
{
    zn_device_lock(l->options.device);
    l->waiting = part ? l->waiting : 0;
    float *to = l->tree + l->waiting++ * l->total;
    zn_device_group_begin(l->options.device);
    for (int i = 0; i < l->count; to += l->counts[i++]) {
        zn_unary_args a = { .y = to, .a = 0 };
        if (l->gradients[i])
            a = (zn_unary_args){ .x = l->gradients[i]->data, .y = to, .a = 1.0f / ((float)of * l->scale) };
        launch(l, l->gradients[i] ? zn_k_scale : zn_k_fill, l->counts[i], GRAIN, &a);
    }
    zn_device_group_end(l->options.device);
    for (int done = part + 1; done % 2 == 0; done /= 2)
        join_levels(l);
    while (part + 1 == l->options.parts && l->waiting > 1)
        join_levels(l);
    zn_device_unlock(l->options.device);
}

static void set_factor(zn_optim_tensor *rule, double factor)
{
    rule->lr_factor = (float)factor;
    rule->frozen = factor == 0;
}

zn_optim_tensor zn_parameter_rule(const zn_model_parameter *p, const zn_learner_step *s)
{
    zn_optim_tensor rule = { .no_decay = p->role != ZN_ROLE_WEIGHT, .frozen = p->role == ZN_ROLE_CONSTANT };
    if (p->role == ZN_ROLE_GATE)
        set_factor(&rule, s->gate_lr);
    if (s->gated && p->role == ZN_ROLE_UNIT_GAIN)
        set_factor(&rule, 1 / (double)zn_shape_count(p->shape));
    if (s->gated && p->role == ZN_ROLE_BLOCK_GATE)
        set_factor(&rule, s->block_gate_lr);
    if (p->inherited && !rule.frozen)
        set_factor(&rule, s->inherited_lr * (rule.lr_factor > 0 ? (double)rule.lr_factor : 1));
    return rule;
}

/* Squares of it, the second moments, are far from the largest float; so is its product with the largest rate that a
 * recipe may have, 1e5 for block gates, divided by the smallest eps, 1e-12; and it is far above what any run has use
 * for. */
static const float extreme_from = 1e15f;

bool zn_any_extreme(const float *values, int64_t count)
{
    int extreme = 0; /* as wide as a float, or the loop would not vectorise */
    for (int64_t k = 0; k < count; k++)
        extreme |= !(fabsf(values[k]) < extreme_from);
    return extreme != 0;
}

static zn_status name_the_extreme(const zn_learner *l)
{
    for (int i = 0; i < l->count; i++)
        for (int64_t k = 0; k < l->counts[i]; k++)
            if (!isfinite(l->sums[i][k]))
                return ZN_FAIL(ZN_ENUMERIC, "the gradient of '%s' holds NaN or infinity", l->parameters[i]->name);
    return ZN_OK;
}

/* zn_clip_norm on the device. Sums of squares of blocks come back; the host adds them in order. */
static zn_status clip_on_device(zn_learner *l, double limit, double *norm)
{
    zn_device *d = l->options.device;
    const zn_square_sums_args a = { .x = l->tree, .y = l->squares, .count = l->total };
    const int64_t blocks = zn_reduce_blocks(l->total);
    double sum = 0;
    launch(l, zn_k_square_sums, blocks, 1, &a);
    zn_device_fetch(d, l->squares, sizeof *l->squares * (size_t)blocks);
    ZN_TRY(zn_device_wait(d));
    for (int64_t i = 0; i < blocks; i++)
        sum += l->squares[i];
    *norm = sqrt(sum);
    const double factor = limit / (*norm + 1e-6);
    if (factor < 1)
        launch(l, zn_k_scale, l->total, GRAIN, &(zn_unary_args){ .x = l->tree, .y = l->tree, .a = (float)factor });
    if (isfinite(*norm))
        return ZN_OK;
    zn_device_fetch(d, l->tree, sizeof *l->tree * (size_t)l->total);
    return zn_device_wait(d);
}

zn_status zn_learner_clip(zn_learner *l, double limit)
{
    const double least = limit > 0 ? limit : INFINITY;
    double norm;
    if (l->options.device) {
        zn_device_lock(l->options.device);
        const zn_status status = clip_on_device(l, least, &norm);
        zn_device_unlock(l->options.device);
        ZN_TRY(status);
    } else {
        norm = zn_clip_norm(l->sums, l->counts, l->count, least);
    }
    l->extreme |= !(norm < (double)extreme_from) && !(limit > 0 && limit < (double)extreme_from);
    return isfinite(norm) ? ZN_OK : name_the_extreme(l);
}

/* Averages the learned parameters and looks for extreme values among them. */
static zn_status average(zn_learner *l, float keep)
{
    float *flag = l->flags;
    zn_device_group_begin(l->options.device);
    for (int i = 0; i < l->count; i++) {
        if (!l->gradients[i]) /* the mean of equal values is rounded too */
            continue;
        const float *w = l->parameters[i]->data;
        const int64_t blocks = zn_reduce_blocks(l->counts[i]);
        if (l->ema)
            launch(l, zn_k_average, l->counts[i], GRAIN,
                   &(zn_average_args){ .average = l->ema[i], .w = w, .keep = keep });
        launch(l, zn_k_any_extreme, blocks, 1,
               &(zn_extreme_args){ .x = w, .y = flag, .count = l->counts[i], .limit = extreme_from });
        flag += blocks;
    }
    zn_device_group_end(l->options.device);
    if (l->options.device) {
        zn_device_fetch(l->options.device, l->flags, sizeof *l->flags * (size_t)(flag - l->flags));
        ZN_TRY(zn_device_wait(l->options.device));
    }
    for (const float *f = l->flags; f < flag; f++)
        l->extreme |= *f != 0;
    return ZN_OK;
}

zn_status zn_learner_update(zn_learner *l, const zn_learner_step *s)
{
    zn_device_lock(l->options.device);
    zn_optim_begin(&l->optim, (float)s->lr);
    zn_device_group_begin(l->options.device);
    for (int i = 0; i < l->count; i++) {
        const zn_optim_tensor rule = zn_parameter_rule(l->parameters[i], s);
        if (l->gradients[i])
            zn_optim_update(&l->optim, l->options.pool, l->parameters[i]->data, l->sums[i], l->counts[i], &rule);
    }
    zn_device_group_end(l->options.device);
    const double done = (double)(l->optim.step - 1), settled = (1 + done) / (10 + done);
    const zn_status status = average(l, (float)(s->steady || s->average < settled ? s->average : settled));
    zn_device_unlock(l->options.device);
    return status;
}

static void swap_averages(zn_learner *l)
{
    zn_device_group_begin(l->options.device);
    for (int i = 0; l->ema && i < l->count; i++)
        launch(l, zn_k_swap, l->counts[i], GRAIN, &(zn_swap_args){ .x = l->parameters[i]->data, .y = l->ema[i] });
    zn_device_group_end(l->options.device);
}

zn_status zn_learner_swap(zn_learner *l)
{
    zn_device_lock(l->options.device);
    swap_averages(l);
    zn_device_unlock(l->options.device);
    return zn_learner_fetch(l);
}
