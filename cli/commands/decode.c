/* zenith decode: decodes latent files to image files. Without --model, each latent is decoded by the model that its
 * file names, or else by the only model found that fits. */
#include "commands.h"
#include "files/standard.h"
#include "options/model_names.h"
#include "session/batch.h"
#include "session/clip.h"
#include "session/diffusion.h"
#include "session/film.h"
#include "session/latents.h"
#include "ui/report.h"
#include "ui/show.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A .png in a folder is a latent unless it is clearly an image. A damaged file is accepted, so that it is reported. */
static int takes(const char *path)
{
    if (has_extension(path, TENSOR_FILES))
        return 1;
    if (!has_extension(path, "png"))
        return 0;
    zn_latent *latent = NULL;
    zn_image *image = NULL;
    const int good = zn_latent_read(path, &latent) == ZN_OK;
    const int picture = !good && zn_image_read(path, NULL, &image) == ZN_OK;
    zn_latent_free(latent);
    zn_image_free(image);
    return !picture;
}

/* ---- which model decodes a latent ---- */

/* The models found that could have made a latent. */
typedef struct candidates {
    const zn_latent *latent;
    int count, made_it; /* made_it: one of them is of the architecture that the latent names */
    char first[1024];   /* path of the first one */
    char names[512];    /* names of all, for messages */
} candidates;

/* A diffusion autoencoder decodes the conditions of its own architecture alone; what names none may be a condition. */
static int could_decode(const zn_model_info *m, const zn_latent *z)
{
    if (zn_codec_unpacks(m, z))
        return m->has_decoder && z->frames <= 1;
    if (m->latent_channels != z->channels)
        return 0;
    if (m->diffuses)
        return z->model[0] ? !strcmp(m->architecture, z->model) : z->width == 1 && z->height == 1;
    return m->has_decoder && (!z->downscale || m->downscale == z->downscale) && (z->frames <= 1 || m->clip_frames);
}

static int is_listed(const char *names, const char *name)
{
    const size_t n = strlen(name);
    for (const char *at = names; (at = strstr(at, name)) != NULL; at += n)
        if ((at == names || at[-1] == ' ') && (at[n] == 0 || at[n] == ','))
            return 1;
    return 0;
}

/* A model in several search folders counts once: -m uses the first. */
static void consider(void *user, const char *path, const zn_model_info *info, const char *error)
{
    candidates *c = user;
    if ((error && *error) || !could_decode(info, c->latent))
        return;
    c->made_it |= !strcmp(info->architecture, c->latent->model);
    char *name = model_name(path);
    const size_t used = strlen(c->names);
    if (!is_listed(c->names, name)) {
        snprintf(c->names + used, sizeof c->names - used, "%s%s", used ? ", " : "", name);
        if (c->count++ == 0)
            snprintf(c->first, sizeof c->first, "%s", path);
    }
    free(name);
}

/* The path of the only model found that could have made this latent; NULL after reporting why there is none. */
static const char *assume_model(const options *o, const job *item, candidates *c)
{
    const zn_latent *z = c->latent;
    const char *frames = z->frames > 1 ? " as a video" : "";
    char names[128] = "names no model";
    if (zn_models_visit(consider, c) != ZN_OK) {
        complain("%s", zn_error_text());
        return NULL;
    }
    if (z->model[0])
        snprintf(names, sizeof names, c->made_it ? "was made by a %s" : "was made by %s, which is not found", z->model);
    if (c->count > 1)
        complain("%s: this latent %s, and several models decode %d channels%s (%s); name one with -m", item->input,
                 names, z->channels, frames, c->names);
    else if (!c->count)
        complain("%s: this latent %s, and no model found decodes %d channels%s; name one with -m", item->input, names,
                 z->channels, frames);
    if (c->count != 1)
        return NULL;
    note(o, "%s: this latent %s; assuming %s, the only model found that decodes %d channels%s", item->input, names,
         c->names, z->channels, frames);
    return c->first;
}

/* Opens the model of the command line, else the one that the latent names, else the only one that fits. */
static int open_for(session *s, const job *item, const zn_latent *latent)
{
    const options *o = s->o;
    candidates c = { .latent = latent };
    char asked[sizeof s->asked];
    snprintf(asked, sizeof asked, "%s %d %d %d", latent->model, latent->channels, latent->downscale,
             latent->frames > 1);
    if ((s->codec || s->diffusion) && (o->model || !strcmp(asked, s->asked)))
        return 0;
    const char *name = o->model;
    zn_model *found = NULL;
    if (!name && latent->model[0] && zn_model_find_released(latent->model, &found) == ZN_OK)
        name = latent->model;
    zn_model_free(found);
    if (!name && !(name = assume_model(o, item, &c)))
        return EXIT_FAILURE;
    const int status = session_open(s, o, name, NEED_DECODER | TAKE_DIFFUSION);
    snprintf(s->asked, sizeof s->asked, "%s", asked);
    return status;
}

