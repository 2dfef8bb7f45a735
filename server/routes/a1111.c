/* AUTOMATIC1111's API, so that Open WebUI, SillyTavern, KoboldAI Lite and stable-ui work. Fields that have no meaning
 * here are ignored; lists name what there is. */
#include "server/routes/a1111.h"

#include "base/fail.h"
#include "base/file.h"
#include "files/parameters.h"
#include "options/model_names.h"
#include "server/base64.h"
#include "server/models.h"
#include "server/routes/result.h"
#include "ui/report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

static const char sampler[] = "Euler", scheduler[] = "Simple";

/* ---- txt2img and img2img ---- */

/* What the answer repeats of the request, and whether it has the images. */
typedef struct wish {
    char *prompt, *negative; /* owned by the job */
    int sends;
} wish;

static int is_true(const char *text) { return !strcasecmp(text, "true") || !strcmp(text, "1"); }

static const double usual_size = 512, usual_scale = 7; /* of this API */

static zn_status set_size(sv_job *job, const sv_form *form, int own_size)
{
    const double other = job->file_count || own_size ? 0 : usual_size;
    double width = sv_form_number(form, "width", other), height = sv_form_number(form, "height", other);
    char size[64];
    width = width ? width : height;
    height = height ? height : width;
    if (!width || (own_size && sv_takes_own_size(job, width, height)))
        return ZN_OK;
    if (!(width >= 16 && width < 65536 && height >= 16 && height < 65536))
        return ZN_FAIL(ZN_EINVALID, "width and height must be numbers from 16");
    snprintf(size, sizeof size, "%dx%d", (int)width, (int)height);
    return sv_job_set_option(job, "size", size);
}

/* batch_size images at once, n_iter times. */
static zn_status set_count(sv_job *job, const sv_form *form)
{
    const double batch = floor(sv_form_number(form, "batch_size", 1));
    const double count = batch * floor(sv_form_number(form, "n_iter", 1));
    char text[32];
    if (!(batch >= 1 && batch <= ZN_BATCH_MOST && count >= 1 && count <= 64))
        return ZN_FAIL(ZN_EINVALID, "batch_size times n_iter must be a number from 1 to 64");
    snprintf(text, sizeof text, "%d", (int)batch);
    ZN_TRY(sv_job_set_option(job, "batch", text));
    snprintf(text, sizeof text, "%d", (int)count);
    return sv_job_set_option(job, "count", text);
}

/* A scale of 1 turns guidance off here; as an option, 0 does. The usual scale is too much for a model with settings of
 * its own, which are used instead: see sv_takes_own_size. */
static zn_status set_guidance(sv_job *job, const sv_form *form, int own_size)
{
    char text[40];
    const double cfg = sv_form_number(form, "cfg_scale", 1);
    if (!sv_form_text(form, "cfg_scale") || (own_size && cfg == usual_scale))
        return ZN_OK;
    snprintf(text, sizeof text, "%.17g", cfg > 1 ? cfg - 1 : 0);
    return sv_job_set_option(job, "guidance", text);
}

static zn_status set_image(sv_job *job, const sv_form *form)
{
    sv_field *image = sv_form_field(form, "init_images", 0), *mask = sv_form_field(form, "mask", 0);
    if (!image)
        return ZN_FAIL(ZN_EINVALID, "init_images is missing");
    ZN_TRY(sv_job_add_file(job, image, NULL));
    if (mask && mask->size)
        ZN_TRY(sv_job_add_file(job, mask, &job->mask));
    return sv_option(ZN_OK, job, "strength", sv_form_text(form, "denoising_strength"));
}

/* Takes <lora:NAME> and <lora:NAME:STRENGTH> out of the prompt; a second number, the text encoder's, is ignored. */
static zn_status take_loras(sv_job *job, char *prompt)
{
    static const char mark[] = "<lora:";
    char *at = prompt, *end;
    while ((at = strstr(at, mark)) != NULL && (end = strchr(at, '>')) != NULL) {
        char *name = must_print("%.*s", (int)(end - at) - (int)(sizeof mark - 1), at + sizeof mark - 1);
        char *colon = strchr(name, ':'), *second = colon ? strchr(colon + 1, ':') : NULL;
        if (second)
            *second = 0;
        const zn_status status = sv_job_set_option(job, "lora", name);
        free(name);
        ZN_TRY(status);
        memmove(at, end + 1, strlen(end));
    }
    for (size_t n = strlen(prompt); n && prompt[n - 1] == ' '; n--) /* before the marks that were at the end */
        prompt[n - 1] = 0;
    return ZN_OK;
}

