/* OpenAI's API for images: generations, edits and models; with seed, steps, negative_prompt and guidance_scale as plain
 * fields. Unknown fields are ignored, as their clients expect. */
#include "server/routes/openai.h"

#include "base/fail.h"
#include "server/base64.h"
#include "server/models.h"
#include "server/routes/result.h"
#include "ui/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_IMAGES = 10, MOST_PARTIAL = 3 };

/* What the answer needs of the request. */
typedef struct wish {
    int url, edits;
    int partial_images, partial_sent, completed_sent;
    char base[300]; /* of URLs */
} wish;

/* ---- models ---- */

typedef struct list {
    json out;
    sv_models *models;
} list;

static void list_model(void *user, const char *name)
{
    list *l = user;
    json *j = &l->out;
    zn_generator_about about;
    sv_generator_about(l->models, name, &about);
    json_open(j, NULL, '{');
    json_text(j, "id", name);
    json_text(j, "object", "model");
    json_integer(j, "created", 0);
    json_text(j, "owned_by", "zenith");
    json_text(j, "description", about.description);
    json_close(j, '}');
}

void sv_openai_models(const sv_request *r, sv_answer *a)
{
    list l = { .models = sv_server_of(r)->models };
    json *j = &l.out;
    json_open(j, NULL, '{');
    json_text(j, "object", "list");
    json_open(j, "data", '[');
    const zn_status status = sv_generators_visit(list_model, &l);
    json_close(j, ']');
    json_close(j, '}');
    if (status == ZN_OK)
        sv_answer_json(a, 200, j);
    else
        sv_answer_error(a, 500, "%s", zn_error_text());
    free(j->text);
}

/* ---- answers ---- */

static void usage_json(json *j, const sv_job *job)
{
    int64_t image = 0;
    for (int i = 0; i < job->result_count; i++)
        image += (int64_t)(job->results[i].width / 16) * (job->results[i].height / 16);
    json_open(j, "usage", '{');
    json_integer(j, "input_tokens", job->tokens);
    json_open(j, "input_tokens_details", '{');
    json_integer(j, "text_tokens", job->tokens);
    json_integer(j, "image_tokens", 0);
    json_close(j, '}');
    json_integer(j, "output_tokens", image);
    json_integer(j, "total_tokens", image + job->tokens);
    json_close(j, '}');
}

static const char *format_of(const sv_job *job)
{
    return !job->o.format ? "png" : !strcmp(job->o.format, "jpg") ? "jpeg" : job->o.format;
}

/* width 0: not known yet. */
static void look_json(json *j, const char *format, int width, int height)
{
    char size[32];
    snprintf(size, sizeof size, "%dx%d", width, height);
    json_text(j, "output_format", format);
    json_text(j, "size", width ? size : "auto");
    json_text(j, "quality", "auto");
    json_text(j, "background", "opaque");
}

static void image_json(json *j, const sv_job *job, const wish *w, int i)
{
    if (w->url) {
        char *url = must_print("%s/api/jobs/%s/result/%d", w->base, job->id, i);
        json_text(j, "url", url);
        free(url);
        return;
    }
    char *text = sv_result_base64(job, i);
    json_text(j, "b64_json", text ? text : "");
    free(text);
}

static void finish(sv_job *job, sv_answer *a, void *own)
{
    const wish *w = own;
    json j = { 0 };
    if (job->state != SV_DONE) {
        sv_answer_error(a, sv_status_of(job->status), "%s", job->error);
        return;
    }
    json_open(&j, NULL, '{');
    json_integer(&j, "created", (int64_t)job->created);
    json_open(&j, "data", '[');
    for (int i = 0; i < job->result_count; i++) {
        json_open(&j, NULL, '{');
        image_json(&j, job, w, i);
        json_unsigned(&j, "seed", sv_result_seed(job, i));
        json_close(&j, '}');
    }
    json_close(&j, ']');
    look_json(&j, format_of(job), job->results[0].width, job->results[0].height);
    usage_json(&j, job);
    sv_job_remarks_json(&j, job);
    json_close(&j, '}');
    sv_answer_json(a, 200, &j);
}

