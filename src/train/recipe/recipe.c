/* Recipes: one table of keys serves reading, writing and the messages about unknown ones. */
#include "train/recipe/recipe.h"

#include "base/fail.h"
#include "base/numbers.h"
#include "models/arch.h"
#include "models/mamba/mamba_parts.h"
#include "train/recipe/tasks.h"
#include "train/recipe/yaml.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum kind { TEXT, NUMBER, INTEGER, COUNT, CHOICE } kind;

typedef struct key {
    const char *name; /* dotted */
    kind kind;
    size_t offset, size;
    double least, most;
    const char *choices; /* CHOICE: words in the order of the enumeration, from `least` on */
} key;

/* A moment that keeps all of itself never sees a gradient, and correcting it divides by zero. One that keeps nothing,
 * or an eps of nothing, would be the optimiser's word for "as usual". */
#define BELOW_ONE     0.999999
#define ABOVE_ZERO    1e-12
#define FIELD(member) offsetof(zn_recipe, member), sizeof(((zn_recipe *)0)->member)
static const key keys[] = {
    { "model", TEXT, FIELD(model), 0, 0, NULL },
    { "task", CHOICE, FIELD(task), 0, 0, "autoencode restore diffuse imagine classify generate" },
    { "from", TEXT, FIELD(from), 0, 0, NULL },
    { "labels", TEXT, FIELD(labels), 0, 0, NULL },
    { "captions", TEXT, FIELD(captions), 0, 0, NULL },
    { "autoencoder", TEXT, FIELD(autoencoder), 0, 0, NULL },
    { "vocabulary", COUNT, FIELD(vocabulary), 259, 151936, NULL },
    { "layers", COUNT, FIELD(layers), 0, 64, NULL },
    { "caption_dropout", NUMBER, FIELD(caption_dropout), 0, 1, NULL },
    { "shift", NUMBER, FIELD(shift), 0.1, 20, NULL },
    { "width", COUNT, FIELD(width), 0, 1024, NULL },
    { "latent", COUNT, FIELD(latent), 0, 1024, NULL },
    { "steps", INTEGER, FIELD(steps), 1, 1e9, NULL },
    { "batch", COUNT, FIELD(batch), 1, 4096, NULL },
    { "size", COUNT, FIELD(size), 8, 4096, NULL },
    { "frames", COUNT, FIELD(frames), 0, 1024, NULL },
    { "halve", NUMBER, FIELD(halve), 0, 1, NULL },
    { "accumulate", COUNT, FIELD(accumulate), 1, 1024, NULL },
    { "dropout", NUMBER, FIELD(dropout), 0, 0.9, NULL },
    { "prediction", CHOICE, FIELD(prediction), 0, 0, "noise velocity" },
    { "min_snr", NUMBER, FIELD(min_snr), 0, 1e6, NULL },
    { "recompute", CHOICE, FIELD(recompute), 0, 0, "false true" },
    { "precision", CHOICE, FIELD(precision), ZN_PRECISION_F32, 0, "f32 bf16 f16" },
    { "optimizer", CHOICE, FIELD(optimizer), 0, 0, "adamw adam amsgrad sgd" },
    { "lr", NUMBER, FIELD(lr), 0, 10, NULL },
    { "beta1", NUMBER, FIELD(beta1), 0, BELOW_ONE, NULL },
    { "beta2", NUMBER, FIELD(beta2), ABOVE_ZERO, BELOW_ONE, NULL },
    { "eps", NUMBER, FIELD(eps), ABOVE_ZERO, 1, NULL },
    { "weight_decay", NUMBER, FIELD(weight_decay), 0, 10, NULL },
    { "momentum", NUMBER, FIELD(momentum), 0, 1, NULL },
    { "schedule", CHOICE, FIELD(schedule), 0, 0, "cosine constant step" },
    { "warmup", INTEGER, FIELD(warmup), 0, 1e9, NULL },
    { "final_lr", NUMBER, FIELD(final_lr), 0, 1, NULL },
    { "step_every", INTEGER, FIELD(step_every), 1, 1e9, NULL },
    { "step_factor", NUMBER, FIELD(step_factor), 0, 1, NULL },
    { "gate_lr", NUMBER, FIELD(gate_lr), 0, 100, NULL },
    { "clip", NUMBER, FIELD(clip), 0, 1e9, NULL },
    { "ema", NUMBER, FIELD(ema), 0, 1, NULL },
    { "ema_warmup", CHOICE, FIELD(ema_warmup), 0, 0, "false true" },
    { "loss.mse", NUMBER, FIELD(mse), 0, 1e6, NULL },
    { "loss.l1", NUMBER, FIELD(l1), 0, 1e6, NULL },
    { "loss.huber", NUMBER, FIELD(huber), 0, 1e6, NULL },
    { "loss.bands", NUMBER, FIELD(bands), 0, 1e6, NULL },
    { "loss.haar", NUMBER, FIELD(haar), 0, 1e6, NULL },
    { "loss.chroma", NUMBER, FIELD(chroma), 0, 1e6, NULL },
    { "loss.texture", NUMBER, FIELD(texture), 0, 1e6, NULL },
    { "loss.contrast", NUMBER, FIELD(contrast), 0, 1e6, NULL },
    { "loss.ssim", NUMBER, FIELD(ssim), 0, 1e6, NULL },
    { "loss.lpips", NUMBER, FIELD(lpips), 0, 1e6, NULL },
    { "loss.lpips_model", TEXT, FIELD(lpips_model), 0, 0, NULL },
    { "loss.kl", NUMBER, FIELD(kl), 0, 1e6, NULL },
    { "loss.kl_rise", NUMBER, FIELD(kl_rise), 0, 1, NULL },
    { "loss.discriminator", NUMBER, FIELD(discriminator), 0, 1e6, NULL },
    { "loss.discriminator_start", NUMBER, FIELD(discriminator_start), 0, 1, NULL },
    { "loss.features", NUMBER, FIELD(features), 0, 1e6, NULL },
    { "loss.latent", NUMBER, FIELD(latent_mse), 0, 1e6, NULL },
    { "gates.form", CHOICE, FIELD(gates), 0, 0, "auto straight soft hard" },
    { "gates.penalty", NUMBER, FIELD(gate_penalty), 0, 1e6, NULL },
    { "gates.temperature", NUMBER, FIELD(gate_temperature), 0, 1e3, NULL },
    { "gates.lr", NUMBER, FIELD(block_gate_lr), 0, 1e4, NULL },
    { "distill.teacher", TEXT, FIELD(teacher), 0, 0, NULL },
    { "distill.start", CHOICE, FIELD(start), 0, 0, "fresh teacher" },
    { "distill.encoder", INTEGER, FIELD(encoder_steps), 0, 1e9, NULL },
    { "distill.decoder", INTEGER, FIELD(decoder_steps), 0, 1e9, NULL },
    { "distill.joint", INTEGER, FIELD(joint_steps), 0, 1e9, NULL },
    { "distill.gan", INTEGER, FIELD(gan_steps), 0, 1e9, NULL },
    { "distill.joint_lr", NUMBER, FIELD(joint_lr), 0, 10, NULL },
    { "distill.inherited_lr", NUMBER, FIELD(inherited_lr), 0, 10, NULL },
    { "distill.teacher_latents", NUMBER, FIELD(teacher_latents), 0, 1, NULL },
    { "distill.jitter", NUMBER, FIELD(jitter), 0, 10, NULL },
    { "damage.mix", CHOICE, FIELD(damage.kind), 0, 0, "plain photo upscale" },
    { "damage.clean", NUMBER, FIELD(damage.clean), 0, 1, NULL },
    { "damage.independent", NUMBER, FIELD(damage.independent), 0, 1, NULL },
    { "damage.impulses", NUMBER, FIELD(damage.impulses), 0, 1, NULL },
    { "damage.blur", NUMBER, FIELD(damage.blur), 0, 1, NULL },
    { "damage.grey", NUMBER, FIELD(damage.grey), 0, 1, NULL },
    { "damage.noise", NUMBER, FIELD(damage.noise), 0, 255, NULL },
    { "damage.quality", COUNT, FIELD(damage.quality), 1, 95, NULL },
    { "points.least", NUMBER, FIELD(points_least), 0.001, 1, NULL },
    { "points.most", NUMBER, FIELD(points_most), 0.001, 1, NULL },
    { "points.asked", NUMBER, FIELD(points_asked), 0.001, 1, NULL },
    { "held_out", COUNT, FIELD(held_out), 0, 90, NULL },
    { "eval_every", INTEGER, FIELD(eval_every), 1, 1e9, NULL },
    { "checkpoint_every", INTEGER, FIELD(checkpoint_every), 1, 1e9, NULL },
    { "seed", INTEGER, FIELD(seed), 0, 9e15, NULL },
};
enum { KEYS = sizeof keys / sizeof *keys };

