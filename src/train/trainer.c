/* The training graph put together, and one step of it. */
#include "train/trainer.h"

#include "base/alloc.h"
#include "base/fail.h"

#include <string.h>

/* The discriminator has a say in the last part of a run, and more of it towards the end. */
static const double discriminator_begin = 0.8;
/* Adaptors and the like start as small as a branch of the model would. */
static const float extra_scale = 0.5f;

static int own_parts(const zn_trainer *t) { return t->parts / zn_ranks_count(t->options.ranks); }

static int64_t opening(const zn_recipe *r) { return (int64_t)(discriminator_begin * (double)r->steps); }

int64_t zn_trainer_judged(const zn_trainer *t)
{
    const int64_t done = t->step - opening(t->recipe);
    return done > 0 ? done : 0;
}

/* True if the discriminator takes part in this step. */
static bool judges(const zn_trainer *t) { return t->discriminator && t->step >= opening(t->recipe); }

static zn_status add_discriminator(zn_trainer *t)
{
    zn_objective *o = &t->objective;
    const zn_recipe *r = t->recipe;
    if (r->discriminator <= 0 || !o->output || t->options.goal == ZN_GOAL_ENCODER || t->options.goal == ZN_GOAL_DECODER)
        return ZN_OK;
    ZN_TRY(zn_discriminator_new(o->target->shape, r, t->options.pool, own_parts(t), &t->discriminator));
    zn_node *opinion = zn_mean(zn_discriminator_view(o->output));
    zn_parameters_bind(&t->discriminator->parameters, o->graph);
    zn_objective_add(o, "discriminator", zn_scale(opinion, -1), (zn_ramp){ 0, r->discriminator, opening(r), r->steps });
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

/* True if parameter i of the learner is one that the goal wants learned. */
static bool is_learned(const zn_trainer *t, int i)
{
    if (i >= t->model->count)
        return true;
    for (int part = 0; part < 2; part++) {
        const char *scope = t->model->arch->scope[part];
        if (strncmp(t->model->parameters[i].name, scope, strlen(scope)) == 0)
            return t->objective.learns[part];
    }
    return true;
}

/* Gradients of the loss by what is learned, and the executor of loss, output, terms and gradients. `room` has a place
 * for each parameter and each output. */
static zn_status differentiate(zn_trainer *t, zn_node **wrt, zn_node **gradients, zn_node **outputs)
{
    zn_objective *o = &t->objective;
    zn_learner *l = &t->learner;
    int learned = 0, count = 0;
    for (int i = 0; i < l->count; i++) {
        const zn_model_parameter *p = l->parameters[i];
        if (is_learned(t, i))
            wrt[learned++] = zn_graph_parameter(o->graph, p->name, p->shape, p->layout);
    }
    ZN_TRY(zn_graph_differentiate_as(o->graph, o->loss, NULL, wrt, learned, gradients, t->recipe->recompute));
    for (int i = 0, k = 0; i < l->count; i++)
        l->gradients[i] = is_learned(t, i) ? gradients[k++] : NULL;
    outputs[count++] = o->loss;
    if (o->output)
        outputs[count++] = o->output;
    for (int i = 0; i < o->count; i++)
        outputs[count++] = o->terms[i].value;
    for (int i = 0; i < l->count; i++)
        if (l->gradients[i])
            outputs[count++] = l->gradients[i];
    zn_graph_fuse(o->graph, outputs, count);
    const zn_exec_options options = { .pool = t->options.pool,
                                      .math = t->recipe->precision == ZN_RECIPE_BF16 ? ZN_MATH_BF16 : ZN_MATH_F32,
                                      .whole = o->diffusion != NULL,
                                      .training = true,
                                      .profile = true,
                                      .progress = t->options.stop,
                                      .user = t->options.user };
    return zn_exec_new(o->graph, outputs, count, &options, &t->exec);
}

static zn_status make_learner(zn_trainer *t)
{
    const int count = t->model->count + t->extra.count;
    const zn_model_parameter **list = zn_calloc((size_t)count + 1, sizeof *list);
    zn_node **room = zn_calloc((size_t)count * 3 + ZN_MAX_TERMS + 2, sizeof *room);
    const zn_optim_options options = optim_options(t->recipe);
    zn_status status;
    if (!list || !room) {
        status = ZN_FAIL(ZN_ENOMEM, "out of memory for training");
        goto done;
    }
    for (int i = 0; i < count; i++)
        list[i] = i < t->model->count ? &t->model->parameters[i] : &t->extra.list[i - t->model->count];
    ZN_TRY_DONE(zn_learner_new(&t->learner, list, count, &options, t->recipe->ema > 0, own_parts(t)));
    status = differentiate(t, room, room + count, room + 2 * count);
done:
    zn_free(list);
    zn_free(room);
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
        return ZN_FAIL(ZN_EINVALID, "a batch of %d does not divide into %d parts", r->batch, r->accumulate);
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
    if (options->recipe->size % m->config.downscale)
        return ZN_FAIL(ZN_EINVALID, "size %d is not a multiple of %d, which %s needs", options->recipe->size,
                       m->config.downscale, m->config.name);
    zn_trainer *t = zn_calloc(1, sizeof *t);
    if (!t)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for training");
    *t = (zn_trainer){
        .options = *options, .model = options->model, .recipe = options->recipe, .batch = options->batch
    };
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
    zn_discriminator_free(t->discriminator);
    zn_objective_free(&t->objective);
    zn_parameters_free(&t->extra);
    zn_free(t->figures);
    zn_free(t);
}

/* An input that no term reads has no memory. */
static void put(zn_node *n, const float *from)
{
    if (n->data)
        memcpy(n->data, from, sizeof(float) * (size_t)zn_shape_count(n->shape));
}

/* Each picture's noise depends on the seed and on the picture's number in the run alone. */
static void draw_noise(zn_trainer *t, int part)
{
    zn_node *n = t->objective.noise;
    if (!n || !n->data)
        return;
    const int64_t each = zn_shape_count(n->shape) / t->batch;
    for (int i = 0; i < t->batch; i++) {
        const int64_t number = (t->step * t->parts + part) * t->batch + i;
        zn_rng rng = zn_rng_new((uint64_t)t->recipe->seed * 0x9e3779b97f4a7c15u + (uint64_t)number);
        for (int64_t k = 0; k < each; k++)
            n->data[i * each + k] = zn_rng_normal(&rng);
    }
}

/* The step that each picture is noised to, likewise. */
static void draw_steps(zn_trainer *t, int part)
{
    const zn_objective *o = &t->objective;
    for (int i = 0; o->diffusion && i < t->batch; i++) {
        const int64_t number = (t->step * t->parts + part) * t->batch + i;
        zn_rng rng = zn_rng_new(zn_seed_for((uint64_t)t->recipe->seed, "steps") + (uint64_t)number);
        zn_noising_set(&o->noising, o->diffusion, i, (int)(zn_rng_next(&rng) % (uint64_t)o->diffusion->count));
    }
}

/* Part `part` of all, the `own`-th of this rank's. */
static zn_status run_part(zn_trainer *t, int part, int own, const float *input, const float *target)
{
    zn_objective *o = &t->objective;
    float *figures = t->figures + part * ZN_FIGURES;
    put(o->input, input);
    put(o->target, target);
    draw_noise(t, part);
    draw_steps(t, part);
    ZN_TRY(zn_exec_run(t->exec));
    ZN_TRY(zn_exec_check_finite(t->exec));
    *figures++ = o->loss->data[0];
    for (int i = 0; i < o->count; i++)
        *figures++ = o->terms[i].value->data[0];
    zn_learner_gather(&t->learner, own, t->parts);
    if (!judges(t))
        return ZN_OK;
    ZN_TRY(zn_discriminator_look(t->discriminator, target, o->output->data, own, t->parts));
    *figures = t->discriminator->loss->data[0];
    return ZN_OK;
}

static zn_status run_parts(zn_trainer *t, const float *input, const float *target)
{
    const zn_objective *o = &t->objective;
    const int64_t in = zn_shape_count(o->input->shape), out = zn_shape_count(o->target->shape);
    const int own = own_parts(t), first = own * zn_ranks_rank(t->options.ranks);
    memset(t->figures, 0, sizeof(float) * ZN_FIGURES * (size_t)t->parts);
    for (int i = 0; i < own; i++)
        ZN_TRY(run_part(t, first + i, i, input + i * in, target + i * out));
    return ZN_OK;
}

/* What the other ranks found out. Each figure comes from one rank, so nothing is lost in these sums. */
static zn_status join_ranks(zn_trainer *t)
{
    zn_ranks *ranks = t->options.ranks;
    ZN_TRY(zn_ranks_sum(ranks, t->learner.tree, t->learner.total));
    if (judges(t))
        ZN_TRY(zn_ranks_sum(ranks, t->discriminator->learner.tree, t->discriminator->learner.total));
    return zn_ranks_sum(ranks, t->figures, (int64_t)t->parts * ZN_FIGURES);
}

static double mean_figure(const zn_trainer *t, int figure)
{
    double sum = 0;
    for (int i = 0; i < t->parts; i++)
        sum += (double)t->figures[i * ZN_FIGURES + figure];
    return sum / t->parts;
}

zn_status zn_trainer_step(zn_trainer *t, const float *input, const float *target, double *loss)
{
    const zn_recipe *r = t->recipe;
    zn_objective *o = &t->objective;
    for (int i = 0; i < o->count; i++)
        o->terms[i].weight->data[0] = (float)zn_ramp_at(&o->terms[i].ramp, t->step);
    ZN_TRY(zn_ranks_agree(t->options.ranks, run_parts(t, input, target)));
    ZN_TRY(join_ranks(t));
    *loss = mean_figure(t, 0);
    for (int i = 0; i < o->count; i++)
        t->values[i] = mean_figure(t, 1 + i);
    const zn_learner_step step = {
        .lr = zn_recipe_lr(r, t->step), .average = r->ema, .steady = !r->ema_warmup, .gate_lr = r->gate_lr
    };
    ZN_TRY(zn_learner_clip(&t->learner, r->clip));
    if (judges(t)) { /* nothing is changed before all is known to be finite */
        ZN_TRY(zn_learner_clip(&t->discriminator->learner, r->clip));
        t->discriminator->value = mean_figure(t, 1 + o->count);
        zn_discriminator_learn(t->discriminator);
    }
    zn_learner_update(&t->learner, t->options.pool, &step);
    t->step++;
    return ZN_OK;
}
