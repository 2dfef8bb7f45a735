/* Opens a model: finds the weights for a name, then opens a codec or a diffusion autoencoder. */
#include "session/session.h"

#include "commands.h"
#include "files/files.h"
#include "files/generator.h"
#include "options/compute.h"
#include "options/model_names.h"
#include "session/diffusion.h"
#include "session/film.h"
#include "ui/facts.h"
#include "ui/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char random_prefix[] = "random:";

/* After a failure to open weights that are there. */
static void complain_of_opening(const char *name)
{
    char *why = must_copy(zn_error_text());
    if (name && is_folder(name) && is_generator(name, 1))
        complain_of_generator(name);
    else
        complain("%s", why);
    free(why);
}

int model_open(const options *o, const char *name, zn_model **out)
{
    const size_t n = sizeof random_prefix - 1;
    if (name && !strncmp(name, random_prefix, n)) {
        const zn_status status = zn_model_random(name + n, o->seed, out);
        if (status == ZN_ENOTFOUND)
            complain_of_missing_architecture(name + n);
        else if (status != ZN_OK)
            complain_about(name);
        if (status != ZN_OK)
            return EXIT_FAILURE;
        note(o, "the weights of %s are random (seed %llu): the images will be noise", name + n,
             (unsigned long long)o->seed);
        return 0;
    }
    const int on_cpu = !o->device || !strcmp(o->device, "cpu");
    const zn_status status = on_cpu ? zn_model_find_released(name, out) : zn_model_find(name, out);
    if (status == ZN_OK)
        return 0;
    if (!name && status == ZN_ENOTFOUND)
        complain("%s; 'zenith help models' says where to get weights", zn_error_text());
    else if (!is_missing_model(name))
        complain_of_opening(name);
    return EXIT_FAILURE;
}

/* If the model cannot do what is needed, reports why and returns non-zero. */
static int lacks(const zn_model_info *m, unsigned needs)
{
    const int no_encoder = (needs & NEED_ENCODER) && !m->has_encoder;
    const unsigned both = NEED_ENCODER | NEED_DECODER, coding = needs & both;
    if (m->diffuses && !m->latent_channels && coding && coding != both) {
        complain("%s: the model %s has no encoder, so there are no conditions to encode or decode", m->path,
                 m->architecture);
        return 1;
    }
    if (m->diffuses && (needs & (NEED_DIFFUSION | TAKE_DIFFUSION)))
        return 0;
    if (m->judges)
        complain("%s: the model %s scores images: compare and eval use it", m->path, m->architecture);
    else if (needs & NEED_DIFFUSION)
        complain("%s: the model %s is not a diffusion autoencoder", m->path, m->architecture);
    else if ((needs & NEED_RESTORER) && !m->restores)
        complain("%s: the model %s is an autoencoder and does not restore images", m->path, m->architecture);
    else if (m->diffuses && (needs & (NEED_ENCODER | NEED_DECODER)))
        complain("%s: the model %s is a diffusion autoencoder, which takes images one by one: no videos, --clip or "
                 "--batch",
                 m->path, m->architecture);
    else if (m->restores && coding)
        complain("%s: the model %s restores images: restore, upscale and eval use it", m->path, m->architecture);
    else if (no_encoder || ((needs & NEED_DECODER) && !m->has_decoder))
        complain("%s: the model %s has no %s", m->path, m->architecture, no_encoder ? "encoder" : "decoder");
    else
        return 0;
    return 1;
}

/* A plan that needs at least this many times the operations gets a remark. */
static const double slow = 1.5;

/* Progress callback of the codec. At the first call the plan is known and the slow part has not started. */
static int tick(void *user, double fraction)
{
    session *s = user;
    const double times = s->codec ? zn_codec_overhead(s->codec) : 1;
    if (times >= slow && !s->told_slow) {
        s->told_slow = 1;
        progress_erase();
        note(s->o, "%s allows only small pieces of the image, which take %.1f times the arithmetic; more is faster",
             s->o->memory     ? "--memory"
             : s->o->tile > 0 ? "--tile"
                              : "the free memory",
             times);
    }
    return progress_tick(&s->bar, fraction);
}

