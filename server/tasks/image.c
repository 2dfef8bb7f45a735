/* Images to latents and back, restoring, comparing: the calls of the program's commands of the same names, so that
 * results have the same bytes. */
#include "server/tasks/tasks.h"

#include "base/fail.h"
#include "files/encoded.h"
#include "files/extensions.h"
#include "options/model_names.h"
#include "ui/report.h"
#include "ui/scores.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COMMON "background precision tile seed "

/* ---- results ---- */

zn_status sv_image_extension(const sv_job *job, const char **extension)
{
    const char *format = job->o.format ? job->o.format : "png";
    *extension = !strcmp(format, "jpeg") ? "jpg" : format;
    if (!strcmp(*extension, "png") || !strcmp(*extension, "jpg") || !strcmp(*extension, "webp"))
        return ZN_OK;
    return ZN_FAIL(ZN_EINVALID, "format must be png, jpg or webp, not '%.60s'", format);
}

zn_status sv_check_format(const sv_job *job, int64_t width, int64_t height, int bits)
{
    const char *extension;
    char name[16];
    ZN_TRY(sv_image_extension(job, &extension));
    snprintf(name, sizeof name, "image.%s", extension);
    return zn_image_check(name, job->o.compare ? 3 * width + 2 * ZN_IMAGE_GAP : width, height, bits);
}

zn_status sv_write_image(sv_job *job, const char *name, const zn_image *image, const zn_image *alpha,
                         const zn_image_metadata *metadata)
{
    const char *extension;
    ZN_TRY(sv_image_extension(job, &extension));
    const zn_image_write_options writing = { .quality = job->o.quality,
                                             .lossless = job->o.lossless,
                                             .alpha = alpha,
                                             .metadata = metadata,
                                             .threads = job->o.threads };
    ZN_TRY(zn_image_write(sv_job_new_result(job, name, extension), image, &writing));
    return sv_job_keep_result(job, image->width, image->height);
}

zn_status sv_scale_latent(const sv_job *job, const zn_model_info *info, const char *extension, int reading,
                          zn_latent *latent)
{
    const char *scaling = job->o.scaling;
    const int asked = scaling && !strncmp(scaling, "raw", 3), comfy = !strcmp(extension, "latent");
    const char *colon = scaling ? strchr(scaling, ':') : NULL;
    const char *family = colon ? colon + 1 : zn_model_family(info);
    if (reading && scaling)
        latent->raw = asked;
    const int flux2 = family && !strcmp(family, "flux2"), packed = !reading && (job->o.packed || (comfy && flux2));
    if (packed)
        ZN_TRY(zn_latent_pack(latent, 1));
    if (packed && comfy && !asked) /* normalised in ComfyUI */
        return ZN_OK;
    if (!reading && comfy && scaling && !asked)
        return ZN_FAIL(ZN_EINVALID, "ComfyUI's files hold raw latents; leave out scaling %s", scaling);
    const int convert = reading ? latent->raw : scaling ? asked : comfy;
    if (!convert)
        return ZN_OK;
    if (!family)
        return ZN_FAIL(ZN_EINVALID,
                       "how raw latents of the model %s are scaled is not known; name a family, as in raw:sd",
                       info->architecture);
    return zn_latent_rescale(latent, family, !reading);
}

zn_status sv_write_latent(sv_job *job, const zn_model_info *info, const char *name, zn_latent *latent)
{
    const char *format = job->o.format ? job->o.format : "safetensors";
    if (strcmp(format, "safetensors") && strcmp(format, "npy") && strcmp(format, "latent") && strcmp(format, "png"))
        return ZN_FAIL(ZN_EINVALID, "format must be safetensors, npy, latent or png, not '%.60s'", format);
    ZN_TRY(sv_scale_latent(job, info, format, 0, latent));
    ZN_TRY(zn_latent_write_as(sv_job_new_result(job, name, format), format, (const zn_latent *const *)&latent, 1));
    return sv_job_keep_result(job, 0, 0);
}

