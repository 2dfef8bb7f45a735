/* Diffusion autoencoders: noise to pictures, pictures to noise, and conditions out of nothing but noise. */
#include "pipeline/diffae/diffae.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/rng.h"
#include "diffusion/sampler.h"
#include "io/image/pixels/pixels.h"
#include "train/data/pictures.h"

#include <stdio.h>
#include <string.h>

typedef struct walk {
    zn_diffae *d;
    zn_diffae_kept *k;
    bool velocity; /* what the network predicts */
    uint64_t seed; /* of what is added on the way */
} walk;

/* `count` rows, each of a seed of its own. */
static void fill_normal(uint64_t seed, const char *what, int count, size_t width, float *x)
{
    for (int row = 0; row < count; row++) {
        zn_rng rng = zn_rng_new(zn_seed_for(seed + (uint64_t)row, what));
        for (size_t i = 0; i < width; i++)
            *x++ = zn_rng_normal(&rng);
    }
}

static void add_noise(void *self, int index, float *out)
{
    const walk *w = self;
    char what[32];
    snprintf(what, sizeof what, "step %d", index);
    fill_normal(w->seed, what, (int)w->k->n, zn_diffae_noise_size(w->d, 1), out);
}

static zn_status predict(void *self, const float *x, int step, float *noise)
{
    const walk *w = self;
    const zn_network *n = &w->k->network;
    const int width = zn_channels(n->input[1]);
    memcpy(n->input[0]->data, x, sizeof *x * (size_t)zn_shape_count(n->input[0]->shape));
    for (int64_t i = 0; i < w->k->n; i++)
        zn_time_embedding(step, width, n->input[1]->data + i * width);
    ZN_TRY(zn_exec_run(w->k->exec));
    ZN_TRY(zn_exec_check_finite(w->k->exec));
    memcpy(noise, n->output->data, sizeof *noise * (size_t)zn_shape_count(n->output->shape));
    return ZN_OK;
}

static zn_status report(void *self, int done, int of, const float *x)
{
    (void)x;
    const zn_options *o = &((walk *)self)->d->compute.options;
    if (o->progress && o->progress(o->user, done / (double)of))
        return ZN_FAIL(ZN_ECANCELLED, "cancelled");
    return ZN_OK;
}

typedef zn_status (*sampler_fn)(const zn_sampling *, float *);

static zn_status go(walk *w, sampler_fn sampler, const char *betas, const zn_diffae_sampling *how, bool clamp, float *x)
{
    zn_diffusion *schedule;
    ZN_TRY(zn_diffusion_new(betas, how->ddpm ? ZN_SPACING_DDPM : ZN_SPACING_DDIM, how->steps, &schedule));
    const zn_sampling s = { .schedule = schedule,
                            .count = zn_shape_count(w->k->network.input[0]->shape),
                            .clamp = clamp,
                            .velocity = w->velocity,
                            .eta = (float)how->eta,
                            .predict = predict,
                            .noise = add_noise,
                            .done = report,
                            .self = w };
    w->seed = how->seed;
    const zn_status status = sampler(&s, x);
    zn_diffusion_free(schedule);
    return status;
}

zn_status zn_diffae_check_steps(int steps)
{
    zn_diffusion *schedule;
    ZN_TRY(zn_diffusion_new("linear", ZN_SPACING_DDIM, steps, &schedule));
    zn_diffusion_free(schedule);
    return ZN_OK;
}

/* From noise to pictures or back, in place. */
static zn_status travel(zn_diffae *d, int count, const float *cond, const zn_diffae_sampling *how, sampler_fn sampler,
                        float *x)
{
    walk w = { .d = d, .velocity = d->model->arch->tells_velocity(&d->model->config) };
    ZN_TRY(zn_diffae_network(d, ZN_DECODER, count, &w.k));
    if (zn_diffae_width(d))
        memcpy(w.k->network.input[2]->data, cond, sizeof *cond * (size_t)(count * zn_diffae_width(d)));
    return go(&w, sampler, "linear", how, true, x);
}

