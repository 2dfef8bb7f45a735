/* The training graph put together: objective, gradients, and who learns by them. */
#include "train/run/trainer.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "graph/compute.h"

/* The discriminator's weight rises for this share of the run. */
static const double discriminator_rise = 0.2;
/* Adaptors and the like start as small as a branch of the model would. */
static const float extra_scale = 0.5f;

int zn_trainer_own_parts(const zn_trainer *t) { return t->parts / zn_ranks_count(t->options.ranks); }

int64_t zn_trainer_opening(const zn_recipe *r) { return (int64_t)(r->discriminator_start * (double)r->steps); }

/* The first step with the discriminator's whole weight. */
static int64_t whole_weight_from(const zn_recipe *r)
{
    const int64_t step = (int64_t)((r->discriminator_start + discriminator_rise) * (double)r->steps);
    return step < r->steps ? step : r->steps;
}

static zn_status add_discriminator(zn_trainer *t)
{
    zn_objective *o = &t->objective;
    const zn_recipe *r = t->recipe;
    if (r->discriminator <= 0 || !o->output || t->options.goal == ZN_GOAL_ENCODER || t->options.goal == ZN_GOAL_DECODER)
        return ZN_OK;
    const zn_learner_options options = { .parts = zn_trainer_own_parts(t),
                                         .pool = t->options.pool,
                                         .device = t->options.device };
    ZN_TRY(zn_discriminator_new(o->target->shape, r, &options, &t->discriminator));
    zn_node *opinion = zn_mean(zn_discriminator_view(o->output));
    zn_parameters_bind(&t->discriminator->parameters, o->graph);
    zn_objective_add(o, "discriminator", zn_scale(opinion, -1),
                     (zn_ramp){ 0, r->discriminator, zn_trainer_opening(r), whole_weight_from(r) });
    return ZN_OK;
}

static zn_optim_options optim_options(const zn_recipe *r)
{
    static const zn_optim_kind kinds[] = { ZN_ADAMW, ZN_ADAM, ZN_ADAM, ZN_SGD };
    return (zn_optim_options){ .kind = kinds[r->optimizer],
                               .lr = (float)r->lr,
                               .beta1 = (float)r->beta1,
                               .beta2 = (float)r->beta2,
                               .eps = (float)r->eps,
                               .weight_decay = (float)r->weight_decay,
                               .momentum = (float)r->momentum,
                               .amsgrad = r->optimizer == ZN_RECIPE_AMSGRAD };
}

/* True if the learner has to do with this parameter of the model. */
static bool is_kept(const zn_trainer *t, const zn_model_parameter *p)
{
    const zn_goal goal = t->options.goal;
    return !zn_goal_on_conditions(goal) || (p->part == zn_goal_part(goal) && p->role != ZN_ROLE_CONSTANT);
}

/* True if parameter i of the learner is one that the goal wants learned. */
static bool is_learned(const zn_trainer *t, int i)
{
    if (i >= t->model->count - t->rest_count || zn_goal_on_conditions(t->options.goal))
        return true;
    const zn_part part = t->learner.parameters[i]->part;
    return part > ZN_DECODER || t->objective.learns[part];
}

/* Gradients of the loss by what is learned, and the executor of loss, output, terms and gradients. The lists are parts
 * of a buffer to work in: a place for each parameter, in `outputs` for each term and two more as well. */
static zn_status differentiate(zn_trainer *t, zn_node **wrt, zn_node **gradients, zn_node **outputs)
{
    zn_objective *o = &t->objective;
    zn_learner *l = &t->learner;
    int learned = 0, count = 0;
    outputs[count++] = o->loss;
    if (o->output)
        outputs[count++] = o->output;
    for (int i = 0; i < o->count; i++)
        outputs[count++] = o->terms[i].value;
    if (t->options.device)
        zn_graph_fuse_silu_norms(o->graph, outputs, count);
    for (int i = 0; i < l->count; i++) {
        const zn_model_parameter *p = l->parameters[i];
        if (is_learned(t, i))
            wrt[learned++] = zn_graph_parameter(o->graph, p->name, p->shape, p->layout);
    }
    ZN_TRY(zn_graph_differentiate_as(o->graph, o->loss, NULL, wrt, learned, gradients, t->recipe->recompute));
    for (int i = 0, k = 0; i < l->count; i++)
        l->gradients[i] = is_learned(t, i) ? gradients[k++] : NULL;
    for (int i = 0; i < l->count; i++)
        if (l->gradients[i])
            outputs[count++] = l->gradients[i];
    zn_graph_multiply_by_convolutions(o->graph);
    zn_graph_fuse(o->graph, outputs, count);
    const zn_exec_options options = { .pool = t->options.pool,
                                      .device = t->options.device,
                                      .math = zn_precision_or_f32(t->recipe->precision),
                                      .whole = o->diffusion || o->flow.form,
                                      .training = true,
                                      .resident = true,
                                      .profile = t->options.profile,
                                      .progress = t->options.stop,
                                      .user = t->options.user };
    return zn_exec_new(o->graph, outputs, count, &options, &t->exec);
}

