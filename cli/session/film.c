#include "session/film.h"

#include "commands.h"
#include "files/extensions.h"
#include "files/files.h"
#include "files/standard.h"
#include "options/compute.h"
#include "session/clip.h"
#include "ui/facts.h"
#include "ui/report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int names_video(const options *o)
{
    int found = 0;
    for (int i = 0; i < o->file_count; i++)
        found |= is_video_file(o->files[i]) && !is_folder(o->files[i]);
    return found;
}

int film_check_input(const options *o)
{
    return !o->output || !is_video_file(o->output) || is_folder(o->output) || names_video(o)
               ? 0
               : usage_error(o->command->name,
                             "the result '%s' is a video, so the input must be a video file (.mp4, .mkv, .mov or "
                             ".webm), not '%s'",
                             o->output, name_of_kept(o->files[0]));
}

int film_check_settings(const options *o)
{
    return o->quality || o->lossless
               ? usage_error(o->command->name, "%s is for images: the quality of videos cannot be set",
                             o->quality ? "--quality" : "--lossless")
               : 0;
}

/* Refuses what cannot work before anything is opened: the name of the result, or FFmpeg missing. Returns 0, or an exit
 * status after reporting the error. */
static int film_check(const options *o)
{
    const char *verb = o->command->name;
    if (o->file_count > 1)
        return usage_error(verb, "a video is processed alone: give one file");
    if (o->output && !is_video_file(o->output))
        return usage_error(verb, "'%s' is a video, so the result must be one too (.mp4, .mkv, .mov or .webm), not '%s'",
                           o->files[0], o->output);
    if (o->output && is_folder(o->output))
        return usage_error(verb, "'%s' is a folder: name the video to write in it", o->output);
    if (o->output && same_file(o->output, o->files[0]))
        return usage_error(verb, "the result would replace the input '%s'", o->files[0]);
    if (film_check_settings(o))
        return EXIT_USAGE;
    if (zn_film_check(o->output) != ZN_OK) {
        complain_about(o->output ? o->output : o->files[0]);
        return EXIT_FAILURE;
    }
    return o->output ? lacks_folder(o->output) : 0;
}

/* A video on its way through a session's model. */
typedef struct trip {
    session *s;
    film_pipe pipe;
    double started, ms;
} trip;

static int tell(void *user, int64_t number, int64_t total)
{
    session *s = user;
    char label[PROGRESS_LABEL];
    snprintf(label, sizeof label, "%s: frame %lld of %lld", s->o->command->name, (long long)number, (long long)total);
    progress_begin(&s->bar, label, (double)(number - 1) / (double)total, 0);
    return progress_tick(&s->bar, 0);
}

static void print_remark(void *user, const char *text) { note(user, "%s", text); }

void remark_on_film(const options *o, const char *path, const zn_film_faults *faults)
{
    film_report_faults(faults, path, print_remark, (void *)o);
}

/* What a reader of the result might miss. */
static void remark(const trip *t)
{
    const options *o = t->s->o;
    const film_pipe *p = &t->pipe;
    remark_on_film(o, p->input, &p->faults);
    if (!p->faults.lost && p->longest > 1.5 * p->shortest) /* a missing frame leaves a gap */
        note(o, "%s: its frame rate varies, with %.0f to %.0f ms between frames; the result keeps these times",
             p->input, 1000 * p->shortest, 1000 * p->longest);
    if (*p->left_out)
        note(o, "%s: without the %s of %s%s", p->output, p->left_out, p->input,
             strstr(p->left_out, "audio (") && !has_extension(p->output, "mkv") ? "; .mkv holds any audio" : "");
}