void sv_difference_facts(json *j, const zn_image_difference *d)
{
    json_real(j, "psnr", d->psnr);
    json_real(j, "ssim", d->ssim);
    json_integer(j, "max_difference", d->max_difference);
    json_bool(j, "identical", isinf(d->psnr) && d->psnr > 0);
}

/* ---- encode ---- */

static zn_status needs(const sv_engine *e, int encoder, int decoder)
{
    const zn_model_info *m = e->info;
    if (m->restores)
        return ZN_FAIL(ZN_EINVALID, "the model %s restores images and has no latents", m->architecture);
    if (m->diffuses)
        return ZN_FAIL(ZN_EINVALID,
                       "the model %s is a diffusion autoencoder: reconstruct, edit, interpolate and sample use it",
                       m->architecture);
    if ((encoder && !m->has_encoder) || (decoder && !m->has_decoder))
        return ZN_FAIL(ZN_EINVALID, "the model %s has no %s", m->architecture,
                       encoder && !m->has_encoder ? "encoder" : "decoder");
    return ZN_OK;
}

/* One input of several gets its part of the progress. */
static void stage_of(sv_job *job, const char *stage, int i)
{
    sv_job_image(job, i + 1, job->file_count > 1 ? job->file_count : 0);
    sv_job_stage(job, stage, (double)i / job->file_count, 1.0 / job->file_count);
}

static zn_status encode_one(sv_job *job, sv_engine *e, int i)
{
    zn_image *image = NULL;
    zn_latent *latent = NULL;
    char *stem = sv_job_stem(job, i);
    double ms = 0;
    stage_of(job, "encode", i);
    zn_status status = sv_job_read_image(job, &job->files[i], 0, &image);
    if (status == ZN_OK) {
        ms = now_ms();
        status = zn_encode(e->codec, image, &latent);
        ms = now_ms() - ms;
    }
    if (status == ZN_OK)
        status = sv_write_latent(job, e->info, stem, latent);
    if (status == ZN_OK && i == 0) {
        json_encoded(&job->facts, latent, ms);
    }
    free(stem);
    zn_image_free(image);
    zn_latent_free(latent);
    return status;
}

static zn_status for_each(sv_job *job, const char *model, int encoder, int decoder,
                          zn_status (*one)(sv_job *job, sv_engine *e, int i))
{
    sv_engine *e = NULL;
    zn_status status = sv_engine_take(job, model, &e);
    if (status == ZN_OK && (encoder || decoder))
        status = needs(e, encoder, decoder);
    for (int i = 0; status == ZN_OK && i < job->file_count; i++)
        status = one(job, e, i);
    sv_engine_return(e);
    return status;
}

static zn_status run_encode(sv_job *job) { return for_each(job, job->model, 1, 0, encode_one); }

/* ---- decode ---- */

/* Of the images with such a latent, the smallest counts. */
zn_status sv_latent_limit(const sv_job *job, const zn_model_info *info, const zn_latent *latent)
{
    const int64_t most = job->server->settings->most_pixels, scale = zn_codec_unpacks(info, latent) ? 2 : 1,
                  block = scale * (info->downscale > 1 ? info->downscale : 1);
    const int64_t width = (latent->width - 1) * block + 1, height = (latent->height - 1) * block + 1;
    if ((double)width * (double)height <= (double)most)
        return ZN_OK;
    return ZN_FAIL(
        ZN_ELIMIT,
        "the image of a latent of %dx%d would have more pixels than the limit of %lld (zenith serve --pixels)",
        latent->width, latent->height, (long long)most);
}

static zn_status check_latent_format(const sv_job *job, const zn_model_info *info, const zn_latent *latent)
{
    const int64_t scale = (zn_codec_unpacks(info, latent) ? 2 : 1) * (info->downscale > 1 ? info->downscale : 1);
    return sv_check_format(job, latent->image_width ? latent->image_width : latent->width * scale,
                           latent->image_height ? latent->image_height : latent->height * scale, job->o.bits);
}

