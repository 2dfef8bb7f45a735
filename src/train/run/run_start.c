/* The model that a run starts with: fresh values, those of the teacher, or the weights that the recipe names, to train
 * them further. */
#define _DEFAULT_SOURCE
#include "base/fail.h"
#include "train/recipe/yaml.h"
#include "train/run/run.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int layers_of(const zn_model *m) { return m->arch->layers ? m->arch->layers(&m->config) : 0; }

/* Names the settings of the recipe that make the network another one than the weights'. */
static zn_status fail_other(const zn_model *m, const zn_model *from, const char *name, const char *parameter)
{
    const struct {
        const char *name;
        int weights, recipe;
    } settings[] = { { "width", from->config.width, m->config.width },
                     { "latent", from->config.latent, m->config.latent },
                     { "layers", layers_of(from), layers_of(m) } };
    char theirs[64] = "", ours[64] = "", advice[96] = "";
    size_t i = 0, a = 0, b = 0, c = 0;
    const zn_config *known;
    const bool can_train = zn_arch_find(from->config.name, &known) != NULL; /* false: a custom width of some model */
    if (can_train && strcmp(from->config.name, m->config.name) != 0)
        return ZN_FAIL(ZN_EINVALID, "%s: a %s, but the recipe trains a %s: give --set model=%s", name,
                       from->config.name, m->config.name, from->config.name);
    for (; i < sizeof settings / sizeof *settings; i++) {
        const int w = settings[i].weights, r = settings[i].recipe;
        if (w == r || w < 1)
            continue;
        a += (size_t)snprintf(theirs + a, sizeof theirs - a, "%s%s %d", a ? " and " : "", settings[i].name, w);
        b += (size_t)snprintf(ours + b, sizeof ours - b, "%s%s %d", b ? " and " : "", settings[i].name, r);
        c += (size_t)snprintf(advice + c, sizeof advice - c, "%s--set %s=%d", c ? " " : "", settings[i].name, w);
    }
    return c ? ZN_FAIL(ZN_EINVALID, "%s has %s, but the recipe's network has %s: give %s", name, theirs, ours, advice)
             : ZN_FAIL(ZN_EINVALID, "%s: its %s does not fit the recipe's network", name, parameter);
}

/* What the weights lack (one half of an autoencoder, say) keeps its fresh values. Parts that the network has must have
 * all that the weights have of them. */
static zn_status take_over(zn_model *m, const zn_model *from, const char *name)
{
    if (from->arch != m->arch)
        return ZN_FAIL(ZN_EINVALID, "%s: a %s, but the recipe trains a %s", name, from->config.name, m->config.name);
    for (int i = 0; i < from->count; i++) {
        const zn_model_parameter *q = &from->parameters[i], *p = zn_model_parameter_find(m, q->name);
        if (!p && (!m->has[q->part] || q->role == ZN_ROLE_CONSTANT))
            continue;
        if (!p || !zn_shape_equal(p->shape, q->shape))
            return fail_other(m, from, name, q->name);
        memcpy(p->data, q->data, sizeof(float) * (size_t)zn_shape_count(p->shape));
    }
    return ZN_OK;
}

/* Parameters of the student that the teacher has too, by name and shape, get its values. */
static zn_status take_from_teacher(const zn_run *r)
{
    char sentence[128];
    zn_model *m = r->model;
    const zn_model *teacher = r->teacher;
    int taken = 0;
    for (int i = 0; i < m->count; i++) {
        zn_model_parameter *p = &m->parameters[i];
        const zn_model_parameter *q = zn_model_parameter_find(teacher, p->name);
        if (!q || !zn_shape_equal(p->shape, q->shape) || p->layout != q->layout)
            continue;
        p->inherited = true;
        memcpy(p->data, q->data, sizeof(float) * (size_t)zn_shape_count(p->shape));
        taken++;
    }
    if (!taken)
        return ZN_FAIL(ZN_EINVALID,
                       "%s has no parameter of the same name and shape as %s: give --set "
                       "distill.start=fresh",
                       m->config.name, teacher->config.name);
    snprintf(sentence, sizeof sentence, "%d of the student's %d parameters start with the teacher's values", taken,
             m->count);
    if (r->options.remark && !r->has_checkpoint)
        r->options.remark(r->options.user, sentence);
    return ZN_OK;
}

/* What the recipe says about block gates must be about some that are there. */
zn_status zn_run_check_gates(const zn_recipe *k, const zn_config *config)
{
    return config->gates || k->gates == ZN_RECIPE_GATES_AS_USUAL
               ? ZN_OK
               : ZN_FAIL(ZN_EINVALID, "%s has no block gates: the recipe's gates are for zenith-hier and zenith-srig",
                         k->model);
}

