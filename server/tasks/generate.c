/* Images from prompts: what `zenith generate` does, with the settings stored in the image as it stores them. */
#include "base/fail.h"
#include "files/parameters.h"
#include "server/tasks/tasks.h"
#include "ui/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static const double usual_strength = 0.6;
enum { MOST_IMAGES = ZN_BATCH_MOST };

typedef struct making {
    sv_job *job;
    sv_engine *engine;
    parameters p;
    zn_image *image, *mask;
    zn_generator_about about;
    int current, at_once, count;
    char model[128];
} making;

static int tick(void *user, const zn_generation_progress *p)
{
    making *m = user;
    sv_job *job = m->job;
    static const char *const stages[] = { "prompt", "image", "steps", "decode" };
    sv_job_stage(job, stages[p->stage], (double)m->current / m->count, (double)m->at_once / m->count);
    if (p->preview)
        sv_job_preview(job, p->preview);
    return sv_job_step(job, p->step, p->steps, p->fraction) || job->skipped;
}

static uint64_t random_seed(void)
{
    uint32_t seed = 0;
    return getrandom(&seed, sizeof seed, 0) == sizeof seed ? seed : (uint32_t)sv_now();
}

static void settings_of(making *m)
{
    const sv_job *job = m->job;
    const options *o = &job->o;
    parameters *p = &m->p;
    parameters_set(&p->prompt, job->prompt ? job->prompt : "");
    parameters_set(&p->negative, o->negative);
    parameters_set(&p->model, m->model);
    if (job->file_count)
        parameters_set(&p->image, job->files[0].name);
    if (job->mask.path)
        parameters_set(&p->mask, job->mask.name);
    p->width = o->size[0] || !job->file_count ? o->size[0] : m->about.width;
    p->height = o->size[0] || !job->file_count ? o->size[1] : m->about.height;
    p->steps = (int)o->steps;
    if (o->guidance)
        parameters_set_guidance(p, strtod(o->guidance, NULL));
    p->shift = o->shift ? strtod(o->shift, NULL) : 0;
    p->strength = o->strength ? strtod(o->strength, NULL) : usual_strength;
    p->precision = o->precision;
    p->encoder_tile = p->decoder_tile = o->tile;
    for (int i = 0; o->loras[i]; i++)
        parameters_add_lora(p, o->loras[i]);
    p->seed = o->noise_seed ? strtoull(o->noise_seed, NULL, 10) : random_seed();
}

/* Scales an image to the size of the result. */
static zn_status fit(const making *m, zn_image **image)
{
    zn_image *fitted;
    if (!m->p.width || ((*image)->width == m->p.width && (*image)->height == m->p.height))
        return ZN_OK;
    ZN_TRY(zn_image_fit(*image, m->p.width, m->p.height, &fitted));
    zn_image_free(*image);
    *image = fitted;
    return ZN_OK;
}

/* White is what changes. A mask in OpenAI's way says so by its transparency, if it has any. */
static zn_status read_mask(sv_job *job, zn_image **mask)
{
    const zn_image_read_options reading = { .max_pixels = job->server->settings->most_pixels };
    if (job->alpha_mask)
        ZN_TRY(zn_image_read_alpha(job->mask.path, &reading, mask));
    if (!*mask)
        return sv_job_read_image(job, &job->mask, 0, mask);
    const size_t samples = (size_t)(*mask)->width * (size_t)(*mask)->height * 3;
    for (size_t i = 0; i < samples; i++)
        if ((*mask)->bits == 16)
            ((uint16_t *)(*mask)->pixels)[i] ^= 0xffff;
        else
            ((uint8_t *)(*mask)->pixels)[i] ^= 0xff;
    return ZN_OK;
}

