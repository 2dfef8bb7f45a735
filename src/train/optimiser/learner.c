/* Sums of gradients, clipping, the optimiser and averages over a list of parameters. */
#include "train/optimiser/learner.h"

#include "base/alloc.h"
#include "base/fail.h"

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
    int levels = 0;
    while (l->parts >> levels)
        levels++;
    ZN_TRY(zn_alloc_for("gradients", sizeof(float) * (size_t)(l->total * levels), (void **)&l->tree));
    float *at = l->tree;
    for (int i = 0; i < l->count; at += l->counts[i++])
        l->sums[i] = at;
    return ZN_OK;
}

static zn_status prepare(zn_learner *l, const zn_optim_options *options, bool average)
{
    if (!l->parameters || !l->gradients || !l->counts || !l->sums)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for training");
    for (int i = 0; i < l->count; i++)
        l->total += l->counts[i] = zn_shape_count(l->parameters[i]->shape);
    ZN_TRY(zn_optim_new(&l->optim, l->total, options));
    ZN_TRY(make_tree(l));
    return average ? copy_parameters(l) : ZN_OK;
}

zn_status zn_learner_new(zn_learner *l, const zn_model_parameter *const *parameters, int count,
                         const zn_optim_options *options, bool average, int parts)
{
    *l = (zn_learner){ .count = count, .parts = parts };
    l->parameters = zn_calloc((size_t)count + 1, sizeof *l->parameters);
    l->gradients = zn_calloc((size_t)count + 1, sizeof *l->gradients);
    l->counts = zn_calloc((size_t)count + 1, sizeof *l->counts);
    l->sums = zn_calloc((size_t)count + 1, sizeof *l->sums);
    if (l->parameters)
        memcpy(l->parameters, parameters, sizeof *parameters * (size_t)count);
    const zn_status status = prepare(l, options, average);
    for (int i = 0; i < count && status == ZN_OK; i++)
        l->extreme |= zn_any_extreme(parameters[i]->data, l->counts[i]);
    if (status != ZN_OK)
        zn_learner_free(l);
    return status;
}

void zn_learner_free(zn_learner *l)
{
    for (int i = 0; l->ema && i < l->count; i++)
        zn_free(l->ema[i]);
    zn_free(l->ema);
    zn_free(l->sums);
    zn_free(l->tree);
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
    float *to = l->tree + (l->waiting - 1) * l->total;
    for (int64_t k = 0; k < l->total; k++)
        to[k] += from[k];
}

void zn_learner_gather(zn_learner *l, int part, int of)
{
    const float scale = 1.0f / (float)of;
    l->waiting = part ? l->waiting : 0;
    float *to = l->tree + l->waiting++ * l->total;
    for (int i = 0; i < l->count; i++) {
        const float *g = l->gradients[i] ? l->gradients[i]->data : NULL;
        for (int64_t k = 0; k < l->counts[i]; k++)
            *to++ = g ? scale * g[k] : 0;
    }
    for (int done = part + 1; done % 2 == 0; done /= 2)
        join_levels(l);
    while (part + 1 == l->parts && l->waiting > 1)
        join_levels(l);
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

zn_status zn_learner_clip(zn_learner *l, double limit)
{
    const double norm = zn_clip_norm(l->sums, l->counts, l->count, limit > 0 ? limit : INFINITY);
    l->extreme |= !(norm < (double)extreme_from) && !(limit > 0 && limit < (double)extreme_from);
    for (int i = 0; i < l->count && !isfinite(norm); i++)
        for (int64_t k = 0; k < l->counts[i]; k++)
            if (!isfinite(l->sums[i][k]))
                return ZN_FAIL(ZN_ENUMERIC, "the gradient of '%s' holds NaN or infinity", l->parameters[i]->name);
    return ZN_OK;
}

void zn_learner_update(zn_learner *l, zn_pool *pool, const zn_learner_step *s)
{
    zn_optim_begin(&l->optim, (float)s->lr);
    for (int i = 0; i < l->count; i++) {
        const zn_optim_tensor rule = zn_parameter_rule(l->parameters[i], s);
        if (l->gradients[i])
            zn_optim_update(&l->optim, pool, l->parameters[i]->data, l->sums[i], l->counts[i], &rule);
    }
    const double done = (double)(l->optim.step - 1), settled = (1 + done) / (10 + done);
    const float keep = (float)(s->steady || s->average < settled ? s->average : settled);
    for (int i = 0; i < l->count; i++) {
        if (!l->gradients[i]) /* the mean of equal values is rounded too */
            continue;
        const float *w = l->parameters[i]->data;
        for (int64_t k = 0; l->ema && k < l->counts[i]; k++)
            l->ema[i][k] = keep * l->ema[i][k] + (1 - keep) * w[k];
        l->extreme |= zn_any_extreme(w, l->counts[i]);
    }
}

void zn_learner_swap(zn_learner *l)
{
    for (int i = 0; l->ema && i < l->count; i++)
        for (int64_t k = 0; k < l->counts[i]; k++) {
            const float w = l->parameters[i]->data[k];
            l->parameters[i]->data[k] = l->ema[i][k];
            l->ema[i][k] = w;
        }
}