static zn_status fill(const sv_request *r, sv_job *job, const sv_form *form, wish *w)
{
    char name[128] = "";
    const char *prompt = sv_form_text(form, "prompt"), *seed = sv_form_text(form, "seed");
    const char *negative = sv_form_text(form, "negative_prompt"), *sends = sv_form_text(form, "send_images");
    sv_default_generator(sv_server_of(r), name);
    job->prompt = must_copy(prompt ? prompt : "");
    job->model = must_copy(*name ? name : "z-image-turbo");
    job->previews = 1;
    w->prompt = (char *)sv_job_text(job, job->prompt);
    ZN_TRY(take_loras(job, job->prompt));
    w->sends = !sends || is_true(sends);
    w->negative = (char *)sv_job_text(job, negative ? negative : "");
    if (!strcmp(r->path, "/sdapi/v1/img2img"))
        ZN_TRY(set_image(job, form));
    zn_generator_about about;
    sv_generator_about(sv_server_of(r)->models, job->model, &about);
    zn_status status = set_size(job, form, about.width);
    if (status == ZN_OK)
        status = set_count(job, form);
    if (status == ZN_OK)
        status = set_guidance(job, form, about.width);
    status = sv_option(status, job, "steps", sv_form_text(form, "steps"));
    status = sv_option(status, job, "seed", seed && seed[0] != '-' ? seed : NULL);
    return sv_option(status, job, "negative", negative);
}

/* The line that other programs store in images, without what is ours. */
static char *infotext(const sv_job *job, const wish *w, int i)
{
    return must_print("%s%s%s\nSteps: %d, Sampler: %s, CFG scale: %g, Seed: %llu, Size: %dx%d, Model: %s", w->prompt,
                      *w->negative ? "\nNegative prompt: " : "", w->negative, job->used_steps, sampler,
                      1 + job->used_guidance, (unsigned long long)sv_result_seed(job, i), job->results[i].width,
                      job->results[i].height, job->model);
}

static void settings_json(json *j, const sv_job *job, const wish *w)
{
    const int batch = job->o.batch ? job->o.batch : 1, count = job->o.count ? job->o.count : 1;
    json_text(j, "prompt", w->prompt);
    json_text(j, "negative_prompt", w->negative);
    json_unsigned(j, "seed", sv_result_seed(job, 0));
    json_integer(j, "steps", job->used_steps);
    json_real(j, "cfg_scale", 1 + job->used_guidance);
    json_integer(j, "width", job->results[0].width);
    json_integer(j, "height", job->results[0].height);
    json_text(j, "sampler_name", sampler);
    json_text(j, "scheduler", scheduler);
    json_integer(j, "batch_size", batch);
    json_integer(j, "n_iter", count / batch);
}

static char *info_text(const sv_job *job, const wish *w)
{
    json j = { 0 };
    json_open(&j, NULL, '{');
    settings_json(&j, job, w);
    json_open(&j, "all_seeds", '[');
    for (int i = 0; i < job->result_count; i++)
        json_unsigned(&j, NULL, sv_result_seed(job, i));
    json_close(&j, ']');
    json_open(&j, "infotexts", '[');
    for (int i = 0; i < job->result_count; i++) {
        char *text = infotext(job, w, i);
        json_text(&j, NULL, text);
        free(text);
    }
    json_close(&j, ']');
    json_text(&j, "sd_model_name", job->model);
    json_text(&j, "job", job->id); /* ours: whose results GET /api/jobs/ID has */
    sv_job_remarks_json(&j, job);
    json_close(&j, '}');
    char *text = must_print("%.*s", (int)j.length, j.text);
    free(j.text);
    return text;
}