static const zn_recipe defaults = { .model = "zenith-r",
                                    .autoencoder = "zenith-r",
                                    .vocabulary = 1024,
                                    .caption_dropout = 0.1,
                                    .shift = 1,
                                    .steps = 20000,
                                    .batch = 8,
                                    .size = 128,
                                    .accumulate = 1,
                                    .precision = ZN_PRECISION_F32,
                                    .lr = 1e-3,
                                    .beta1 = 0.9,
                                    .beta2 = 0.99,
                                    .eps = 1e-8,
                                    .weight_decay = 0.01,
                                    .momentum = 0.9,
                                    .warmup = 200,
                                    .final_lr = 0.01,
                                    .step_every = 1000,
                                    .step_factor = 0.5,
                                    .gate_lr = 2,
                                    .clip = 1,
                                    .ema = 0.999,
                                    .ema_warmup = 1,
                                    .l1 = 1,
                                    .bands = 0.5,
                                    .lpips_model = "lpips-squeeze",
                                    .discriminator_start = 0.8,
                                    .gate_penalty = 0.003,
                                    .gate_temperature = 1,
                                    .block_gate_lr = 3,
                                    .joint_lr = 0.2,
                                    .inherited_lr = 0.2,
                                    .damage = { .clean = 0.08, .grey = 0.05, .noise = 55, .quality = 10 },
                                    .points_least = 0.05,
                                    .points_most = 0.5,
                                    .points_asked = 0.25,
                                    .held_out = 2,
                                    .eval_every = 500,
                                    .checkpoint_every = 500,
                                    .seed = ZN_RECIPE_SEED };

