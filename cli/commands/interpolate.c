/* zenith interpolate: interpolates between two images with a diffusion autoencoder. */
#include "commands.h"
#include "session/diffusion.h"
#include "ui/report.h"

#include <stdlib.h>

enum { STEPS = 20, FRAMES = 10 };

typedef struct journey {
    const options *o;
    int frames;
    parts end[2], now;
} journey;

static int make(void *self, diffusion *d, results *r)
{
    journey *j = self;
    const zn_diffae *net = diffusion_net(d->s);
    int status = 0;
    for (int i = 0; i < 2; i++)
        if (diffusion_take(d, j->o->files[i], &j->end[i]) != ZN_OK) {
            complain_about(j->o->files[i]);
            return EXIT_FAILURE;
        }
    parts_alloc(net, &j->now);
    for (int i = 0; i < j->frames && !status; i++) {
        zn_image *picture = NULL;
        zn_diffae_between(net, j->end[0].cond, j->end[0].noise, j->end[1].cond, j->end[1].noise,
                          i / (double)(j->frames - 1), j->now.cond, j->now.noise);
        if (diffusion_render(d, j->now.cond, j->now.noise, 0, &picture) == ZN_OK) {
            if (j->end[0].picture->grey && j->end[1].picture->grey)
                zn_image_make_grey(picture);
            status = results_add(r, picture);
        } else {
            complain_about(d->s->info->path);
            status = EXIT_FAILURE;
        }
    }
    return status;
}

static void report(const void *self, facts *f)
{
    const journey *j = self;
    fact_text(f, "from", j->o->files[0]);
    fact_text(f, "to", j->o->files[1]);
}

int interpolate_run(const options *o)
{
    journey j = { .o = o, .frames = o->frames ? o->frames : FRAMES };
    const diffusion_command c = { .expected = j.frames,
                                  .kinds = RESULTS_VIDEO,
                                  .steps = STEPS,
                                  .inversions = 2,
                                  .make = make,
                                  .report = report,
                                  .self = &j };
    const int status = diffusion_run(o, &c);
    parts_free(&j.end[0]);
    parts_free(&j.end[1]);
    parts_free(&j.now);
    return status;
}