/* An interrupted generation has the images that were finished, if any. */
static void finish(sv_job *job, sv_answer *a, void *own)
{
    const wish *w = own;
    json j = { 0 };
    if (job->state == SV_FAILED) {
        sv_answer_error(a, sv_status_of(job->status), "%s", job->error);
        return;
    }
    json_open(&j, NULL, '{');
    json_open(&j, "images", '[');
    for (int i = 0; w->sends && i < job->result_count; i++) {
        char *text = sv_result_base64(job, i);
        json_text(&j, NULL, text ? text : "");
        free(text);
    }
    json_close(&j, ']');
    json_open(&j, "parameters", '{');
    if (job->result_count)
        settings_json(&j, job, w);
    json_close(&j, '}');
    char *info = job->result_count ? info_text(job, w) : must_copy("{}");
    json_text(&j, "info", info);
    free(info);
    json_close(&j, '}');
    sv_answer_json(a, 200, &j);
}

void sv_a1111_generate(const sv_request *r, sv_answer *a)
{
    sv_form form;
    if (!sv_take_form(r, a, &form))
        return;
    wish *w = must_alloc(NULL, sizeof *w);
    sv_job *job = sv_begin_job(r, a, sv_task_find("generate"));
    const zn_status status = job ? fill(r, job, &form, w) : ZN_OK;
    sv_form_free(&form);
    if (job && sv_submit_or_answer(a, job, status))
        sv_answer_when_done(r, a, job, finish, w);
    else
        free(w);
}

/* ---- extras ---- */

static void finish_extra(sv_job *job, sv_answer *a, void *own)
{
    (void)own;
    json j = { 0 };
    if (job->state != SV_DONE) {
        sv_answer_error(a, sv_status_of(job->status), "%s", job->error);
        return;
    }
    char *text = sv_result_base64(job, 0);
    json_open(&j, NULL, '{');
    json_text(&j, "html_info", "");
    json_text(&j, "image", text ? text : "");
    json_close(&j, '}');
    free(text);
    sv_answer_json(a, 200, &j);
}

/* "None" does not enlarge but restores with the usual model. Scales are 2 and 4. */
void sv_a1111_extra(const sv_request *r, sv_answer *a)
{
    sv_form form;
    if (!sv_take_form(r, a, &form))
        return;
    const char *upscaler = sv_form_text(&form, "upscaler_1");
    const double scale = sv_form_number(&form, "upscaling_resize", 2);
    const int enlarges = upscaler && strcmp(upscaler, "None") && scale > 1;
    sv_field *image = sv_form_field(&form, "image", 0);
    sv_job *job = sv_begin_job(r, a, sv_task_find(enlarges ? "upscale" : "restore"));
    zn_status status = ZN_OK;
    if (!image)
        status = ZN_FAIL(ZN_EINVALID, "image is missing");
    else if (enlarges && scale != 2 && scale != 4)
        status = ZN_FAIL(ZN_EINVALID, "upscaling_resize must be 2 or 4, not %g", scale);
    else if (job)
        status = sv_job_add_file(job, image, NULL);
    if (job && enlarges) {
        job->model = must_copy(upscaler);
        status = sv_option(status, job, "scale", scale == 4 ? "4" : "2");
    }
    sv_form_free(&form);
    if (job && sv_submit_or_answer(a, job, status))
        sv_answer_when_done(r, a, job, finish_extra, NULL);
}

/* The library reads metadata from files. */
static char *parameters_of(const sv_server *s, const sv_field *f)
{
    char *path = must_print("%s/png-info", s->spool), *text = NULL;
    zn_image_metadata m = { 0 };
    if (zn_file_write(path, f->bytes, f->size) == ZN_OK && zn_image_read_metadata(path, &m) == ZN_OK && m.parameters)
        text = must_copy(m.parameters);
    zn_image_metadata_free(&m);
    unlink(path);
    free(path);
    return text ? text : must_copy("");
}

void sv_a1111_png_info(const sv_request *r, sv_answer *a)
{
    sv_form form;
    json j = { 0 };
    if (!sv_take_form(r, a, &form))
        return;
    sv_field *image = sv_form_field(&form, "image", 0);
    if (!image || sv_field_decode(image) != ZN_OK) {
        sv_answer_error(a, 400, "image must be a file in base64");
        sv_form_free(&form);
        return;
    }
    char *info = parameters_of(sv_server_of(r), image);
    parameters p;
    json_open(&j, NULL, '{');
    json_text(&j, "info", info);
    json_open(&j, "items", '{');
    json_text(&j, "parameters", info);
    json_close(&j, '}');
    json_open(&j, "parameters", '{');
    if (parameters_parse(info, &p)) {
        json_text(&j, "Prompt", p.prompt ? p.prompt : "");
        json_text(&j, "Negative prompt", p.negative ? p.negative : "");
        json_integer(&j, "Steps", p.steps);
        json_unsigned(&j, "Seed", p.seed);
        json_real(&j, "CFG scale", 1 + p.guidance);
    }
    json_close(&j, '}');
    json_close(&j, '}');
    parameters_free(&p);
    free(info);
    sv_form_free(&form);
    sv_answer_json(a, 200, &j);
}