/* ---- values ---- */

/* Position of a word in a list of words, or -1. */
static int choice_of(const char *choices, const char *word)
{
    const size_t n = strlen(word);
    int index = 0;
    for (const char *p = choices; *p; index++) {
        const size_t length = strcspn(p, " ");
        if (length == n && strncmp(p, word, n) == 0)
            return index;
        p += length + (p[length] == ' ');
    }
    return -1;
}

static zn_status set_number(const key *k, const char *value, const char *where, zn_recipe *r)
{
    char *end;
    const double v = strtod(value, &end);
    if (end == value || *end || !(v >= k->least && v <= k->most))
        return ZN_FAIL(ZN_EINVALID, "%s: %s must be a number from %g to %g, not '%s'", where, k->name, k->least,
                       k->most, value);
    if (k->kind != NUMBER && v != floor(v))
        return ZN_FAIL(ZN_EINVALID, "%s: %s must be a whole number, not '%s'", where, k->name, value);
    void *field = (char *)r + k->offset;
    if (k->kind == NUMBER)
        *(double *)field = v;
    else if (k->kind == COUNT)
        *(int *)field = (int)v;
    else
        *(int64_t *)field = (int64_t)v;
    return ZN_OK;
}

/* A recipe while a text is read. */
typedef struct reading {
    zn_recipe *recipe;
    bool seen[KEYS];
} reading;

/* The error of a key that does not exist: a whole mapping instead of one of its keys, or a key without its mapping,
 * gets a hint. */
