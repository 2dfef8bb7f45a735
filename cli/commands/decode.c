/* zenith decode: latent files to image files. Without --model each latent is decoded by the model that its file names,
 * or else by the only one found that fits. */
#include "commands.h"
#include "commands/batch.h"
#include "commands/clip.h"
#include "ui/model_names.h"
#include "ui/report.h"
#include "ui/show.h"
#include "ui/standard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A .png of a folder is a latent unless it is plainly a picture. A damaged one is taken, so that it is reported. */
static int takes(const char *path)
{
    if (has_extension(path, "safetensors"))
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

/* Models found that could have made a latent. */
typedef struct candidates {
    const zn_latent *latent;
    int count;
    char first[1024]; /* path of the first one */
    char names[512];  /* of all, for messages */
} candidates;

static int could_decode(const zn_model_info *m, const zn_latent *z)
{
    return m->has_decoder && !m->diffuses && m->latent_channels == z->channels &&
           (!z->downscale || m->downscale == z->downscale) && (z->frames <= 1 || m->clip_frames);
}

static int is_listed(const char *names, const char *name)
{
    const size_t n = strlen(name);
    for (const char *at = names; (at = strstr(at, name)) != NULL; at += n)
        if ((at == names || at[-1] == ' ') && (at[n] == 0 || at[n] == ','))
            return 1;
    return 0;
}

/* A model in several search places is one model: -m takes the first. */
static void consider(void *user, const char *path, const zn_model_info *info, const char *error)
{
    candidates *c = user;
    if ((error && *error) || !could_decode(info, c->latent))
        return;
    char *name = model_name(path);
    const size_t used = strlen(c->names);
    if (!is_listed(c->names, name)) {
        snprintf(c->names + used, sizeof c->names - used, "%s%s", used ? ", " : "", name);
        if (c->count++ == 0)
            snprintf(c->first, sizeof c->first, "%s", path);
    }
    free(name);
}

/* The only model found that could have made this latent, as its path; NULL after saying why there is none. */
static const char *assume_model(const options *o, const job *item, candidates *c)
{
    const zn_latent *z = c->latent;
    const char *frames = z->frames > 1 ? " as a video" : "";
    char names[128] = "names no model";
    if (z->model[0])
        snprintf(names, sizeof names, "was made by %s, which is not found", z->model);
    if (zn_models_visit(consider, c) != ZN_OK) {
        complain("%s", zn_error_text());
        return NULL;
    }
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
    if (s->codec && (o->model || !strcmp(asked, s->asked)))
        return 0;
    const char *name = o->model;
    zn_model *found = NULL;
    if (!name && latent->model[0] && zn_model_find(latent->model, &found) == ZN_OK)
        name = latent->model;
    zn_model_free(found);
    if (!name && !(name = assume_model(o, item, &c)))
        return EXIT_FAILURE;
    const int status = session_open(s, o, name, NEED_DECODER);
    snprintf(s->asked, sizeof s->asked, "%s", asked);
    return status;
}

/* Complains and returns 0 if the latent cannot be this model's; remarks on one that probably is not. */
static int fits(const session *s, const job *item, const zn_latent *latent)
{
    const zn_model_info *m = s->info;
    const char *by = latent->model[0] ? latent->model : "an unknown model";
    if (latent->channels != m->latent_channels) {
        complain(
            "%s: this latent has %d channels (made by %s) but the model %s decodes %d; choose another with --model",
            item->input, latent->channels, by, m->architecture, m->latent_channels);
        return 0;
    }
    if (latent->model[0] && strcmp(latent->model, m->architecture))
        note(s->o, "%s: made by %s, decoded by %s", item->input, by, m->architecture);
    return 1;
}

static zn_status work(session *s, const job *item, json *j, char *summary, size_t size)
{
    const options *o = s->o;
    const zn_image_write_options writing = { .quality = o->quality, .lossless = o->lossless };
    zn_latent *latent = NULL;
    zn_image *image = NULL;
    if (o->bits == 16 && !has_extension(item->kind, "png")) {
        complain("%s: only PNG holds 16 bits a sample", item->output);
        return ZN_EINVALID;
    }
    zn_status status = zn_latent_read(item->input, &latent);
    if (status == ZN_OK && (open_for(s, item, latent) || !fits(s, item, latent))) {
        zn_latent_free(latent);
        return ZN_EINVALID;
    }
    if (status == ZN_OK && (latent->frames > 1 || is_film(item->kind))) {
        status = decode_clip(s, item, latent, j, summary, size);
        zn_latent_free(latent);
        return status;
    }
    double ms = now_ms();
    if (status == ZN_OK)
        status = zn_decode_bits(s->codec, latent, o->bits ? o->bits : 8, &image);
    ms = now_ms() - ms;
    if (status == ZN_OK)
        status = write_picture(item->output, item->kind, image, &writing);
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
    zn_latent_free(latent);
    zn_image_free(image);
    return status;
}

static int can_write(const char *path) { return zn_image_can_write(path) || is_film(path); }

int decode_run(const options *o)
{
    const batch b = {
        .rules = { "latents", takes, "png", can_write, ".png, .jpg or .webp" },
        .verb = "decode",
        .work = work,
        .needs = NEED_DECODER,
        .late = !o->model,
    };
    return batch_run(o, &b);
}
