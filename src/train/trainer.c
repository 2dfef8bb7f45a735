/* The training graph and one step of it. */
#include "train/trainer.h"

#include "base/alloc.h"
#include "base/fail.h"

#include <string.h>

enum { BANDS = 3 };

static zn_node *plus(zn_node *sum, zn_node *term, double weight)
{
    term = zn_scale(term, (float)weight);
    return sum ? zn_add(sum, term) : term;
}

/* Differences to the next coarser scale, where edges and texture are; weights 4, 2, 1 from fine to coarse. */
static zn_node *band_loss(zn_node *sum, zn_node *a, zn_node *b, double weight)
{
    for (int level = 0; level < BANDS && a->shape.dim[1] % 2 == 0 && a->shape.dim[2] % 2 == 0; level++) {
        zn_node *a2 = zn_downsample2(a), *b2 = zn_downsample2(b);
        sum = plus(sum, zn_mean_absolute_error(zn_sub(a, zn_upsample2(a2)), zn_sub(b, zn_upsample2(b2))),
                   weight * (double)(4 >> level));
        a = a2;
        b = b2;
    }
    return sum;
}

static zn_node *loss_of(const zn_recipe *r, zn_node *y, zn_node *target)
{
    zn_node *sum = NULL;
    if (r->mse > 0)
        sum = plus(sum, zn_mean_square_error(y, target), r->mse);
    if (r->l1 > 0)
        sum = plus(sum, zn_mean_absolute_error(y, target), r->l1);
    if (r->huber > 0)
        sum = plus(sum, zn_huber(y, target, 0.05f), r->huber);
    if (r->bands > 0)
        sum = band_loss(sum, y, target, r->bands);
    return sum;
}