static zn_status no_setting(const char *name, const char *where)
{
    const size_t n = strlen(name);
    for (int i = 0; i < KEYS; i++) {
        const char *k = keys[i].name, *dot = strchr(k, '.');
        if (dot && (size_t)(dot - k) == n && strncmp(k, name, n) == 0)
            return ZN_FAIL(ZN_EINVALID, "%s: '%s' has several settings: set each by its own name, such as %s", where,
                           name, k);
        if (dot && strcmp(dot + 1, name) == 0)
            return ZN_FAIL(ZN_EINVALID, "%s: there is no setting '%s'; did you mean %s?", where, name, k);
    }
    return ZN_FAIL(ZN_EINVALID, "%s: there is no setting '%s'; --print shows all of them", where, name);
}

/* A key without a value begins a mapping, or names nothing where nothing is a value: there need not be a file. */
static zn_status check_bare(const char *name, const char *where)
{
    const size_t n = strlen(name);
    for (int i = 0; i < KEYS; i++) {
        const key *k = &keys[i];
        if (strncmp(k->name, name, n) || (k->name[n] && k->name[n] != '.'))
            continue;
        if (k->name[n] || (k->kind == TEXT && !((const char *)&defaults)[k->offset]))
            return ZN_OK;
        return ZN_FAIL(ZN_EINVALID, "%s: %s has no value", where, name);
    }
    return no_setting(name, where);
}

static zn_status set_value(void *user, const char *name, const char *value, const char *where)
{
    reading *now = user;
    zn_recipe *r = now->recipe;
    if (!value || !value[0])
        ZN_TRY(check_bare(name, where));
    if (!value)
        return ZN_OK;
    for (int i = 0; i < KEYS; i++) {
        const key *k = &keys[i];
        if (strcmp(k->name, name))
            continue;
        if (now->seen[i])
            return ZN_FAIL(ZN_EINVALID, "%s: %s is set twice", where, name);
        now->seen[i] = true;
        r->sets_losses |= strncmp(name, "loss.", 5) == 0;
        if (k->kind == TEXT) {
            if (strlen(value) >= k->size)
                return ZN_FAIL(ZN_EINVALID, "%s: %s needs a name of at most %zu characters", where, name, k->size - 1);
            strcpy((char *)r + k->offset, value);
            return ZN_OK;
        }
        if (k->kind != CHOICE)
            return set_number(k, value, where, r);
        const int index = choice_of(k->choices, value);
        if (index < 0)
            return ZN_FAIL(ZN_EINVALID, "%s: %s must be one of %s, not '%s'", where, name, k->choices, value);
        *(int *)((char *)r + k->offset) = (int)k->least + index;
        return ZN_OK;
    }
    return no_setting(name, where);
}

/* A recipe that sets anything about gates trains them. */
static void turn_on_gates(const reading *now)
{
    for (int i = 0; i < KEYS; i++)
        if (now->seen[i] && strncmp(keys[i].name, "gates.", 6) == 0 && now->recipe->gates == ZN_RECIPE_GATES_AS_USUAL)
            now->recipe->gates = ZN_RECIPE_GATES_STRAIGHT;
}

zn_status zn_recipe_set(const char *setting, zn_recipe *r)
{
    char name[64], where[128];
    const char *equals = strchr(setting, '=');
    reading now = { .recipe = r };
    snprintf(where, sizeof where, "'%.100s'", setting);
    if (!equals || equals == setting)
        return ZN_FAIL(ZN_EINVALID, "%s: a setting is a key and a value, such as lr=1e-3 or loss.l1=0.5", where);
    snprintf(name, sizeof name, "%.*s", (int)(equals - setting), setting);
    const locale_t old = zn_numbers_begin();
    const zn_status status = set_value(&now, name, equals + 1, where);
    zn_numbers_end(old);
    turn_on_gates(&now);
    return status;
}

/* ---- text ---- */

