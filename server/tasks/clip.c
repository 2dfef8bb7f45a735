/* Videos: frames or a video file to a latent, a latent of several frames to a video file or images, and a video file to
 * latents and back. */
#include "base/fail.h"
#include "files/encoded.h"
#include "files/extensions.h"
#include "server/tasks/tasks.h"
#include "ui/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { RATE = 24 };

static int is_latent(const char *name) { return has_extension(name, "safetensors npy latent"); }

static int tick(void *user, double fraction) { return sv_job_tick(user, fraction); }

static zn_status open_video(sv_job *job, const sv_engine *e, zn_video **out)
{
    const zn_options compute = { .size = sizeof compute,
                                 .context = job->server->context,
                                 .precision = (zn_precision)job->o.precision,
                                 .device = job->server->settings->device,
                                 .memory = sv_handle_memory(job->server),
                                 .progress = tick,
                                 .user = job };
    return zn_video_new(e->model, &compute, out);
}

/* ---- to a latent ---- */

static zn_status encode_file(sv_job *job, zn_video *v, const sv_file *file, zn_latent **clip, int *count)
{
    const uint8_t *b = job->o.background;
    const zn_image_read_options reading = { .background = { b[0], b[1], b[2] },
                                            .max_pixels = job->server->settings->most_pixels };
    zn_film_faults faults = { 0 };
    if (is_video_file(file->name))
        ZN_TRY(sv_film_limit(job, file));
    ZN_TRY(encode_frames(v, file->path, &reading, clip, count, NULL, NULL, &faults));
    sv_film_remarks(job, file, &faults);
    return ZN_OK;
}

static void encode_facts(json *j, const zn_latent *clip, int count, double ms)
{
    json_integer(j, "images", count);
    json_integer(j, "latent_frames", clip->frames);
    json_encoded(j, clip, ms);
}

static zn_status encode(sv_job *job, sv_engine *e, zn_latent **clip)
{
    zn_video *v = NULL;
    int count = 0;
    const double start = now_ms();
    zn_status status = open_video(job, e, &v);
    for (int i = 0; i < job->file_count && status == ZN_OK; i++) {
        sv_job_stage(job, "encode", (double)i / job->file_count, 1.0 / job->file_count);
        status = encode_file(job, v, &job->files[i], clip, &count);
    }
    if (status == ZN_OK)
        status = zn_video_encode_end(v, clip);
    if (status == ZN_OK && !*clip)
        status = ZN_FAIL(ZN_EINVALID, "%s: contains no images", job->files[0].name);
    if (status == ZN_OK)
        encode_facts(&job->facts, *clip, count, now_ms() - start);
    zn_video_free(v);
    return status;
}

/* ---- from a latent ---- */

typedef struct album {
    sv_job *job;
    zn_film_writer *film;
    const char *path; /* of the film */
    char *stem;
    int count, expected, width, height;
} album;

static zn_status write_one(void *user, const zn_image *image)
{
    album *a = user;
    sv_job *job = a->job;
    a->width = image->width;
    a->height = image->height;
    sv_job_stage(job, "decode", (double)a->count / a->expected, 1.0 / a->expected);
    a->count++;
    if (!strcmp(job->form, "video")) {
        const serve_settings *s = job->server->settings;
        if (!a->film)
            ZN_TRY(zn_film_create(a->path, image->width, image->height, job->o.rate ? job->o.rate : RATE,
                                  film_is_lean(s->memory, s->device) ? ZN_FILM_LEAN : 0, &a->film));
        return zn_film_write(a->film, image);
    }
    char *name = must_print("%s_%04d", a->stem, a->count);
    const zn_status status = sv_write_image(job, name, image, NULL, NULL);
    free(name);
    return status;
}

static zn_status decode(sv_job *job, sv_engine *e, const zn_latent *latent)
{
    const int film = !strcmp(job->form, "video");
    album a = { .job = job, .expected = 1 + (latent->frames - 1) * clip_step(e->info), .stem = sv_job_stem(job, 0) };
    zn_video *v = NULL;
    zn_status status = sv_latent_limit(job, e->info, latent);
    if (film && status == ZN_OK)
        status = sv_film_settings(job);
    if (film && status == ZN_OK)
        status = zn_film_check("video.mp4");
    if (film && status == ZN_OK)
        a.path = sv_job_new_result(job, a.stem, "mp4");
    const double start = now_ms();
    if (status == ZN_OK)
        status = open_video(job, e, &v);
    const int scale = e->info->downscale;
    if (status == ZN_OK && film)
        zn_video_hold(v, zn_film_bytes(NULL, latent->width * scale, latent->height * scale, 8));
    if (status == ZN_OK)
        status = zn_video_decode(v, latent, 8, write_one, &a);
    zn_video_free(v);
    if (status == ZN_OK && a.film)
        status = zn_film_finish(a.film);
    else
        zn_film_drop(a.film);
    if (status == ZN_OK && film)
        status = sv_job_keep_result(job, a.width, a.height);
    json_real(&job->facts, "decode_ms", now_ms() - start);
    json_integer(&job->facts, "frames", a.count);
    free(a.stem);
    return status;
}

/* ---- both ---- */

static zn_status code(sv_job *job, sv_engine *e, film_pipe *p)
{
    zn_video *v;
    ZN_TRY(open_video(job, e, &v));
    zn_video_use_both(v);
    const zn_status status = film_code(p, v, clip_step(e->info));
    zn_video_free(v);
    return status;
}

static zn_status clip(sv_job *job, sv_engine *e)
{
    zn_latent *latent = NULL;
    zn_status status = ZN_OK;
    if (!strcmp(job->form, "video") && job->file_count == 1 && is_video_file(job->files[0].name))
        return sv_film(job, e, 0, 1, code);
    char *stem = sv_job_stem(job, 0);
    if (is_latent(job->files[0].name))
        status = zn_latent_read(job->files[0].path, &latent);
    else
        status = encode(job, e, &latent);
    if (status == ZN_OK && is_latent(job->files[0].name))
        status = sv_scale_latent(job, e->info, "", 1, latent);
    if (status == ZN_OK)
        status = !strcmp(job->form, "latent") ? sv_write_latent(job, e->info, stem, latent) : decode(job, e, latent);
    zn_latent_free(latent);
    free(stem);
    return status;
}

static zn_status run(sv_job *job)
{
    sv_engine *e = NULL;
    zn_status status = sv_engine_take(job, job->model, &e);
    if (status == ZN_OK)
        status = clip(job, e);
    sv_engine_return(e);
    return status;
}

const sv_task sv_task_clip = { .name = "clip",
                               .command = CMD_ENCODE | CMD_DECODE,
                               .options = "background precision seed scaling format quality lossless rate",
                               .least = 1,
                               .most = SV_MOST_FILES,
                               .needs_model = 1,
                               .run = run };