static zn_status read_images(making *m)
{
    sv_job *job = m->job;
    if (job->mask.path && !job->file_count)
        return ZN_FAIL(ZN_EINVALID, "a mask needs an image");
    if (!job->file_count)
        return ZN_OK;
    ZN_TRY(sv_job_read_image(job, &job->files[0], 0, &m->image));
    if (job->mask.path)
        ZN_TRY(read_mask(job, &m->mask));
    if (m->mask && (m->mask->width != m->image->width || m->mask->height != m->image->height))
        return ZN_FAIL(ZN_ESHAPE, "%s: the mask is %dx%d, but %s is %dx%d; both must have one size", job->mask.name,
                       m->mask->width, m->mask->height, job->files[0].name, m->image->width, m->image->height);
    parameters_fit_size(&m->p, m->image);
    if (m->p.width && (m->p.width != m->image->width || m->p.height != m->image->height))
        sv_job_remark(job, "%s: the centre of %dx%d was scaled to %dx%d", job->files[0].name, m->image->width,
                      m->image->height, m->p.width, m->p.height);
    ZN_TRY(fit(m, &m->image));
    return m->mask ? fit(m, &m->mask) : ZN_OK;
}

static zn_generation request_of(making *m)
{
    const parameters *p = &m->p;
    return (zn_generation){ .size = sizeof(zn_generation),
                            .prompt = p->prompt,
                            .negative = p->negative,
                            .width = p->width,
                            .height = p->height,
                            .steps = p->steps,
                            .seed = p->seed,
                            .guidance = parameters_guidance(p),
                            .shift = p->shift,
                            .image = m->image,
                            .strength = p->strength,
                            .mask = m->mask,
                            .encoder_tile = p->encoder_tile,
                            .decoder_tile = p->decoder_tile,
                            .preview = m->job->previews,
                            .progress = tick,
                            .user = m };
}

static void facts_of(const making *m, const zn_generation_report *r)
{
    json *j = &m->job->facts;
    json_open(j, NULL, '{');
    parameters_facts(j, &m->p, r);
    json_close(j, '}');
}

/* Image i of those that were made at once. */
static zn_status write_result(making *m, int i, const zn_image *image)
{
    zn_generation_report r = { .size = sizeof r };
    zn_generator_report_of(m->engine->generator, i, &r);
    m->p.width = image->width;
    m->p.height = image->height;
    parameters p = m->p; /* borrows the strings */
    p.encoder_tile = r.encoder_tile;
    p.decoder_tile = r.decoder_tile;
    zn_image_metadata metadata = { .parameters = m->job->o.strip ? NULL : parameters_text(&p) };
    char *name = must_print("%llu", (unsigned long long)m->p.seed);
    const zn_status status = sv_write_image(m->job, name, image, NULL, &metadata);
    free(name);
    free(metadata.parameters);
    m->job->tokens = r.tokens;
    if (status == ZN_OK)
        facts_of(m, &r);
    return status;
}

/* Settings of the model, and what the job tells of them. */
static void complete(making *m)
{
    const zn_image *image = m->image;
    char text[128], about[512];
    parameters_complete(&m->p, m->engine->generator);
    m->job->used_steps = m->p.steps;
    m->job->used_guidance = m->p.guidance;
    const char *remark = parameters_size_remark(m->engine->generator, image ? image->width : m->p.width,
                                                image ? image->height : m->p.height, text);
    if (remark)
        sv_job_remark(m->job, "%s", remark);
    remark = parameters_prompt_remark(m->model, &m->about, m->p.prompt, about);
    if (remark)
        sv_job_remark(m->job, "%s", remark);
    if (m->p.negative && *m->p.negative && m->p.guidance <= 0)
        sv_job_remark(m->job, "the negative prompt has no effect without guidance");
}