/* A text that sets damage without its mix means another mix than the plain one, which has no settings. */
static zn_status check_damage(const reading *now, const char *name)
{
    int first = -1;
    for (int i = KEYS - 1; i >= 0; i--)
        if (now->seen[i] && strncmp(keys[i].name, "damage.", 7) == 0)
            first = i;
    if (first < 0 || strcmp(keys[first].name, "damage.mix") == 0 || now->recipe->damage.kind != ZN_DAMAGE_MIX_PLAIN)
        return ZN_OK;
    return ZN_FAIL(ZN_EINVALID, "%s: %s has no effect while damage.mix is plain; also set mix: photo", name,
                   keys[first].name);
}

zn_status zn_recipe_apply(const char *text, size_t size, const char *name, zn_recipe *r)
{
    reading now = { .recipe = r };
    const locale_t old = zn_numbers_begin();
    const zn_status status = zn_yaml_read(text, size, name, set_value, &now);
    zn_numbers_end(old);
    turn_on_gates(&now);
    return status == ZN_OK ? check_damage(&now, name) : status;
}

zn_status zn_recipe_parse(const char *text, size_t size, const char *name, zn_recipe *out)
{
    *out = defaults;
    return zn_recipe_apply(text, size, name, out);
}

/* A choice's word, its length in *length. */
static const char *word_of(const char *choices, int index, int *length)
{
    const char *p = choices;
    while (index-- > 0)
        p = strchr(p, ' ') + 1;
    *length = (int)strcspn(p, " ");
    return p;
}

static int value_text(const zn_recipe *r, const key *k, char *text, size_t size)
{
    const void *field = (const char *)r + k->offset;
    int length;
    switch (k->kind) {
    case TEXT:
        return zn_yaml_scalar(field, text, size);
    case NUMBER:
        return zn_yaml_number(*(const double *)field, text, size);
    case COUNT:
        return snprintf(text, size, "%d", *(const int *)field);
    case INTEGER:
        return snprintf(text, size, "%lld", (long long)*(const int64_t *)field);
    default:
        break;
    }
    const char *word = word_of(k->choices, *(const int *)field - (int)k->least, &length);
    return snprintf(text, size, "%.*s", length, word);
}

/* True for a recipe of a network that sees some of the pixels. */
static bool sees_some(const zn_recipe *r)
{
    const zn_config *known;
    const zn_arch *arch = zn_arch_find(r->model, &known);
    return arch && (arch->can & ZN_SAMPLES) && (arch->mamba(known)->kind != ZN_FIELD_NONE || arch->is_masked(known));
}

/* Sections that are about something else stay out of a recipe's text. */
static bool is_written(const zn_recipe *r, const char *name)
{
    static const char *const generator[] = { "captions", "autoencoder",     "vocabulary",
                                             "layers",   "caption_dropout", "shift" };
    if (strcmp(name, "layers") == 0 && r->layers)
        return true;
    if (strncmp(name, "points.", 7) == 0)
        return sees_some(r);
    for (size_t i = 0; i < sizeof generator / sizeof *generator; i++)
        if (strcmp(name, generator[i]) == 0)
            return zn_train_task_of(r)->takes & ZN_TAKES_CAPTIONS;
    if (strcmp(name, "prediction") == 0 || strcmp(name, "min_snr") == 0)
        return r->task == ZN_RECIPE_DIFFUSE;
    if (strcmp(name, "distill.teacher") == 0)
        return r->teacher[0];
    if (strncmp(name, "distill.", 8) == 0)
        return r->teacher[0] || r->encoder_steps + r->decoder_steps + r->joint_steps + r->gan_steps > 0;
    if (strncmp(name, "damage.", 7) == 0)
        return r->damage.kind != ZN_DAMAGE_MIX_PLAIN;
    if (strncmp(name, "gates.", 6) == 0)
        return r->gates != ZN_RECIPE_GATES_AS_USUAL;
    if (strcmp(name, "loss.lpips_model") == 0 && r->lpips == 0)
        return false;
    if (strcmp(name, "frames") == 0)
        return r->frames > 0;
    if (strcmp(name, "loss.kl_rise") == 0 && r->kl == 0)
        return false;
    if (strcmp(name, "loss.discriminator_start") == 0 && r->discriminator == 0 && r->gan_steps <= 0)
        return false;
    if (strncmp(name, "loss.", 5) == 0)
        return zn_train_task_of(r)->takes & ZN_TAKES_LOSSES;
    return r->labels[0] || strcmp(name, "labels");
}

