/* Diffusion autoencoders over points: encode from some of the pixels, decode at any resolution or at scattered points.
 */
#include "session/field.h"

#include "files/files.h"
#include "ui/report.h"

#include <stdlib.h>

enum { STEPS = 20, LATENT_STEPS = 200 };

zn_status field_encode(session *s, const zn_image *picture, float *cond)
{
    zn_diffae *net = diffusion_net(s);
    const options *o = s->o;
    return o->share > 0 ? zn_field_encode_some(net, picture, o->share, o->seed, cond)
                        : zn_diffae_encode(net, picture, cond);
}

zn_status field_render(diffusion *d, const float *cond, zn_image **out)
{
    const options *o = d->s->o;
    diffusion_stage(d, "render", d->steps);
    return zn_field_render(diffusion_net(d->s), cond, o->scale ? o->scale : 1, o->seed, d->steps, out);
}

void field_facts(const options *o, facts *f)
{
    if (o->share > 0)
        fact_real(f, "keep", o->share, 4, "");
    if (o->scale)
        fact_integer(f, "scale", o->scale);
}

static zn_status draw_points(session *s, float *cond, float *points, float *colours)
{
    zn_diffae *net = diffusion_net(s);
    const options *o = s->o;
    const int steps = o->steps ? (int)o->steps : STEPS,
              latent_steps = o->latent_steps ? (int)o->latent_steps : LATENT_STEPS;
    zn_field_scatter(o->seed, o->points, points);
    progress_begin(&s->bar, "imagine", 0, 0.5);
    zn_status status = zn_diffae_imagine(net, 1, o->seed, latent_steps, cond);
    progress_begin(&s->bar, "render", 0.5, 0.5);
    if (status == ZN_OK)
        status = zn_field_colours_at(net, cond, points, o->points, o->seed, steps, colours);
    progress_erase();
    return status == ZN_OK ? zn_field_write(o->output, o->points, points, colours) : status;
}

static void report(const session *s, double ms)
{
    facts f;
    facts_begin(&f, s->o->json);
    fact_model_name(&f, s->info);
    fact_integer(&f, "points", s->o->points);
    fact_unsigned(&f, "seed", s->o->seed);
    fact_text(&f, "output", s->o->output);
    fact_real(&f, "ms", ms, 1, "");
    facts_end(&f);
}

int field_sample_points(const options *o)
{
    session s = { 0 };
    const double start = now_ms();
    if (!o->output || !has_extension(o->output, "csv"))
        return usage_error("sample", "--points writes a table: give it a name that ends in .csv with -o");
    if (o->count > 1)
        return usage_error("sample", "--points is for one image, not for --count");
    if (o->nearest)
        return usage_error("sample", "--nearest is for images, not for --points");
    int status = diffusion_check(o);
    if (!status)
        status = lacks_folder(o->output);
    if (!status)
        status = diffusion_open(&s, o, ZN_LATENT_NET);
    if (!status) {
        const size_t width = (size_t)zn_diffae_width(diffusion_net(&s)), count = (size_t)o->points;
        float *numbers = must_alloc(NULL, (width + 5 * count) * sizeof *numbers);
        if (draw_points(&s, numbers, numbers + width, numbers + width + 2 * count) == ZN_OK) {
            if (o->json || !o->quiet)
                report(&s, now_ms() - start);
        } else {
            complain_about(s.info->path);
            status = EXIT_FAILURE;
        }
        free(numbers);
    }
    session_close(&s);
    return status;
}
