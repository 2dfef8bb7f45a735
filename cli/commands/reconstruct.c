/* zenith reconstruct: encodes and decodes images and measures the difference. One image gets a detailed report; several
 * get one line each. */
#include "commands.h"
#include "files/ranks.h"
#include "files/standard.h"
#include "session/batch.h"
#include "session/diffusion.h"
#include "session/field.h"
#include "session/film.h"
#include "ui/report.h"
#include "ui/show.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 20, NEEDS = NEED_ENCODER | NEED_DECODER | TAKE_DIFFUSION };

typedef struct trip {
    zn_image *original, *result, *picture; /* picture: the image to write; may be result itself */
    zn_image_metadata metadata;
    zn_latent *latent;
    const char *kind; /* its extension is the format of the result; NULL if none is written */
    diffusion d;      /* if the model is a diffusion autoencoder */
    zn_image_difference difference;
    double encode_ms, decode_ms;
} trip;

/* The option given that only fields take, and with --keep masked encoders; NULL if none is. */
static const char *field_option(const options *o) { return o->scale ? "--scale" : o->share > 0 ? "--keep" : NULL; }

/* Why an option given does not go with the model; NULL if all do. The caller frees it. */
static char *misplaced(const session *s)
{
    const options *o = s->o;
    const char *field = field_option(o), *other = diffusion_option(o), *model = s->info->architecture;
    if (s->diffusion || (!field && !other))
        return NULL;
    return field ? must_print("%s is for mamba-field%s models, and %s is not one", field,
                              o->scale ? "" : " and diffae-masked", model)
                 : must_print("%s is for diffusion autoencoders, and %s is not one", other, model);
}

/* The option given that videos do not take; NULL if none is. */
static const char *image_option(const options *o)
{
    const char *given = field_option(o) ? field_option(o) : diffusion_option(o);
    return given ? given : o->format ? "--format" : NULL;
}

/* The encoder's share of the work, for the progress bar. */
static double encoder_share(const session *s, const zn_image *image)
{
    zn_cost e, d;
    if (zn_model_cost(s->model, ZN_ENCODER, image->width, image->height, &e) != ZN_OK ||
        zn_model_cost(s->model, ZN_DECODER, image->width, image->height, &d) != ZN_OK || !(e.gflop + d.gflop > 0))
        return 0.5;
    return e.gflop / (e.gflop + d.gflop);
}

static zn_status by_codec(session *s, const char *input, trip *t)
{
    const options *o = s->o;
    const zn_image_read_options reading = { .background = { o->background[0], o->background[1], o->background[2] } };
    const double base = s->bar.base, scale = s->bar.scale;
    zn_status status = read_image(o, input, &reading, &t->original);
    if (status == ZN_OK && t->kind)
        status = check_image(t->kind, t->original->width, t->original->height, o->compare);
    if (status != ZN_OK)
        return status;
    const double share = encoder_share(s, t->original);
    progress_begin(&s->bar, "encode", base, scale * share);
    double start = now_ms();
    if ((status = zn_encode(s->codec, t->original, &t->latent)) != ZN_OK)
        return status;
    t->encode_ms = now_ms() - start;
    session_explain(s);
    if (o->memory) { /* read again for the comparison: decoding gets its share of the budget */
        zn_image_free(t->original);
        t->original = NULL;
    }
    progress_begin(&s->bar, "decode", base + scale * share, scale * (1 - share));
    start = now_ms();
    status = zn_decode(s->codec, t->latent, &t->result);
    t->decode_ms = now_ms() - start;
    if (status == ZN_OK)
        session_explain(s);
    return status == ZN_OK && !t->original ? zn_image_read(input, &reading, &t->original) : status;
}

/* With a diffusion autoencoder, the original is the part of the image that the model uses. */
static zn_status by_diffusion(session *s, const char *input, trip *t)
{
    parts p = { 0 };
    t->d = diffusion_begin(s, STEPS, 1, 1, 0);
    double start = now_ms();
    zn_status status = diffusion_take(&t->d, input, &p);
    t->encode_ms = now_ms() - start;
    start = now_ms();
    if (status == ZN_OK)
        status = diffusion_render(&t->d, p.cond, p.noise, 0, &t->result);
    t->decode_ms = now_ms() - start;
    if (status == ZN_OK)
        session_explain(s);
    t->original = p.picture;
    if (status == ZN_OK && t->original->grey)
        zn_image_make_grey(t->result);
    p.picture = NULL;
    parts_free(&p);
    return status;
}