static void report(const trip *t)
{
    const options *o = t->s->o;
    const film_pipe *p = &t->pipe;
    const double count = (double)p->written;
    facts f;
    facts_begin(&f, o->json);
    fact_model_name(&f, t->s->info);
    fact_integer(&f, "width", p->width);
    fact_integer(&f, "height", p->height);
    fact_integer(&f, "frames", p->written);
    fact_real(&f, "rate", p->info.rate, 3, " frames/s");
    fact_integer(&f, "audio_streams", p->info.audio);
    if (p->measure) {
        fact_real(&f, "psnr", -10 * log10(p->mse / count), 2, " dB");
        fact_real(&f, "ssim", p->ssim / count, 5, "");
    }
    fact_real(&f, "time_ms", t->ms, 1, "");
    fact_real(&f, "speed", 1000 * count / t->ms, 2, " frames/s");
    if (o->output)
        fact_text(&f, "output", o->output);
    else if (f.json)
        json_null(&f.out, "output");
    if (f.json)
        session_precision_facts(t->s, &f.out);
    facts_end(&f);
}

/* Opens the model, processes the video with `process` and reports. */
static int run(const options *o, unsigned needs, int measured, zn_status (*process)(session *s, film_pipe *p))
{
    session s = { 0 };
    int code = film_check(o);
    if (!code)
        code = session_open(&s, o, o->model, needs);
    if (!code) {
        trip t = { .s = &s, .started = now_ms() };
        t.pipe = (film_pipe){ .input = o->files[0],
                              .output = o->output,
                              .measure = measured,
                              .compare = o->compare,
                              .strip = o->strip,
                              .scale = o->scale,
                              .lean = film_is_lean(o->memory, o->device),
                              .tell = tell,
                              .user = &s };
        zn_status status = film_begin(&t.pipe);
        if (status == ZN_OK)
            status = process(&s, &t.pipe);
        const int empty = status == ZN_OK && !t.pipe.written;
        progress_erase();
        status = film_end(&t.pipe, status);
        t.ms = now_ms() - t.started;
        if (empty || status == ZN_ECANCELLED)
            complain_of(o->files[0], empty ? "contains no images" : "cancelled");
        else if (status != ZN_OK)
            complain_about(o->files[0]);
        else {
            session_explain(&s);
            remark(&t);
            if (o->json || !o->quiet || measured)
                report(&t);
        }
        film_free(&t.pipe);
        code = status == ZN_OK ? 0 : EXIT_FAILURE;
    }
    session_close(&s);
    return code;
}

/* ---- reconstruct ---- */

static zn_status reconstruct(session *s, film_pipe *p)
{
    const zn_options compute = compute_options(s->o, &s->bar);
    zn_video *v;
    zn_status status = new_video(s, &compute, &v);
    if (v)
        zn_video_use_both(v);
    if (status == ZN_OK)
        status = film_code(p, v, clip_step(s->info));
    if (v)
        session_ran_clip(s, v);
    if (v && s->o->verbose) {
        print_plan(s->o, zn_video_plan(v, ZN_ENCODER));
        print_plan(s->o, zn_video_plan(v, ZN_DECODER));
    }
    zn_video_free(v);
    return status;
}

int film_reconstruct(const options *o)
{
    if (o->compare && !o->output)
        return usage_error("reconstruct", "--compare of a video needs -o");
    return run(o, NEED_ENCODER | NEED_DECODER, 1, reconstruct);
}

/* ---- restore, upscale ---- */

static zn_status restore(session *s, film_pipe *p)
{
    const options *o = s->o;
    const zn_image *image;
    zn_status status;
    while ((status = film_next(p, &image)) == ZN_OK && image) {
        zn_image *result = NULL;
        if (p->read == 1)
            zn_codec_hold(s->codec, film_bytes(p, image, 0));
        status = o->scale ? zn_upscale(s->codec, image, o->scale, &result)
                          : zn_restore(s->codec, image, (zn_task)o->task, &result);
        if (status == ZN_OK && o->strength)
            status = zn_image_blend(result, image, 1 - strtod(o->strength, NULL));
        if (status == ZN_OK)
            status = film_put(p, result);
        zn_image_free(result);
        if (status != ZN_OK)
            break;
    }
    return status;
}

int film_restore(const options *o)
{
    if (o->reference)
        return usage_error(o->command->name, "--reference is for images, not for a video");
    return run(o, NEED_RESTORER, 0, restore);
}
