/* Shared by the commands for diffusion autoencoders. */
#include "session/diffusion.h"

#include "commands.h"
#include "files/files.h"
#include "options/compute.h"
#include "options/model_names.h"
#include "ui/report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ENCODE_STEPS = 250, DECODE_STEPS = 20 }; /* the authors' values */

/* Adds a file or folder with more parts of the model. */
static zn_status extend(session *s, const char *path) { return path ? zn_model_extend(s->model, path) : ZN_OK; }

zn_status diffusion_attach(session *s)
{
    const options *o = s->o;
    const zn_options compute = compute_options(o, &s->bar);
    zn_status status = extend(s, o->latent);
    if (status == ZN_OK)
        status = extend(s, o->classifier);
    zn_diffae *net = NULL;
    if (status == ZN_OK)
        status = zn_diffae_new(s->model, &compute, &net);
    s->diffusion = net;
    return status;
}

void diffusion_detach(session *s)
{
    zn_diffae_free(s->diffusion);
    s->diffusion = NULL;
}

double diffusion_precision_share(const session *s)
{
    return s->diffusion ? zn_diffae_precision_share(s->diffusion) : NAN;
}

/* DDPM takes any number in the range, DDIM only those that space its steps evenly. */
static int check_ddpm(const options *o)
{
    enum { LEAST = 2, MOST = 1000 };
    if (!o->steps || (o->steps >= LEAST && o->steps <= MOST))
        return 0;
    return usage_error(o->command->name, "--steps: %lld steps are too %s: at %s %d", (long long)o->steps,
                       o->steps < LEAST ? "few" : "many", o->steps < LEAST ? "least" : "most",
                       o->steps < LEAST ? LEAST : MOST);
}

static int check(const options *o, const char *name, int64_t steps)
{
    const int count = steps > INT32_MAX ? INT32_MAX : (int)steps;
    if (!steps || zn_diffae_check_steps(count) == ZN_OK)
        return 0;
    return usage_error(o->command->name, "--%s: %s", name, zn_error_text());
}

int diffusion_check(const options *o)
{
    if (o->ddpm && o->eta)
        return usage_error(o->command->name, "--eta is for DDIM, and --ddpm asks for another sampler");
    const int status = o->ddpm ? check_ddpm(o) : check(o, "steps", o->steps);
    if (status)
        return status;
    const int encoding = check(o, "encode-steps", o->encode_steps);
    return encoding ? encoding : check(o, "latent-steps", o->latent_steps);
}

const char *diffusion_option(const options *o)
{
    const struct {
        int given;
        const char *name;
    } all[] = {
        { o->steps > 0, "--steps" },
        { o->encode_steps > 0, "--encode-steps" },
        { o->latent_steps > 0, "--latent-steps" },
        { o->random_noise, "--random-noise" },
        { o->ddpm, "--ddpm" },
        { o->eta != NULL, "--eta" },
        { o->most > 0, "--most" },
        { o->labels != NULL, "--labels" },
        { o->edits > 0, "--edits" },
        { o->attribute != NULL, "--attribute" },
        { o->amount != NULL, "--amount" },
        { o->count > 0, "--count" },
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].given)
            return all[i].name;
    return NULL;
}

int diffusion_refuse_memory(const options *o)
{
    return usage_error(o->command->name,
                       "--memory is not available for diffusion autoencoders, whose images have one size and are "
                       "computed whole");
}

diffusion diffusion_begin(session *s, int steps, int inversions, int renders, int more)
{
    const options *o = s->o;
    diffusion d = { .s = s,
                    .steps = o->steps ? (int)o->steps : steps,
                    .encode_steps = o->random_noise || !zn_diffae_inverts(diffusion_net(s)) ? 0
                                    : o->encode_steps                                       ? (int)o->encode_steps
                                                                                            : ENCODE_STEPS,
                    .base = s->bar.base,
                    .scale = s->bar.scale };
    d.all = (double)inversions * d.encode_steps + (double)renders * d.steps + more;
    return d;
}