/* Reports an error and returns 0 if the latent cannot be from this model. Prints a remark if it probably is not. */
static int fits(const session *s, const job *item, const zn_latent *latent)
{
    const zn_model_info *m = s->info;
    const char *by = latent->model[0] ? latent->model : "an unknown model";
    const char *video = m->clip_frames ? ", and the latent of a video has five dimensions, [1,C,T,H,W]" : "";
    if (latent->channels != m->latent_channels && !zn_codec_unpacks(m, latent)) {
        complain(
            "%s: this latent has %d channels (made by %s) but the model %s decodes %d%s; choose another with --model",
            item->input, latent->channels, by, m->architecture, m->latent_channels, video);
        return 0;
    }
    if (latent->model[0] && strcmp(latent->model, m->architecture))
        note(s->o, "%s: made by %s, decoded by %s", item->input, by, m->architecture);
    return 1;
}

/* ---- decoding ---- */

/* Whether the images of a latent can be stored in the format of the result. */
static zn_status check_size(const session *s, const job *item, const zn_latent *latent)
{
    const int64_t side = s->diffusion ? s->info->image_size : s->info->downscale,
                  scale = zn_codec_unpacks(s->info, latent) ? 2 * side : side;
    return check_image(item->kind, latent->image_width ? latent->image_width : latent->width * scale,
                       latent->image_height ? latent->image_height : latent->height * scale, 0);
}

/* Decodes a latent that fits the session's model to item->output. Adds facts to j as members. */
static zn_status decode_latent(session *s, const job *item, const zn_latent *latent, json *j, char *summary,
                               size_t size)
{
    const options *o = s->o;
    const zn_image_write_options writing = { .quality = o->quality, .lossless = o->lossless, .threads = o->threads };
    zn_image *image = NULL;
    if (s->diffusion && (latent->frames > 1 || latent->width != 1 || latent->height != 1)) {
        complain("%s: a condition of %s is a latent of 1x1, and this one is %dx%d", item->input, s->info->architecture,
                 latent->width, latent->height);
        return ZN_ESHAPE;
    }
    if (!is_video_file(item->kind) && check_size(s, item, latent) != ZN_OK) {
        complain_about(item->input);
        return ZN_EINVALID;
    }
    if (latent->frames > 1 || is_video_file(item->kind))
        return decode_clip(s, item, latent, j, summary, size);
    if (o->precision == ZN_PRECISION_FP8) {
        complain("%s: fp8 is for clips, and this is a single image: use bf16", item->input);
        return ZN_EUNSUPPORTED;
    }
    double ms = now_ms();
    zn_status status = s->diffusion ? diffusion_decode(s, latent, &image)
                                    : zn_decode_bits(s->codec, latent, o->bits ? o->bits : 8, &image);
    ms = now_ms() - ms;
    if (status == ZN_OK)
        status = write_image(item->output, item->kind, image, &writing);
    if (status != ZN_OK) {
        complain_about(item->input);
        goto done;
    }
    session_explain(s);
    if (o->json) {
        json_integer(j, "width", image->width);
        json_integer(j, "height", image->height);
        json_real(j, "decode_ms", ms);
    }
    snprintf(summary, size, "%dx%dx%d -> %dx%d  %.1f ms", latent->width, latent->height, latent->channels, image->width,
             image->height, ms);
    if (o->show)
        show_image(o, image);
done:
    zn_image_free(image);
    return status;
}

/* Reads latent number `index` of a file, opens its model and scales the latent for it. Reports errors. */
static zn_status read_latent(session *s, const job *item, int64_t index, zn_latent **latent, int64_t *count)
{
    const zn_status status = zn_latent_read_at(item->input, index, latent, count);
    if (status != ZN_OK) {
        complain_about(item->input);
        return status;
    }
    if (!open_for(s, item, *latent) && fits(s, item, *latent) &&
        (s->diffusion || !scale_after_reading(s, item->input, *latent)))
        return ZN_OK;
    zn_latent_free(*latent);
    *latent = NULL;
    return ZN_EINVALID;
}