zn_status zn_diffae_invert(zn_diffae *d, const zn_image *picture, const float *cond, int steps, float *noise)
{
    ZN_TRY(zn_diffae_check_picture(d, picture));
    if (!zn_diffae_inverts(d)) { /* any noise serves */
        zn_diffae_noise(d, 1, 0, noise);
        return ZN_OK;
    }
    zn_picture_signed(picture, noise);
    pthread_mutex_lock(&d->lock);
    const zn_status status = travel(d, 1, cond, &(zn_diffae_sampling){ .steps = steps }, zn_ddim_invert, noise);
    pthread_mutex_unlock(&d->lock);
    return status;
}

/* [-1,1] to [0,1]. */
static void to_unit(float *x, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        x[i] = 0.5f * (x[i] + 1);
}

static zn_status pictures_of(const zn_diffae *d, int count, float *x, zn_image **out)
{
    const int side = zn_diffae_side(d);
    const int64_t size = (int64_t)zn_diffae_noise_size(d, 1);
    to_unit(x, count * size);
    for (int i = 0; i < count; i++) {
        const zn_status status = zn_image_new(side, side, 8, &out[i]);
        if (status != ZN_OK) {
            while (i-- > 0) {
                zn_image_free(out[i]);
                out[i] = NULL;
            }
            return status;
        }
        zn_pixels_from_float(x + i * size, (size_t)side * ZN_DIFFAE_CHANNELS, out[i], (zn_region){ 0, 0, side, side });
    }
    return ZN_OK;
}

zn_status zn_diffae_render_by(zn_diffae *d, const zn_diffae_sampling *how, int count, const float *cond,
                              const float *noise, zn_image **out)
{
    float *x;
    const size_t bytes = sizeof *x * zn_diffae_noise_size(d, count);
    for (int i = 0; i < count; i++)
        out[i] = NULL;
    if (count < 1)
        return ZN_FAIL(ZN_EINVALID, "%d images cannot be rendered", count);
    if (!(how->eta >= 0 && how->eta <= 1))
        return ZN_FAIL(ZN_EINVALID, "eta must be from 0 to 1, not %g", how->eta);
    if (!zn_diffae_inverts(d))
        return zn_field_render_each(d, count, cond, noise, how->steps, out);
    ZN_TRY(zn_alloc_for("pictures", bytes, (void **)&x));
    memcpy(x, noise, bytes);
    pthread_mutex_lock(&d->lock);
    zn_status status = travel(d, count, cond, how, how->ddpm ? zn_ddpm : zn_ddim, x);
    pthread_mutex_unlock(&d->lock);
    if (status == ZN_OK)
        status = pictures_of(d, count, x, out);
    zn_free(x);
    return status;
}

zn_status zn_diffae_render(zn_diffae *d, int count, const float *cond, const float *noise, int steps, zn_image **out)
{
    return zn_diffae_render_by(d, &(zn_diffae_sampling){ .steps = steps }, count, cond, noise, out);
}

void zn_diffae_noise(const zn_diffae *d, int count, uint64_t seed, float *noise)
{
    fill_normal(seed, "noise", count, zn_diffae_noise_size(d, 1), noise);
}

zn_status zn_diffae_imagine(zn_diffae *d, int count, uint64_t seed, int steps, float *cond)
{
    const int width = zn_diffae_width(d);
    const float *mean = zn_diffae_statistic(d, "conds_mean"), *deviation = zn_diffae_statistic(d, "conds_std");
    walk w = { .d = d };
    if (count < 1)
        return ZN_FAIL(ZN_EINVALID, "%d conditions cannot be made", count);
    if (!width)
        return ZN_OK;
    fill_normal(seed, "conditions", count, (size_t)width, cond);
    pthread_mutex_lock(&d->lock);
    zn_status status = zn_diffae_network(d, ZN_LATENT_NET, count, &w.k);
    if (status == ZN_OK)
        status = go(&w, zn_ddim, "const0.008", &(zn_diffae_sampling){ .steps = steps }, false, cond);
    pthread_mutex_unlock(&d->lock);
    for (int64_t i = 0; status == ZN_OK && i < (int64_t)count * width; i++)
        cond[i] = cond[i] * deviation[i % width] + mean[i % width];
    return status;
}
