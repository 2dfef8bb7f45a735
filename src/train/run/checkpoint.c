/* Checkpoints: a .safetensors file with every parameter that is kept under its own name, and beside it under prefixes
 * "ema.", "moment1.", "moment2.", "moment2max." what the optimiser remembers; the step is in the metadata. Written
 * whole or not at all. */
#include "base/alloc.h"
#include "base/fail.h"
#include "io/weights/writer.h"
#include "train/run/trainer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FORMAT "zenith-checkpoint"

/* One kind of state of a list of parameters: a prefix and where parameter i's values begin. */
typedef struct part {
    const zn_model_parameter *const *parameters;
    int count;
    zn_node *const *gradients; /* of a learner's */
    const char *prefix;
    float *flat;   /* all parameters consecutively, or */
    float **split; /* one buffer for each; both NULL: the parameters themselves */
} part;

enum { MAX_PARTS = 10, MOST_STEPS = 1000000000 }; /* as many as a recipe may have */

static int parts_of_learner(const zn_learner *l, part *parts)
{
    const part all[] = { { .prefix = "" },
                         { .prefix = "ema.", .split = l->ema },
                         { .prefix = "moment1.", .flat = l->optim.m },
                         { .prefix = "moment2.", .flat = l->optim.v },
                         { .prefix = "moment2max.", .flat = l->optim.v_max } };
    int n = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (i == 0 || all[i].flat || all[i].split) {
            parts[n] = all[i];
            parts[n].parameters = l->parameters;
            parts[n].gradients = l->gradients;
            parts[n++].count = l->count;
        }
    return n;
}

static int parts_of(const zn_trainer *t, part parts[MAX_PARTS])
{
    const int n = parts_of_learner(&t->learner, parts);
    return t->discriminator ? n + parts_of_learner(&t->discriminator->learner, parts + n) : n;
}

/* Parameters without a gradient (permutations, say) have no moments. */
static bool has(const part *p, int parameter) { return !p->flat || p->gradients[parameter]; }

static float *values_of(const part *p, int parameter, int64_t offset)
{
    if (p->flat)
        return p->flat + offset;
    return p->split ? p->split[parameter] : p->parameters[parameter]->data;
}

static bool fill(zn_weight *w, const part *of, const zn_model_parameter *p, const float *values, zn_arena *arena)
{
    float *data = zn_arena_alloc(arena, sizeof(float) * (size_t)zn_shape_count(p->shape));
    w->name = zn_arena_format(arena, "%s%s", of->prefix, p->name);
    if (!data || !w->name)
        return false;
    zn_weight_export(values, p->shape, p->layout, data);
    const zn_shape stored = zn_weight_file_shape(p->shape, p->layout);
    w->dtype = ZN_F32;
    w->rank = stored.rank;
    memcpy(w->shape, stored.dim, sizeof w->shape);
    w->data = data;
    return true;
}

/* The tensors of some parts in the layout of files; memory comes from the arena. */
static zn_status collect(const part *parts, int count, zn_arena *arena, zn_weight **out, int64_t *tensors)
{
    size_t most = 1;
    for (int k = 0; k < count; k++)
        most += (size_t)parts[k].count;
    *tensors = 0;
    *out = zn_arena_alloc(arena, sizeof **out * most);
    for (int k = 0; k < count && *out; k++) {
        int64_t offset = 0;
        for (int i = 0; i < parts[k].count; i++) {
            const zn_model_parameter *p = parts[k].parameters[i];
            if (!has(&parts[k], i))
                continue;
            if (!fill(&(*out)[(*tensors)++], &parts[k], p, values_of(&parts[k], i, offset), arena))
                break;
            offset += zn_shape_count(p->shape);
        }
    }
    return arena->failed ? ZN_FAIL(ZN_ENOMEM, "out of memory for a checkpoint") : ZN_OK;
}

static zn_status write_parts(const char *path, const part *parts, int count, const zn_metadata *metadata,
                             int64_t metadata_count)
{
    zn_arena arena = { 0 };
    zn_weight *tensors;
    int64_t tensor_count;
    zn_status status = collect(parts, count, &arena, &tensors, &tensor_count);
    if (status == ZN_OK)
        status = zn_safetensors_write(path, tensors, tensor_count, metadata, metadata_count);
    zn_arena_free(&arena);
    return status;
}