/* Makes at_once images, the first of them number `current`. */
static zn_status make_some(making *m, uint64_t first_seed)
{
    zn_generation requests[MOST_IMAGES];
    const zn_generation *list[MOST_IMAGES];
    zn_image *images[MOST_IMAGES] = { NULL };
    sv_job_image(m->job, m->current + 1, m->count);
    for (int i = 0; i < m->at_once; i++) {
        requests[i] = request_of(m);
        requests[i].seed = first_seed + (uint64_t)(m->current + i);
        list[i] = &requests[i];
    }
    zn_status status = zn_generate_batch(m->engine->generator, list, m->at_once, images);
    const int skipped = status == ZN_ECANCELLED && m->job->skipped && !m->job->cancelled;
    m->job->skipped = 0;
    if (skipped)
        status = ZN_OK;
    for (int i = 0; i < m->at_once; i++) { /* also those that were finished before a failure or an interruption */
        m->p.seed = requests[i].seed;
        const zn_status written = images[i] ? write_result(m, i, images[i]) : ZN_OK;
        status = status == ZN_OK ? written : status;
        zn_image_free(images[i]);
    }
    return status;
}

static zn_status check(const making *m)
{
    const zn_generation plain = { .size = sizeof plain,
                                  .prompt = m->p.prompt,
                                  .negative = m->p.negative,
                                  .width = m->p.width,
                                  .height = m->p.height,
                                  .steps = m->p.steps,
                                  .encoder_tile = m->p.encoder_tile,
                                  .decoder_tile = m->p.decoder_tile };
    if ((int64_t)m->p.width * m->p.height > m->job->server->settings->most_pixels)
        return ZN_FAIL(ZN_ELIMIT, "%dx%d pixels are more than the server allows", m->p.width, m->p.height);
    ZN_TRY(sv_check_format(m->job, m->p.width, m->p.height, 0));
    return zn_generation_check(&plain);
}

/* As many as were asked for, but not more pixels than one image may have. */
static int most_at_once(const making *m)
{
    const int asked = m->job->o.batch ? m->job->o.batch : 1;
    const int64_t pixels =
        (int64_t)(m->p.width ? m->p.width : m->about.width) * (m->p.height ? m->p.height : m->about.height);
    const int64_t fit = m->job->server->settings->most_pixels / (pixels ? pixels : 1);
    return fit >= asked ? asked : fit > 1 ? (int)fit : 1;
}

static zn_status run(sv_job *job)
{
    making m = { .job = job, .count = job->o.count ? job->o.count : 1 };
    const char *extension;
    if (m.count > MOST_IMAGES)
        return ZN_FAIL(ZN_ELIMIT, "a job makes at most %d images", MOST_IMAGES);
    ZN_TRY(sv_image_extension(job, &extension));
    if (job->model)
        snprintf(m.model, sizeof m.model, "%s", job->model);
    else
        sv_default_generator(job->server, m.model);
    sv_generator_about(job->server->models, m.model, &m.about);
    settings_of(&m);
    zn_status status = check(&m);
    if (status == ZN_OK)
        status = read_images(&m);
    if (status == ZN_OK)
        status = sv_generator_take(job, m.model, &m.engine);
    if (status == ZN_OK)
        complete(&m);
    const uint64_t seed = job->seed = m.p.seed;
    json_text(&job->facts, "model", m.model);
    json_text(&job->facts, "prompt", m.p.prompt);
    json_unsigned(&job->facts, "seed", seed);
    json_open(&job->facts, "images", '[');
    const int most = most_at_once(&m);
    for (; status == ZN_OK && m.current < m.count; m.current += m.at_once) {
        m.at_once = m.count - m.current < most ? m.count - m.current : most;
        status = make_some(&m, seed);
    }
    json_close(&job->facts, ']');
    if (status == ZN_OK && !job->result_count) { /* all were skipped */
        job->cancelled = 1;
        status = ZN_ECANCELLED;
    }
    sv_engine_return(m.engine);
    zn_image_free(m.image);
    zn_image_free(m.mask);
    parameters_free(&m.p);
    return status;
}

const sv_task sv_task_generate = {
    .name = "generate",
    .command = CMD_GENERATE,
    .options = "size steps seed count batch guidance negative shift strength lora precision tile "
               "format quality lossless background strip",
    .least = 0,
    .most = 1,
    .run = run
};