static zn_status decode_latent(sv_job *job, sv_engine *e, const char *name, const zn_latent *latent)
{
    zn_image *image = NULL;
    const double start = now_ms();
    if (latent->frames > 1)
        return ZN_FAIL(ZN_EINVALID, "this latent is a video: the task clip decodes it");
    if (latent->channels != e->info->latent_channels && !zn_codec_unpacks(e->info, latent))
        return ZN_FAIL(ZN_ESHAPE, "this latent has %d channels but the model %s decodes %d", latent->channels,
                       e->info->architecture, e->info->latent_channels);
    ZN_TRY(sv_latent_limit(job, e->info, latent));
    ZN_TRY(check_latent_format(job, e->info, latent));
    ZN_TRY(zn_decode_bits(e->codec, latent, job->o.bits ? job->o.bits : 8, &image));
    const double ms = now_ms() - start;
    const zn_status status = sv_write_image(job, name, image, NULL, NULL);
    if (status == ZN_OK && job->result_count == 1) {
        json_integer(&job->facts, "width", image->width);
        json_integer(&job->facts, "height", image->height);
        json_real(&job->facts, "decode_ms", ms);
    }
    zn_image_free(image);
    return status;
}

/* Decodes latent `index` of a file, and learns how many there are. */
static zn_status decode_member(sv_job *job, int file, int64_t index, int64_t *count)
{
    zn_latent *latent = NULL;
    sv_engine *e = NULL;
    char *model = NULL, *stem = sv_job_stem(job, file);
    zn_status status = zn_latent_read_at(job->files[file].path, index, &latent, count);
    if (status == ZN_OK && !job->model)
        status = sv_model_for_latent(job->server->models, latent, &model);
    if (status == ZN_OK)
        status = sv_engine_take(job, job->model ? job->model : model, &e);
    if (status == ZN_OK)
        status = needs(e, 0, 1);
    if (status == ZN_OK)
        status = sv_scale_latent(job, e->info, "", 1, latent);
    char *name = *count > 1 ? must_print("%s_%04d", stem, (int)index + 1) : must_copy(stem);
    if (status == ZN_OK)
        status = decode_latent(job, e, name, latent);
    sv_engine_return(e);
    zn_latent_free(latent);
    free(name);
    free(stem);
    free(model);
    return status;
}

static zn_status run_decode(sv_job *job)
{
    const char *extension;
    ZN_TRY(sv_image_extension(job, &extension));
    if (job->o.bits == 16 && strcmp(extension, "png"))
        return ZN_FAIL(ZN_EINVALID, "only PNG supports 16 bits per sample");
    for (int i = 0; i < job->file_count; i++) {
        int64_t count = 1;
        stage_of(job, "decode", i);
        for (int64_t k = 0; k < count; k++) {
            if (k && count > SV_MOST_RESULTS)
                return ZN_FAIL(ZN_ELIMIT, "the file has %lld latents; a job makes at most %d images", (long long)count,
                               SV_MOST_RESULTS);
            ZN_TRY(decode_member(job, i, k, &count));
        }
    }
    return ZN_OK;
}

/* ---- reconstruct ---- */

static double encoder_share(const sv_engine *e, const zn_image *image)
{
    zn_cost in, out;
    if (zn_model_cost(e->model, ZN_ENCODER, image->width, image->height, &in) != ZN_OK ||
        zn_model_cost(e->model, ZN_DECODER, image->width, image->height, &out) != ZN_OK || !(in.gflop + out.gflop > 0))
        return 0.5;
    return in.gflop / (in.gflop + out.gflop);
}

static zn_status by_codec(sv_job *job, sv_engine *e, zn_image **original, zn_image **result, double ms[2])
{
    zn_latent *latent = NULL;
    ZN_TRY(needs(e, 1, 1));
    ZN_TRY(sv_job_read_image(job, &job->files[0], 0, original));
    ZN_TRY(sv_check_format(job, (*original)->width, (*original)->height, 0));
    const double share = encoder_share(e, *original);
    sv_job_stage(job, "encode", 0, share);
    ms[0] = now_ms();
    ZN_TRY(zn_encode(e->codec, *original, &latent));
    ms[0] = now_ms() - ms[0];
    sv_job_stage(job, "decode", share, 1 - share);
    ms[1] = now_ms();
    const zn_status status = zn_decode(e->codec, latent, result);
    ms[1] = now_ms() - ms[1];
    zn_latent_free(latent);
    return status;
}