/* ---- streams ---- */

static void partial_event(sv_job *job, wish *w, json *out)
{
    json j = { 0 };
    const char *type = w->edits ? "image_edit.partial_image" : "image_generation.partial_image";
    char *text = sv_base64_encode(job->preview, job->preview_size);
    json_open(&j, NULL, '{');
    json_text(&j, "type", type);
    json_text(&j, "b64_json", text ? text : "");
    json_integer(&j, "partial_image_index", w->partial_sent++);
    json_integer(&j, "created_at", (int64_t)job->created);
    look_json(&j, "jpeg", job->o.size[0], job->o.size[1]);
    json_close(&j, '}');
    free(text);
    sv_event(out, type, &j);
}

static void completed_event(sv_job *job, wish *w, int i, json *out)
{
    json j = { 0 };
    const char *type = w->edits ? "image_edit.completed" : "image_generation.completed";
    char *text = sv_result_base64(job, i);
    json_open(&j, NULL, '{');
    json_text(&j, "type", type);
    json_text(&j, "b64_json", text ? text : "");
    json_integer(&j, "created_at", (int64_t)job->created);
    json_unsigned(&j, "seed", sv_result_seed(job, i));
    look_json(&j, format_of(job), job->results[i].width, job->results[i].height);
    usage_json(&j, job);
    sv_job_remarks_json(&j, job);
    json_close(&j, '}');
    free(text);
    sv_event(out, type, &j);
}

/* The first event is a comment, so that clients and proxies see at once that the stream is there. */
static int write_events(sv_events *e, json *out)
{
    sv_job *job = e->job;
    wish *w = e->own;
    const int due = job->steps ? job->step * (w->partial_images + 1) / job->steps : 0;
    if (!e->started)
        json_raw(out, ": queued\n\n", 10), out->comma = 0;
    if (job->preview_number > e->preview && w->partial_sent < w->partial_images && due > w->partial_sent) {
        e->preview = job->preview_number;
        partial_event(job, w, out);
    }
    if (!sv_job_ended(job))
        return 0;
    for (int i = 0; job->state == SV_DONE && i < job->result_count; i++)
        completed_event(job, w, i, out);
    if (job->state != SV_DONE) {
        json j = { 0 };
        sv_error_json(&j, sv_status_of(job->status), job->error);
        sv_event(out, "error", &j);
    }
    job->fetched = 1;
    return 1;
}

/* ---- requests ---- */

/* OpenAI's own models, which clients name unless another one is chosen: they stand for the default. */
static int is_openai(const char *model) { return !strncmp(model, "dall-e", 6) || !strncmp(model, "gpt-image", 9); }

static zn_status set_model(const sv_request *r, sv_job *job, const sv_form *form)
{
    const char *model = sv_form_text(form, "model");
    char name[128] = "";
    sv_default_generator(sv_server_of(r), name);
    if (!model || !*model || is_openai(model))
        model = name;
    if (!*model)
        return ZN_FAIL(ZN_ENOTFOUND, SV_NO_GENERATOR);
    job->model = must_copy(model);
    return ZN_OK;
}

static zn_status set_count(sv_job *job, const sv_form *form)
{
    const char *n = sv_form_text(form, "n");
    if (n && (sv_form_number(form, "n", 0) < 1 || sv_form_number(form, "n", 0) > MOST_IMAGES))
        return ZN_FAIL(ZN_EINVALID, "n must be a number from 1 to %d, not '%.20s'", MOST_IMAGES, n);
    return sv_option(ZN_OK, job, "count", n);
}

/* Without a size, or with "auto", it is the model's. */
static zn_status set_size(const sv_request *r, sv_job *job, const sv_form *form)
{
    const char *size = sv_form_text(form, "size");
    zn_generator_about about;
    int width, height, end = 0;
    if (!size || !*size || !strcmp(size, "auto"))
        return ZN_OK;
    sv_generator_about(sv_server_of(r)->models, job->model, &about);
    if (about.width && sscanf(size, "%dx%d%n", &width, &height, &end) == 2 && !size[end] &&
        sv_takes_own_size(job, width, height))
        return ZN_OK;
    return sv_job_set_option(job, "size", size);
}

