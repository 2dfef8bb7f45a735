/* Damage by name ("gaussian:25") or drawn for training: noise, wrong pixels, blur and their mixtures. */
#include "train/data/corrupt.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/numbers.h"
#include "base/rng.h"
#include "io/image/pixels/pixels.h"
#include "models/zenith/zenith.h"
#include "train/data/filters.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    zn_task task;
    double least, most;
} damages[] = {
    [ZN_DAMAGE_NONE] = { "none", ZN_TASK_AUTO, 0, 0 },
    [ZN_DAMAGE_GAUSSIAN] = { "gaussian", ZN_TASK_DENOISE, 0, 255 },
    [ZN_DAMAGE_SALT] = { "salt", ZN_TASK_IMPULSE, 0, 100 },
    [ZN_DAMAGE_RANDOM] = { "random", ZN_TASK_IMPULSE, 0, 100 },
    [ZN_DAMAGE_BLUR] = { "blur", ZN_TASK_DEBLUR, 0, 50 },
    [ZN_DAMAGE_BOX] = { "box", ZN_TASK_DEBLUR, 1, 99 },
};
enum { DAMAGES = sizeof damages / sizeof *damages };

const char *zn_task_name(int task)
{
    static const char *const names[] = { "auto", "denoise", "impulse", "deblur" };
    return task >= 0 && task < (int)(sizeof names / sizeof *names) ? names[task] : NULL;
}

const char *zn_corruption_text(zn_corruption c, char text[32])
{
    const bool known = (int)c.damage >= 0 && (int)c.damage < DAMAGES;
    const locale_t old = zn_numbers_begin();
    snprintf(text, 32, c.damage == ZN_DAMAGE_NONE ? "%s" : "%s:%g", known ? damages[c.damage].name : "?", c.amount);
    zn_numbers_end(old);
    return text;
}

zn_task zn_corruption_task(zn_corruption c)
{
    return (int)c.damage >= 0 && (int)c.damage < DAMAGES ? damages[c.damage].task : ZN_TASK_AUTO;
}

int zn_corruption_of_task(zn_task task, int index, zn_corruption *out)
{
    static const zn_corruption judged[] = {
        { ZN_DAMAGE_GAUSSIAN, 15 }, { ZN_DAMAGE_GAUSSIAN, 25 }, { ZN_DAMAGE_GAUSSIAN, 50 }, { ZN_DAMAGE_SALT, 5 },
        { ZN_DAMAGE_SALT, 10 },     { ZN_DAMAGE_RANDOM, 5 },    { ZN_DAMAGE_RANDOM, 10 },   { ZN_DAMAGE_BLUR, 1 },
        { ZN_DAMAGE_BLUR, 2 },      { ZN_DAMAGE_BOX, 5 },
    };
    for (size_t i = 0; i < sizeof judged / sizeof *judged; i++)
        if ((task == ZN_TASK_AUTO || zn_corruption_task(judged[i]) == task) && index-- == 0) {
            *out = judged[i];
            return 1;
        }
    return 0;
}

static zn_status check(zn_corruption c)
{
    if ((int)c.damage < 0 || (int)c.damage >= DAMAGES)
        return ZN_FAIL(ZN_EINVALID, "damage %d is not known", (int)c.damage);
    if (!(c.amount >= damages[c.damage].least && c.amount <= damages[c.damage].most))
        return ZN_FAIL(ZN_EINVALID, "%s must be from %g to %g, not %g", damages[c.damage].name, damages[c.damage].least,
                       damages[c.damage].most, c.amount);
    if (c.damage == ZN_DAMAGE_BOX && (c.amount != floor(c.amount) || (int)c.amount % 2 == 0))
        return ZN_FAIL(ZN_EINVALID, "the side of a box must be odd, not %g", c.amount);
    return ZN_OK;
}

zn_status zn_corruption_parse(const char *text, zn_corruption *out)
{
    const size_t n = strcspn(text, ":");
    for (int i = 0; i < DAMAGES; i++) {
        if (strlen(damages[i].name) != n || strncmp(text, damages[i].name, n))
            continue;
        *out = (zn_corruption){ .damage = (zn_damage)i };
        char *end = (char *)text + n;
        const locale_t old = zn_numbers_begin();
        if (*end == ':')
            out->amount = strtod(text + n + 1, &end);
        zn_numbers_end(old);
        if (*end || (i != ZN_DAMAGE_NONE) != (text[n] == ':' && text[n + 1]))
            break;
        return check(*out);
    }
    return ZN_FAIL(ZN_EINVALID, "'%s' is not a damage: use gaussian:25, salt:5, random:5, blur:1.5 or box:5", text);
}

/* ---- drawing ---- */

static double between(zn_rng *rng, double low, double high) { return low + (high - low) * (double)zn_rng_uniform(rng); }