/* From some of the pixels, or to more of them. With more, the original has them too. */
static zn_status by_field(session *s, const char *input, trip *t)
{
    const int side = s->info->image_size * (s->o->scale ? s->o->scale : 1);
    parts p;
    zn_image *photo = NULL;
    t->d = diffusion_begin(s, STEPS, 0, 1, 0);
    t->d.encode_steps = 0;
    double start = now_ms();
    parts_alloc(diffusion_net(s), &p);
    zn_status status = diffusion_fit(s, input, &p.picture);
    if (status == ZN_OK)
        status = field_encode(s, p.picture, p.cond);
    t->encode_ms = now_ms() - start;
    start = now_ms();
    if (status == ZN_OK)
        status = field_render(&t->d, p.cond, &t->result);
    t->decode_ms = now_ms() - start;
    if (status == ZN_OK)
        status = zn_image_read(input, NULL, &photo);
    if (status == ZN_OK)
        status = zn_image_fit(photo, side, side, &t->original);
    zn_image_free(photo);
    parts_free(&p);
    return status;
}

static zn_status travel(session *s, const char *input, trip *t)
{
    zn_status status = !s->diffusion        ? by_codec(s, input, t)
                       : field_option(s->o) ? by_field(s, input, t)
                                            : by_diffusion(s, input, t);
    progress_erase();
    if (status == ZN_OK)
        status = zn_image_compare(t->original, t->result, &t->difference);
    t->picture = t->result;
    if (status == ZN_OK && keeps_metadata(s->o))
        status = zn_image_read_metadata(input, &t->metadata);
    return status == ZN_OK && s->o->compare ? zn_image_side_by_side(t->original, t->result, &t->picture) : status;
}

static zn_status write_result(const options *o, const char *path, const trip *t)
{
    const zn_image_write_options writing = {
        .quality = o->quality, .lossless = o->lossless, .threads = o->threads, .metadata = &t->metadata
    };
    return write_image(path, t->kind, t->picture, &writing);
}

static void clear(trip *t)
{
    if (t->picture != t->result)
        zn_image_free(t->picture);
    zn_image_metadata_free(&t->metadata);
    zn_image_free(t->original);
    zn_image_free(t->result);
    zn_latent_free(t->latent);
}

/* For values from 0 to 1. */
static double mse(const trip *t) { return pow(10, -t->difference.psnr / 10); }

static void figures(const session *s, const trip *t, facts *f)
{
    fact_integer(f, "width", t->original->width);
    fact_integer(f, "height", t->original->height);
    fact_difference(f, &t->difference);
    fact_real(f, "mse", mse(t), 6, "");
    if (s->diffusion) {
        field_facts(s->o, f);
        diffusion_noise_facts(&t->d, f);
        diffusion_steps_facts(&t->d, f);
    }
    fact_real(f, "encode_ms", t->encode_ms, 1, "");
    fact_real(f, "decode_ms", t->decode_ms, 1, "");
}

/* ---- several ---- */

typedef struct sums {
    int count;
    double psnr, ssim, mse;
} sums;

static zn_status work(session *s, const job *item, json *j, char *summary, size_t size)
{
    trip t = { .kind = item->output ? item->kind : NULL };
    char *why = misplaced(s);
    if (why) {
        complain("%s: %s", item->input, why);
        free(why);
        return ZN_EINVALID;
    }
    zn_status status = travel(s, item->input, &t);
    if (status == ZN_OK && item->output)
        status = write_result(s->o, item->output, &t);
    if (status != ZN_OK) {
        complain_about(item->input);
    } else {
        facts f = { .json = 1, .out = *j };
        sums *all = s->own;
        all->count++;
        all->psnr += t.difference.psnr;
        all->ssim += t.difference.ssim;
        all->mse += mse(&t);
        if (s->o->json)
            figures(s, &t, &f);
        *j = f.out;
        snprintf(summary, size, "%dx%d  %.2f dB  SSIM %.5f  %.1f + %.1f ms", t.original->width, t.original->height,
                 t.difference.psnr, t.difference.ssim, t.encode_ms, t.decode_ms);
        if (s->o->show)
            show_image(s->o, t.picture);
    }
    clear(&t);
    return status;
}