/* ---- progress ---- */

/* When the job began, as the original writes it. */
static void timestamp_json(json *j, const sv_job *job)
{
    const time_t began = job ? (time_t)job->started : 0;
    struct tm t;
    char text[32] = "0";
    if (job && localtime_r(&began, &t))
        strftime(text, sizeof text, "%Y%m%d%H%M%S", &t);
    json_text(j, "job_timestamp", text);
}

/* A "job" of this API is one of the n_iter batches of a request. */
static void progress_json(json *j, const sv_job *job)
{
    const double spent = job ? sv_job_seconds(job) : 0;
    const int batch = job && job->o.batch ? job->o.batch : 1, asked = job && job->o.count ? job->o.count : 1,
              images = job && job->images > asked ? job->images : asked;
    json_real(j, "progress", job ? fmax(job->fraction, 0.001) : 0);
    json_real(j, "eta_relative", job && job->fraction > 0.01 ? spent * (1 - job->fraction) / job->fraction : 0);
    json_open(j, "state", '{');
    json_bool(j, "skipped", job && job->skipped);
    json_bool(j, "interrupted", job && job->cancelled);
    json_text(j, "job", job ? job->id : "");
    json_integer(j, "job_count", job ? (images + batch - 1) / batch : 0);
    timestamp_json(j, job);
    json_integer(j, "job_no", job && job->image ? (job->image - 1) / batch : 0);
    json_integer(j, "sampling_step", job ? job->step : 0);
    json_integer(j, "sampling_steps", job ? job->steps : 0);
    json_close(j, '}');
}

/* The API does not say which job: that of this client which has been running longest, or else of anyone. */
void sv_a1111_progress(const sv_request *r, sv_answer *a)
{
    sv_server *s = sv_server_of(r);
    const char *skip = sv_query(r, "skip_current_image");
    const int with_image = !skip || !is_true(skip);
    char client[128];
    sv_client_of(r, client);
    sv_job *job = sv_job_running(s->jobs, client);
    job = job ? job : sv_job_running(s->jobs, NULL);
    json j = { 0 };
    char *image = NULL;
    json_open(&j, NULL, '{');
    sv_jobs_lock(s->jobs);
    progress_json(&j, job);
    if (job && job->preview && with_image)
        image = sv_base64_encode(job->preview, job->preview_size);
    sv_jobs_unlock(s->jobs);
    if (image)
        json_text(&j, "current_image", image);
    else
        json_null(&j, "current_image");
    json_null(&j, "textinfo");
    json_close(&j, '}');
    free(image);
    if (job)
        sv_job_release(job);
    sv_answer_json(a, 200, &j);
}

/* The API does not say which job: that of this client which has been running longest. */
static void stop_job(const sv_request *r, sv_answer *a, void (*stop)(sv_job *job))
{
    char client[128];
    sv_client_of(r, client);
    sv_job *job = sv_job_running(sv_server_of(r)->jobs, client);
    if (job) {
        stop(job);
        sv_job_release(job);
    }
    sv_a1111_nothing(r, a);
}

void sv_a1111_interrupt(const sv_request *r, sv_answer *a) { stop_job(r, a, sv_job_cancel); }
void sv_a1111_skip(const sv_request *r, sv_answer *a) { stop_job(r, a, sv_job_skip); }

/* ---- options and lists ---- */

void sv_a1111_nothing(const sv_request *r, sv_answer *a)
{
    (void)r;
    sv_answer_constant(a, "application/json", "{}", 2);
}

void sv_a1111_empty(const sv_request *r, sv_answer *a)
{
    (void)r;
    sv_answer_constant(a, "application/json", "[]", 2);
}