static bool finite(const float *values, int64_t count)
{
    bool good = true;
    for (int64_t k = 0; k < count; k++)
        good &= isfinite(values[k]) != 0;
    return good;
}

/* The state in host memory is the device's; and the other way round. */
static zn_status fetch_state(const zn_trainer *t)
{
    ZN_TRY(zn_learner_fetch(&t->learner));
    return t->discriminator ? zn_learner_fetch(&t->discriminator->learner) : ZN_OK;
}

static zn_status send_state(const zn_trainer *t)
{
    ZN_TRY(zn_learner_send(&t->learner));
    return t->discriminator ? zn_learner_send(&t->discriminator->learner) : ZN_OK;
}

zn_status zn_trainer_check_finite(const zn_trainer *t)
{
    ZN_TRY(fetch_state(t));
    part parts[MAX_PARTS];
    const int count = parts_of(t, parts);
    for (int k = 0; k < count; k++) {
        int64_t offset = 0;
        for (int i = 0; i < parts[k].count; i++) {
            const zn_model_parameter *p = parts[k].parameters[i];
            if (!has(&parts[k], i))
                continue;
            if (!finite(values_of(&parts[k], i, offset), zn_shape_count(p->shape)))
                return ZN_FAIL(ZN_ENUMERIC, "'%s%s' holds NaN or infinity after the update", parts[k].prefix, p->name);
            offset += zn_shape_count(p->shape);
        }
    }
    return ZN_OK;
}

/* Goes through the whole state, which is copied to or from `copy`; NULL: nothing is. Returns its floats. */
static int64_t move_state(const zn_trainer *t, float *copy, bool back)
{
    part parts[MAX_PARTS];
    const int count = parts_of(t, parts);
    int64_t floats = 0;
    for (int k = 0; k < count; k++) {
        int64_t offset = 0;
        for (int i = 0; i < parts[k].count; i++) {
            if (!has(&parts[k], i))
                continue;
            const int64_t n = zn_shape_count(parts[k].parameters[i]->shape);
            float *values = values_of(&parts[k], i, offset);
            if (copy)
                memcpy(back ? values : copy + floats, back ? copy + floats : values, sizeof(float) * (size_t)n);
            floats += n;
            offset += n;
        }
    }
    return floats;
}

zn_status zn_trainer_remember(zn_trainer *t)
{
    if (!t->before)
        ZN_TRY(zn_alloc_for("the state before a step", sizeof(float) * (size_t)move_state(t, NULL, false),
                            (void **)&t->before));
    ZN_TRY(fetch_state(t));
    move_state(t, t->before, false);
    t->judged_before = zn_trainer_judged(t);
    return ZN_OK;
}

zn_status zn_trainer_go_back(zn_trainer *t)
{
    move_state(t, t->before, true);
    t->learner.optim.step = t->step - t->left_out;
    if (t->discriminator)
        t->discriminator->learner.optim.step = t->judged_before;
    return send_state(t);
}

zn_status zn_checkpoint_write(const char *path, const zn_trainer *t)
{
    ZN_TRY(fetch_state(t));
    part parts[MAX_PARTS];
    char step[32], stage[32], judged[32], scale[96];
    snprintf(step, sizeof step, "%lld", (long long)t->step);
    snprintf(stage, sizeof stage, "%d", t->options.stage);
    snprintf(scale, sizeof scale, "%a %d %lld", (double)t->scaler.scale, t->scaler.good, (long long)t->left_out);
    snprintf(judged, sizeof judged, "%lld", (long long)zn_trainer_judged(t));
    zn_metadata metadata[5] = { { "format", FORMAT }, { "step", step }, { "stage", stage } };
    int count = 3;
    if (t->discriminator)
        metadata[count++] = (zn_metadata){ "judged", judged };
    if (t->scaler.scale > 0)
        metadata[count++] = (zn_metadata){ "loss_scale", scale };
    return write_parts(path, parts, parts_of(t, parts), metadata, count);
}

