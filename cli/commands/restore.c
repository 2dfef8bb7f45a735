/* zenith restore: removes noise, impulse noise, JPEG artefacts or blur from photos. zenith upscale: enlarges them.
 * Alpha is unchanged, or enlarged. 16-bit images stay 16-bit if the format of the result supports it. */
#include "commands.h"
#include "files/standard.h"
#include "session/batch.h"
#include "session/film.h"
#include "ui/report.h"
#include "ui/show.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct work_of {
    zn_image *damaged, *alpha, *restored, *picture; /* picture: the image to write; may be restored itself */
    zn_image_metadata metadata;
    zn_image_read_options reading;
    zn_image_difference before, after; /* against the reference */
    zn_image_difference change;        /* of the result from the input, for JSON */
    int has_reference;
    double ms;
} work_of;

/* Reads alpha and metadata if the result can hold them. Without alpha, the image is blended with the background. */
static zn_status read_input(const options *o, const job *item, work_of *w)
{
    w->reading = (zn_image_read_options){ .background = { o->background[0], o->background[1], o->background[2] } };
    if (!o->compare && has_extension(item->kind, "png webp")) {
        const zn_status status = zn_image_read_alpha(item->input, &w->reading, &w->alpha);
        if (status != ZN_OK)
            return status;
        w->reading.ignore_alpha = w->alpha != NULL;
    }
    const zn_status status = read_image(o, item->input, &w->reading, &w->damaged);
    return status == ZN_OK && keeps_metadata(o) ? zn_image_read_metadata(item->input, &w->metadata) : status;
}

/* Measures the difference to the reference before and after restoration. A folder of references has files with the same
 * names as the inputs. */
static zn_status judge(const options *o, const job *item, work_of *w)
{
    if (!o->reference)
        return ZN_OK;
    char *path =
        is_folder(o->reference) ? must_print("%s/%s", o->reference, base_name(item->input)) : must_copy(o->reference);
    zn_image *reference = NULL;
    zn_status status = zn_image_read(path, &w->reading, &reference);
    free(path);
    if (status == ZN_OK)
        status = zn_image_compare(reference, w->damaged, &w->before);
    if (status == ZN_OK)
        status = zn_image_compare(reference, w->restored, &w->after);
    w->has_reference = status == ZN_OK;
    zn_image_free(reference);
    return status;
}

static int sample_at(const zn_image *image, size_t i)
{
    return image->bits == 16 ? ((const uint16_t *)image->pixels)[i] : ((const uint8_t *)image->pixels)[i];
}

/* Mean squared difference of neighbouring pixels, in both directions. */
static double roughness(const zn_image *image)
{
    const size_t row = (size_t)image->width * 3, count = row * (size_t)image->height;
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        const double right = i % row + 3 < row ? sample_at(image, i + 3) - sample_at(image, i) : 0,
                     below = i + row < count ? sample_at(image, i + row) - sample_at(image, i) : 0;
        sum += right * right + below * below;
    }
    return sum / (double)count;
}

static zn_status enlarge_alpha(int scale, work_of *w)
{
    for (; scale > 1 && w->alpha; scale /= 2) {
        zn_image *large;
        const zn_status status = zn_image_enlarge(w->alpha, &large);
        if (status != ZN_OK)
            return status;
        zn_image_free(w->alpha);
        w->alpha = large;
    }
    return ZN_OK;
}

/* Restores, at the strength asked for, or with o->scale enlarges. */
static zn_status run_network(session *s, work_of *w)
{
    const options *o = s->o;
    const double start = now_ms();
    zn_status status = o->scale ? zn_upscale(s->codec, w->damaged, o->scale, &w->restored)
                                : zn_restore(s->codec, w->damaged, (zn_task)o->task, &w->restored);
    w->ms = now_ms() - start;
    if (status == ZN_OK && o->strength)
        status = zn_image_blend(w->restored, w->damaged, 1 - strtod(o->strength, NULL));
    if (status == ZN_OK && o->scale)
        status = enlarge_alpha(o->scale, w);
    return status;
}

