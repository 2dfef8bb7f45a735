#include "commands/film.h"

#include "commands.h"
#include "commands/clip.h"
#include "files/extensions.h"
#include "files/files.h"
#include "options/compute.h"
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
        found |= is_video_file(o->files[i]);
    return found;
}

int film_check(const options *o)
{
    const char *verb = o->command->name;
    if (o->file_count > 1)
        return usage_error(verb, "a video is processed alone: give one file");
    if (o->output && !is_video_file(o->output))
        return usage_error(verb, "'%s' is a video, and so must be the result: .mp4, .mkv, .mov or .webm, not '%s'",
                           o->files[0], o->output);
    if (o->output && same_file(o->output, o->files[0]))
        return usage_error(verb, "the result would replace the input '%s'", o->files[0]);
    if (zn_film_check(o->output) != ZN_OK) {
        complain_about(o->output ? o->output : o->files[0]);
        return EXIT_FAILURE;
    }
    return 0;
}

zn_status film_begin(film_pipe *p, session *s, const char *input, const char *output)
{
    *p = (film_pipe){ .s = s, .input = input, .output = output, .started = now_ms(), .left_out = must_copy("") };
    zn_status status = zn_film_describe(input, &p->info);
    if (status == ZN_OK)
        status = zn_film_open(input, &p->film);
    if (status == ZN_OK)
        zn_film_keep_bits(p->film);
    return status;
}

static void hold(film_pipe *p, zn_image *image)
{
    if (p->held == p->capacity) {
        p->capacity = p->capacity ? 2 * p->capacity : 8;
        p->waiting = must_alloc(p->waiting, sizeof(zn_image *) * (size_t)p->capacity);
    }
    p->waiting[p->held++] = image;
}

zn_status film_next(film_pipe *p, const zn_image **out)
{
    zn_image *image = NULL;
    const zn_status status = zn_film_next(p->film, &image);
    *out = image;
    if (!image)
        return status;
    hold(p, image);
    const int64_t number = ++p->read, total = p->info.frames > number ? p->info.frames : number;
    char label[PROGRESS_LABEL];
    snprintf(label, sizeof label, "%s: frame %lld of %lld", p->s->o->command->name, (long long)number,
             (long long)total);
    progress_begin(&p->s->bar, label, (double)(number - 1) / (double)total, 0);
    return progress_tick(&p->s->bar, 0) ? ZN_ECANCELLED : ZN_OK;
}

static zn_status measure(film_pipe *p, const zn_image *original, const zn_image *result)
{
    zn_image_difference d;
    const zn_status status = zn_image_compare(original, result, &d);
    if (status == ZN_OK) {
        p->mse += pow(10, -d.psnr / 10);
        p->ssim += d.ssim;
    }
    return status;
}

static zn_status write_frame(film_pipe *p, const zn_image *image)
{
    zn_status status = ZN_OK;
    if (!p->output)
        return ZN_OK;
    if (!p->writer)
        status = zn_film_create_from(p->output, p->film, image->width, image->height, !p->s->o->strip, &p->writer);
    return status == ZN_OK ? zn_film_write(p->writer, image) : status;
}

zn_status film_put(film_pipe *p, const zn_image *result)
{
    if (!p->held)
        return ZN_OK;
    zn_image *original = p->waiting[0], *both = NULL;
    memmove(p->waiting, p->waiting + 1, sizeof(zn_image *) * (size_t)--p->held);
    p->width = result->width;
    p->height = result->height;
    zn_status status = p->measure ? measure(p, original, result) : ZN_OK;
    if (status == ZN_OK && p->s->o->compare)
        status = zn_image_side_by_side(original, result, &both);
    if (status == ZN_OK)
        status = write_frame(p, both ? both : result);
    p->written += status == ZN_OK;
    zn_image_free(both);
    zn_image_free(original);
    return status;
}

/* What a reader of the result might miss. */
static void remark(film_pipe *p)
{
    const options *o = p->s->o;
    double shortest, longest;
    zn_film_intervals(p->film, &shortest, &longest);
    if (longest > 1.5 * shortest)
        note(o, "%s: its frame rate varies, with %.0f to %.0f ms between frames; the result keeps these times",
             p->input, 1000 * shortest, 1000 * longest);
    if (*p->left_out)
        note(o, "%s: such a file cannot hold the %s of %s, which is left out; .mkv holds any", p->output, p->left_out,
             p->input);
}

zn_status film_end(film_pipe *p, zn_status status)
{
    progress_erase();
    if (status == ZN_OK && !p->written)
        status = ZN_EFORMAT;
    if (p->writer) {
        free(p->left_out);
        p->left_out = must_copy(zn_film_left_out(p->writer));
    }
    if (status == ZN_OK && p->writer)
        status = zn_film_finish(p->writer);
    else
        zn_film_drop(p->writer);
    p->writer = NULL;
    if (status == ZN_OK)
        remark(p);
    for (int i = 0; i < p->held; i++)
        zn_image_free(p->waiting[i]);
    free(p->waiting);
    p->waiting = NULL;
    zn_film_close(p->film);
    p->film = NULL;
    p->ms = now_ms() - p->started;
    return status;
}

void film_free(film_pipe *p) { free(p->left_out); }

/* ---- reconstruct ---- */

static zn_status take(void *user, const zn_image *picture) { return film_put(user, picture); }

