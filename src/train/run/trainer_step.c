/* One step of training: the parts of a batch, what other ranks found out, the update. */
#include "base/alloc.h"
#include "base/fail.h"
#include "models/mamba/mamba_parts.h"
#include "train/run/trainer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

int64_t zn_trainer_judged(const zn_trainer *t) { return t->discriminator ? t->discriminator->learner.optim.step : 0; }

/* True if the discriminator takes part in this step. */
static bool judges(const zn_trainer *t) { return t->discriminator && t->step >= zn_trainer_opening(t->recipe); }

/* In f16 the loss is multiplied by a factor, or small gradients would be lost. */
static bool is_scaled(const zn_trainer *t) { return t->scaler.scale > 0; }

typedef struct copying {
    const float *from;
    float *to;
} copying;

static void copy_some(const void *args, zn_range r)
{
    const copying *c = args;
    memcpy(c->to + r.begin, c->from + r.begin, sizeof(float) * (size_t)(r.end - r.begin));
}

/* By all threads: a batch is tens of megabytes, which a GPU would wait for. An input that no term reads has no memory.
 */
static void put(const zn_trainer *t, zn_node *n, const float *from)
{
    enum { AT_ONCE = 1 << 16 };
    const copying c = { from, n->data };
    if (n->data)
        zn_pool_run(t->options.pool, zn_shape_count(n->shape), AT_ONCE, copy_some, &c, NULL, 0);
}

/* Images whose noise is drawn; `first` is the number of the first in the run. */
typedef struct drawing {
    float *to;
    int64_t each, first;
    uint64_t seed;
} drawing;

static void draw_images(const void *args, zn_range r)
{
    const drawing *d = args;
    for (int64_t i = r.begin; i < r.end; i++) {
        zn_rng rng = zn_rng_new(d->seed * 0x9e3779b97f4a7c15u + (uint64_t)(d->first + i));
        for (int64_t k = 0; k < d->each; k++)
            d->to[i * d->each + k] = zn_rng_normal(&rng);
    }
}

/* Each image's noise depends on the seed and on the image's number in the run alone. */
static void draw_noise_to(const zn_trainer *t, int64_t first, float *to)
{
    const zn_node *n = t->objective.noise;
    const drawing d = { to, zn_shape_count(n->shape) / t->batch, first, (uint64_t)t->recipe->seed };
    zn_pool_run(t->options.pool, t->batch, 1, draw_images, &d, NULL, 0);
}

static void draw_noise(zn_trainer *t, int64_t first)
{
    zn_node *n = t->objective.noise;
    if (!n || !n->data)
        return;
    if (t->ahead && t->ahead_of == first)
        put(t, n, t->ahead);
    else
        draw_noise_to(t, first, n->data);
}

/* While a device computes: the noise of the images after these, which it would wait for. Without memory for it, nothing
 * is drawn ahead. own: the number of the part among this rank's. */
static void draw_noise_ahead(zn_trainer *t, int64_t first, int own)
{
    const zn_node *n = t->objective.noise;
    const int64_t parts = zn_trainer_own_parts(t), skipped = own + 1 < parts ? 1 : t->parts - parts + 1;
    if (!t->options.device || !n || !n->data)
        return;
    if (!t->ahead)
        t->ahead = zn_calloc((size_t)zn_shape_count(n->shape), sizeof(float));
    t->ahead_of = first + skipped * t->batch;
    if (t->ahead)
        draw_noise_to(t, t->ahead_of, t->ahead);
}