static zn_status restore(session *s, const job *item, work_of *w)
{
    const options *o = s->o;
    const int64_t scale = o->scale ? o->scale : 1;
    zn_status status = read_input(o, item, w);
    if (status == ZN_OK)
        status = check_image(item->kind, w->damaged->width * scale, w->damaged->height * scale, o->compare);
    if (status != ZN_OK)
        return status;
    status = run_network(s, w);
    w->picture = w->restored;
    if (status == ZN_OK)
        status = judge(o, item, w);
    if (status == ZN_OK && o->json && !o->scale)
        status = zn_image_compare(w->damaged, w->restored, &w->change);
    if (status == ZN_OK && o->compare)
        status = zn_image_side_by_side(w->damaged, w->restored, &w->picture);
    const zn_image_write_options writing = { .quality = o->quality,
                                             .lossless = o->lossless,
                                             .alpha = w->alpha,
                                             .metadata = &w->metadata,
                                             .threads = o->threads };
    return status == ZN_OK ? write_image(item->output, item->kind, w->picture, &writing) : status;
}

/* What was done, measured: the network decides that itself, and a task is only a hint to it, so "auto" would tell
 * nothing. Less detail than before is noise or artefacts removed, more is blur. */
static void report_change(const options *o, const work_of *w, json *j)
{
    const double before = roughness(w->damaged), after = roughness(w->restored);
    if (o->task == ZN_TASK_AUTO)
        json_null(j, "task");
    else
        json_text(j, "task", zn_task_name(o->task));
    json_real(j, "change_psnr", w->change.psnr);
    json_integer(j, "change_max", w->change.max_difference);
    json_real(j, "detail", before > 0 ? after / before : 1);
}

/* The PSNR of equal images is infinite, which is null in JSON. */
static void report(const options *o, const work_of *w, json *j, char *summary, size_t size)
{
    const zn_image *r = w->restored;
    int n = snprintf(summary, size, "%dx%d  %.1f ms", r->width, r->height, w->ms);
    if (w->has_reference)
        snprintf(summary + n, size - (size_t)n, "  %.2f -> %.2f dB", w->before.psnr, w->after.psnr);
    if (!o->json)
        return;
    json_integer(j, "width", r->width);
    json_integer(j, "height", r->height);
    json_integer(j, "bits", r->bits);
    if (o->scale)
        json_integer(j, "scale", o->scale);
    else
        report_change(o, w, j);
    json_real(j, o->scale ? "upscale_ms" : "restore_ms", w->ms);
    if (w->has_reference) {
        json_real(j, "input_psnr", w->before.psnr);
        json_real(j, "psnr", w->after.psnr);
        json_real(j, "ssim", w->after.ssim);
    }
}

static zn_status work(session *s, const job *item, json *j, char *summary, size_t size)
{
    work_of w = { 0 };
    const zn_status status = restore(s, item, &w);
    if (status == ZN_OK) {
        session_explain(s);
        report(s->o, &w, j, summary, size);
        progress_erase();
        if (s->o->show)
            show_image(s->o, w.picture);
    } else {
        complain_about(item->input);
    }
    if (w.picture != w.restored)
        zn_image_free(w.picture);
    zn_image_metadata_free(&w.metadata);
    zn_image_free(w.damaged);
    zn_image_free(w.alpha);
    zn_image_free(w.restored);
    return status;
}

/* model: the one to use unless the options name another. */
static int run_batch(options mine, const char *model)
{
    const char *verb = mine.command->name;
    if (!mine.output)
        return usage_error(verb, "-o is needed: a file or a folder for the results");
    mine.model = mine.model ? mine.model : model;
    if (names_video(&mine))
        return film_restore(&mine);
    if (film_check_input(&mine))
        return EXIT_USAGE;
    const batch b = {
        .rules = { "images", is_image_file, "png", zn_image_can_write, ".png, .jpg or .webp" },
        .verb = verb,
        .work = work,
        .needs = NEED_RESTORER,
    };
    return batch_run(&mine, &b);
}

int restore_run(const options *o)
{
    if (o->fast && o->model)
        return usage_error("restore",
                           "--fast selects the model zenith-restore-fast, so --model cannot be given with it");
    return run_batch(*o, o->fast ? "zenith-restore-fast" : "zenith-restore");
}

int upscale_run(const options *o)
{
    options mine = *o;
    mine.scale = o->scale ? o->scale : 2;
    return run_batch(mine, "zenith-upscale");
}
