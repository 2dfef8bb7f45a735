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

static zn_status finish(const zn_sampling *s, int done, const float *x)
{
    return s->done ? s->done(s->self, done, s->schedule->count, x) : ZN_OK;
}

zn_status zn_ddim(const zn_sampling *s, float *x)
{
    const zn_diffusion *t = s->schedule;
    float *eps, *fresh;
    zn_status status = zn_alloc_for("sampling", 2 * sizeof *eps * (size_t)s->count, (void **)&eps);
    if (status != ZN_OK)
        return status;
    fresh = eps + s->count;
    for (int i = t->count - 1; i >= 0 && status == ZN_OK; i--) {
        stride k = stride_of(t, i);
        const float kept = (float)t->kept[i], before = (float)t->before[i];
        k.fresh = s->eta * sqrtf((1 - before) / (1 - kept)) * sqrtf(1 - kept / before);
        k.image = sqrtf(before);
        k.noise = sqrtf(fmaxf(1 - before - k.fresh * k.fresh, 0));
        const bool noisy = k.fresh > 0 && i > 0;
        status = s->predict(s->self, x, t->step[i], eps);
        if (status == ZN_OK && noisy)
            s->noise(s->self, i, fresh);
        if (status == ZN_OK) {
            step_ddim(s, &k, noisy ? fresh : NULL, x, eps);
            status = finish(s, t->count - i, x);
        }
    }
    zn_free(eps);
    return status;
}

zn_status zn_ddim_invert(const zn_sampling *s, float *x)
{
    const zn_diffusion *t = s->schedule;
    float *eps;
    zn_status status = zn_alloc_for("sampling", sizeof *eps * (size_t)s->count, (void **)&eps);
    for (int i = 0; i < t->count && status == ZN_OK; i++) {
        stride k = stride_of(t, i);
        k.image = sqrtf((float)t->behind[i]);
        k.noise = sqrtf(1 - (float)t->behind[i]);
        status = s->predict(s->self, x, t->step[i], eps);
        if (status == ZN_OK) {
            step_ddim(s, &k, NULL, x, eps);
            status = finish(s, i + 1, x);
        }
    }
    zn_free(eps);
    return status;
}

/* Variance "fixed large": beta, for the first step the posterior's of the second. */
zn_status zn_ddpm(const zn_sampling *s, float *x)
{
    const zn_diffusion *t = s->schedule;
    float *eps, *fresh;
    zn_status status = zn_alloc_for("sampling", 2 * sizeof *eps * (size_t)s->count, (void **)&eps);
    if (status != ZN_OK)
        return status;
    fresh = eps + s->count;
    for (int i = t->count - 1; i >= 0 && status == ZN_OK; i--) {
        const stride k = stride_of(t, i);
        const float deviation = (float)sqrt(t->beta[i]);
        status = s->predict(s->self, x, t->step[i], eps);
        if (status != ZN_OK)
            break;
        if (i > 0)
            s->noise(s->self, i, fresh);
        for (int64_t j = 0; j < s->count; j++) {
            float image = k.a * x[j] - k.b * eps[j];
            if (s->clamp)
                image = fminf(fmaxf(image, -1), 1);
            x[j] = (float)t->mean_image[i] * image + (float)t->mean_noisy[i] * x[j];
            if (i > 0)
                x[j] += deviation * fresh[j];
        }
        status = finish(s, t->count - i, x);
    }
    zn_free(eps);
    return status;
}

void zn_add_noise(const zn_diffusion *all, int step, const float *x, const float *noise, float *y, int64_t count)
{
    const float signal = (float)sqrt(all->kept[step]), rest = (float)sqrt(1 - all->kept[step]);
    for (int64_t i = 0; i < count; i++)
        y[i] = signal * x[i] + rest * noise[i];
}