/* So does what soft gates are disturbed with. */
static void draw_gate_noise(zn_trainer *t, int part)
{
    const zn_objective *o = &t->objective;
    const float scale = (float)zn_ramp_at(&o->temperature, t->step);
    for (int i = 0; o->gate_noise[0] && i < t->batch; i++) {
        const int64_t number = (t->step * t->parts + part) * t->batch + i;
        zn_rng rng = zn_rng_new(zn_seed_for((uint64_t)t->recipe->seed, "gates") + (uint64_t)number);
        for (int gate = 0; gate < ZN_PRUNE_GATES && o->gate_noise[gate]; gate++) {
            const int64_t each = zn_shape_count(o->gate_noise[gate]->shape) / t->batch;
            float *to = o->gate_noise[gate]->data + i * each;
            for (int64_t k = 0; k < each; k++)
                to[k] = scale * zn_rng_normal(&rng);
        }
    }
}

/* Images whose points are drawn, and what became of it, one number each. */
typedef struct pointing {
    const zn_noising *to;
    zn_points_choice known, asked;
    const float *images;
    uint64_t seed; /* of the first */
    zn_status *status;
} pointing;

static zn_status draw_points_of(const pointing *p, int i)
{
    const zn_noising *n = p->to;
    const int side = p->known.side;
    const float *image = p->images + (int64_t)i * side * side * ZN_FIELD_COLOURS;
    zn_rng rng = zn_rng_new(p->seed + (uint64_t)i);
    if (n->mask)
        return zn_mask_draw(n->mask, &p->known, i, &rng);
    ZN_TRY(zn_points_draw(&n->known, &p->known, i, image, &rng));
    return zn_points_draw(&n->asked, &p->asked, i, image, &rng);
}

static void draw_some_points(const void *args, zn_range r)
{
    const pointing *p = args;
    for (int64_t i = r.begin; i < r.end; i++)
        p->status[i] = draw_points_of(p, (int)i);
}

/* The pixels of each image that an encoder sees, and of a field those that it is asked for, likewise. By all threads:
 * the points are sorted, which takes longer than a GPU's step. */
static zn_status draw_points(zn_trainer *t, int part, const float *images)
{
    const zn_noising *n = &t->objective.noising;
    const zn_recipe *r = t->recipe;
    const int grid = n->known.values ? t->model->arch->mamba(&t->model->config)->net.grid : 0;
    if (!n->known.values && !n->mask)
        return ZN_OK;
    pointing p = { .to = n,
                   .known = { r->size, r->points_least, r->points_most, grid },
                   .asked = { r->size, r->points_asked, r->points_asked, grid },
                   .images = images,
                   .seed =
                       zn_seed_for((uint64_t)r->seed, "points") + (uint64_t)((t->step * t->parts + part) * t->batch) };
    ZN_TRY(zn_alloc_for("points", sizeof *p.status * (size_t)t->batch, (void **)&p.status));
    zn_pool_run(t->options.pool, t->batch, 1, draw_some_points, &p, NULL, 0);
    zn_status status = ZN_OK;
    for (int i = 0; i < t->batch && status == ZN_OK; i++)
        if (p.status[i] != ZN_OK) /* what is wrong, its thread knows */
            status = ZN_FAIL(p.status[i], "the points of image %d of a batch cannot be drawn", i);
    zn_free(p.status);
    return status;
}

/* The step that each image is noised to and what dropout begins with, likewise. */
static void draw_steps(zn_trainer *t, int part)
{
    const zn_objective *o = &t->objective;
    for (int i = 0; o->diffusion && i < t->batch; i++) {
        const int64_t number = (t->step * t->parts + part) * t->batch + i;
        zn_rng rng = zn_rng_new(zn_seed_for((uint64_t)t->recipe->seed, "steps") + (uint64_t)number);
        zn_noising_set(&o->noising, o->diffusion, i, (int)(zn_rng_next(&rng) % (uint64_t)o->diffusion->count));
        if (o->noising.seeds)
            o->noising.seeds->data[i] = (float)(zn_rng_next(&rng) >> 40);
    }
}

static void draw_flow(zn_trainer *t, int64_t first)
{
    const uint64_t seed = zn_seed_for((uint64_t)t->recipe->seed, "steps");
    for (int i = 0; t->objective.flow.form && i < t->batch; i++)
        zn_flow_draw(&t->objective.flow, i, seed + (uint64_t)(first + i));
}

