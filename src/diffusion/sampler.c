/* DDIM there and back, and DDPM. */
#include "diffusion/sampler.h"

#include "base/alloc.h"

#include <math.h>

/* Of one step: image = a x - b noise; to what the step leads: image and noise times these, and fresh noise. */
typedef struct stride {
    float a, b;
    float image, noise, fresh;
} stride;

/* eps becomes what is left of x when the (clamped) image is taken out. */
static void step_ddim(const zn_sampling *s, const stride *k, const float *fresh, float *x, float *eps)
{
    for (int64_t i = 0; i < s->count; i++) {
        float image = k->a * x[i] - k->b * eps[i];
        if (s->clamp)
            image = fminf(fmaxf(image, -1), 1);
        const float noise = (k->a * x[i] - image) / k->b;
        x[i] = k->image * image + k->noise * noise + (fresh ? k->fresh * fresh[i] : 0);
    }
}

static stride stride_of(const zn_diffusion *t, int i)
{
    return (stride){ .a = (float)sqrt(1 / t->kept[i]), .b = (float)sqrt(1 / t->kept[i] - 1) };
}

/* The noise that a velocity amounts to, in its place. */
static void noise_of_velocity(const zn_sampling *s, int i, const float *x, float *velocity)
{
    const float rest = (float)sqrt(1 - s->schedule->kept[i]), signal = (float)sqrt(s->schedule->kept[i]);
    for (int64_t j = 0; j < s->count; j++)
        velocity[j] = rest * x[j] + signal * velocity[j];
}

/* One step from x and the noise in it; fresh: a buffer of the same size. */
typedef void (*step_fn)(const zn_sampling *s, int i, float *x, float *eps, float *fresh);

/* From the noisiest step to the first, or the other way. */
static zn_status walk(const zn_sampling *s, bool forwards, step_fn step, float *x)
{
    const zn_diffusion *t = s->schedule;
    float *eps;
    zn_status status = zn_alloc_for("sampling", 2 * sizeof *eps * (size_t)s->count, (void **)&eps);
    for (int done = 0; done < t->count && status == ZN_OK; done++) {
        const int i = forwards ? done : t->count - 1 - done;
        status = s->predict(s->self, x, t->step[i], eps);
        if (status == ZN_OK) {
            if (s->velocity)
                noise_of_velocity(s, i, x, eps);
            step(s, i, x, eps, eps + s->count);
            status = s->done ? s->done(s->self, done + 1, t->count, x) : ZN_OK;
        }
    }
    zn_free(eps);
    return status;
}

static void ddim(const zn_sampling *s, int i, float *x, float *eps, float *fresh)
{
    const zn_diffusion *t = s->schedule;
    const float kept = (float)t->kept[i], before = (float)t->before[i];
    stride k = stride_of(t, i);
    k.fresh = s->eta * sqrtf((1 - before) / (1 - kept)) * sqrtf(1 - kept / before);
    k.image = sqrtf(before);
    k.noise = sqrtf(fmaxf(1 - before - k.fresh * k.fresh, 0));
    const bool noisy = k.fresh > 0 && i > 0;
    if (noisy)
        s->noise(s->self, i, fresh);
    step_ddim(s, &k, noisy ? fresh : NULL, x, eps);
}

zn_status zn_ddim(const zn_sampling *s, float *x) { return walk(s, false, ddim, x); }

static void invert(const zn_sampling *s, int i, float *x, float *eps, float *fresh)
{
    (void)fresh;
    stride k = stride_of(s->schedule, i);
    k.image = sqrtf((float)s->schedule->behind[i]);
    k.noise = sqrtf(1 - (float)s->schedule->behind[i]);
    step_ddim(s, &k, NULL, x, eps);
}

zn_status zn_ddim_invert(const zn_sampling *s, float *x) { return walk(s, true, invert, x); }

/* Variance "fixed large": that of the step itself. The last step adds none. */
static void ddpm(const zn_sampling *s, int i, float *x, float *eps, float *fresh)
{
    const zn_diffusion *t = s->schedule;
    const stride k = stride_of(t, i);
    const float image_share = (float)t->mean_image[i], noisy_share = (float)t->mean_noisy[i];
    const float deviation = i > 0 ? (float)sqrt(t->beta[i]) : 0;
    if (i > 0)
        s->noise(s->self, i, fresh);
    for (int64_t j = 0; j < s->count; j++) {
        float image = k.a * x[j] - k.b * eps[j];
        if (s->clamp)
            image = fminf(fmaxf(image, -1), 1);
        x[j] = image_share * image + noisy_share * x[j] + (i > 0 ? deviation * fresh[j] : 0);
    }
}

zn_status zn_ddpm(const zn_sampling *s, float *x) { return walk(s, false, ddpm, x); }