void sv_a1111_options(const sv_request *r, sv_answer *a)
{
    char name[128] = "";
    json j = { 0 };
    sv_default_generator(sv_server_of(r), name);
    json_open(&j, NULL, '{');
    json_text(&j, "sd_model_checkpoint", name);
    json_text(&j, "sd_vae", "Automatic");
    json_integer(&j, "CLIP_stop_at_last_layers", 1);
    json_text(&j, "samples_format", "png");
    json_close(&j, '}');
    sv_answer_json(a, 200, &j);
}

/* Clients send the whole dictionary back; only the model can be changed. */
void sv_a1111_set_options(const sv_request *r, sv_answer *a)
{
    sv_server *s = sv_server_of(r);
    sv_form form;
    if (!sv_take_form(r, a, &form))
        return;
    const char *name = sv_form_text(&form, "sd_model_checkpoint");
    char *path = name && *name ? sv_model_path(s->models, name, 1) : NULL;
    if (name && *name && !path) {
        sv_answer_error(a, 404, "no model that generates images is called '%.80s'", name);
    } else {
        if (path)
            sv_choose_generator(s, name);
        sv_a1111_nothing(r, a);
    }
    free(path);
    sv_form_free(&form);
}

/* Closes a list and answers with it, or with the error of the visit that filled it. Takes the text. */
static void answer_list(sv_answer *a, json *j, zn_status status)
{
    json_close(j, ']');
    if (status == ZN_OK)
        sv_answer_json(a, 200, j);
    else
        sv_answer_error(a, 500, "%s", zn_error_text());
    free(j->text);
}

static void list_model(void *user, const char *name)
{
    json *j = user;
    json_open(j, NULL, '{');
    json_text(j, "title", name);
    json_text(j, "model_name", name);
    json_null(j, "hash");
    json_null(j, "sha256");
    json_text(j, "filename", name);
    json_null(j, "config");
    json_close(j, '}');
}

void sv_a1111_models(const sv_request *r, sv_answer *a)
{
    (void)r;
    json j = { 0 };
    json_open(&j, NULL, '[');
    answer_list(a, &j, sv_generators_visit(list_model, &j));
}

void sv_a1111_samplers(const sv_request *r, sv_answer *a)
{
    (void)r;
    static const char text[] = "[{\"name\": \"Euler\", \"aliases\": [\"k_euler\", \"euler\"], \"options\": {}}]";
    sv_answer_constant(a, "application/json", text, sizeof text - 1);
}

void sv_a1111_schedulers(const sv_request *r, sv_answer *a)
{
    (void)r;
    static const char text[] = "[{\"name\": \"simple\", \"label\": \"Simple\", \"aliases\": null, \"default_rho\": -1, "
                               "\"need_inner_model\": false}]";
    sv_answer_constant(a, "application/json", text, sizeof text - 1);
}

static void list_lora(void *user, const char *name, const char *path)
{
    (void)path; /* clients do not learn the paths of the server */
    json *j = user;
    json_open(j, NULL, '{');
    json_text(j, "name", name);
    json_text(j, "alias", name);
    json_text(j, "path", name);
    json_open(j, "metadata", '{');
    json_close(j, '}');
    json_close(j, '}');
}

void sv_a1111_loras(const sv_request *r, sv_answer *a)
{
    (void)r;
    json j = { 0 };
    json_open(&j, NULL, '[');
    answer_list(a, &j, zn_loras_visit(list_lora, &j));
}

static void list_upscaler(void *user, const char *path, const zn_model_info *info, const char *error)
{
    json *j = user;
    if (!info || (error && *error) || !info->upscales)
        return;
    char *name = model_name(path);
    json_open(j, NULL, '{');
    json_text(j, "name", name);
    json_text(j, "model_name", name);
    json_null(j, "model_path");
    json_null(j, "model_url");
    json_integer(j, "scale", 2);
    json_close(j, '}');
    free(name);
}

void sv_a1111_upscalers(const sv_request *r, sv_answer *a)
{
    (void)r;
    static const char none[] = "{\"name\": \"None\", \"model_name\": null, \"model_path\": null, \"model_url\": null, "
                               "\"scale\": 4}";
    json j = { 0 };
    json_open(&j, NULL, '[');
    json_raw(&j, none, sizeof none - 1);
    answer_list(a, &j, zn_models_visit(list_upscaler, &j));
}
