/* Diffusion autoencoders: edit, interpolate, sample, and their part of reconstruct. Each image is a result of its own.
 */
#include "base/fail.h"
#include "options/model_names.h"
#include "options/values.h"
#include "server/tasks/tasks.h"
#include "ui/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ENCODE_STEPS = 250, RENDER_STEPS = 20, EDIT_STEPS = 100, LATENT_STEPS = 200, GROUP = 16, FRAMES = 10 };
enum { MOST_IMAGES = 256 };

typedef struct parts {
    zn_image *image;
    float *cond, *noise;
} parts;

/* Steps of a job: what was begun, of all. */
typedef struct course {
    sv_job *job;
    sv_engine *engine;
    zn_diffae *net;
    int steps, encode_steps;
    double begun, all;
} course;

static zn_status check_steps(const char *name, int64_t steps)
{
    if (!steps || zn_diffae_check_steps(steps > INT32_MAX ? INT32_MAX : (int)steps) == ZN_OK)
        return ZN_OK;
    char why[256];
    snprintf(why, sizeof why, "%s", zn_error_text());
    return ZN_FAIL(ZN_EINVALID, "%s: %s", name, why);
}

static zn_status begin(sv_job *job, sv_engine *e, int steps, int inversions, int renders, int more, course *c)
{
    const options *o = &job->o;
    if (!e->diffae)
        return ZN_FAIL(ZN_EINVALID, "the model %s is not a diffusion autoencoder", e->info->architecture);
    ZN_TRY(check_steps("steps", o->steps));
    ZN_TRY(check_steps("encode-steps", o->encode_steps));
    ZN_TRY(check_steps("latent-steps", o->latent_steps));
    *c = (course){ .job = job, .engine = e, .net = e->diffae };
    c->steps = o->steps ? (int)o->steps : steps;
    c->encode_steps = o->random_noise ? 0 : o->encode_steps ? (int)o->encode_steps : ENCODE_STEPS;
    c->all = (double)inversions * c->encode_steps + (double)renders * c->steps + more;
    return ZN_OK;
}

static void stage(course *c, const char *name, int steps)
{
    sv_job_stage(c->job, name, c->begun / c->all, steps / c->all);
    c->begun += steps;
}

static void parts_alloc(const course *c, parts *p)
{
    p->cond = must_alloc(NULL, (size_t)zn_diffae_width(c->net) * sizeof *p->cond);
    p->noise = must_alloc(NULL, zn_diffae_noise_size(c->net, 1) * sizeof *p->noise);
}

static void parts_free(parts *p)
{
    zn_image_free(p->image);
    free(p->cond);
    free(p->noise);
}

/* The condition and the noise of an input. */
static zn_status take_image(course *c, int i, parts *out)
{
    zn_image *photo = NULL;
    parts_alloc(c, out);
    stage(c, "encode", c->encode_steps);
    zn_status status = sv_job_read_image(c->job, &c->job->files[i], 0, &photo);
    if (status == ZN_OK)
        status = zn_diffae_fit(c->net, photo, &out->image);
    zn_image_free(photo);
    if (status == ZN_OK)
        status = zn_diffae_encode(c->net, out->image, out->cond);
    if (status == ZN_OK && c->encode_steps)
        return zn_diffae_invert(c->net, out->image, out->cond, c->encode_steps, out->noise);
    if (status == ZN_OK)
        zn_diffae_noise(c->net, 1, c->job->o.seed, out->noise);
    return status;
}

static zn_status render(course *c, const float *cond, const float *noise, zn_image **out)
{
    stage(c, "render", c->steps);
    return zn_diffae_render(c->net, 1, cond, noise, c->steps, out);
}

/* out: the image, for the caller to free, or NULL if it is not wanted. */
static zn_status render_result(course *c, const float *cond, const float *noise, int grey, zn_image **out)
{
    zn_image *image = NULL;
    char name[16];
    snprintf(name, sizeof name, "%04d", c->job->result_count + 1);
    zn_status status = render(c, cond, noise, &image);
    if (status == ZN_OK && grey)
        zn_image_make_grey(image);
    if (status == ZN_OK)
        status = sv_write_image(c->job, name, image, NULL, NULL);
    if (out)
        *out = image;
    else
        zn_image_free(image);
    return status;
}

/* Fails if a request without a model needs DIFFUSION_MODEL and it is not found. */
static zn_status check_default(const sv_job *job)
{
    char *path = job->model ? NULL : sv_model_path(job->server->models, DIFFUSION_MODEL, 0);
    const int is_missing = !job->model && !path;
    free(path);
    return is_missing ? ZN_FAIL(ZN_ENOTFOUND, "the task %s needs a model: a diffusion autoencoder", job->task->name)
                      : ZN_OK;
}

