/* Video files through a model, image by image: the calls of the program's reconstruct, restore and upscale, so that
 * audio, times and colours stay those of the original, and memory does not grow with the length. */
#include "base/fail.h"
#include "files/extensions.h"
#include "files/film_pipe.h"
#include "server/tasks/tasks.h"
#include "ui/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct place {
    sv_job *job;
    int file; /* number of the input */
} place;

static int tell(void *user, int64_t number, int64_t total)
{
    const place *p = user;
    const double done = (double)(number - 1) / (double)total;
    sv_job_image(p->job, (int)number, (int)total);
    sv_job_stage(p->job, p->job->task->name, (p->file + done) / p->job->file_count,
                 1.0 / (double)total / p->job->file_count);
    return sv_job_tick(p->job, 0);
}

zn_status sv_film_limit(const sv_job *job, const sv_file *file)
{
    const int64_t scale = job->o.scale ? job->o.scale : 1, most = job->server->settings->most_pixels;
    zn_film_info info;
    ZN_TRY(zn_film_describe(file->path, &info));
    if (scale * info.width * (scale * info.height) <= most)
        return ZN_OK;
    return ZN_FAIL(ZN_ELIMIT, "%s: images of %lldx%lld are more than the limit of %lld pixels (zenith serve --pixels)",
                   file->name, (long long)scale * info.width, (long long)scale * info.height, (long long)most);
}

zn_status sv_film_settings(const sv_job *job)
{
    return job->o.quality || job->o.lossless
               ? ZN_FAIL(ZN_EINVALID, "%s is for images: the quality of videos cannot be set",
                         job->o.quality ? "quality" : "lossless")
               : ZN_OK;
}

/* Beside videos. */
static int has_images(const sv_job *job)
{
    int count = 0;
    for (int i = 0; i < job->file_count; i++)
        count += !is_video_file(job->files[i].name);
    return count > 0;
}

static void facts(sv_job *job, const film_pipe *p, double ms)
{
    json *j = &job->facts;
    json_integer(j, "width", p->width);
    json_integer(j, "height", p->height);
    json_integer(j, "frames", p->written);
    json_real(j, "rate", p->info.rate);
    json_integer(j, "audio_streams", p->info.audio);
    if (p->measure) {
        json_real(j, "psnr", -10 * log10(p->mse / (double)p->written));
        json_real(j, "ssim", p->ssim / (double)p->written);
    }
    json_real(j, "time_ms", ms);
}

static void remark(void *user, const char *text) { sv_job_remark(user, "%s", text); }

void sv_film_remarks(sv_job *job, const sv_file *file, const zn_film_faults *faults)
{
    film_report_faults(faults, file->name, remark, job);
}

zn_status sv_film(sv_job *job, sv_engine *e, int i, int measure, sv_film_fn process)
{
    if (!has_images(job))
        ZN_TRY(sv_film_settings(job));
    ZN_TRY(zn_film_check("video.mp4"));
    ZN_TRY(sv_film_limit(job, &job->files[i]));
    place at = { job, i };
    char *stem = sv_job_stem(job, i);
    film_pipe p = { .input = job->files[i].path,
                    .output = sv_job_new_result(job, stem, "mp4"),
                    .measure = measure,
                    .compare = job->o.compare,
                    .strip = job->o.strip,
                    .scale = job->o.scale,
                    .lean = film_is_lean(job->server->settings->memory, job->server->settings->device),
                    .tell = tell,
                    .user = &at };
    const double start = now_ms();
    zn_status status = film_begin(&p);
    if (status == ZN_OK)
        status = process(job, e, &p);
    const int empty = status == ZN_OK && !p.written;
    status = film_end(&p, status);
    if (empty)
        status = ZN_FAIL(ZN_EINVALID, "%s: contains no images", job->files[i].name);
    if (status == ZN_OK)
        status = sv_job_keep_result(job, p.width, p.height);
    if (status == ZN_OK && i == 0)
        facts(job, &p, now_ms() - start);
    if (status == ZN_OK)
        sv_film_remarks(job, &job->files[i], &p.faults);
    if (status == ZN_OK && *p.left_out)
        sv_job_remark(job, "%s: the MP4 is without its %s", job->files[i].name, p.left_out);
    film_free(&p);
    free(stem);
    return status;
}