/* Decodes latent number `index` of a batch to its own file, or files of a video's images. Its facts are an object in a
 * list. *first: the name of the file, or of the first one, to be freed. */
static zn_status decode_member(session *s, const job *item, int64_t index, json *j, char *summary, size_t size,
                               char **first)
{
    zn_latent *latent = NULL;
    int64_t count;
    char *output = numbered(item->output, (int)index + 1);
    const job own = { .input = item->input, .output = output, .kind = output };
    zn_status status = ZN_EINVALID;
    if (!s->o->output && !s->o->force && file_exists(output))
        complain("%s: %s already exists; name the result with -o or use --force", item->input, output);
    else
        status = read_latent(s, item, index, &latent, &count);
    if (s->o->json)
        json_open(j, NULL, '{');
    if (status == ZN_OK)
        status = decode_latent(s, &own, latent, j, summary, size);
    if (s->o->json) {
        json_text(j, "output", s->wrote ? s->wrote : output);
        json_close(j, '}');
    }
    *first = s->wrote ? s->wrote : must_copy(output);
    s->wrote = NULL;
    free(output);
    zn_latent_free(latent);
    return status;
}

/* Decodes all latents of a file [N,C,H,W] to OUT_0001.png, OUT_0002.png, ... */
static zn_status decode_batch(session *s, const job *item, int64_t count, json *j, char *summary, size_t size)
{
    const double base = s->bar.base, scale = s->bar.scale;
    char last[256] = "", *first = NULL;
    zn_status status = ZN_OK;
    if (!strcmp(item->output, STANDARD_OUTPUT)) {
        complain("%s: %lld latents make several images, which need names or a folder, not standard output", item->input,
                 (long long)count);
        return ZN_EINVALID;
    }
    if (s->o->json)
        json_open(j, "batch", '[');
    for (int64_t i = 0; i < count && status == ZN_OK && !interrupted(); i++) {
        s->bar.base = base + scale * (double)i / (double)count;
        s->bar.scale = scale / (double)count;
        char *name;
        status = decode_member(s, item, i, j, last, sizeof last, &name);
        if (!first)
            first = name;
        else
            free(name);
    }
    if (s->o->json)
        json_close(j, ']');
    if (status == ZN_OK) {
        const char *each = strncmp(last, "to ", 3) ? last : strstr(last, "  "); /* after the last file of a video */
        each = each == last ? last : each ? each + 2 : "";
        s->wrote = first;
        snprintf(summary, size, "%.*s%lld latents, each %s", each == last ? 0 : (int)(each - last), last,
                 (long long)count, each);
        first = NULL;
    }
    free(first);
    return status;
}

static zn_status work(session *s, const job *item, json *j, char *summary, size_t size)
{
    zn_latent *latent = NULL;
    int64_t count = 1;
    zn_status status = read_latent(s, item, 0, &latent, &count);
    if (status == ZN_OK && count == 1)
        status = decode_latent(s, item, latent, j, summary, size);
    zn_latent_free(latent);
    return status == ZN_OK && count > 1 ? decode_batch(s, item, count, j, summary, size) : status;
}

static int can_write(const char *path) { return zn_image_can_write(path) || is_video_file(path); }

/* A name with the format of the results, to be freed. As jobs_make: --format is for results without a name of their
 * own. */
static char *name_of_results(const options *o)
{
    const char *name = o->output;
    if (name && !is_folder(name) && can_write(name))
        return must_copy(name);
    return must_print("result.%s", o->format ? o->format : "png");
}

/* Checks before anything is decoded that the format of the results can be written, in the bits asked for. Returns 0, or
 * an exit status after reporting why not. */
static int check_format(const options *o)
{
    char *name = name_of_results(o);
    int status = 0;
    if (o->bits == 16 && !has_extension(name, "png"))
        status = usage_error("decode", "only PNG supports 16 bits per sample: leave --bits out, or write a .png");
    else if (is_video_file(name))
        status = film_check_settings(o);
    if (!status && is_video_file(name) && zn_film_check(name) != ZN_OK) {
        complain_about(name);
        status = EXIT_FAILURE;
    }
    free(name);
    return status;
}

int decode_run(const options *o)
{
    const int status = check_format(o);
    if (status)
        return status;
    const batch b = {
        .rules = { "latents", takes, "png", can_write,
                   ".png, .jpg or .webp, or .mp4, .mkv, .mov or .webm for a video" },
        .verb = "decode",
        .work = work,
        .needs = NEED_DECODER | TAKE_DIFFUSION,
        .late = !o->model,
    };
    return batch_run(o, &b);
}
