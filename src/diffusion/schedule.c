/* Noise schedules. */
#include "diffusion/schedule.h"

#include "base/alloc.h"
#include "base/fail.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { T = ZN_DIFFUSION_STEPS, TABLES = 7 };

static double cosine(double u)
{
    const double c = cos((u + 0.008) / 1.008 * 3.14159265358979323846 / 2);
    return c * c;
}

zn_status zn_diffusion_betas(const char *name, double beta[T])
{
    char *end = NULL;
    const double constant = strncmp(name, "const", 5) == 0 ? strtod(name + 5, &end) : 0;
    const bool is_constant = end && end != name + 5 && !*end && constant > 0 && constant < 1;
    const bool is_linear = strcmp(name, "linear") == 0;
    if (!is_constant && !is_linear && strcmp(name, "cosine") != 0)
        return ZN_FAIL(ZN_EINVALID, "there is no noise schedule '%s': linear, cosine or constX with X below 1", name);
    for (int i = 0; i < T; i++)
        if (is_constant)
            beta[i] = constant;
        else if (is_linear) /* as numpy's linspace computes it */
            beta[i] = i == T - 1 ? 0.02 : i * ((0.02 - 1e-4) / (T - 1)) + 1e-4;
        else
            beta[i] = fmin(1 - cosine((i + 1) / (double)T) / cosine(i / (double)T), 0.999);
    return ZN_OK;
}

int zn_ddim_stride(int count)
{
    for (int stride = 1; stride < T; stride++)
        if ((T + stride - 1) / stride == count)
            return stride;
    return 0;
}

static zn_status choose_steps(zn_spacing spacing, int count, int *step)
{
    if (spacing == ZN_SPACING_DDIM) {
        const int stride = zn_ddim_stride(count);
        int below = count, above = count;
        while (below > 2 && !zn_ddim_stride(below))
            below--;
        while (above < T && !zn_ddim_stride(above))
            above++;
        if (!stride && count < 2)
            return ZN_FAIL(ZN_EINVALID, "%d steps are too few: at least 2", count);
        if (count > T)
            return ZN_FAIL(ZN_EINVALID, "%d steps are too many: at most %d", count, T);
        if (!stride)
            return ZN_FAIL(ZN_EINVALID, "%d steps cannot be spaced evenly over the %d of training: take %d or %d",
                           count, T, below, above);
        for (int i = 0; i < count; i++)
            step[i] = i * stride;
        return ZN_OK;
    }
    if (count < 2 || count > T)
        return ZN_FAIL(ZN_EINVALID, "%d steps: from 2 to %d are possible", count, T);
    const double stride = (T - 1) / (double)(count - 1);
    double at = 0;
    for (int i = 0; i < count; i++, at += stride)
        step[i] = (int)rint(at);
    return ZN_OK;
}

/* beta, and all that follows from it. */
static void fill(zn_diffusion *s)
{
    for (int i = 0; i < s->count; i++) {
        s->before[i] = i ? s->kept[i - 1] : 1;
        s->kept[i] = s->before[i] * (1 - s->beta[i]);
    }
    for (int i = 0; i < s->count; i++) {
        s->behind[i] = i + 1 < s->count ? s->kept[i + 1] : 0;
        s->posterior[i] = s->beta[i] * (1 - s->before[i]) / (1 - s->kept[i]);
        s->mean_image[i] = s->beta[i] * sqrt(s->before[i]) / (1 - s->kept[i]);
        s->mean_noisy[i] = (1 - s->before[i]) * sqrt(1 - s->beta[i]) / (1 - s->kept[i]);
    }
}

zn_status zn_diffusion_new(const char *betas, zn_spacing spacing, int count, zn_diffusion **out)
{
    *out = NULL;
    double beta[T];
    int step[T];
    ZN_TRY(zn_diffusion_betas(betas, beta));
    count = spacing == ZN_SPACING_ALL ? T : count;
    for (int i = 0; i < T; i++)
        step[i] = i;
    if (spacing != ZN_SPACING_ALL)
        ZN_TRY(choose_steps(spacing, count, step));
    zn_diffusion *s;
    ZN_TRY(zn_alloc_for("a noise schedule", sizeof *s + (TABLES * sizeof(double) + sizeof(int)) * (size_t)count,
                        (void **)&s));
    double *table = (double *)(s + 1), kept = 1;
    *s = (zn_diffusion){ .count = count };
    double **const tables[TABLES] = { &s->beta,      &s->kept,       &s->before,    &s->behind,
                                      &s->posterior, &s->mean_image, &s->mean_noisy };
    for (int i = 0; i < TABLES; i++)
        *tables[i] = table + (ptrdiff_t)i * count;
    s->step = (int *)(table + (ptrdiff_t)TABLES * count);
    memcpy(s->step, step, sizeof *step * (size_t)count);
    for (int i = 0, at = 0; i < count; i++) {
        const double last = kept;
        for (; at <= step[i]; at++)
            kept *= 1 - beta[at];
        s->beta[i] = spacing == ZN_SPACING_ALL ? beta[i] : 1 - kept / last;
    }
    fill(s);
    *out = s;
    return ZN_OK;
}

void zn_diffusion_free(zn_diffusion *s) { zn_free(s); }

void zn_time_embedding(double t, int width, float *out)
{
    const int half = width / 2;
    for (int i = 0; i < half; i++) {
        const float frequency = expf(-logf(10000.0f) * (float)i / (float)half), angle = (float)t * frequency;
        out[i] = cosf(angle);
        out[half + i] = sinf(angle);
    }
    if (width % 2)
        out[width - 1] = 0;
}
