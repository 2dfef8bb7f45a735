/* zenith encode --clip, and decoding of latents with several frames to images or a video. Only one image is in memory
 * at a time. */
#include "session/clip.h"

#include "files/encoded.h"
#include "files/film_pipe.h"
#include "files/standard.h"
#include "options/compute.h"
#include "session/film.h"
#include "session/latents.h"
#include "ui/report.h"
#include "ui/show.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

zn_status new_video(session *s, const zn_options *compute, zn_video **out)
{
    *out = NULL;
    const zn_status status = zn_video_new(s->model, compute, out);
    if (status == ZN_OK && compute->blend)
        note(s->o, "frames larger than %d pixels are blended from tiles: the result is approximate", compute->tile);
    return status;
}

static zn_status open_video(session *s, zn_video **out)
{
    const zn_options compute = compute_options(s->o, &s->bar);
    return new_video(s, &compute, out);
}

/* Tells the precision if it is not the one asked for; with -v how the work was divided into pieces. */
static void explain(session *s, zn_video *v, zn_part part)
{
    session_ran_clip(s, v);
    session_explain(s);
    const char *plan = s->o->verbose ? zn_video_plan(v, part) : "";
    if (*plan)
        note(s->o, "%s", plan);
}

/* ---- encode ---- */

/* A file of several frames, and its part of the progress bar. */
typedef struct frame_bar {
    progress *bar;
    const char *path;
    int64_t total;
    double base, scale;
} frame_bar;

static void show_frame(void *user, int number)
{
    const frame_bar *b = user;
    const int64_t total = b->total > number ? b->total : number + 1;
    char *label = must_print("encode %s: frame %d of %lld", b->path, number + 1, (long long)total);
    progress_begin(b->bar, label, b->base + b->scale * number / (double)total, b->scale / (double)total);
    free(label);
}

static zn_status encode_item(session *s, zn_video *v, const char *path, zn_latent **clip, int *pictures)
{
    const options *o = s->o;
    const zn_image_read_options reading = { .background = { o->background[0], o->background[1], o->background[2] } };
    zn_film_info film = { 0 };
    if (!is_video_file(path))
        return encode_frames(v, path, &reading, clip, pictures, NULL, NULL, NULL);
    zn_film_faults faults = { 0 };
    zn_status status = zn_film_describe(path, &film);
    frame_bar bar = { &s->bar, path, film.frames, s->bar.base, s->bar.scale };
    if (status == ZN_OK)
        status = encode_frames(v, path, &reading, clip, pictures, show_frame, &bar, &faults);
    if (status == ZN_OK)
        remark_on_film(o, path, &faults);
    return status;
}

/* If videos cannot be read, fails before the images before them are encoded. */
static zn_status check_films(const job_list *list)
{
    zn_status status = ZN_OK;
    for (int i = 0; i < list->count && status == ZN_OK; i++)
        if (is_video_file(list->items[i].input) && (status = zn_film_check(NULL)) != ZN_OK)
            complain_about(list->items[i].input);
    return status;
}

/* Encodes all items of a list. Reports an item that cannot be used. */
static zn_status encode_items(session *s, zn_video *v, const job_list *list, zn_latent **clip, int *pictures)
{
    const double base = s->bar.base, scale = s->bar.scale;
    zn_status status = ZN_OK;
    for (int i = 0; i < list->count && status == ZN_OK; i++) {
        const job *item = &list->items[i];
        char *label = must_print("encode %s", item->input);
        progress_begin(&s->bar, label, base + scale * i / list->count, scale / list->count);
        free(label);
        if (item->problem) {
            complain_of(item->input, item->problem);
            return ZN_EINVALID;
        }
        status = encode_item(s, v, item->input, clip, pictures);
        if (status == ZN_OK && i + 1 == list->count)
            status = zn_video_encode_end(v, clip);
        if (status != ZN_OK)
            complain_about(item->input);
    }
    if (status == ZN_OK && !*clip) {
        complain("%s: contains no images", list->items[0].input);
        return ZN_EINVALID;
    }
    return status;
}

static const char *plural(int count) { return count == 1 ? "" : "s"; }

static void encode_facts(const zn_latent *clip, int pictures, double ms, json *j)
{
    json_integer(j, "images", pictures);
    json_integer(j, "latent_frames", clip->frames);
    json_encoded(j, clip, ms);
}

/* A decoder of TAEHV makes one image of the first latent frame, whose encoder takes several. */
static void warn_of_lost_images(const session *s, const job *item, const zn_latent *clip, int pictures)
{
    const int each = clip_step(s->info), kept = 1 + (clip->frames - 1) * each;
    if (kept < pictures)
        note(s->o, "%s: %s will decode only %d of these %d images; encode %d or %d to get all of them", item->input,
             s->info->architecture, kept, pictures, kept, kept + each);
}

static zn_status encode_work(session *s, const job *item, json *j, char *summary, size_t size)
{
    const options *o = s->o;
    const job_rules rules = { .what = "images", .takes = is_image_file };
    job_list list;
    zn_video *v = NULL;
    zn_latent *clip = NULL;
    int pictures = 0;
    const double start = now_ms();
    jobs_expand(o, &rules, &list);
    zn_status status = check_films(&list);
    if (status == ZN_OK && (status = open_video(s, &v)) != ZN_OK)
        complain_about(item->input);
    if (status == ZN_OK) {
        status = encode_items(s, v, &list, &clip, &pictures);
        explain(s, v, ZN_ENCODER);
    }
    zn_video_free(v);
    const double ms = now_ms() - start;
    if (status == ZN_OK && scale_for_writing(s, item->kind, clip))
        status = ZN_EINVALID;
    else if (status == ZN_OK && (status = write_latents(item, (const zn_latent *const *)&clip, 1)) != ZN_OK)
        complain_about(item->output);
    if (status == ZN_OK)
        warn_of_lost_images(s, item, clip, pictures);
    if (status == ZN_OK && o->json)
        encode_facts(clip, pictures, ms, j);
    if (status == ZN_OK) {
        snprintf(summary, size, "%d image%s of %dx%d -> %d frame%s of %dx%dx%d  %.1f ms", pictures, plural(pictures),
                 clip->image_width, clip->image_height, clip->frames, plural(clip->frames), clip->width, clip->height,
                 clip->channels, ms);
        if (o->show)
            show_latent(o, clip);
    }
    zn_latent_free(clip);
    jobs_free(&list);
    return status;
}