static zn_status open_codec(session *s)
{
    zn_options compute = compute_options(s->o, &s->bar);
    compute.progress = tick;
    compute.user = s;
    if (s->info->clip_frames && compute.precision == ZN_PRECISION_FP8)
        compute.precision = ZN_PRECISION_BF16; /* clips have handles of their own; commands refuse images in fp8 */
    return zn_codec_new(s->model, &compute, &s->codec);
}

int session_open(session *s, const options *o, const char *name, unsigned needs)
{
    const progress bar = s->bar;
    session_close(s);
    *s = (session){ .o = o, .own = s->own, .bar = bar };
    s->bar.quiet = o->quiet;
    const int status = model_open(o, name, &s->model);
    if (status)
        return status;
    s->info = zn_model_info_of(s->model);
    if (lacks(s->info, needs))
        return EXIT_FAILURE;
    if (o->blend && (o->tile <= 0 || !s->info->clip_frames))
        return usage_error(o->command->name, "--blend needs --tile N and a video autoencoder, such as wan21-vae");
    if (o->memory && s->info->diffuses)
        return diffusion_refuse_memory(o);
    interrupt_catch();
    if (s->info->diffuses || names_video(o)) /* these take a minute and more */
        s->bar.line_ms = progress_line_ms();
    if (s->info->diffuses && diffusion_attach(s) != ZN_OK) {
        complain("%s", zn_error_text());
        return EXIT_FAILURE;
    }
    if (!s->info->diffuses && open_codec(s) != ZN_OK) {
        complain_about(s->info->path);
        return EXIT_FAILURE;
    }
    if (o->verbose)
        note(o, "model %s from %s", s->info->architecture, s->info->path);
    char *remark = needs & NEED_RESTORER ? training_remark(s->info, !strcmp(o->command->name, "upscale")) : NULL;
    if (remark)
        note(o, "%s", remark);
    free(remark);
    return 0;
}

void session_close(session *s)
{
    progress_erase();
    zn_codec_free(s->codec);
    diffusion_detach(s);
    zn_model_free(s->model);
    free(s->wrote);
    s->wrote = NULL;
    s->codec = NULL;
    s->model = NULL;
}

void print_plan(const options *o, const char *plan)
{
    while (*plan) {
        const int length = (int)strcspn(plan, "\n");
        note(o, "%.*s", length, plan);
        plan += length + (plan[length] == '\n');
    }
}

void session_ran_clip(session *s, const zn_video *v)
{
    s->ran_clip = 1;
    s->clip_share = zn_video_precision_share(v);
    s->clip_retains_16 = zn_video_retains_16(v);
}

static double precision_share(const session *s)
{
    if (s->ran_clip)
        return s->clip_share;
    return s->codec ? zn_codec_precision_share(s->codec) : diffusion_precision_share(s);
}

void session_precision_facts(const session *s, json *j)
{
    const double share = precision_share(s);
    if (!s->o->precision || isnan(share))
        return;
    facts f = { .json = 1, .out = *j };
    fact_precision(&f, zn_precision_name(s->o->precision), share);
    *j = f.out;
}

static void tell_precision(session *s)
{
    const int asked = s->o->precision;
    if (asked <= ZN_PRECISION_F32 || s->told_precision || precision_share(s) != 0)
        return;
    s->told_precision = 1;
    progress_erase();
    note(s->o, "computed in f32: this processor is not faster in %s%s", zn_precision_name(asked),
         s->ran_clip && s->clip_retains_16 ? "; the frames that layers retain are stored in 16 bits" : "");
}

void session_explain(session *s)
{
    tell_precision(s);
    if (s->o->verbose && s->codec)
        print_plan(s->o, zn_codec_plan(s->codec));
}
