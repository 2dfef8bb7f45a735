/* zenith sample: generates new images with a diffusion autoencoder that has a latent net. Each image has its own seed,
 * so it does not depend on the number of images. */
#include "commands.h"
#include "commands/diffusion.h"
#include "ui/report.h"

#include <math.h>
#include <stdlib.h>

enum { STEPS = 20, LATENT_STEPS = 200 }; /* the authors' values */
enum { GROUP = 16 }; /* conditions sampled together, because reading the weights takes most of the time */

typedef struct sampling {
    const options *o;
    int count, latent_steps;
} sampling;

static int groups(int count) { return (count + GROUP - 1) / GROUP; }

/* Makes up to GROUP images, starting with number `first`. */
static zn_status make_group(const sampling *a, diffusion *d, int first, float *conds, float *noise, results *r,
                            int *exit_status)
{
    zn_diffae *net = diffusion_net(d->s);
    const int count = a->count - first < GROUP ? a->count - first : GROUP;
    const uint64_t seed = a->o->seed + (uint64_t)first;
    diffusion_stage(d, "imagine", a->latent_steps);
    zn_status status = zn_diffae_imagine(net, count, seed, a->latent_steps, conds);
    for (int i = 0; i < count && status == ZN_OK && !*exit_status; i++) {
        zn_image *picture = NULL;
        zn_diffae_noise(net, 1, seed + (uint64_t)i, noise);
        status = diffusion_render(d, conds + (size_t)i * (size_t)zn_diffae_width(net), noise, &picture);
        if (status == ZN_OK)
            *exit_status = results_add(r, picture);
    }
    return status;
}

static int make(void *self, diffusion *d, results *r)
{
    const sampling *a = self;
    const zn_diffae *net = diffusion_net(d->s);
    float *conds = must_alloc(NULL, GROUP * (size_t)zn_diffae_width(net) * sizeof *conds);
    float *noise = must_alloc(NULL, zn_diffae_noise_size(net, 1) * sizeof *noise);
    int status = 0;
    for (int first = 0; first < a->count && !status; first += GROUP)
        if (make_group(a, d, first, conds, noise, r, &status) != ZN_OK) {
            complain_about(d->s->info->path);
            status = EXIT_FAILURE;
        }
    free(conds);
    free(noise);
    return status;
}

static void report(const void *self, facts *f)
{
    const sampling *a = self;
    fact_integer(f, "seed", (int64_t)a->o->seed);
    fact_integer(f, "latent_steps", a->latent_steps);
}

int sample_run(const options *o)
{
    sampling a = { .o = o,
                   .count = o->count ? o->count : 1,
                   .latent_steps = o->latent_steps ? (int)o->latent_steps : LATENT_STEPS };
    const diffusion_command c = { .expected = a.count,
                                  .columns = (int)ceil(sqrt(a.count)),
                                  .steps = STEPS,
                                  .more = groups(a.count) * a.latent_steps,
                                  .needs = ZN_LATENT_NET,
                                  .make = make,
                                  .report = report,
                                  .self = &a };
    return diffusion_run(o, &c);
}
