/* zenith decode: latent files to image files. Without --model each latent is decoded by the model that made it, as far
 * as its file tells. */
#include "commands.h"
#include "commands/batch.h"
#include "commands/clip.h"
#include "ui/report.h"
#include "ui/show.h"
#include "ui/standard.h"

#include <stdio.h>
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

/* The model of the command line, else the one the latent names, else the first one found. */
static int open_for(session *s, const zn_latent *latent)
{
    const options *o = s->o;
    if (s->codec && (o->model || !strcmp(latent->model, s->asked)))
        return 0;
    const char *name = o->model;
    zn_model *found = NULL;
    if (!name && latent->model[0] && zn_model_find(latent->model, &found) == ZN_OK)
        name = latent->model;
    zn_model_free(found);
    const int status = session_open(s, o, name, NEED_DECODER);
    snprintf(s->asked, sizeof s->asked, "%s", latent->model);
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
    if (status == ZN_OK && (open_for(s, latent) || !fits(s, item, latent))) {
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