static void reconstruct_facts(sv_job *job, const sv_engine *e, const zn_image *original,
                              const zn_image_difference *difference, const double ms[2])
{
    json *j = &job->facts;
    json_text(j, "model", e->info->architecture);
    json_integer(j, "width", original->width);
    json_integer(j, "height", original->height);
    sv_difference_facts(j, difference);
    json_real(j, "mse", pow(10, -difference->psnr / 10));
    json_real(j, "encode_ms", ms[0]);
    json_real(j, "decode_ms", ms[1]);
}

static zn_status reconstruct(sv_job *job, sv_engine *e)
{
    zn_image *original = NULL, *result = NULL, *side = NULL;
    zn_image_metadata metadata = { 0 };
    zn_image_difference difference;
    double ms[2] = { 0 };
    char *stem = sv_job_stem(job, 0);
    zn_status status = e->diffae ? sv_reconstruct_by_diffusion(job, e, &original, &result, ms)
                                 : by_codec(job, e, &original, &result, ms);
    if (status == ZN_OK)
        status = zn_image_compare(original, result, &difference);
    if (status == ZN_OK && !job->o.compare && !job->o.strip)
        status = zn_image_read_metadata(job->files[0].path, &metadata);
    if (status == ZN_OK && job->o.compare)
        status = zn_image_side_by_side(original, result, &side);
    if (status == ZN_OK)
        status = sv_write_image(job, stem, side ? side : result, NULL, &metadata);
    if (status == ZN_OK)
        reconstruct_facts(job, e, original, &difference, ms);
    zn_image_metadata_free(&metadata);
    zn_image_free(original);
    zn_image_free(result);
    zn_image_free(side);
    free(stem);
    return status;
}

static zn_status run_reconstruct(sv_job *job)
{
    sv_engine *e = NULL;
    zn_status status = sv_engine_take(job, job->model, &e);
    if (status == ZN_OK)
        status = reconstruct(job, e);
    sv_engine_return(e);
    return status;
}

/* ---- restore ---- */

typedef struct restoring {
    zn_image *damaged, *alpha, *restored, *side;
    zn_image_metadata metadata;
} restoring;

/* Alpha and metadata are read where the result can hold them. */
static zn_status read_damaged(sv_job *job, const sv_file *file, restoring *r)
{
    const char *extension;
    ZN_TRY(sv_image_extension(job, &extension));
    if (!job->o.compare && strcmp(extension, "jpg")) {
        const uint8_t *b = job->o.background;
        const zn_image_read_options reading = { .background = { b[0], b[1], b[2] },
                                                .max_pixels = job->server->settings->most_pixels };
        ZN_TRY(zn_image_read_alpha(file->path, &reading, &r->alpha));
    }
    ZN_TRY(sv_job_read_image(job, file, r->alpha != NULL, &r->damaged));
    return job->o.compare || job->o.strip ? ZN_OK : zn_image_read_metadata(file->path, &r->metadata);
}

static zn_status judge(sv_job *job, const restoring *r)
{
    zn_image *reference = NULL;
    zn_image_difference before, after;
    if (!job->reference.path)
        return ZN_OK;
    zn_status status = sv_job_read_image(job, &job->reference, r->alpha != NULL, &reference);
    if (status == ZN_OK)
        status = zn_image_compare(reference, r->damaged, &before);
    if (status == ZN_OK)
        status = zn_image_compare(reference, r->restored, &after);
    if (status == ZN_OK) {
        json_real(&job->facts, "input_psnr", before.psnr);
        json_real(&job->facts, "psnr", after.psnr);
        json_real(&job->facts, "ssim", after.ssim);
    }
    zn_image_free(reference);
    return status;
}

static void restore_facts(sv_job *job, const zn_image *restored, double ms)
{
    json *j = &job->facts;
    json_integer(j, "width", restored->width);
    json_integer(j, "height", restored->height);
    json_integer(j, "bits", restored->bits);
    if (job->o.scale)
        json_integer(j, "scale", job->o.scale);
    else
        json_text(j, "task", zn_task_name(job->o.task));
    json_real(j, job->o.scale ? "upscale_ms" : "restore_ms", ms);
}