zn_status zn_trainer_export(const char *path, const zn_trainer *t)
{
    ZN_TRY(fetch_state(t));
    const part weights[] = {
        { .parameters = t->rest, .count = t->rest_count, .prefix = "" },
        { .parameters = t->learner.parameters,
          .count = t->model->count - t->rest_count,
          .prefix = "",
          .split = t->learner.ema },
    };
    zn_arena arena = { 0 };
    zn_metadata metadata[5] = { { "format", "zenith-model" } };
    int count = 1;
    char side[16];
    snprintf(side, sizeof side, "%d", t->model->config.size);
    if (t->model->config.size)
        metadata[count++] = (zn_metadata){ ZN_MODEL_SIZE_KEY, side };
    if (t->model->info.restores && t->recipe->damage.kind == ZN_DAMAGE_MIX_UPSCALE)
        metadata[count++] = (zn_metadata){ ZN_MODEL_TASK_KEY, ZN_MODEL_UPSCALES };
    if ((t->model->arch->can & ZN_SAMPLES) && t->model->arch->tells_velocity(&t->model->config))
        metadata[count++] = (zn_metadata){ ZN_MODEL_PREDICTION_KEY, ZN_MODEL_VELOCITY };
    zn_status status = ZN_OK;
    if (t->model->attributes)
        status = zn_model_attribute_metadata(t->model, &arena, &metadata[count++]);
    if (status == ZN_OK)
        status = write_parts(path, weights, 2, metadata, count);
    zn_arena_free(&arena);
    return status;
}

zn_status zn_trainer_export_part(const char *path, const zn_trainer *t, zn_part which)
{
    const zn_learner *l = &t->learner;
    const zn_metadata metadata[] = { { "format", "pt" } };
    ZN_TRY(fetch_state(t));
    const zn_model_parameter **parameters = zn_calloc((size_t)l->count + 1, sizeof *parameters);
    float **averages = zn_calloc((size_t)l->count + 1, sizeof *averages);
    part own = { .parameters = parameters, .prefix = "", .split = l->ema ? averages : NULL };
    for (int i = 0; i < t->model->count && parameters && averages; i++) {
        if (l->parameters[i]->part != which)
            continue;
        averages[own.count] = l->ema ? l->ema[i] : NULL;
        parameters[own.count++] = l->parameters[i];
    }
    const zn_status status = parameters && averages ? write_parts(path, &own, 1, metadata, 1)
                                                    : ZN_FAIL(ZN_ENOMEM, "out of memory for weights");
    zn_free(parameters);
    zn_free(averages);
    return status;
}

zn_status zn_model_export(const char *path, const zn_model *m)
{
    const zn_metadata metadata[] = { { "format", "zenith-model" } };
    const zn_model_parameter **parameters = zn_calloc((size_t)m->count + 1, sizeof *parameters);
    if (!parameters)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for weights");
    for (int i = 0; i < m->count; i++)
        parameters[i] = &m->parameters[i];
    const part own = { .parameters = parameters, .count = m->count, .prefix = "" };
    const zn_status status = write_parts(path, &own, 1, metadata, 1);
    zn_free(parameters);
    return status;
}

static zn_status read_part(const zn_weights *w, const part *p, bool *extreme)
{
    int64_t offset = 0;
    for (int i = 0; i < p->count; i++) {
        if (!has(p, i))
            continue;
        const zn_model_parameter *m = p->parameters[i];
        char name[300];
        snprintf(name, sizeof name, "%s%s", p->prefix, m->name);
        const zn_weight *tensor = zn_weights_find(w, name);
        if (!tensor)
            return ZN_FAIL(ZN_ENOTFOUND, "tensor '%s' is missing", name);
        float *values = values_of(p, i, offset);
        ZN_TRY(zn_weight_read(w, tensor, m->shape, m->layout, values));
        *extreme |= zn_any_extreme(values, zn_shape_count(m->shape));
        offset += zn_shape_count(m->shape);
    }
    return ZN_OK;
}