/* Encodes an image, and decodes the latent frame that it completes, if any. */
static zn_status pass(film_pipe *p, zn_video *v, const zn_image *image)
{
    zn_latent *z = NULL;
    const int bits = image->bits;
    zn_status status = zn_video_encode(v, image, &z);
    if (status == ZN_OK && z)
        status = zn_video_decode(v, z, bits, take, p);
    zn_latent_free(z);
    return status;
}

/* The last latent frame: made whole by repeating the last image, whose own result is among the last ones. A decoder
 * makes one image of the first latent frame and clip_frames of each other, so that 1 + n * clip_frames images give as
 * many. */
static zn_status pass_last(film_pipe *p, zn_video *v)
{
    const int each = p->s->info->clip_frames;
    const zn_image *last = p->held ? p->waiting[p->held - 1] : NULL;
    zn_image *copy = NULL;
    zn_latent *z = NULL;
    if (!last)
        return ZN_OK;
    zn_status status = zn_image_new(last->width, last->height, last->bits, &copy);
    if (status != ZN_OK)
        return status;
    memcpy(copy->pixels, last->pixels, (size_t)last->width * (size_t)last->height * 3 * (size_t)last->bits / 8);
    copy->grey = last->grey;
    for (int64_t i = p->read; (i - 1) % each && status == ZN_OK; i++)
        status = pass(p, v, copy);
    if (status == ZN_OK)
        status = zn_video_encode_end(v, &z);
    if (status == ZN_OK && z)
        status = zn_video_decode(v, z, copy->bits, take, p);
    zn_latent_free(z);
    zn_image_free(copy);
    return status;
}

static zn_status by_video(film_pipe *p)
{
    const zn_options compute = compute_options(p->s->o, &p->s->bar);
    const zn_image *image;
    zn_video *v;
    zn_status status = new_video(p->s, &compute, &v);
    while (status == ZN_OK && (status = film_next(p, &image)) == ZN_OK && image)
        status = pass(p, v, image);
    if (status == ZN_OK)
        status = pass_last(p, v);
    if (v && p->s->o->verbose) {
        print_plan(p->s->o, zn_video_plan(v, ZN_ENCODER));
        print_plan(p->s->o, zn_video_plan(v, ZN_DECODER));
    }
    zn_video_free(v);
    return status;
}

static zn_status by_images(film_pipe *p)
{
    const zn_image *image;
    zn_status status;
    while ((status = film_next(p, &image)) == ZN_OK && image) {
        zn_latent *z = NULL;
        zn_image *result = NULL;
        status = zn_encode(p->s->codec, image, &z);
        if (status == ZN_OK)
            status = zn_decode(p->s->codec, z, &result);
        if (status == ZN_OK)
            status = film_put(p, result);
        zn_latent_free(z);
        zn_image_free(result);
        if (status != ZN_OK)
            break;
    }
    return status;
}

static void report(const film_pipe *p)
{
    const options *o = p->s->o;
    const double count = (double)p->written;
    facts f;
    facts_begin(&f, o->json);
    fact_text(&f, "model", p->s->info->architecture);
    fact_integer(&f, "width", p->width);
    fact_integer(&f, "height", p->height);
    fact_integer(&f, "frames", p->written);
    fact_real(&f, "rate", p->info.rate, 3, " frames/s");
    fact_integer(&f, "audio_streams", p->info.audio);
    if (p->measure) {
        fact_real(&f, "psnr", -10 * log10(p->mse / count), 2, " dB");
        fact_real(&f, "ssim", p->ssim / count, 5, "");
    }
    fact_real(&f, "time_ms", p->ms, 1, "");
    fact_real(&f, "speed", 1000 * count / p->ms, 2, " frames/s");
    if (o->output)
        fact_text(&f, "output", o->output);
    else if (f.json)
        json_null(&f.out, "output");
    facts_end(&f);
}

/* Opens the model, processes the video with `process` and reports. */
static int run(const options *o, unsigned needs, int measured, zn_status (*process)(film_pipe *p))
{
    session s = { 0 };
    int code = film_check(o);
    if (!code)
        code = session_open(&s, o, o->model, needs);
    if (!code) {
        film_pipe p;
        zn_status status = film_begin(&p, &s, o->files[0], o->output);
        p.measure = measured;
        if (status == ZN_OK)
            status = process(&p);
        const int empty = status == ZN_OK && !p.written;
        status = film_end(&p, status);
        if (empty || status == ZN_ECANCELLED)
            complain_of(o->files[0], empty ? "contains no images" : "cancelled");
        else if (status != ZN_OK)
            complain_about(o->files[0]);
        else
            report(&p);
        film_free(&p);
        code = status == ZN_OK ? 0 : EXIT_FAILURE;
    }
    session_close(&s);
    return code;
}

static zn_status reconstruct(film_pipe *p) { return p->s->info->clip_frames ? by_video(p) : by_images(p); }

int film_reconstruct(const options *o)
{
    if (o->compare && !o->output)
        return usage_error("reconstruct", "--compare of a video needs -o");
    return run(o, NEED_ENCODER | NEED_DECODER, 1, reconstruct);
}

/* ---- restore, upscale ---- */

static zn_status restore(film_pipe *p)
{
    const options *o = p->s->o;
    const zn_image *image;
    zn_status status;
    while ((status = film_next(p, &image)) == ZN_OK && image) {
        zn_image *result = NULL;
        status = o->scale ? zn_upscale(p->s->codec, image, o->scale, &result)
                          : zn_restore(p->s->codec, image, (zn_task)o->task, &result);
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