static zn_status enlarge_alpha(int scale, restoring *r)
{
    for (; scale > 1 && r->alpha; scale /= 2) {
        zn_image *large;
        ZN_TRY(zn_image_enlarge(r->alpha, &large));
        zn_image_free(r->alpha);
        r->alpha = large;
    }
    return ZN_OK;
}

static zn_status check_size(const sv_job *job, const zn_image *image)
{
    const int64_t scale = job->o.scale ? job->o.scale : 1, most = job->server->settings->most_pixels;
    if (scale * image->width * (scale * image->height) <= most)
        return sv_check_format(job, scale * image->width, scale * image->height, 0);
    return ZN_FAIL(ZN_ELIMIT,
                   "the result would have %lldx%lld pixels, more than the limit of %lld (zenith serve --pixels)",
                   (long long)scale * image->width, (long long)scale * image->height, (long long)most);
}

/* At the strength asked for; with a scale, enlarged. */
static zn_status restore_image(const sv_job *job, sv_engine *e, const zn_image *damaged, zn_image **out)
{
    const int scale = job->o.scale;
    ZN_TRY(scale ? zn_upscale(e->codec, damaged, scale, out)
                 : zn_restore(e->codec, damaged, (zn_task)job->o.task, out));
    return job->o.strength ? zn_image_blend(*out, damaged, 1 - strtod(job->o.strength, NULL)) : ZN_OK;
}

static zn_status restore_to(sv_job *job, sv_engine *e, int i, restoring *r)
{
    ZN_TRY(read_damaged(job, &job->files[i], r));
    ZN_TRY(check_size(job, r->damaged));
    const double start = now_ms();
    ZN_TRY(restore_image(job, e, r->damaged, &r->restored));
    const double ms = now_ms() - start;
    ZN_TRY(enlarge_alpha(job->o.scale, r));
    if (i == 0) {
        restore_facts(job, r->restored, ms);
        ZN_TRY(judge(job, r));
    }
    return job->o.compare ? zn_image_side_by_side(r->damaged, r->restored, &r->side) : ZN_OK;
}

static void restoring_free(restoring *r)
{
    zn_image_free(r->damaged);
    zn_image_free(r->alpha);
    zn_image_free(r->restored);
    zn_image_free(r->side);
    zn_image_metadata_free(&r->metadata);
}

static zn_status needs_restorer(const sv_engine *e)
{
    return e->info->restores ? ZN_OK
                             : ZN_FAIL(ZN_EINVALID, "the model %s is an autoencoder and does not restore images",
                                       e->info->architecture);
}

static zn_status restore_frames(sv_job *job, sv_engine *e, film_pipe *p)
{
    const zn_image *image;
    zn_status status;
    while ((status = film_next(p, &image)) == ZN_OK && image) {
        zn_image *result = NULL;
        if (p->read == 1)
            zn_codec_hold(e->codec, film_bytes(p, image, 0));
        status = restore_image(job, e, image, &result);
        if (status == ZN_OK)
            status = film_put(p, result);
        zn_image_free(result);
        ZN_TRY(status);
    }
    return status;
}

static zn_status restore_film(sv_job *job, sv_engine *e, film_pipe *p)
{
    const zn_status status = restore_frames(job, e, p);
    zn_codec_hold(e->codec, 0); /* the next job may be for an image */
    return status;
}

static zn_status restore_one(sv_job *job, sv_engine *e, int i)
{
    restoring r = { 0 };
    ZN_TRY(needs_restorer(e));
    char *remark = i == 0 ? training_remark(e->info, job->o.scale) : NULL;
    if (remark)
        sv_job_remark(job, "%s", remark);
    free(remark);
    if (is_video_file(job->files[i].name))
        return job->reference.path ? ZN_FAIL(ZN_EINVALID, "a reference is for images, not for a video")
                                   : sv_film(job, e, i, 0, restore_film);
    char *stem = sv_job_stem(job, i);
    stage_of(job, job->task->name, i);
    zn_status status = restore_to(job, e, i, &r);
    if (status == ZN_OK)
        status = sv_write_image(job, stem, r.side ? r.side : r.restored, r.alpha, &r.metadata);
    restoring_free(&r);
    free(stem);
    return status;
}