static zn_status make_learner(zn_trainer *t)
{
    const int most = t->model->count + t->extra.count;
    int count = 0;
    const zn_model_parameter **list = zn_calloc((size_t)most + 1, sizeof *list);
    zn_node **buffer = zn_calloc((size_t)most * 3 + ZN_MAX_TERMS + 2, sizeof *buffer);
    const zn_learner_options options = { .optim = optim_options(t->recipe),
                                         .average = t->recipe->ema > 0,
                                         .parts = zn_trainer_own_parts(t),
                                         .pool = t->options.pool,
                                         .device = t->options.device };
    zn_status status;
    t->rest = zn_calloc((size_t)most + 1, sizeof *t->rest);
    if (!list || !buffer || !t->rest) {
        status = ZN_FAIL(ZN_ENOMEM, "out of memory for training");
        goto done;
    }
    for (int i = 0; i < t->model->count; i++) {
        const zn_model_parameter *p = &t->model->parameters[i];
        if (is_kept(t, p))
            list[count++] = p;
        else
            t->rest[t->rest_count++] = p;
    }
    for (int i = 0; i < t->extra.count; i++)
        list[count++] = &t->extra.list[i];
    ZN_TRY_DONE(zn_learner_new(&t->learner, list, count, &options));
    status = differentiate(t, buffer, buffer + count, buffer + 2 * count);
done:
    zn_free(list);
    zn_free(buffer);
    return status;
}

static zn_status build(zn_trainer *t)
{
    const zn_trainer_options *k = &t->options;
    const zn_objective_options o = {
        .model = k->model, .teacher = k->teacher, .goal = k->goal, .recipe = k->recipe, .batch = k->batch
    };
    ZN_TRY(zn_objective_build(&t->objective, &o));
    ZN_TRY(add_discriminator(t));
    ZN_TRY(zn_objective_close(&t->objective));
    ZN_TRY(zn_parameters_adopt(&t->extra, t->objective.graph, (uint64_t)t->recipe->seed, extra_scale));
    ZN_TRY(zn_alloc_for("losses", sizeof(float) * ZN_FIGURES * (size_t)t->parts, (void **)&t->figures));
    return make_learner(t);
}

zn_status zn_trainer_divide(const zn_recipe *r, const zn_ranks *ranks, int *parts, int *batch)
{
    const int count = zn_ranks_count(ranks);
    if (r->batch % r->accumulate)
        return ZN_FAIL(ZN_EINVALID,
                       "a batch of %d does not divide into the %d parts of 'accumulate': make it a multiple of %d",
                       r->batch, r->accumulate, r->accumulate);
    *parts = r->accumulate;
    while (*parts % count)
        *parts += r->accumulate;
    if (r->batch % *parts)
        return ZN_FAIL(ZN_EINVALID, "a batch of %d does not divide into %d parts for %d ranks", r->batch, *parts,
                       count);
    *batch = r->batch / *parts;
    return ZN_OK;
}

zn_status zn_trainer_new(const zn_trainer_options *options, zn_trainer **out)
{
    *out = NULL;
    const zn_model *m = options->model;
    if (options->recipe->size % m->config.downscale && !zn_goal_on_conditions(options->goal))
        return ZN_FAIL(ZN_EINVALID, "size %d is not a multiple of %d, which %s needs", options->recipe->size,
                       m->config.downscale, m->config.name);
    zn_trainer *t = zn_calloc(1, sizeof *t);
    if (!t)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for training");
    *t = (zn_trainer){
        .options = *options, .model = options->model, .recipe = options->recipe, .batch = options->batch
    };
    if (t->recipe->precision == ZN_PRECISION_F16)
        t->scaler = ZN_SCALER_START;
    t->parts = options->parts ? options->parts : options->recipe->accumulate;
    const zn_status status = build(t);
    if (status == ZN_OK)
        *out = t;
    else
        zn_trainer_free(t);
    return status;
}

void zn_trainer_free(zn_trainer *t)
{
    if (!t)
        return;
    zn_exec_free(t->exec);
    zn_learner_free(&t->learner);
    zn_free(t->rest);
    zn_discriminator_free(t->discriminator);
    zn_objective_free(&t->objective);
    zn_parameters_free(&t->extra);
    zn_free(t->figures);
    zn_free(t->before);
    zn_free(t->ahead);
    zn_free(t);
}
