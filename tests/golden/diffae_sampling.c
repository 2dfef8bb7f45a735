/* DiffAE's samplers: DDIM with and without clamping, its inversion and the way back, DDPM (specification A9). */
#include "diffae_nets.h"

#include "base/alloc.h"
#include "base/fail.h"

#include <string.h>

/* Noise for each step, in the order of the steps, as [steps,N,C,H,W] in the file. */
static zn_status load_noise(const golden *g, zn_shape shape, float **out)
{
    const zn_weight *w = golden_find(g, "in.", "ddpm_noise");
    const int64_t pixels = shape.dim[1] * shape.dim[2], c = shape.dim[3], maps = w->shape[0] * shape.dim[0];
    const float *from = w->data;
    ZN_TRY(zn_alloc_for("noise", sizeof(float) * (size_t)(maps * pixels * c), (void **)out));
    for (int64_t m = 0; m < maps; m++)
        for (int64_t k = 0; k < c; k++)
            for (int64_t p = 0; p < pixels; p++)
                memcpy(*out + (m * pixels + p) * c + k, from + (m * c + k) * pixels + p, sizeof(float));
    return ZN_OK;
}

/* One walk from a copy of `start`. */
typedef struct trip {
    sampler_fn sampler;
    zn_spacing spacing;
    int steps;
    bool clamp;
    const char *begin, *last; /* names of the results, or NULL */
    bool goes_on;             /* from where the one before ended */
} trip;

/* x: room for two. */
static zn_status travel(walk *w, const trip *t, const char *betas, const float *start, float *x)
{
    zn_diffusion *schedule;
    ZN_TRY(zn_diffusion_new(betas, t->spacing, t->steps, &schedule));
    const int64_t count = zn_shape_count(w->shape);
    for (int i = 0; i < 2 && !t->goes_on; i++)
        memcpy(x + i * count, start, sizeof(float) * (size_t)count);
    w->begin = t->begin;
    w->last = t->last;
    const zn_status status = walk_run(w, t->sampler, schedule, t->clamp, x, x + count);
    zn_diffusion_free(schedule);
    return status;
}

zn_status diffae_check_sampling(golden *g, const float *start, zn_shape shape, const float *cond)
{
    static const trip from_noise[] = {
        { zn_ddim, ZN_SPACING_DDIM, 5, true, "ddim5.clip", NULL, false },
        { zn_ddim, ZN_SPACING_DDIM, 5, false, NULL, "ddim5.noclip.final", false },
        { zn_ddim, ZN_SPACING_DDIM, 10, true, NULL, "ddim10.final", false },
        { zn_ddpm, ZN_SPACING_DDPM, 5, true, NULL, "ddpm5.final", false },
    };
    static const trip from_image[] = {
        { zn_ddim_invert, ZN_SPACING_DDIM, 5, true, "invert5", NULL, false },
        { zn_ddim, ZN_SPACING_DDIM, 5, true, NULL, "invert5.roundtrip", true },
    };
    network n = { 0 };
    const char *betas = zn_json_string(zn_json_get(g->config, "beta_schedule"));
    float *x = NULL, *image = NULL, *noise = NULL;
    zn_status status;
    if (!golden_has(g, "out.", "ddim10.final"))
        return ZN_OK;
    ZN_TRY_DONE(diffae_unet_new(g, shape, false, &n));
    memcpy(n.cond->data, cond, sizeof(float) * (size_t)zn_shape_count(n.cond->shape));
    ZN_TRY_DONE(zn_alloc_for("a sample", 2 * sizeof(float) * (size_t)zn_shape_count(shape), (void **)&x));
    ZN_TRY_DONE(golden_load(g, "in.", "image", &shape, &image));
    ZN_TRY_DONE(load_noise(g, shape, &noise));
    walk w = { .n = &n, .shape = shape, .noise = noise };
    for (size_t i = 0; i < sizeof from_noise / sizeof *from_noise; i++)
        ZN_TRY_DONE(travel(&w, &from_noise[i], betas, start, x));
    for (size_t i = 0; i < sizeof from_image / sizeof *from_image; i++)
        ZN_TRY_DONE(travel(&w, &from_image[i], betas, image, x));
done:
    zn_free(x);
    zn_free(image);
    zn_free(noise);
    network_free(&n);
    return status;
}