/* Why nothing reads this setting in such a recipe; NULL: something does. Settings that another check refuses are not
 * among them, nor is a section's switch (damage.mix). */
static const char *why_unused(const zn_recipe *r, const char *name)
{
    static const struct {
        const char *start, *why;
    } sections[] = {
        { "damage.", "damage.mix is plain; also give --set damage.mix=photo" },
        { "points.", "it is for networks that see some of the pixels, such as mamba-field" },
        { "loss.lpips_model", "loss.lpips is 0" },
        { "loss.kl_rise", "loss.kl is 0" },
        { "loss.discriminator_start", "loss.discriminator is 0, and so is distill.gan" },
        { "vocabulary", "it is for task: generate" },
        { "caption_dropout", "it is for task: generate" },
        { "shift", "it is for task: generate" },
        { "autoencoder", "it is for task: generate" },
    };
    if (strncmp(name, "damage.", 7) == 0 && zn_train_task_of(r)->inputs != ZN_INPUTS_DEGRADED)
        return "it is for task: restore";
    if (strcmp(name, "damage.mix") == 0 || is_written(r, name))
        return NULL;
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++)
        if (strncmp(name, sections[i].start, strlen(sections[i].start)) == 0)
            return sections[i].why;
    return NULL;
}

zn_status zn_recipe_set_all(const char *const *settings, zn_recipe *r)
{
    for (const char *const *s = settings; s && *s; s++)
        ZN_TRY(zn_recipe_set(*s, r));
    for (const char *const *s = settings; s && *s; s++) {
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(*s, "="), *s);
        const char *why = why_unused(r, name);
        if (why)
            return ZN_FAIL(ZN_EINVALID, "'%.100s': this recipe does not use %s: %s", *s, name, why);
    }
    return ZN_OK;
}

int zn_recipe_text(const zn_recipe *r, char *text, size_t size)
{
    size_t used = 0;
    char section[64] = "";
    const locale_t old = zn_numbers_begin();
    for (int i = 0; i < KEYS; i++) {
        const char *dot = strchr(keys[i].name, '.');
        if (!is_written(r, keys[i].name))
            continue;
        char value[1024], *to = text + (used < size ? used : size);
        const size_t capacity = used < size ? size - used : 0;
        value_text(r, &keys[i], value, sizeof value);
        if (dot && strncmp(section, keys[i].name, (size_t)(dot - keys[i].name))) {
            snprintf(section, sizeof section, "%.*s", (int)(dot - keys[i].name), keys[i].name);
            used += (size_t)snprintf(to, capacity, "%s:\n  %s: %s\n", section, dot + 1, value);
        } else {
            used += (size_t)snprintf(to, capacity, "%s%s: %s\n", dot ? "  " : "", dot ? dot + 1 : keys[i].name, value);
        }
    }
    zn_numbers_end(old);
    return (int)used;
}

/* A run that is short for its warmup still reaches its rate. */
static int64_t warmup_of(const zn_recipe *r) { return r->warmup > r->steps / 2 ? r->steps / 10 : r->warmup; }

double zn_recipe_lr(const zn_recipe *r, int64_t step)
{
    const int64_t warmup = warmup_of(r);
    if (step < warmup)
        return r->lr * (double)(step + 1) / (double)warmup;
    if (r->schedule == ZN_SCHEDULE_CONSTANT)
        return r->lr;
    if (r->schedule == ZN_SCHEDULE_STEP)
        return r->lr * pow(r->step_factor, (double)((step - warmup) / r->step_every));
    const double left = (double)(r->steps - warmup), t = left > 0 ? (double)(step - warmup) / left : 1;
    return r->lr * (r->final_lr + (1 - r->final_lr) * 0.5 * (1 + cos(3.14159265358979 * (t < 1 ? t : 1))));
}