zn_draw zn_draw_training(uint64_t seed)
{
    zn_rng rng = zn_rng_new(seed);
    zn_draw d = { .seed = zn_rng_next(&rng) };
    const float kind = zn_rng_uniform(&rng);
    if (kind < 0.42f) {
        d.what = (zn_corruption){ ZN_DAMAGE_GAUSSIAN, between(&rng, 0, 55) };
    } else if (kind < 0.72f) {
        d.what.damage = zn_rng_uniform(&rng) < 0.5f ? ZN_DAMAGE_SALT : ZN_DAMAGE_RANDOM;
        d.what.amount = between(&rng, 1, 22);
        d.whole_pixels = zn_rng_uniform(&rng) < 0.25f;
    } else if (kind < 0.88f) {
        d.what = (zn_corruption){ ZN_DAMAGE_BLUR, between(&rng, 0.4, 2.2) };
    } else {
        d.what = (zn_corruption){ ZN_DAMAGE_BOX, 3 + 2 * (double)(zn_rng_next(&rng) % 3) };
    }
    if (zn_corruption_task(d.what) == ZN_TASK_DEBLUR && zn_rng_uniform(&rng) < 0.25f)
        d.grain = (float)between(&rng, 0, 2);
    d.hint = zn_rng_uniform(&rng) < 0.5f ? zn_corruption_task(d.what) : ZN_TASK_AUTO;
    return d;
}

/* ---- doing ---- */

static void add_noise(const float *x, int64_t count, float deviation, zn_rng *rng, float *y)
{
    for (int64_t i = 0; i < count; i++)
        y[i] = x[i] + deviation * zn_rng_normal(rng);
}

/* The numbers drawn do not depend on what is hit, so that a larger share hits the same places and more. */
static void add_impulses(const float *x, int64_t pixels, const zn_draw *d, zn_rng *rng, float *y)
{
    const float share = (float)(d->what.amount / 100);
    for (int64_t i = 0; i < pixels; i++) {
        bool hit = false;
        for (int c = 0; c < 3; c++) {
            const float u = zn_rng_uniform(rng), v = zn_rng_uniform(rng);
            hit = d->whole_pixels && c ? hit : u < share;
            const float wrong = d->what.damage == ZN_DAMAGE_RANDOM ? v : d->whole_pixels && c ? y[3 * i] : v > 0.5f;
            y[3 * i + c] = hit ? wrong : x[3 * i + c];
        }
    }
}

static void store(float *y, int64_t count, int levels)
{
    const float top = (float)levels;
    for (int64_t i = 0; i < count; i++) {
        const float v = y[i] < 0 ? 0 : y[i] > 1 ? 1 : y[i];
        y[i] = levels > 0 ? floorf(v * top + 0.5f) / top : v;
    }
}

zn_status zn_corrupt_map(const float *x, int width, int height, const zn_draw *d, int levels, float *y)
{
    const zn_shape map = ZN_SHAPE(1, height, width, 3);
    const int64_t count = zn_shape_count(map);
    zn_rng rng = zn_rng_new(d->seed);
    ZN_TRY(check(d->what));
    switch (d->what.damage) {
    case ZN_DAMAGE_GAUSSIAN:
        add_noise(x, count, (float)d->what.amount / 255, &rng, y);
        break;
    case ZN_DAMAGE_SALT:
    case ZN_DAMAGE_RANDOM:
        add_impulses(x, count / 3, d, &rng, y);
        break;
    case ZN_DAMAGE_BLUR:
        ZN_TRY(zn_gaussian_blur(x, map, (float)d->what.amount, y));
        break;
    case ZN_DAMAGE_BOX:
        zn_box_blur(x, map, (int)d->what.amount, y);
        break;
    default:
        memcpy(y, x, sizeof *y * (size_t)count);
    }
    if (d->grain > 0)
        add_noise(y, count, d->grain / 255, &rng, y);
    store(y, count, levels);
    return ZN_OK;
}

zn_status zn_restore_input_of(const float *picture, int size, const zn_draw *d, float *input)
{
    const int64_t pixels = (int64_t)size * size;
    ZN_TRY(zn_corrupt_map(picture, size, size, d, 255, zn_restore_colours(input, pixels)));
    zn_restore_spread(input, pixels, (int)d->hint);
    return ZN_OK;
}

zn_status zn_restore_input(const float *picture, int size, uint64_t seed, float *input)
{
    const zn_draw d = zn_draw_training(seed);
    return zn_restore_input_of(picture, size, &d, input);
}

zn_status zn_corrupt(const zn_image *image, zn_corruption c, uint64_t seed, zn_image **out)
{
    *out = NULL;
    const zn_region all = { 0, 0, image->width, image->height };
    const size_t row = (size_t)image->width * 3, floats = row * (size_t)image->height;
    float *clean;
    ZN_TRY(zn_alloc_for("a picture", sizeof *clean * floats * 2, (void **)&clean));
    zn_pixels_to_float(image, all, clean, row);
    zn_image *result = NULL;
    zn_status status;
    ZN_TRY_DONE(
        zn_corrupt_map(clean, image->width, image->height, &(zn_draw){ .what = c, .seed = seed }, 0, clean + floats));
    ZN_TRY_DONE(zn_image_new(image->width, image->height, image->bits, &result));
    zn_pixels_from_float(clean + floats, row, result, all);
    *out = result;
done:
    zn_free(clean);
    return status;
}

/* ---- wavelet pictures ---- */

void zn_add_gaussian(const float *x, const float *noise, int64_t count, float deviation, float *y)
{
    for (int64_t i = 0; i < count; i++)
        y[i] = x[i] + deviation * noise[i];
}

void zn_add_shot(const float *x, const float *u, const float *v, int64_t count, float p, float magnitude, float *y)
{
    for (int64_t i = 0; i < count; i++)
        y[i] = u[i] < p ? x[i] + (v[i] > 0.5f ? magnitude : -magnitude) : x[i];
}