void diffusion_stage(diffusion *d, const char *label, int steps)
{
    progress_begin(&d->s->bar, label, d->base + d->scale * d->begun / d->all, d->scale * steps / d->all);
    d->begun += steps;
}

void parts_alloc(const zn_diffae *d, parts *out)
{
    *out = (parts){ .cond = must_alloc(NULL, (size_t)zn_diffae_width(d) * sizeof *out->cond),
                    .noise = must_alloc(NULL, zn_diffae_noise_size(d, 1) * sizeof *out->noise) };
}

void parts_free(parts *p)
{
    zn_image_free(p->picture);
    free(p->cond);
    free(p->noise);
    *p = (parts){ 0 };
}

void diffusion_remark_size(const session *s, const char *path, const zn_image *photo)
{
    const int side = s->info->image_size;
    if (photo->width != side || photo->height != side)
        note(s->o, "%s: the model takes %dx%d: using the centre of %dx%d, scaled", path, side, side, photo->width,
             photo->height);
}

zn_status diffusion_fit(const session *s, const char *path, zn_image **out)
{
    const options *o = s->o;
    const zn_image_read_options reading = { .background = { o->background[0], o->background[1], o->background[2] } };
    zn_image *photo = NULL;
    zn_status status = read_image(o, path, &reading, &photo);
    if (status == ZN_OK) {
        diffusion_remark_size(s, path, photo);
        status = zn_diffae_fit(diffusion_net(s), photo, out);
    }
    zn_image_free(photo);
    return status;
}

zn_status diffusion_read(session *s, const char *path, parts *out)
{
    parts_alloc(diffusion_net(s), out);
    const zn_status status = diffusion_fit(s, path, &out->picture);
    return status == ZN_OK ? zn_diffae_encode(diffusion_net(s), out->picture, out->cond) : status;
}

zn_status diffusion_take(diffusion *d, const char *path, parts *out)
{
    zn_diffae *net = diffusion_net(d->s);
    char *label = must_print("encode %s", path);
    diffusion_stage(d, label, d->encode_steps);
    free(label);
    const zn_status status = diffusion_read(d->s, path, out);
    if (status == ZN_OK && d->encode_steps)
        return zn_diffae_invert(net, out->picture, out->cond, d->encode_steps, out->noise);
    if (status == ZN_OK)
        zn_diffae_noise(net, 1, d->s->o->seed, out->noise);
    return status;
}

zn_status diffusion_encode(const session *s, const zn_image *photo, zn_latent **out)
{
    zn_diffae *net = diffusion_net(s);
    zn_image *picture = NULL;
    zn_status status = zn_diffae_fit(net, photo, &picture);
    if (status == ZN_OK)
        status = zn_latent_new(1, 1, zn_diffae_width(net), out);
    if (status == ZN_OK) {
        (*out)->image_width = (*out)->image_height = (*out)->downscale = s->info->image_size;
        (*out)->grey = photo->grey;
        snprintf((*out)->model, sizeof(*out)->model, "%s", s->info->architecture);
        status = zn_diffae_encode(net, picture, (*out)->data);
    }
    zn_image_free(picture);
    return status;
}

zn_status diffusion_decode(const session *s, const zn_latent *latent, zn_image **out)
{
    zn_diffae *net = diffusion_net(s);
    float *noise = must_alloc(NULL, zn_diffae_noise_size(net, 1) * sizeof *noise);
    zn_diffae_noise(net, 1, s->o->seed, noise);
    const zn_status status = zn_diffae_render(net, 1, latent->data, noise, DECODE_STEPS, out);
    if (status == ZN_OK && latent->grey)
        zn_image_make_grey(*out);
    free(noise);
    return status;
}

static void sampler_facts(const options *o, facts *f)
{
    if (o->ddpm)
        fact_text(f, "sampler", "ddpm");
    if (o->eta)
        fact_real(f, "eta", strtod(o->eta, NULL), 3, "");
}