static zn_status settle_gates(zn_run *r)
{
    zn_recipe *k = &r->recipe;
    ZN_TRY(zn_run_check_gates(k, &r->model->config));
    if (r->model->config.gates && k->gates == ZN_RECIPE_GATES_AS_USUAL)
        k->gates = ZN_RECIPE_GATES_STRAIGHT;
    return ZN_OK;
}

/* Random values of a huge network take long. */
static int stops(void *user, double fraction)
{
    (void)fraction;
    return zn_run_stops(user, NULL);
}

zn_status zn_run_new_model(zn_run *r, const zn_arch *arch, const zn_config *config, bool encodes, bool decodes)
{
    const uint64_t seed = (uint64_t)r->recipe.seed;
    ZN_TRY(zn_model_new(arch, config, &r->model));
    r->model->stop = stops;
    r->model->stop_user = r;
    ZN_TRY(settle_gates(r));
    if (encodes && (config->latent || !(arch->can & ZN_SAMPLES))) /* plain diffusion models encode nothing */
        ZN_TRY(zn_model_random_part(r->model, ZN_ENCODER, seed));
    if (decodes)
        ZN_TRY(zn_model_random_part(r->model, ZN_DECODER, seed));
    if (r->teacher && r->recipe.start == ZN_RECIPE_START_TEACHER)
        ZN_TRY(take_from_teacher(r)); /* a checkpoint's values follow; these are still learned at another rate */
    if (!r->recipe.from[0] || r->has_checkpoint)
        return ZN_OK;
    zn_model *from;
    ZN_TRY(zn_model_find(r->recipe.from, &from));
    const zn_status status = take_over(r->model, from, r->recipe.from);
    zn_model_free(from);
    return status;
}

/* The latent net that the recipe's model has, for these conditions. */
static zn_status plan_latent_net(zn_run *r)
{
    const zn_recipe *k = &r->recipe;
    const zn_config *known;
    if (zn_arch_find(k->model, &known) != r->model->arch)
        return ZN_FAIL(ZN_EINVALID, "%s is not a diffusion autoencoder", k->model);
    r->model->arch->plan_part(&r->model->config, ZN_LATENT_NET, known, k->width);
    return ZN_OK;
}

static bool has_classifier_of(const zn_model *m, const zn_labels *l)
{
    bool same = m->has[ZN_CLASSIFIER] && m->attributes && m->config.classes == l->count;
    for (int i = 0; i < l->count && same; i++)
        same = strcmp(m->attributes[i], l->names[i]) == 0;
    return same;
}

/* A classifier of other attributes makes way for a fresh one, but not that of a run that goes on. */
static zn_status plan_classifier(zn_run *r, const char *name)
{
    zn_model *m = r->model;
    const zn_labels *l = r->on.labels;
    if (has_classifier_of(m, l))
        return ZN_OK;
    if (m->has[ZN_CLASSIFIER] && r->has_checkpoint)
        return ZN_FAIL(ZN_EINVALID, "%s has a classifier of other attributes than %s: begin a new run", name,
                       r->recipe.labels);
    if (m->has[ZN_CLASSIFIER]) {
        char sentence[2 * ZN_RUN_PATH + 128];
        snprintf(sentence, sizeof sentence,
                 "%s has a classifier of other attributes than %s: the run begins with a new classifier", name,
                 r->recipe.labels);
        zn_model_drop_classifier(m);
        if (r->options.remark)
            r->options.remark(r->options.user, sentence);
    }
    m->config.classes = l->count;
    return zn_model_name_attributes(m, l->names, l->count);
}

zn_status zn_run_check_from(const char *from, zn_part part)
{
    return from[0] ? ZN_OK
                   : ZN_FAIL(ZN_EINVALID,
                             "a %s learns from what a trained autoencoder makes of images: name its weights (--from, "
                             "or from in the recipe)",
                             zn_part_name(part));
}