int encode_clip_run(const options *o, const batch *b)
{
    char *output = single_result(o, "a clip");
    return output ? run_single(o, b, output, encode_work) : EXIT_USAGE;
}

/* ---- decode ---- */

typedef struct album {
    session *s;
    const job *item;
    zn_image_write_options writing;
    zn_film_writer *film; /* NULL: separate images */
    int count, expected;  /* images */
    double base, scale;   /* part of the progress bar */
    char *last;           /* name of the last image */
    int width, height;
    int told; /* the error has been reported */
} album;

char *numbered(const char *path, int number)
{
    const char *dot = strrchr(path, '.');
    return must_print("%.*s_%04d%s", (int)(dot - path), path, number, dot);
}

/* Writes the image to its own file. */
static zn_status write_single(album *a, const zn_image *picture)
{
    const options *o = a->s->o;
    free(a->last);
    a->last = numbered(a->item->output, a->count);
    if (!o->output && !o->force && file_exists(a->last)) {
        complain("%s: %s already exists; name the result with -o or use --force", a->item->input, a->last);
        a->told = 1;
        return ZN_EINVALID;
    }
    const zn_status status = zn_image_write(a->last, picture, &a->writing);
    if (status != ZN_OK) {
        complain_about(a->last);
        a->told = 1;
    }
    return status;
}

static zn_status write_to_film(album *a, const zn_image *picture)
{
    const double rate = a->s->o->rate > 0 ? a->s->o->rate : 24;
    zn_status status = ZN_OK;
    if (!a->film)
        status = zn_film_create(a->item->output, picture->width, picture->height, rate,
                                film_is_lean(a->s->o->memory, a->s->o->device) ? ZN_FILM_LEAN : 0, &a->film);
    return status == ZN_OK ? zn_film_write(a->film, picture) : status;
}

static zn_status write_one(void *user, const zn_image *picture)
{
    album *a = user;
    a->count++;
    const zn_status status = is_video_file(a->item->kind) ? write_to_film(a, picture) : write_single(a, picture);
    if (status != ZN_OK)
        return status;
    if (a->count == 1 && a->s->o->show)
        show_image(a->s->o, picture);
    a->width = picture->width;
    a->height = picture->height;
    const double done = a->count < a->expected ? (double)a->count / a->expected : 1;
    a->s->bar.base = a->base + a->scale * done;
    a->s->bar.scale = a->scale / a->expected;
    return ZN_OK;
}

static zn_status decode_pictures(session *s, const job *item, const zn_latent *latent, album *a)
{
    zn_video *v = NULL;
    const int bits = s->o->bits ? s->o->bits : 8, scale = s->info->downscale;
    zn_status status = open_video(s, &v);
    if (status == ZN_OK && is_video_file(item->kind))
        zn_video_hold(v, zn_film_bytes(NULL, latent->width * scale, latent->height * scale, bits));
    if (status == ZN_OK)
        status = zn_video_decode(v, latent, bits, write_one, a);
    if (v)
        explain(s, v, ZN_DECODER);
    zn_video_free(v);
    if (status == ZN_OK && a->film)
        status = zn_film_finish(a->film);
    else
        zn_film_drop(a->film);
    if (status != ZN_OK && !a->told)
        complain_about(item->input);
    return status;
}

zn_status decode_clip(session *s, const job *item, const zn_latent *latent, json *j, char *summary, size_t size)
{
    const options *o = s->o;
    album a = { .s = s,
                .item = item,
                .writing = { .quality = o->quality, .lossless = o->lossless, .threads = o->threads },
                .expected = 1 + (latent->frames - 1) * clip_step(s->info),
                .base = s->bar.base,
                .scale = s->bar.scale };
    if (!strcmp(item->output, STANDARD_OUTPUT)) {
        complain("%s: a video is several images, which need a file name or a folder, not standard output", item->input);
        return ZN_EINVALID;
    }
    const int latent_frames = latent->frames > 1 ? latent->frames : 1;
    const double start = now_ms();
    const zn_status status = decode_pictures(s, item, latent, &a);
    const double ms = now_ms() - start;
    if (status == ZN_OK && a.last)
        s->wrote = numbered(item->output, 1);
    if (status == ZN_OK && o->json) {
        json_integer(j, "images", a.count);
        if (a.last)
            json_text(j, "last", a.last);
        json_integer(j, "width", a.width);
        json_integer(j, "height", a.height);
        json_real(j, "decode_ms", ms);
    }
    if (status == ZN_OK)
        snprintf(summary, size, "%s%s%s%d frame%s of %dx%dx%d -> %d image%s of %dx%d  %.1f ms", a.last ? "to " : "",
                 a.last ? base_name(a.last) : "", a.last ? "  " : "", latent_frames, plural(latent_frames),
                 latent->width, latent->height, latent->channels, a.count, plural(a.count), a.width, a.height, ms);
    free(a.last);
    return status;
}
