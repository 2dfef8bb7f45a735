/* zn_distill: teacher and student put together, and the stages in which the one learns from the other. */
#include "base/clock.h"
#include "base/fail.h"
#include "train/run/run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CLIP_FRAMES = 17 };

const char *zn_distill_student(int index, const char **description) { return zn_recipe_student(index, description); }

/* Shares `steps` out over the stages in the recipe's proportions; the first stages take what remains of the division.
 */
static void share_steps(zn_recipe *k, int64_t steps)
{
    int64_t *stages[] = { &k->encoder_steps, &k->decoder_steps, &k->joint_steps, &k->gan_steps };
    int64_t all = 0, before = 0, given = 0;
    for (int i = 0; i < 4; i++)
        all += *stages[i];
    for (int i = 0; i < 4 && all > 0; i++) {
        before += *stages[i];
        const int64_t up_to = (int64_t)((double)steps * (double)before / (double)all + 0.5);
        *stages[i] = up_to - given;
        given = up_to;
    }
}

static void set_lengths(zn_recipe *k, const zn_model *teacher, int64_t steps)
{
    if (!teacher->info.has_decoder)
        k->decoder_steps = k->joint_steps = k->gan_steps = 0;
    if (steps > 0)
        share_steps(k, steps);
    k->steps = k->encoder_steps + k->decoder_steps + k->joint_steps + k->gan_steps;
}

/* As for zn_train. How long stages are depends on the teacher and the steps that were asked for at first, if that is
 * known. */
static zn_status go_on(const zn_run *r, const zn_distill_options *o)
{
    const zn_recipe *own = &r->recipe;
    zn_recipe asked = *own;
    if (o->student) {
        ZN_TRY(zn_recipe_read_student(o->student, &asked));
        ZN_TRY(zn_run_set_again(r, &asked));
        strcpy(asked.teacher, own->teacher);
        asked.frames = asked.frames ? asked.frames : own->frames; /* they may be those of `clips` */
        set_lengths(&asked, r->teacher, zn_run_may_omit(r, ZN_SAID_STEPS, true) ? own->steps : 0);
        ZN_TRY(zn_run_check_asked(r, &asked, o->student));
    }
    asked = *own;
    ZN_TRY(zn_recipe_set_all(o->run.settings, &asked));
    ZN_TRY(zn_run_set_start(&asked, &o->run));
    return zn_run_check_asked(r, &asked, NULL);
}

static zn_status read_recipe(zn_run *r, const zn_distill_options *o)
{
    zn_recipe *k = &r->recipe;
    if (r->said & ZN_SAID_PRECISION)
        return ZN_FAIL(ZN_EUNSUPPORTED, "the precision of a distillation is its recipe's: leave it out of the options");
    if (o->run.resume) {
        ZN_TRY(zn_run_read_recipe(r));
        if (!k->teacher[0])
            return ZN_FAIL(ZN_EINVALID, "%s: not a distillation; resume it with train", o->run.folder);
        if (o->run.steps > 0 && o->run.steps != k->steps)
            return ZN_FAIL(ZN_EINVALID,
                           "%s: the stages of a distillation keep their lengths when it is resumed: %lld steps in all, "
                           "not %lld",
                           o->run.folder, (long long)k->steps, (long long)o->run.steps);
    } else {
        if (!o->teacher || !o->student)
            return ZN_FAIL(ZN_EINVALID, "distilling needs a teacher and a student");
        ZN_TRY(zn_recipe_read_student(o->student, k));
        ZN_TRY(zn_recipe_set_all(o->run.settings, k));
        ZN_TRY(zn_run_set_start(k, &o->run));
        if (o->clips && !k->frames)
            k->frames = CLIP_FRAMES;
    }
    if (o->clips && !k->frames)
        return ZN_FAIL(ZN_EINVALID, "%s learns from images, not from clips", o->run.folder);
    return zn_run_set_path(k->teacher, sizeof k->teacher, o->teacher, "the teacher");
}

/* "random:taesd" is a teacher without knowledge, for trying things out. */
static zn_status open_teacher(zn_run *r)
{
    const char *name = r->recipe.teacher;
    ZN_TRY(strncmp(name, "random:", 7) ? zn_model_find(name, &r->teacher)
                                       : zn_model_random(name + 7, (uint64_t)r->recipe.seed, &r->teacher));
    const zn_model_info *i = &r->teacher->info;
    if (!i->has_encoder && !i->has_decoder)
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s: %s has neither encoder nor decoder to learn from", name, i->architecture);
    return zn_run_check_teacher(r);
}

/* The halves that some stage teaches, or that come with the weights to start with; both where only both together are a
 * model. */
static void choose_halves(const zn_run *r, const zn_arch *arch, bool *encodes, bool *decodes)
{
    const zn_recipe *k = &r->recipe;
    const zn_model_info *t = &r->teacher->info;
    const bool both = k->joint_steps + k->gan_steps > 0 || k->from[0] || !arch->scope[ZN_ENCODER][0];
    *encodes = both || !t->has_encoder || k->encoder_steps > 0;
    *decodes = t->has_decoder && (both || k->decoder_steps > 0);
}