zn_status zn_run_open_model(zn_run *r, zn_part part)
{
    char own[ZN_RUN_PATH];
    zn_run_path(r, "model.safetensors", own);
    const char *name = r->has_checkpoint ? own : r->recipe.from;
    ZN_TRY(zn_run_check_from(name, part));
    ZN_TRY(zn_model_find(name, &r->model));
    zn_model *m = r->model;
    if (!(m->arch->can & ZN_SAMPLES) || !m->has[ZN_ENCODER] || !m->has[ZN_DECODER])
        return ZN_FAIL(ZN_EINVALID, "%s: a %s, but a %s needs a diffusion autoencoder", name, m->config.name,
                       zn_part_name(part));
    ZN_TRY(settle_gates(r));
    r->on.needs_statistics = !zn_model_parameter_find(m, "conds_mean");
    if (part == ZN_CLASSIFIER)
        ZN_TRY(plan_classifier(r, name));
    if (m->has[part])
        return ZN_OK;
    if (part == ZN_LATENT_NET)
        ZN_TRY(plan_latent_net(r));
    m->stop = stops;
    m->stop_user = r;
    return zn_model_random_part(m, part, (uint64_t)r->recipe.seed);
}

unsigned zn_run_said_by(const zn_run_options *o)
{
    const bool precise = o->compute && o->compute->precision != ZN_PRECISION_DEFAULT;
    return (o->seed ? ZN_SAID_SEED : 0) | (o->from ? ZN_SAID_FROM : 0) | (o->steps > 0 ? ZN_SAID_STEPS : 0) |
           (precise ? ZN_SAID_PRECISION : 0);
}

zn_status zn_run_set_start(zn_recipe *recipe, const zn_run_options *o)
{
    static const int64_t most = 9000000000000000; /* as in a recipe */
    if (o->seed && (*o->seed < 0 || *o->seed > most))
        return ZN_FAIL(ZN_EINVALID, "the seed must be from 0 to %lld, not %lld", (long long)most, (long long)*o->seed);
    if (o->seed)
        recipe->seed = *o->seed;
    return zn_run_set_path(recipe->from, sizeof recipe->from, o->from, "the first model");
}

bool zn_run_may_omit(const zn_run *r, unsigned option, bool usual)
{
    const zn_run_origin *o = &r->origin;
    return (r->said & option) || (o->tells_options ? (o->options & option) != 0 : usual);
}

/* What it need not say becomes what the run has. */
static void complete(const zn_run *r, zn_recipe *k)
{
    const zn_recipe *own = &r->recipe;
    if (zn_run_may_omit(r, ZN_SAID_SEED, k->seed == ZN_RECIPE_SEED))
        k->seed = own->seed;
    if (zn_run_may_omit(r, ZN_SAID_FROM, !k->from[0]))
        strcpy(k->from, own->from);
    if (zn_run_may_omit(r, ZN_SAID_STEPS, false))
        k->steps = own->steps;
    if (zn_run_may_omit(r, ZN_SAID_PRECISION, k->precision == ZN_PRECISION_F32))
        k->precision = own->precision;
    if (k->gates == ZN_RECIPE_GATES_AS_USUAL && own->gates == ZN_RECIPE_GATES_STRAIGHT) /* see settle_gates */
        k->gates = own->gates;
}

zn_status zn_run_check_asked(const zn_run *r, const zn_recipe *asked, const char *name)
{
    char a[ZN_RECIPE_TEXT], b[ZN_RECIPE_TEXT];
    size_t at = 0, line = 0;
    zn_recipe now = *asked;
    if (name) {
        ZN_TRY(zn_run_set_path(now.from, sizeof now.from, NULL, "the first model"));
        complete(r, &now);
    }
    zn_recipe_text(&now, a, sizeof a);
    zn_recipe_text(&r->recipe, b, sizeof b);
    for (; a[at] && a[at] == b[at]; at++)
        line = a[at] == '\n' ? at + 1 : line;
    if (a[at] == b[at])
        return ZN_OK;
    line += strspn(a + line, " ");
    a[line + strcspn(a + line, "\n")] = b[line + strcspn(b + line, "\n")] = 0;
    return ZN_FAIL(ZN_EINVALID,
                   "%s: a resumed run keeps its recipe, with '%.150s' and not the '%.150s' of %s: leave that out, or "
                   "begin a new run",
                   r->options.folder, b + line, a + line, name ? name : "the options");
}

/* A run may be resumed from another folder, so what lies in this one is named in full. */
zn_status zn_run_set_path(char *field, size_t size, const char *path, const char *what)
{
    char full[PATH_MAX];
    path = path ? path : field;
    path = path[0] && realpath(path, full) ? full : path;
    if (strlen(path) >= size)
        return ZN_FAIL(ZN_EINVALID, "%s's name is longer than %zu bytes", what, size - 1);
    if (!zn_yaml_can_hold(path))
        return ZN_FAIL(ZN_EINVALID, "%s's name has a line break or the like, which a recipe cannot hold", what);
    memmove(field, path, strlen(path) + 1);
    return ZN_OK;
}