static void add_sums(void *own, const void *other)
{
    sums *all = own;
    const sums *more = other;
    all->count += more->count;
    all->psnr += more->psnr;
    all->ssim += more->ssim;
    all->mse += more->mse;
}

static void end(const session *s, facts *f)
{
    const sums *all = s->own;
    if (all->count && f->json) {
        json_open(&f->out, "mean", '{');
        json_integer(&f->out, "images", all->count);
        json_real(&f->out, "psnr", all->psnr / all->count);
        json_real(&f->out, "ssim", all->ssim / all->count);
        json_real(&f->out, "mse", all->mse / all->count);
        json_close(&f->out, '}');
    } else if (all->count > 1) {
        say("mean of %d: %.2f dB  SSIM %.5f  MSE %.6f\n", all->count, all->psnr / all->count, all->ssim / all->count,
            all->mse / all->count);
    }
}

static int run_several(const options *o)
{
    sums all = { 0 };
    const batch b = {
        .rules = { "images", is_image_file, "png", zn_image_can_write, ".png, .jpg or .webp" },
        .verb = "reconstruct",
        .work = work,
        .end = end,
        .own = &all,
        .own_size = sizeof all,
        .add = add_sums,
        .needs = NEEDS,
    };
    job_list list;
    if (o->output)
        return batch_run(o, &b);
    if (o->compare && !o->show)
        return usage_error("reconstruct", "--compare needs -o or --show");
    jobs_expand(o, &b.rules, &list);
    return batch_run_jobs(o, &b, &list);
}

/* ---- one ---- */

static void report(const session *s, const trip *t)
{
    const options *o = s->o;
    facts f;
    facts_begin(&f, o->json);
    fact_model_name(&f, s->info);
    figures(s, t, &f);
    if (o->output)
        fact_text(&f, "output", o->output);
    else if (f.json)
        json_null(&f.out, "output");
    if (f.json)
        session_precision_facts(s, &f.out);
    facts_end(&f);
}

static int check_output(const options *o)
{
    if (!o->output)
        return o->compare && !o->show ? usage_error("reconstruct", "--compare needs -o or --show") : 0;
    if (!zn_image_can_write(o->output))
        return usage_error("reconstruct",
                           "cannot write '%s': its name must end in .png, .jpg or .webp, or in / for a folder",
                           o->output);
    if (same_file(o->output, o->files[0]))
        return usage_error("reconstruct", "the result would replace the input '%s'", o->files[0]);
    return lacks_folder(o->output);
}

static int run_one(const options *o)
{
    int status = check_output(o);
    if (status)
        return status;
    session s = { 0 };
    trip t = { .kind = o->output };
    status = session_open(&s, o, o->model, NEEDS);
    char *why = status ? NULL : misplaced(&s);
    if (why)
        status = usage_error("reconstruct", "%s", why);
    free(why);
    if (!status) {
        progress_begin(&s.bar, "reconstruct", 0, 1);
        if (travel(&s, o->files[0], &t) != ZN_OK || (o->output && write_result(o, o->output, &t) != ZN_OK)) {
            complain_about(o->files[0]);
            status = EXIT_FAILURE;
        }
    }
    if (!status) {
        report(&s, &t);
        if (o->show)
            show_image(o, t.picture);
    }
    clear(&t);
    session_close(&s);
    return status;
}

/* A single image runs on one rank. */
static int run_one_on(const options *o, zn_ranks *ranks) { return zn_ranks_rank(ranks) ? 0 : run_one(o); }

int reconstruct_run(const options *o)
{
    const int folder = o->output && (is_folder(o->output) || o->output[strlen(o->output) - 1] == '/');
    const int status = diffusion_check(o);
    if (status)
        return status;
    if (names_video(o))
        return image_option(o) ? usage_error("reconstruct", "%s is for images, not for a video", image_option(o))
                               : film_reconstruct(o);
    if (film_check_input(o))
        return EXIT_USAGE;
    if (o->precision == ZN_PRECISION_FP8)
        return usage_error("reconstruct", "fp8 is for videos, and '%s' is not one: use bf16", o->files[0]);
    return o->file_count > 1 || is_folder(o->files[0]) || folder ? run_several(o) : on_ranks(o, run_one_on);
}