/* The student: a network of the recipe's kind for the teacher's latents. Of the teacher's own kind it takes over all
 * but the width. */
static zn_status make_student(zn_run *r)
{
    const zn_recipe *k = &r->recipe;
    const zn_config *known, *t = &r->teacher->config;
    const zn_arch *arch = zn_arch_find(k->model, &known);
    bool encodes, decodes;
    if (!arch || !(arch->can & ZN_ENCODES))
        return ZN_FAIL(ZN_ENOTFOUND, "no architecture for a student is called '%s'", k->model);
    zn_config config = arch == r->teacher->arch ? *t : *known;
    if (config.downscale != t->downscale)
        return ZN_FAIL(ZN_EINVALID, "%s has latents at 1/%d, but the teacher %s at 1/%d", config.name, config.downscale,
                       t->name, t->downscale);
    if (k->frames && config.frames != t->frames)
        return ZN_FAIL(ZN_EINVALID, "%s learns from clips, and %s does not support video of that kind",
                       config.frames ? config.name : t->name, config.frames ? t->name : config.name);
    ZN_TRY(zn_arch_resize(
        arch, &config, &(zn_wishes){ .width = k->width, .latent = t->latent, .size = k->size, .layers = k->layers }));
    choose_halves(r, arch, &encodes, &decodes);
    return zn_run_new_model(r, arch, &config, encodes, decodes);
}

/* A stage with both parts has less to learn and more to lose: a high rate would undo what they know. */
static void add_stage(zn_run *r, const char *name, zn_goal goal, int64_t steps, double discriminator)
{
    if (steps <= 0)
        return;
    zn_run_stage *s = &r->stages[r->stage_count++];
    *s = (zn_run_stage){ name, goal, r->recipe };
    s->recipe.steps = steps;
    s->recipe.discriminator = discriminator;
    if (goal == ZN_GOAL_JOINT)
        s->recipe.lr *= r->recipe.joint_lr;
    if (s->recipe.warmup > steps / 5) /* short stages still reach their rate */
        s->recipe.warmup = steps / 5;
}

static zn_status plan_stages(zn_run *r)
{
    const zn_recipe *k = &r->recipe;
    add_stage(r, "encoder", ZN_GOAL_ENCODER, k->encoder_steps, 0);
    add_stage(r, "decoder", ZN_GOAL_DECODER, k->decoder_steps, 0);
    add_stage(r, "joint", ZN_GOAL_JOINT, k->joint_steps, 0);
    add_stage(r, "gan", ZN_GOAL_JOINT, k->gan_steps, k->discriminator > 0 ? k->discriminator : 0.05);
    return r->stage_count ? ZN_OK : ZN_FAIL(ZN_EINVALID, "the recipe has no steps for what the teacher can teach");
}

/* Each part of a batch gets this share of the teacher's latents: rounded, it would depend on how many parts there are.
 */
static zn_status check_share(const zn_run *r)
{
    const zn_recipe *k = &r->recipe;
    int parts, batch;
    if (k->teacher_latents <= 0 || k->joint_steps + k->gan_steps <= 0)
        return ZN_OK;
    ZN_TRY(zn_run_divide(r, k, &parts, &batch));
    const double images = k->teacher_latents * batch;
    if (fabs(images - round(images)) < 1e-6 * batch)
        return ZN_OK;
    return ZN_FAIL(ZN_EINVALID,
                   "distill.teacher_latents: %g of %d image%s is not a whole number; a batch of %d has %d part%s "
                   "(accumulate, ranks) of that many: change one of them",
                   k->teacher_latents, batch, batch == 1 ? "" : "s", k->batch, parts, parts == 1 ? "" : "s");
}

static zn_status set_up(zn_run *r, const zn_distill_options *o)
{
    ZN_TRY(read_recipe(r, o));
    ZN_TRY(open_teacher(r));
    if (o->run.resume)
        ZN_TRY(go_on(r, o));
    set_lengths(&r->recipe, r->teacher, o->run.resume ? 0 : o->run.steps);
    ZN_TRY(plan_stages(r));
    ZN_TRY(check_share(r));
    return make_student(r);
}

zn_status zn_distill(const zn_distill_options *o, zn_distill_result *out)
{
    const double start = zn_clock_ms();
    zn_run r = { .options = o->run, .said = zn_run_said_by(&o->run) };
    const zn_status status = zn_run_all(&r, set_up(&r, o));
    *out = (zn_distill_result){ .first = r.first,
                                .steps = r.done,
                                .skipped = r.skips.count,
                                .loss = r.loss,
                                .seconds = (zn_clock_ms() - start) * 1e-3,
                                .latent_error = r.measures.latent_error,
                                .decoder_psnr = r.measures.decoder_psnr,
                                .psnr = r.measures.psnr,
                                .teacher_psnr = r.measures.teacher_psnr };
    zn_run_free(&r);
    return status;
}