/* From the device: the loss and its terms, and what the discriminator looks at. */
static zn_status fetch_results(zn_trainer *t)
{
    zn_node *nodes[ZN_MAX_TERMS + 2];
    int count = 0;
    nodes[count++] = t->objective.loss;
    for (int i = 0; i < t->objective.count; i++)
        nodes[count++] = t->objective.terms[i].value;
    if (judges(t))
        nodes[count++] = t->objective.output;
    return zn_exec_fetch(t->exec, nodes, count);
}

/* Part `part` of all, the `own`-th of this rank's. */
static zn_status run_part(zn_trainer *t, int part, int own, const float *input, const float *target)
{
    zn_objective *o = &t->objective;
    float *figures = t->figures + part * ZN_FIGURES;
    const int64_t first = (t->step * t->parts + part) * t->batch;
    put(t, o->input, input);
    put(t, o->target, target);
    draw_noise(t, first);
    draw_flow(t, first);
    draw_gate_noise(t, part);
    draw_steps(t, part);
    ZN_TRY(draw_points(t, part, input));
    zn_exec_send(t->exec);
    ZN_TRY(zn_exec_run(t->exec));
    draw_noise_ahead(t, first, own);
    ZN_TRY(fetch_results(t));
    if (!is_scaled(t) || !isfinite(o->loss->data[0])) /* gradients beyond f16 are no mistake: see settle_scale */
        ZN_TRY(zn_exec_check_finite(t->exec));
    *figures++ = o->loss->data[0] / t->learner.scale;
    for (int i = 0; i < o->count; i++)
        *figures++ = o->terms[i].value->data[0];
    zn_learner_gather(&t->learner, own, t->parts);
    if (!judges(t))
        return ZN_OK;
    ZN_TRY(zn_discriminator_look(t->discriminator, target, o->output->data, own, t->parts));
    *figures = t->discriminator->loss->data[0];
    return ZN_OK;
}

zn_status zn_trainer_measure(zn_trainer *t, const float *input, const float *target, int number, double *loss)
{
    zn_objective *o = &t->objective;
    const int64_t first = -((int64_t)number + 1) * t->batch; /* no image of the run has these */
    put(t, o->input, input);
    put(t, o->target, target);
    draw_noise(t, first);
    draw_flow(t, first);
    zn_exec_send(t->exec);
    ZN_TRY(zn_exec_run(t->exec));
    ZN_TRY(fetch_results(t));
    *loss = (double)(o->loss->data[0] / t->learner.scale);
    return ZN_OK;
}

static zn_status run_parts(zn_trainer *t, const float *input, const float *target)
{
    const zn_objective *o = &t->objective;
    const int64_t in = zn_shape_count(o->input->shape), out = zn_shape_count(o->target->shape);
    const int own = zn_trainer_own_parts(t), first = own * zn_ranks_rank(t->options.ranks);
    memset(t->figures, 0, sizeof(float) * ZN_FIGURES * (size_t)t->parts);
    for (int i = 0; i < own; i++)
        ZN_TRY(run_part(t, first + i, i, input + i * in, target + i * out));
    return ZN_OK;
}

static zn_status join_on_devices(const zn_learner *l, zn_device_group *group)
{
    zn_device_lock(l->options.device);
    zn_device_group_sum(group, l->tree, l->total);
    const zn_status status = zn_device_wait(l->options.device);
    zn_device_unlock(l->options.device);
    return status;
}

static zn_status join_sums(zn_learner *l, zn_ranks *ranks, zn_device_group *group)
{
    if (zn_ranks_count(ranks) == 1)
        return ZN_OK;
    if (group)
        return join_on_devices(l, group);
    ZN_TRY(zn_learner_fetch_sums(l));
    ZN_TRY(zn_ranks_sum(ranks, l->tree, l->total));
    return zn_learner_send_sums(l);
}

