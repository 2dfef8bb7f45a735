/* Checkpoints: a .safetensors file with every parameter under its own name, and beside it under prefixes "ema.",
 * "moment1.", "moment2.", "moment2max." what the optimiser remembers; the step is in the metadata. Written whole or not
 * at all. */
#include "base/alloc.h"
#include "base/fail.h"
#include "io/weights/writer.h"
#include "train/trainer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One kind of state: a prefix and where parameter i's values begin. */
typedef struct part {
    const char *prefix;
    float *flat;   /* all parameters behind one another, or */
    float **split; /* one buffer for each */
} part;

enum { MAX_PARTS = 5 };

static int parts_of(const zn_trainer *t, part parts[MAX_PARTS])
{
    int n = 0;
    parts[n++] = (part){ .prefix = "" };
    if (t->ema)
        parts[n++] = (part){ .prefix = "ema.", .split = t->ema };
    if (t->optim.m)
        parts[n++] = (part){ .prefix = "moment1.", .flat = t->optim.m };
    if (t->optim.v)
        parts[n++] = (part){ .prefix = "moment2.", .flat = t->optim.v };
    if (t->optim.v_max)
        parts[n++] = (part){ .prefix = "moment2max.", .flat = t->optim.v_max };
    return n;
}

/* Parameters without a gradient (permutations, say) have no moments. */
static bool has(const zn_trainer *t, const part *p, int parameter) { return !p->flat || t->gradients[parameter]; }

static float *values_of(const zn_trainer *t, const part *p, int parameter, int64_t offset)
{
    if (p->flat)
        return p->flat + offset;
    return p->split ? p->split[parameter] : t->model->parameters[parameter].data;
}

/* The tensors of some parts in the layout of files; memory comes from the arena. */
static zn_status collect(const zn_trainer *t, const part *parts, int count, zn_arena *arena, zn_weight **out,
                         int64_t *tensors)
{
    const zn_model *m = t->model;
    *tensors = 0;
    *out = zn_arena_alloc(arena, sizeof **out * (size_t)(m->count * count + 1));
    for (int k = 0; k < count && *out; k++) {
        int64_t offset = 0;
        for (int i = 0; i < m->count; i++) {
            if (!has(t, &parts[k], i))
                continue;
            const zn_model_parameter *p = &m->parameters[i];
            const int64_t floats = zn_shape_count(p->shape);
            float *data = zn_arena_alloc(arena, sizeof(float) * (size_t)floats);
            zn_weight *w = &(*out)[(*tensors)++];
            w->name = zn_arena_format(arena, "%s%s", parts[k].prefix, p->name);
            if (!data || !w->name)
                break;
            zn_weight_export(values_of(t, &parts[k], i, offset), p->shape, p->layout, data);
            const zn_shape stored = zn_weight_file_shape(p->shape, p->layout);
            w->dtype = ZN_F32;
            w->rank = stored.rank;
            memcpy(w->shape, stored.dim, sizeof w->shape);
            w->data = data;
            offset += floats;
        }
    }
    return arena->failed ? ZN_FAIL(ZN_ENOMEM, "out of memory for a checkpoint") : ZN_OK;
}

static zn_status write_parts(const char *path, const zn_trainer *t, const part *parts, int count,
                             const zn_metadata *metadata, int64_t metadata_count)
{
    zn_arena arena = { 0 };
    zn_weight *tensors;
    int64_t tensor_count;
    zn_status status = collect(t, parts, count, &arena, &tensors, &tensor_count);
    if (status == ZN_OK)
        status = zn_safetensors_write(path, tensors, tensor_count, metadata, metadata_count);
    zn_arena_free(&arena);
    return status;
}

zn_status zn_checkpoint_write(const char *path, const zn_trainer *t)
{
    part parts[MAX_PARTS];
    char step[32];
    snprintf(step, sizeof step, "%lld", (long long)t->step);
    const zn_metadata metadata[] = { { "format", "zenith-checkpoint" }, { "step", step } };
    return write_parts(path, t, parts, parts_of(t, parts), metadata, 2);
}

zn_status zn_trainer_export(const char *path, const zn_trainer *t)
{
    const part weights = { .prefix = "", .split = t->ema };
    const zn_metadata metadata[] = { { "format", "zenith-model" } };
    return write_parts(path, t, &weights, 1, metadata, 1);
}

static zn_status read_part(const zn_weights *w, zn_trainer *t, const part *p)
{
    int64_t offset = 0;
    for (int i = 0; i < t->model->count; i++) {
        if (!has(t, p, i))
            continue;
        const zn_model_parameter *m = &t->model->parameters[i];
        char name[300];
        snprintf(name, sizeof name, "%s%s", p->prefix, m->name);
        const zn_weight *tensor = zn_weights_find(w, name);
        if (!tensor)
            return ZN_FAIL(ZN_ENOTFOUND, "tensor '%s' is missing", name);
        ZN_TRY(zn_weight_import(tensor, m->shape, m->layout, values_of(t, p, i, offset)));
        offset += zn_shape_count(m->shape);
    }
    return ZN_OK;
}

zn_status zn_checkpoint_read(const char *path, zn_trainer *t)
{
    zn_weights *w;
    ZN_TRY(zn_weights_open(path, &w));
    part parts[MAX_PARTS];
    const int count = parts_of(t, parts);
    const char *format = zn_weights_metadata(w, "format"), *step = zn_weights_metadata(w, "step");
    zn_status status = ZN_OK;
    if (!format || strcmp(format, "zenith-checkpoint") || !step)
        status = ZN_FAIL(ZN_EFORMAT, "%s: not a checkpoint of a training run", path);
    for (int k = 0; k < count && status == ZN_OK; k++)
        status = read_part(w, t, &parts[k]);
    if (status == ZN_OK)
        t->step = t->optim.step = strtoll(step, NULL, 10);
    zn_weights_close(w);
    return status;
}
