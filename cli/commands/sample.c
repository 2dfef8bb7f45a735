/* zenith sample: generates new images with a diffusion autoencoder that has a latent net, or with a plain diffusion
 * model. Each image has its own seed, so it does not depend on the number of images. */
#include "commands.h"
#include "options/compute.h"
#include "session/diffusion.h"
#include "session/field.h"
#include "ui/report.h"

#include <math.h>
#include <stdlib.h>

enum { STEPS = 20, LATENT_STEPS = 200 }; /* the authors' values */
enum { GROUP = 16 }; /* conditions sampled together, because reading the weights takes most of the time */

typedef struct sampling {
    const options *o;
    int count, latent_steps;
    zn_image **drawn; /* with --nearest: all images, until their neighbours are known */
    zn_neighbour *found;
    int drawn_count;
} sampling;

static int groups(int count) { return (count + GROUP - 1) / GROUP; }

/* Makes up to GROUP images, starting with number `first`. */
static zn_status make_group(sampling *a, diffusion *d, int first, float *conds, float *noise, results *r,
                            int *exit_status)
{
    zn_diffae *net = diffusion_net(d->s);
    const int count = a->count - first < GROUP ? a->count - first : GROUP;
    const uint64_t seed = a->o->seed + (uint64_t)first;
    if (a->latent_steps)
        diffusion_stage(d, "imagine", a->latent_steps);
    zn_status status = zn_diffae_imagine(net, count, seed, a->latent_steps, conds);
    for (int i = 0; i < count && status == ZN_OK && !*exit_status; i++) {
        zn_image *picture = NULL;
        zn_diffae_noise(net, 1, seed + (uint64_t)i, noise);
        status = diffusion_render(d, conds + (size_t)i * (size_t)zn_diffae_width(net), noise, first + i, &picture);
        if (status == ZN_OK && a->drawn)
            a->drawn[a->drawn_count++] = picture;
        else if (status == ZN_OK)
            *exit_status = results_add(r, picture);
    }
    return status;
}

/* Adds every image and the most similar one of the data. */
static int add_pairs(sampling *a, diffusion *d, results *r)
{
    const zn_options compute = compute_options(a->o, NULL);
    const zn_nearest_options e = { .data = a->o->nearest,
                                   .compute = &compute,
                                   .skipped = progress_skipped,
                                   .progress = progress_tick,
                                   .user = &d->s->bar };
    zn_image **beside = must_alloc(NULL, (size_t)a->count * sizeof(zn_image *));
    int status = 0, i = 0;
    a->found = must_alloc(NULL, (size_t)a->count * sizeof *a->found);
    if (zn_nearest(&e, a->count, a->drawn, a->found, beside) != ZN_OK) {
        complain("%s", zn_error_text());
        status = EXIT_FAILURE;
    }
    for (; i < a->count && !status; i++) {
        status = results_add(r, a->drawn[i]);
        a->drawn[i] = NULL;
        if (status)
            break;
        status = results_add(r, beside[i]);
        beside[i] = NULL;
    }
    for (i = 0; i < a->count; i++)
        zn_image_free(beside[i]);
    free(beside);
    return status;
}

static int make(void *self, diffusion *d, results *r)
{
    sampling *a = self;
    const zn_diffae *net = diffusion_net(d->s);
    if (!zn_diffae_width(net)) /* a plain diffusion model has no conditions */
        a->latent_steps = 0;
    float *conds = must_alloc(NULL, GROUP * (size_t)zn_diffae_width(net) * sizeof *conds);
    float *noise = must_alloc(NULL, zn_diffae_noise_size(net, 1) * sizeof *noise);
    int status = 0;
    for (int first = 0; first < a->count && !status; first += GROUP)
        if (make_group(a, d, first, conds, noise, r, &status) != ZN_OK) {
            complain_about(d->s->info->path);
            status = EXIT_FAILURE;
        }
    if (a->drawn && !status)
        status = add_pairs(a, d, r);
    free(conds);
    free(noise);
    return status;
}

static void report_nearest(const sampling *a, facts *f)
{
    if (f->json)
        json_open(&f->out, "nearest", '[');
    for (int i = 0; i < a->count; i++) {
        if (!f->json) {
            say("%-15s %8.3f  %s\n", i ? "" : "nearest", a->found[i].distance, a->found[i].name);
            continue;
        }
        json_open(&f->out, NULL, '{');
        json_text(&f->out, "image", a->found[i].name);
        json_real(&f->out, "distance", a->found[i].distance);
        json_close(&f->out, '}');
    }
    if (f->json)
        json_close(&f->out, ']');
}

static void report(const void *self, facts *f)
{
    const sampling *a = self;
    fact_unsigned(f, "seed", a->o->seed);
    if (a->latent_steps)
        fact_integer(f, "latent_steps", a->latent_steps);
    if (a->found)
        report_nearest(a, f);
}

int sample_run(const options *o)
{
    if (o->points)
        return field_sample_points(o);
    sampling a = { .o = o,
                   .count = o->count ? o->count : 1,
                   .latent_steps = o->latent_steps ? (int)o->latent_steps : LATENT_STEPS };
    const int beside = o->nearest ? 2 : 1;
    const diffusion_command c = { .expected = beside * a.count,
                                  .columns = beside * (int)ceil(sqrt(a.count)),
                                  .steps = STEPS,
                                  .more = groups(a.count) * a.latent_steps,
                                  .needs = ZN_LATENT_NET,
                                  .make = make,
                                  .report = report,
                                  .self = &a };
    if (o->nearest)
        a.drawn = must_alloc(NULL, (size_t)a.count * sizeof *a.drawn);
    const int status = diffusion_run(o, &c);
    for (int i = 0; i < a.drawn_count; i++)
        zn_image_free(a.drawn[i]);
    free(a.drawn);
    free(a.found);
    return status;
}