static zn_status build(zn_trainer *t)
{
    zn_model *m = t->model;
    const zn_recipe *r = t->recipe;
    const zn_shape shape = ZN_SHAPE(t->batch, r->size, r->size, 3);
    const zn_shape input = ZN_SHAPE(t->batch, r->size, r->size, zn_model_inputs(m, ZN_ENCODER));
    t->graph = zn_graph_new();
    zn_node **wrt = zn_calloc((size_t)m->count * 3 + 3, sizeof *wrt), **outputs = wrt + m->count;
    t->gradients = zn_calloc((size_t)m->count + 1, sizeof *t->gradients);
    if (!t->graph || !wrt || !t->gradients) {
        zn_free(wrt);
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a training graph");
    }
    t->input = zn_graph_input(t->graph, "input", input);
    t->target = zn_graph_input(t->graph, "target", shape);
    t->output = m->arch->encode((zn_scope){ t->graph, m->arch->scope[ZN_ENCODER] }, t->input, &m->config);
    if (!m->arch->restores)
        t->output = m->arch->decode((zn_scope){ t->graph, m->arch->scope[ZN_DECODER] }, t->output, &m->config);
    zn_graph_name_layer(t->graph, "loss");
    t->loss = loss_of(r, t->output, t->target);
    zn_status status;
    if (!t->loss) {
        status = ZN_FAIL(ZN_EINVALID, "the recipe gives no loss a weight");
        goto done;
    }
    ZN_TRY_DONE(zn_graph_status(t->graph));
    zn_model_bind(m, t->graph);
    for (int i = 0; i < m->count; i++)
        wrt[i] = zn_graph_parameter(t->graph, m->parameters[i].name, m->parameters[i].shape, m->parameters[i].layout);
    ZN_TRY_DONE(zn_graph_differentiate(t->graph, t->loss, NULL, wrt, m->count, t->gradients));
    int count = 0;
    outputs[count++] = t->loss;
    outputs[count++] = t->output;
    for (int i = 0; i < m->count; i++)
        if (t->gradients[i])
            outputs[count++] = t->gradients[i];
    zn_graph_fuse(t->graph, outputs, count);
    status = zn_exec_new(t->graph, outputs, count, &(zn_exec_options){ .pool = t->pool, .training = true }, &t->exec);
done:
    zn_free(wrt);
    return status;
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

/* An array of buffers like the parameters, copies of them when `copy`. */
static zn_status like_parameters(const zn_model *m, bool copy, float ***out)
{
    *out = zn_calloc((size_t)m->count + 1, sizeof **out);
    if (!*out)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for training");
    for (int i = 0; i < m->count; i++) {
        const size_t bytes = sizeof(float) * (size_t)zn_shape_count(m->parameters[i].shape);
        ZN_TRY(zn_alloc_for("training", bytes, (void **)&(*out)[i]));
        if (copy)
            memcpy((*out)[i], m->parameters[i].data, bytes);
    }
    return ZN_OK;
}

zn_status zn_trainer_new(zn_model *model, const zn_recipe *recipe, zn_pool *pool, int batch, zn_trainer **out)
{
    *out = NULL;
    if (recipe->size % model->config.downscale)
        return ZN_FAIL(ZN_EINVALID, "size %d is not a multiple of %d, which %s needs", recipe->size,
                       model->config.downscale, model->config.name);
    zn_trainer *t = zn_calloc(1, sizeof *t);
    if (!t)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for training");
    *t = (zn_trainer){ .model = model, .recipe = recipe, .pool = pool, .batch = batch };
    const zn_optim_options options = optim_options(recipe);
    zn_status status;
    ZN_TRY_DONE(build(t));
    ZN_TRY_DONE(zn_optim_new(&t->optim, model->info.parameters, &options));
    ZN_TRY_DONE(like_parameters(model, false, &t->sums));
    if (recipe->ema > 0)
        ZN_TRY_DONE(like_parameters(model, true, &t->ema));
    *out = t;
    return ZN_OK;
done:
    zn_trainer_free(t);
    return status;
}

static void free_like(const zn_model *m, float **buffers)
{
    for (int i = 0; buffers && i < m->count; i++)
        zn_free(buffers[i]);
    zn_free(buffers);
}

void zn_trainer_free(zn_trainer *t)
{
    if (!t)
        return;
    free_like(t->model, t->sums);
    free_like(t->model, t->ema);
    zn_optim_free(&t->optim);
    zn_exec_free(t->exec);
    zn_graph_free(t->graph);
    zn_free(t->gradients);
    zn_free(t);
}

static void add_gradients(zn_trainer *t, int micro)
{
    for (int i = 0; i < t->model->count; i++) {
        const int64_t count = zn_shape_count(t->model->parameters[i].shape);
        const float scale = 1.0f / (float)t->recipe->accumulate;
        for (int64_t k = 0; k < count; k++) {
            const float g = t->gradients[i] ? scale * t->gradients[i]->data[k] : 0;
            t->sums[i][k] = micro ? t->sums[i][k] + g : g;
        }
    }
}

/* Only matrices decay: biases, gates, thresholds and scales are vectors or hold one value for each frequency. */
static zn_optim_tensor rule_for(const zn_model_parameter *p)
{
    return (zn_optim_tensor){ .no_decay = p->shape.rank < 3 };
}

static zn_status update(zn_trainer *t)
{
    zn_model *m = t->model;
    int64_t *counts = zn_calloc((size_t)m->count + 1, sizeof *counts);
    if (!counts)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a training step");
    for (int i = 0; i < m->count; i++)
        counts[i] = zn_shape_count(m->parameters[i].shape);
    if (t->recipe->clip > 0)
        zn_clip_norm(t->sums, counts, m->count, t->recipe->clip);
    zn_optim_begin(&t->optim, (float)zn_recipe_lr(t->recipe, t->step));
    for (int i = 0; i < m->count; i++) {
        const zn_optim_tensor rule = rule_for(&m->parameters[i]);
        if (t->gradients[i])
            zn_optim_update(&t->optim, t->pool, m->parameters[i].data, t->sums[i], counts[i], &rule);
    }
    /* the average warms up with the run, or its first weights would linger */
    const double settled = (1.0 + (double)t->step) / (10.0 + (double)t->step);
    const float keep = (float)(t->recipe->ema < settled ? t->recipe->ema : settled);
    for (int i = 0; t->ema && i < m->count; i++)
        for (int64_t k = 0; k < counts[i]; k++)
            t->ema[i][k] = keep * t->ema[i][k] + (1 - keep) * m->parameters[i].data[k];
    zn_free(counts);
    return ZN_OK;
}

zn_status zn_trainer_step(zn_trainer *t, const float *input, const float *target, double *loss)
{
    const int64_t inputs = zn_shape_count(t->input->shape), floats = zn_shape_count(t->target->shape);
    *loss = 0;
    for (int micro = 0; micro < t->recipe->accumulate; micro++) {
        memcpy(t->input->data, input + micro * inputs, sizeof(float) * (size_t)inputs);
        memcpy(t->target->data, target + micro * floats, sizeof(float) * (size_t)floats);
        ZN_TRY(zn_exec_run(t->exec));
        ZN_TRY(zn_exec_check_finite(t->exec));
        *loss += (double)t->loss->data[0] / t->recipe->accumulate;
        add_gradients(t, micro);
    }
    ZN_TRY(update(t));
    t->step++;
    return ZN_OK;
}