static zn_status run_restore(sv_job *job)
{
    const char *usual = job->o.fast ? "zenith-restore-fast" : "zenith-restore";
    if (job->o.fast && job->model)
        return ZN_FAIL(ZN_EINVALID, "fast selects the model zenith-restore-fast, so model cannot be given with it");
    return for_each(job, job->model ? job->model : usual, 0, 0, restore_one);
}

static zn_status run_upscale(sv_job *job)
{
    job->o.scale = job->o.scale ? job->o.scale : 2;
    return for_each(job, job->model ? job->model : "zenith-upscale", 0, 0, restore_one);
}

/* ---- compare ---- */

static zn_status measure(sv_job *job, const zn_image *a, const zn_image *b)
{
    const zn_options compute = { .size = sizeof compute, .context = job->server->context };
    zn_image_difference difference;
    zn_scores scores;
    zn_scorer *scorer = NULL;
    zn_status status = zn_image_compare(a, b, &difference);
    if (status == ZN_OK)
        status = zn_scorer_new((zn_lpips)job->o.lpips, &compute, &scorer);
    if (status == ZN_OK)
        status = zn_scorer_compare(scorer, a, b, &scores);
    zn_scorer_free(scorer);
    if (status != ZN_OK)
        return status;
    json *j = &job->facts;
    sv_difference_facts(j, &difference);
    json_real(j, "ms_ssim", scores.ms_ssim);
    perception_json(j, &scores);
    json_integer(j, "width", a->width);
    json_integer(j, "height", a->height);
    return ZN_OK;
}

/* The result is original | other | difference. */
static zn_status run_compare(sv_job *job)
{
    zn_image *a = NULL, *b = NULL, *side = NULL;
    zn_status status = sv_job_read_image(job, &job->files[0], 0, &a);
    if (status == ZN_OK)
        status = sv_job_read_image(job, &job->files[1], 0, &b);
    if (status == ZN_OK)
        status = measure(job, a, b);
    if (status == ZN_OK)
        status = zn_image_side_by_side(a, b, &side);
    if (status == ZN_OK)
        status = sv_write_image(job, "comparison", side, NULL, NULL);
    zn_image_free(a);
    zn_image_free(b);
    zn_image_free(side);
    return status;
}

const sv_task sv_task_encode = { .name = "encode",
                                 .command = CMD_ENCODE,
                                 .options = COMMON "scaling packed format",
                                 .least = 1,
                                 .most = SV_MOST_FILES,
                                 .run = run_encode };
const sv_task sv_task_decode = { .name = "decode",
                                 .command = CMD_DECODE,
                                 .options = "precision tile seed scaling format quality lossless bits",
                                 .least = 1,
                                 .most = SV_MOST_FILES,
                                 .run = run_decode };
const sv_task sv_task_reconstruct = { .name = "reconstruct",
                                      .command = CMD_RECONSTRUCT,
                                      .options = COMMON
                                      "format quality lossless compare strip steps encode-steps random-noise",
                                      .least = 1,
                                      .most = 1,
                                      .run = run_reconstruct };
const sv_task sv_task_restore = { .name = "restore",
                                  .command = CMD_RESTORE,
                                  .options = COMMON "task fast strength format quality lossless compare strip",
                                  .least = 1,
                                  .most = SV_MOST_FILES,
                                  .run = run_restore };
const sv_task sv_task_upscale = { .name = "upscale",
                                  .command = CMD_UPSCALE,
                                  .options = COMMON "scale format quality lossless strip",
                                  .least = 1,
                                  .most = SV_MOST_FILES,
                                  .run = run_upscale };
const sv_task sv_task_compare = {
    .name = "compare", .command = CMD_COMPARE, .options = "background lpips", .least = 2, .most = 2, .run = run_compare
};