static zn_status set_options(sv_job *job, const sv_form *form)
{
    const char *steps = sv_form_text(form, "steps");
    zn_status status = set_count(job, form);
    status = sv_option(status, job, "steps", steps ? steps : sv_form_text(form, "num_inference_steps"));
    status = sv_option(status, job, "seed", sv_form_text(form, "seed"));
    status = sv_option(status, job, "negative", sv_form_text(form, "negative_prompt"));
    status = sv_option(status, job, "guidance", sv_form_text(form, "guidance_scale"));
    status = sv_option(status, job, "strength", sv_form_text(form, "strength"));
    status = sv_option(status, job, "format", sv_form_text(form, "output_format"));
    const sv_field *lora;
    for (int i = 0; status == ZN_OK && (lora = sv_form_field(form, "lora", i)) != NULL; i++)
        status = sv_job_set_option(job, "lora", lora->bytes);
    const char *compression = sv_form_text(form, "output_compression");
    return sv_option(status, job, "quality", compression && strcmp(compression, "0") ? compression : NULL);
}

static int count_fields(const sv_form *form, const char *name)
{
    int count = 0;
    while (sv_form_field(form, name, count))
        count++;
    return count;
}

static zn_status set_images(sv_job *job, const sv_form *form)
{
    const int given = count_fields(form, "image") + count_fields(form, "image[]");
    sv_field *image = sv_form_field(form, "image", 0), *mask = sv_form_field(form, "mask", 0);
    image = image ? image : sv_form_field(form, "image[]", 0);
    if (!image)
        return ZN_FAIL(ZN_EINVALID, "an edit needs an image");
    ZN_TRY(sv_job_add_file(job, image, NULL));
    job->alpha_mask = 1;
    if (given > 1)
        sv_job_remark(job, "of %d images only the first one is used: the model edits one", given);
    return mask ? sv_job_add_file(job, mask, &job->mask) : ZN_OK;
}

static zn_status fill(const sv_request *r, sv_job *job, const sv_form *form, const wish *w)
{
    const char *prompt = sv_form_text(form, "prompt");
    if (!prompt)
        return ZN_FAIL(ZN_EINVALID, "prompt is missing");
    job->prompt = must_copy(prompt);
    job->previews = w->partial_images > 0;
    ZN_TRY(set_model(r, job, form));
    ZN_TRY(set_size(r, job, form));
    ZN_TRY(set_options(job, form));
    return w->edits ? set_images(job, form) : ZN_OK;
}

static int is_true(const char *text) { return text && (!strcmp(text, "true") || !strcmp(text, "1")); }

static void run(const sv_request *r, sv_answer *a, int edits)
{
    sv_form form;
    if (!sv_take_form(r, a, &form))
        return;
    wish *w = must_alloc(NULL, sizeof *w);
    const char *wanted = sv_form_text(&form, "response_format"), *host = sv_header(r, "Host");
    const double partial = sv_form_number(&form, "partial_images", 0);
    const int streams = is_true(sv_form_text(&form, "stream"));
    *w = (wish){ .url = wanted && !strcmp(wanted, "url"), .edits = edits };
    w->partial_images = !streams || !(partial > 0) ? 0 : partial > MOST_PARTIAL ? MOST_PARTIAL : (int)partial;
    snprintf(w->base, sizeof w->base, "http://%s", host ? host : "localhost");
    sv_job *job = sv_begin_job(r, a, sv_task_find("generate"));
    const zn_status status = job ? fill(r, job, &form, w) : ZN_OK;
    sv_form_free(&form);
    if (!job || !sv_submit_or_answer(a, job, status)) {
        free(w);
        return;
    }
    if (streams)
        sv_answer_events(r, a, job, write_events, w, 1);
    else
        sv_answer_when_done(r, a, job, finish, w);
}

void sv_openai_generate(const sv_request *r, sv_answer *a) { run(r, a, 0); }
void sv_openai_edit(const sv_request *r, sv_answer *a) { run(r, a, 1); }