/* What the other ranks found out. Each figure comes from one rank, so nothing is lost in these sums. */
static zn_status join_ranks(zn_trainer *t)
{
    zn_ranks *ranks = t->options.ranks;
    ZN_TRY(join_sums(&t->learner, ranks, t->options.group));
    if (judges(t))
        ZN_TRY(join_sums(&t->discriminator->learner, ranks, t->options.group));
    return zn_ranks_sum(ranks, t->figures, (int64_t)t->parts * ZN_FIGURES);
}

static double mean_figure(const zn_trainer *t, int figure)
{
    double sum = 0;
    for (int i = 0; i < t->parts; i++)
        sum += (double)t->figures[i * ZN_FIGURES + figure];
    return sum / t->parts;
}

/* The update by gradients that are known. Where numbers are large it may still come to nothing, and is taken back; all
 * ranks have the same numbers. */
static zn_status update(zn_trainer *t)
{
    const zn_recipe *r = t->recipe;
    const zn_learner_step step = { .lr = zn_recipe_lr(r, t->step),
                                   .average = r->ema,
                                   .steady = !r->ema_warmup,
                                   .gate_lr = r->gate_lr,
                                   .gated = t->model->config.gates,
                                   .block_gate_lr = r->block_gate_lr,
                                   .inherited_lr = r->inherited_lr };
    const bool careful = t->learner.extreme || (t->discriminator && t->discriminator->learner.extreme);
    if (careful)
        ZN_TRY(zn_ranks_agree(t->options.ranks, zn_trainer_remember(t)));
    if (judges(t))
        ZN_TRY(zn_discriminator_learn(t->discriminator));
    ZN_TRY(zn_learner_update(&t->learner, &step));
    const zn_status status = careful ? zn_trainer_check_finite(t) : ZN_OK;
    if (status == ZN_ENUMERIC) {
        char text[900];
        snprintf(text, sizeof text, "%s", zn_error_text());
        ZN_TRY(zn_trainer_go_back(t));
        return ZN_FAIL(status, "%s", text);
    }
    return status;
}

/* Gradients that are not finite cost a step and half of the factor. Once the factor is small, they are not its fault.
 */
static zn_status settle_scale(zn_trainer *t, zn_status status, bool *skip)
{
    static const float least = 0x1p-14f;
    *skip = false;
    if (!is_scaled(t) || (status != ZN_OK && status != ZN_ENUMERIC) || (status != ZN_OK && t->scaler.scale < least))
        return status;
    *skip = !zn_scaler_step(&t->scaler, status == ZN_OK);
    t->left_out += *skip;
    return ZN_OK;
}

zn_status zn_trainer_step(zn_trainer *t, const float *input, const float *target, double *loss)
{
    bool skip;
    const zn_recipe *r = t->recipe;
    zn_objective *o = &t->objective;
    t->learner.scale = is_scaled(t) ? t->scaler.scale : 1;
    for (int i = 0; i < o->count; i++)
        o->terms[i].weight->data[0] = (float)zn_ramp_at(&o->terms[i].ramp, t->step) * t->learner.scale;
    ZN_TRY(zn_ranks_agree(t->options.ranks, run_parts(t, input, target)));
    ZN_TRY(join_ranks(t));
    *loss = mean_figure(t, 0);
    for (int i = 0; i < o->count; i++)
        t->values[i] = mean_figure(t, 1 + i);
    ZN_TRY(settle_scale(t, zn_learner_clip(&t->learner, r->clip), &skip));
    if (judges(t) && !skip) { /* nothing is changed before all is known to be finite */
        ZN_TRY(zn_learner_clip(&t->discriminator->learner, r->clip));
        t->discriminator->value = mean_figure(t, 1 + o->count);
    }
    if (!skip)
        ZN_TRY(update(t));
    t->step++;
    return ZN_OK;
}