static zn_status with_engine(sv_job *job, zn_status (*work)(sv_job *job, sv_engine *e))
{
    sv_engine *e = NULL;
    const char *extension;
    ZN_TRY(sv_image_extension(job, &extension));
    ZN_TRY(check_default(job));
    zn_status status = sv_engine_take(job, job->model ? job->model : DIFFUSION_MODEL, &e);
    if (status == ZN_OK)
        status = work(job, e);
    sv_engine_return(e);
    return status;
}

/* ---- reconstruct ---- */

zn_status sv_reconstruct_by_diffusion(sv_job *job, sv_engine *e, zn_image **original, zn_image **result, double ms[2])
{
    course c;
    parts p = { 0 };
    ZN_TRY(begin(job, e, RENDER_STEPS, 1, 1, 0, &c));
    ms[0] = now_ms();
    zn_status status = take_image(&c, 0, &p);
    ms[0] = now_ms() - ms[0];
    ms[1] = now_ms();
    if (status == ZN_OK)
        status = render(&c, p.cond, p.noise, result);
    ms[1] = now_ms() - ms[1];
    *original = p.image;
    if (status == ZN_OK && p.image->grey)
        zn_image_make_grey(*result);
    p.image = NULL;
    parts_free(&p);
    return status;
}

/* ---- edit ---- */

static zn_status read_amounts(const char *text, double *amounts, int *count)
{
    *count = parse_amounts(text, amounts, MOST_IMAGES);
    return *count ? ZN_OK
                  : ZN_FAIL(ZN_EINVALID,
                            "amount needs comma-separated numbers from -%d to %d, at most %d of them, not '%.60s'",
                            MOST_AMOUNT, MOST_AMOUNT, MOST_IMAGES, text);
}

/* scores: probability that each result shows the attribute, encoded again; asked: the same of the condition that it was
 * rendered from. */
typedef struct change {
    zn_diffae_edit edit;
    int count, index;
    double amounts[MOST_IMAGES], scores[MOST_IMAGES], asked[MOST_IMAGES];
} change;

static zn_status judge(course *c, const float *cond, int index, double *score)
{
    float *scores = must_alloc(NULL, (size_t)zn_diffae_attribute_count(c->net) * sizeof *scores);
    const zn_status status = zn_diffae_judge(c->net, cond, scores);
    if (status == ZN_OK)
        *score = (double)scores[index];
    free(scores);
    return status;
}

/* Image i. cond and noise: buffers for its condition and noise. */
static zn_status edit_image(course *c, const parts *p, change *to, int i, float *cond, float *noise)
{
    zn_image *image = NULL;
    const int goal_steps = zn_diffae_edit_steps(&to->edit, &to->amounts[i], 1);
    if (goal_steps)
        stage(c, "imagine", goal_steps);
    ZN_TRY(zn_diffae_edit_by(c->net, &to->edit, p->cond, p->noise, to->amounts[i], cond, noise));
    ZN_TRY(judge(c, cond, to->index, &to->asked[i]));
    zn_status status = render_result(c, cond, noise, p->image->grey, &image);
    if (status == ZN_OK)
        status = zn_diffae_encode(c->net, image, cond);
    zn_image_free(image);
    return status == ZN_OK ? judge(c, cond, to->index, &to->scores[i]) : status;
}

static zn_status edit_images(course *c, const parts *p, change *to)
{
    const size_t width = (size_t)zn_diffae_width(c->net);
    float *moved = must_alloc(NULL, (width + zn_diffae_noise_size(c->net, 1)) * sizeof *moved);
    zn_status status = ZN_OK;
    for (int i = 0; i < to->count && status == ZN_OK; i++)
        status = edit_image(c, p, to, i, moved, moved + width);
    free(moved);
    return status;
}

static void numbers(json *j, const char *key, const double *values, int count)
{
    json_open(j, key, '[');
    for (int i = 0; i < count; i++)
        json_real(j, NULL, values[i]);
    json_close(j, ']');
}

static void edit_facts(sv_job *job, const change *to)
{
    json_text(&job->facts, "attribute", job->o.attribute);
    if (job->o.imagine)
        json_text(&job->facts, "way", "imagined");
    numbers(&job->facts, "amounts", to->amounts, to->count);
    numbers(&job->facts, "scores", to->scores, to->count);
    numbers(&job->facts, "condition_scores", to->asked, to->count);
}

/* What is missing is said before the slow inversion. */
static zn_status edit_check(const sv_job *job, const sv_engine *e, change *to)
{
    if (!e->info->has_classifier)
        return ZN_FAIL(ZN_EINVALID, "the model %s has no classifier; name its weights as classifier",
                       e->info->architecture);
    if (job->o.imagine && !e->info->has_latent_net)
        return ZN_FAIL(ZN_EINVALID, "the model %s has no latent net, which imagine needs; name its weights as latent",
                       e->info->architecture);
    return zn_diffae_find_attribute(e->diffae, job->o.attribute, &to->index);
}