/* A number of the metadata: digits and nothing else. */
static zn_status read_count(const char *path, const char *what, const char *text, int64_t *out)
{
    const size_t digits = strspn(text, "0123456789");
    *out = digits && digits <= 10 && !text[digits] ? strtoll(text, NULL, 10) : -1;
    if (*out >= 0 && *out <= MOST_STEPS)
        return ZN_OK;
    return ZN_FAIL(ZN_EFORMAT, "%s: its %s '%.40s' is not a number from 0 to %d", path, what, text, MOST_STEPS);
}

static zn_status read_place(const char *path, const zn_weights *w, int64_t *step, int *stage)
{
    const char *format = zn_weights_metadata(w, "format"), *at = zn_weights_metadata(w, "step");
    const char *in = zn_weights_metadata(w, "stage"); /* older ones know a single stage */
    int64_t number;
    if (!format || strcmp(format, FORMAT) || !at)
        return ZN_FAIL(ZN_EFORMAT, "%s: not a checkpoint of a training run", path);
    ZN_TRY(read_count(path, "step", at, step));
    ZN_TRY(read_count(path, "stage", in ? in : "0", &number));
    *stage = (int)number;
    return ZN_OK;
}

static zn_status open_checkpoint(const char *path, zn_weights **w, int64_t *step, int *stage)
{
    ZN_TRY(zn_weights_open(path, w));
    const zn_status status = read_place(path, *w, step, stage);
    if (status != ZN_OK)
        zn_weights_close(*w);
    return status;
}

/* Of a run in f16: the factor of its loss, good steps since it was changed, and steps that were left out. */
static zn_status read_scale(const char *path, const zn_weights *w, zn_trainer *t)
{
    const char *text = zn_weights_metadata(w, "loss_scale");
    char *end;
    if (!(t->scaler.scale > 0))
        return ZN_OK;
    const float scale = text ? strtof(text, &end) : 0;
    const long long good = scale > 0 ? strtoll(end, &end, 10) : -1, left_out = scale > 0 ? strtoll(end, &end, 10) : -1;
    if (!(scale > 0 && isfinite(scale)) || good < 0 || good >= t->scaler.interval || left_out < 0 ||
        left_out > MOST_STEPS || *end)
        return ZN_FAIL(ZN_EFORMAT, "%s: it has no factor of the loss, which training in f16 needs", path);
    t->scaler.scale = fminf(scale, ZN_SCALER_MOST); /* older versions had no limit */
    t->scaler.good = (int)good;
    t->left_out = left_out;
    return ZN_OK;
}

/* Updates of the discriminator. Older files have no number of them: then every step from its opening on counts. */
static zn_status read_judged(const char *path, const zn_weights *w, zn_trainer *t)
{
    const char *text = zn_weights_metadata(w, "judged");
    int64_t judged = t->step - zn_trainer_opening(t->recipe);
    if (!t->discriminator)
        return ZN_OK;
    if (text)
        ZN_TRY(read_count(path, "judged", text, &judged));
    t->discriminator->learner.optim.step = judged > 0 ? judged : 0;
    return ZN_OK;
}

zn_status zn_checkpoint_read(const char *path, zn_trainer *t)
{
    zn_weights *w;
    int64_t step;
    int stage;
    ZN_TRY(open_checkpoint(path, &w, &step, &stage));
    part parts[MAX_PARTS];
    const int count = parts_of(t, parts);
    zn_status status = ZN_OK;
    for (int k = 0; k < count && status == ZN_OK; k++)
        status = read_part(w, &parts[k], &t->learner.extreme);
    if (status == ZN_OK)
        status = read_scale(path, w, t);
    if (status == ZN_OK) {
        t->step = step;
        t->learner.optim.step = step - t->left_out;
        status = read_judged(path, w, t);
    }
    if (status == ZN_OK)
        status = send_state(t);
    zn_weights_close(w);
    return status == ZN_OK ? ZN_OK : zn_fail_in_file(status, path);
}

zn_status zn_checkpoint_stage(const char *path, int *stage)
{
    zn_weights *w;
    int64_t step;
    ZN_TRY(open_checkpoint(path, &w, &step, stage));
    zn_weights_close(w);
    return ZN_OK;
}