void diffusion_noise_facts(const diffusion *d, facts *f)
{
    const int direct = zn_diffae_is_direct(diffusion_net(d->s));
    if (!direct)
        fact_text(f, "noise", d->encode_steps ? "inverted" : "random");
    if (d->encode_steps)
        fact_integer(f, "encode_steps", d->encode_steps);
    else if (!direct || d->s->o->share > 0) /* --keep draws pixels by the seed */
        fact_unsigned(f, "seed", d->s->o->seed);
}

void diffusion_steps_facts(const diffusion *d, facts *f)
{
    if (zn_diffae_is_direct(diffusion_net(d->s)))
        return;
    fact_integer(f, "steps", d->steps);
    sampler_facts(d->s->o, f);
}

zn_status diffusion_render(diffusion *d, const float *cond, const float *noise, int number, zn_image **out)
{
    const options *o = d->s->o;
    const zn_diffae_sampling how = {
        .steps = d->steps, .ddpm = o->ddpm, .eta = o->eta ? strtod(o->eta, NULL) : 0, .seed = o->seed + (uint64_t)number
    };
    diffusion_stage(d, "render", d->steps);
    return zn_diffae_render_by(diffusion_net(d->s), &how, 1, cond, noise, out);
}

static int complain_missing(const session *s, const char *what, const char *name, const char *given)
{
    if (given)
        complain("%s has no %s", given, what);
    else
        complain("%s has no %s: give its weights with --%s", s->info->path, what, name);
    return EXIT_FAILURE;
}

/* DIFFUSION_MODEL, or NULL if it is not found. */
static const char *default_model(void)
{
    zn_model *found = NULL;
    const int is_found = zn_model_find(DIFFUSION_MODEL, &found) == ZN_OK;
    zn_model_free(found);
    return is_found ? DIFFUSION_MODEL : NULL;
}

int diffusion_open(session *s, const options *o, zn_part needs)
{
    const char *name = o->model ? o->model : default_model();
    if (!name)
        return usage_error(o->command->name, "--model is needed: a diffusion autoencoder");
    const int status = session_open(s, o, name, NEED_DIFFUSION);
    if (status)
        return status;
    /* a plain diffusion model draws images without conditions */
    if (needs == ZN_LATENT_NET && !s->info->has_latent_net && zn_diffae_width(diffusion_net(s)))
        return complain_missing(s, "latent net", "latent", o->latent);
    if (needs == ZN_CLASSIFIER && !s->info->has_classifier)
        return complain_missing(s, "classifier", "classifier", o->classifier);
    return 0;
}

static void report(const diffusion_command *c, const diffusion *d, const results *r, double ms)
{
    const session *s = d->s;
    facts f;
    facts_begin(&f, s->o->json);
    fact_model_name(&f, s->info);
    c->report(c->self, &f);
    if (c->inversions)
        diffusion_noise_facts(d, &f);
    diffusion_steps_facts(d, &f);
    results_facts(r, &f);
    fact_real(&f, "ms", ms, 1, "");
    if (f.json)
        session_precision_facts(s, &f.out);
    facts_end(&f);
}

static int run(session *s, const diffusion_command *c, results *r)
{
    const double start = now_ms();
    progress_begin(&s->bar, s->o->command->name, 0, 1);
    diffusion d = diffusion_begin(s, c->steps, c->inversions, c->expected, c->more);
    int status = c->make(c->self, &d, r);
    if (!status)
        status = results_write(r);
    if (!status)
        session_explain(s);
    if (!status && !results_to_standard_output(r) && (s->o->json || !s->o->quiet))
        report(c, &d, r, now_ms() - start);
    return status;
}

int diffusion_run(const options *o, const diffusion_command *c)
{
    session s = { 0 };
    results r = { 0 };
    int status = diffusion_check(o);
    if (!status)
        status = results_begin(&r, o, c->expected, c->columns, c->kinds);
    if (!status)
        status = diffusion_open(&s, o, c->needs);
    if (!status)
        status = results_check_size(&r, s.info->image_size, s.info->image_size);
    if (!status)
        status = run(&s, c, &r);
    session_close(&s);
    results_end(&r);
    return status;
}