static zn_status edit(sv_job *job, sv_engine *e)
{
    const options *o = &job->o;
    course c;
    parts p = { 0 };
    change to = { .edit = { .attribute = o->attribute, .imagine = o->imagine, .seed = o->seed } };
    if (!o->attribute)
        return ZN_FAIL(ZN_EINVALID, "the task edit needs an attribute; GET /api/models/NAME/attributes lists them");
    ZN_TRY(read_amounts(o->amount ? o->amount : o->imagine ? "1" : "0.3", to.amounts, &to.count));
    ZN_TRY(begin(job, e, EDIT_STEPS, 1, to.count, zn_diffae_edit_steps(&to.edit, to.amounts, to.count), &c));
    ZN_TRY(edit_check(job, e, &to));
    zn_status status = take_image(&c, 0, &p);
    if (status == ZN_OK)
        status = edit_images(&c, &p, &to);
    if (status == ZN_OK)
        edit_facts(job, &to);
    parts_free(&p);
    zn_diffae_edit_clear(&to.edit);
    return status;
}

static zn_status run_edit(sv_job *job) { return with_engine(job, edit); }

/* ---- interpolate ---- */

static zn_status interpolate(sv_job *job, sv_engine *e)
{
    course c;
    const int frames = job->o.frames ? job->o.frames : FRAMES;
    parts a = { 0 }, b = { 0 }, now = { 0 };
    if (frames > MOST_IMAGES)
        return ZN_FAIL(ZN_ELIMIT, "a job makes at most %d images", MOST_IMAGES);
    ZN_TRY(begin(job, e, RENDER_STEPS, 2, frames, 0, &c));
    parts_alloc(&c, &now);
    zn_status status = take_image(&c, 0, &a);
    if (status == ZN_OK)
        status = take_image(&c, 1, &b);
    for (int i = 0; i < frames && status == ZN_OK; i++) {
        zn_diffae_between(c.net, a.cond, a.noise, b.cond, b.noise, i / (double)(frames - 1), now.cond, now.noise);
        status = render_result(&c, now.cond, now.noise, a.image->grey && b.image->grey, NULL);
    }
    parts_free(&a);
    parts_free(&b);
    parts_free(&now);
    json_integer(&job->facts, "images", frames);
    return status;
}

static zn_status run_interpolate(sv_job *job) { return with_engine(job, interpolate); }

/* ---- sample ---- */

static zn_status sample_group(course *c, int first, int count, int latent_steps, float *conds, float *noise)
{
    const uint64_t seed = c->job->o.seed + (uint64_t)first;
    stage(c, "imagine", latent_steps);
    ZN_TRY(zn_diffae_imagine(c->net, count, seed, latent_steps, conds));
    for (int i = 0; i < count; i++) {
        zn_diffae_noise(c->net, 1, seed + (uint64_t)i, noise);
        ZN_TRY(render_result(c, conds + (size_t)i * (size_t)zn_diffae_width(c->net), noise, 0, NULL));
    }
    return ZN_OK;
}

static zn_status sample(sv_job *job, sv_engine *e)
{
    course c;
    const int count = job->o.count ? job->o.count : 1, groups = (count + GROUP - 1) / GROUP;
    const int latent_steps = job->o.latent_steps ? (int)job->o.latent_steps : LATENT_STEPS;
    if (count > MOST_IMAGES)
        return ZN_FAIL(ZN_ELIMIT, "a job makes at most %d images", MOST_IMAGES);
    ZN_TRY(begin(job, e, RENDER_STEPS, 0, count, groups * latent_steps, &c));
    if (!e->info->has_latent_net)
        return ZN_FAIL(ZN_EINVALID, "the model %s has no latent net; name its weights as latent",
                       e->info->architecture);
    float *conds = must_alloc(NULL, GROUP * (size_t)zn_diffae_width(c.net) * sizeof *conds);
    float *noise = must_alloc(NULL, zn_diffae_noise_size(c.net, 1) * sizeof *noise);
    zn_status status = ZN_OK;
    for (int first = 0; first < count && status == ZN_OK; first += GROUP)
        status = sample_group(&c, first, count - first < GROUP ? count - first : GROUP, latent_steps, conds, noise);
    free(conds);
    free(noise);
    json_unsigned(&job->facts, "seed", job->o.seed);
    return status;
}

static zn_status run_sample(sv_job *job) { return with_engine(job, sample); }

#define COMMON "precision seed format quality lossless steps "
const sv_task sv_task_edit = { .name = "edit",
                               .command = CMD_EDIT,
                               .options = COMMON
                               "background encode-steps random-noise attribute amount imagine classifier latent",
                               .least = 1,
                               .most = 1,
                               .run = run_edit };
const sv_task sv_task_interpolate = { .name = "interpolate",
                                      .command = CMD_INTERPOLATE,
                                      .options = COMMON "background encode-steps random-noise frames",
                                      .least = 2,
                                      .most = 2,
                                      .run = run_interpolate };
const sv_task sv_task_sample = { .name = "sample",
                                 .command = CMD_SAMPLE,
                                 .options = COMMON "latent-steps count latent",
                                 .least = 0,
                                 .most = 0,
                                 .run = run_sample };
